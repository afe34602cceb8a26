"""Cancel: in every phase it ends its turn, and the session goes on with a history that a model takes."""

import asyncio

import grpc
import pytest
from tests.api.calling import (
    attach,
    events_in_parts,
    frame,
    helper,
    history_is_well_formed,
    kinds,
    refused,
    result_for,
    soon,
    text_of,
    told,
    until,
)
from tests.api.conftest import Serve, Served
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
NARA = ("get_weather", '{"city":"Nara"}')


async def session_with(served: Served, *functions: str) -> pb.Session:
    """Make a session whose turns rest at once on what is unserved."""
    return await served.client.session(agent=helper(*functions), run_config={"unserved_grace": {"seconds": 0}})


async def goes_on(served: Served, session_id: str) -> list[item_pb2.Item]:
    """Put new input in, see it answered, and return the history, which must be well formed."""
    await served.client.submit(session_id, "still there?")
    events = await served.client.rest(session_id)
    assert kinds(events)[-2:] == ["turn_completed", "session_idle"]
    history = await served.client.items(session_id, history_only=True)
    assert history_is_well_formed(history)
    return history


async def test_a_turn_is_cancelled_while_the_model_answers(serve: Serve) -> None:
    """What had been streamed is kept as an incomplete message that no model ever sees; the request is left."""
    gate = Gate()
    served = await serve(say("Half ", "a sen", gate, "tence."), say("yes"))
    made = await session_with(served)
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()

    outcome = await served.client.cancel(made.session_id, turn_id, reason="enough")
    events = await served.client.rest(made.session_id)

    assert (outcome.status, outcome.turn_id) == (pb.INPUT_STATUS_CANCELLING, turn_id)
    assert kinds(events)[-4:] == ["item_done", "cancel_requested", "turn_cancelled", "session_idle"]
    (asked,) = told(events, "cancel_requested")
    assert (asked.mode, asked.reason) == (event_pb2.CANCEL_MODE_NOW, "enough")
    (done,) = told(events, "item_done")
    assert (text_of(done.item), done.item.status) == ("Half a sen", item_pb2.ITEM_STATUS_INCOMPLETE)
    assert not done.in_history
    (ended,) = told(events, "turn_cancelled")
    assert ended.turn.status == event_pb2.TURN_STATUS_CANCELLED
    history = await goes_on(served, made.session_id)
    assert [text_of(item) for item in history] == ["a", "still there?", "yes"]
    assert [item["content"] for item in served.model.input_of(1)] == ["a", "still there?"]
    assert served.model.closed == 1


async def test_a_turn_is_cancelled_before_a_word_came(serve: Serve) -> None:
    """Where nothing was streamed, nothing is kept."""
    gate = Gate()
    served = await serve(say(gate, "never"), say("yes"))
    made = await session_with(served)
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()

    await served.client.cancel(made.session_id, turn_id)

    assert "item_done" not in kinds(await served.client.rest(made.session_id))
    await goes_on(served, made.session_id)


async def test_a_queued_turn_is_cancelled_with_its_input(serve: Serve) -> None:
    """The turn ends before it began: its message is never asked of a model, and the others go on."""
    gate = Gate()
    served = await serve(say(gate, "one"), say("three"), say("yes"))
    made = await session_with(served)
    await served.client.submit(made.session_id, "a")
    await gate.reached()
    second = await served.client.submit(made.session_id, "b", if_busy=pb.IF_BUSY_QUEUE)
    third = await served.client.submit(made.session_id, "c", if_busy=pb.IF_BUSY_QUEUE)
    outcome = await served.client.cancel(made.session_id, second.turn_id)
    watch = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
    seen = events_in_parts(await until(watch, "turn_cancelled"))
    gate.open()
    events = await served.client.rest(made.session_id)

    assert outcome.status == pb.INPUT_STATUS_CANCELLING
    assert "turn_completed" not in kinds(seen), "it did not wait for its turn"
    assert [one.turn.turn_id for one in told(events, "turn_completed")][1:] == [third.turn_id]
    assert kinds(events).count("session_idle") == 1
    turn = await served.client.turn(made.session_id, second.turn_id)
    assert (turn.status, turn.HasField("started_at"), turn.HasField("ended_at")) == (6, False, True)
    history = await goes_on(served, made.session_id)
    assert [text_of(item) for item in history] == ["a", "one", "c", "three", "still there?", "yes"]


@pytest.mark.parametrize("mode", ["CANCEL_MODE_NOW", "CANCEL_MODE_AFTER_ROUND", "CANCEL_MODE_UNSPECIFIED"])
async def test_a_waiting_turn_is_cancelled_without_its_workers(serve: Serve, mode: str) -> None:
    """Calls that nobody holds get an output of the server's own; a cancel never waits for people."""
    served = await serve(calls(KYOTO, NARA), say("yes"))
    made = await session_with(served, "get_weather")
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await served.client.rest(made.session_id)
    kyoto, nara = (await served.client.get(made.session_id)).required_actions
    await served.client.submit(made.session_id, result_for(nara, output="nara"))

    await served.client.cancel(made.session_id, turn_id, mode=mode)
    events = await served.client.rest(made.session_id)

    assert kinds(events)[-4:] == ["cancel_requested", "item_added", "turn_cancelled", "session_idle"]
    outputs = [
        item.function_call_output
        for item in await served.client.items(made.session_id)
        if item.HasField("function_call_output")
    ]
    assert [output.settlement for output in outputs] == [
        item_pb2.SETTLEMENT_CANCELLED,
        item_pb2.SETTLEMENT_OUTSIDE_OUTPUT,
    ]
    assert not (await served.client.get(made.session_id)).required_actions
    (late,) = (await served.client.submit(made.session_id, result_for(kyoto, output="kyoto"))).outcomes
    assert late.status == pb.INPUT_STATUS_DISCARDED
    assert late.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    await goes_on(served, made.session_id)


async def test_a_worker_gets_its_grace(serve: Serve) -> None:
    """NOW tells the worker to stop; a result within the grace is still taken."""
    served = await serve(calls(KYOTO), say("yes"))
    worker = await attach(served.client, "get_weather")
    made = await session_with(served, "get_weather")
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    call = (await soon(worker.read())).call

    await served.client.cancel(made.session_id, turn_id, grace={"seconds": 60})
    stop = (await soon(worker.read())).cancel
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "in time"}))
    events = await served.client.rest(made.session_id)

    assert (stop.call_id, stop.reason) == (call.call_id, handler_pb2.CANCEL_REASON_TURN_ENDED)
    assert 58 < stop.grace.seconds + 1 <= 60
    assert kinds(events)[-2:] == ["turn_cancelled", "session_idle"]
    history = await goes_on(served, made.session_id)
    assert text_of(history[2]) == "in time"


async def test_without_grace_nothing_is_waited_for(serve: Serve) -> None:
    """A grace of 0 ends the turn at once; what the worker sends then is discarded."""
    served = await serve(calls(KYOTO), say("yes"))
    worker = await attach(served.client, "get_weather")
    made = await session_with(served, "get_weather")
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    call = (await soon(worker.read())).call

    await served.client.cancel(made.session_id, turn_id, grace={"seconds": 0})
    events = await served.client.rest(made.session_id)
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "late"}))
    acks = []
    while not acks:
        got = await soon(worker.read())
        acks.extend([got.result_ack] if got.HasField("result_ack") else [])

    assert kinds(events)[-2:] == ["turn_cancelled", "session_idle"]
    assert acks[0].verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    await goes_on(served, made.session_id)


async def test_after_round_lets_the_model_finish(serve: Serve) -> None:
    """A last answer under AFTER_ROUND completes the turn: the first terminal event wins."""
    gate = Gate()
    served = await serve(say("whole ", gate, "answer"), say("yes"))
    made = await session_with(served)
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()
    await served.client.cancel(made.session_id, turn_id, mode="CANCEL_MODE_AFTER_ROUND")
    gate.open()

    events = await served.client.rest(made.session_id)

    assert kinds(events)[-4:] == ["item_done", "round_completed", "turn_completed", "session_idle"]
    assert told(events, "turn_completed")[0].turn.output == "whole answer"
    await goes_on(served, made.session_id)


async def test_after_round_lets_workers_finish(serve: Serve) -> None:
    """Calls that workers hold are finished, those that nobody holds are not waited for."""
    gate = Gate()
    served = await serve(calls(KYOTO, ("other", '{"city":"Kyoto"}'), before=gate), say("yes"))
    worker = await attach(served.client, "get_weather")
    made = await session_with(served, "get_weather", "other")
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()
    await served.client.cancel(made.session_id, turn_id, mode="CANCEL_MODE_AFTER_ROUND")
    gate.open()
    call = (await soon(worker.read())).call
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "18"}))

    events = await served.client.rest(made.session_id)

    assert kinds(events)[-2:] == ["turn_cancelled", "session_idle"]
    history = await goes_on(served, made.session_id)
    assert [item.function_call_output.settlement for item in history[3:5]] == [
        item_pb2.SETTLEMENT_OUTPUT,
        item_pb2.SETTLEMENT_CANCELLED,
    ]


async def test_now_overtakes_after_round(serve: Serve) -> None:
    """Who has asked for the gentle cancel may still ask for the other one."""
    gate = Gate()
    served = await serve(say("one", gate), say("yes"))
    made = await session_with(served)
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()

    first = await served.client.cancel(made.session_id, turn_id, mode="CANCEL_MODE_AFTER_ROUND")
    second = await served.client.cancel(made.session_id, turn_id)
    events = await served.client.rest(made.session_id)

    assert (first.status, second.status) == (pb.INPUT_STATUS_CANCELLING, pb.INPUT_STATUS_CANCELLING)
    assert [asked.mode for asked in told(events, "cancel_requested")] == [2, 1]
    assert kinds(events)[-1] == "session_idle"


async def test_a_turn_that_has_ended_is_not_cancelled(serve: Serve) -> None:
    """A late cancel is told so, and changes nothing."""
    served = await serve(say("one"))
    answer = await served.client.run()
    before = await served.client.events(answer.session_id)

    outcome = await served.client.cancel(answer.session_id, answer.turn.turn_id)

    assert (outcome.status, outcome.turn_id) == (pb.INPUT_STATUS_ALREADY_ENDED, answer.turn.turn_id)
    assert await served.client.events(answer.session_id) == before


async def test_a_cancel_names_a_turn_of_its_session(serve: Serve) -> None:
    """A turn of another session is none of this one's."""
    served = await serve(lambda _: say("one"))
    one, two = await served.client.run(), await served.client.run()

    told_ = await refused(served.client.cancel(one.session_id, two.turn.turn_id))

    assert (told_.code, told_.reason) == (grpc.StatusCode.NOT_FOUND, "TURN_NOT_FOUND")
    assert told_.metadata == {"turn_id": two.turn.turn_id}


async def test_a_message_behind_a_cancel_starts_the_next_turn(serve: Serve) -> None:
    """Cancel and new message in one batch: the turn ends, and the message is answered by a turn of its own."""
    gate = Gate()
    served = await serve(say("old ", gate), say("new"))
    made = await session_with(served)
    turn_id = (await served.client.submit(made.session_id, "a")).turn_id
    await gate.reached()

    answer = await served.client.submit(made.session_id, {"cancel": {"turn_id": turn_id}}, "b")
    events = await served.client.rest(made.session_id)

    assert [outcome.status for outcome in answer.outcomes] == [
        pb.INPUT_STATUS_CANCELLING,
        pb.INPUT_STATUS_STEERED,
    ]
    assert [kind for kind in kinds(events) if kind.startswith("turn_") and kind != "turn_in_progress"] == [
        *("turn_created", "turn_cancelled", "turn_created", "turn_completed"),
    ]
    assert len(told(events, "turn_created")[1].carried_item_ids) == 1


async def test_cancels_and_ends_at_once_keep_the_queue_going(serve: Serve) -> None:
    """Turns that end and are cancelled at the same moment leave none behind that is never begun."""
    gate = Gate()
    served = await serve(lambda _: say(gate, "ok"))
    client = served.client
    sessions = [await session_with(served) for _ in range(6)]
    turns: dict[str, list[str]] = {}
    for made in sessions:
        turns[made.session_id] = [
            (await client.submit(made.session_id, text, if_busy=pb.IF_BUSY_QUEUE)).turn_id for text in "abcd"
        ]
    await served.model.asked(6)

    gate.open()
    await asyncio.gather(
        *(client.cancel(session_id, turn_id) for session_id, ids in turns.items() for turn_id in (ids[1], ids[0]))
    )

    for session_id, ids in turns.items():
        events = await client.rest(session_id)
        ended = [e.turn_id for e in events if e.WhichOneof("event") in ("turn_completed", "turn_cancelled")]
        assert sorted(ended) == sorted(ids)
        assert kinds(events).count("session_idle") == 1
        assert (await client.turn(session_id, ids[3])).status == event_pb2.TURN_STATUS_COMPLETED


async def test_a_result_that_was_acknowledged_outlives_a_cancel_at_once(serve: Serve) -> None:
    """Results and cancels that race: whoever was told SETTLED finds the result in the history."""
    served = await serve(lambda asked: calls(KYOTO, NARA) if asked.round == 1 else say("ok"))
    client = served.client
    worker = await attach(client, "get_weather", credit=0)
    for _ in range(6):
        made = await session_with(served, "get_weather")
        turn_id = (await client.submit(made.session_id, "a")).turn_id
        watch = client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
        await until(watch, "session_requires_action")
        kyoto, nara = (await client.get(made.session_id)).required_actions
        answers = await asyncio.gather(
            client.submit(made.session_id, result_for(kyoto, output="k")),
            client.cancel(made.session_id, turn_id),
            client.submit(made.session_id, result_for(nara, output="n")),
        )
        await until(watch, "session_idle")
        history = await client.items(made.session_id, history_only=True)
        assert history_is_well_formed(history)
        outputs = {
            item.function_call_output.call_id: text_of(item)
            for item in history
            if item.HasField("function_call_output")
        }
        for answer, action, text in ((answers[0], kyoto, "k"), (answers[2], nara, "n")):
            if answer.outcomes[0].status == pb.INPUT_STATUS_SETTLED:
                assert outputs[action.call_id] == text
    worker.cancel()
