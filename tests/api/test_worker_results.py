"""What a worker gives back: taken once, on disk before it is acked, and answered the same however often it comes."""

from typing import Any

import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import result_of
from tests.support.stage import Stage, eventually

from baton.v1 import error_pb2, handler_pb2, item_pb2

DURABLE, DISCARDED, REFUSED = (
    handler_pb2.RESULT_VERDICT_DURABLE,
    handler_pb2.RESULT_VERDICT_DISCARDED,
    handler_pb2.RESULT_VERDICT_REFUSED,
)
MIB = 1024 * 1024


# -- the normal course ---------------------------------------------------------------------------


async def test_a_call_is_acked_settled_and_acked_back(stage: Stage) -> None:
    """Call, CallAck, Result, ResultAck; the call says all that a handler needs to know."""
    worker = await stage.worker("f")
    turn = await stage.call("f", '{"city":"Kyoto"}')

    call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()
    (action,) = await turn.actions()
    ack = await worker.finish(call, output="18 °C")

    assert (call.name, call.attempt, call.agent, call.scope) == ("f", 1, "Helper", "")
    assert (call.session_id, call.turn_id) == (turn.session_id, turn.turn_id)
    assert call.idempotency_key
    assert not call.may_have_run
    assert action.lease.worker_id == worker.welcome.worker_id
    assert action.lease.acked
    assert (ack.call_id, ack.attempt, ack.HasField("error")) == (call.call_id, 1, False)
    await turn.completed()


async def test_a_result_without_a_call_ack_is_one(stage: Stage) -> None:
    """A call that is answered at once needs no CallAck."""
    worker = await stage.worker("f")
    turn = await stage.call("f")

    await worker.finish(await worker.expect("call"))

    await turn.completed()
    await worker.nothing()


async def test_a_result_is_on_disk_when_it_is_acked(stage: Stage) -> None:
    """Between the ack and a restart nothing is lost."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", "{}"), ("f", '{"second":true}')])
    first, _ = await worker.expect_all("call", 2)

    await worker.finish(first, output="kept")
    await stage.restart()

    (output,) = await turn_outputs(stage, turn.session_id)
    assert (output.call_id, output.output[0].text) == (first.call_id, "kept")


async def turn_outputs(stage: Stage, session_id: str) -> list[item_pb2.FunctionCallOutput]:
    """List the outputs of a session, after a restart too."""
    items = await stage.client.items(session_id)
    return [item.function_call_output for item in items if item.HasField("function_call_output")]


@pytest.mark.parametrize(
    ("outcome", "settlement", "told"),
    [
        ({"output": "text"}, item_pb2.SETTLEMENT_OUTPUT, "text"),
        ({"output": ""}, item_pb2.SETTLEMENT_OUTPUT, ""),
        ({"output_json": '{"n": 9007199254740993}'}, item_pb2.SETTLEMENT_OUTPUT, '{"n": 9007199254740993}'),
        ({"output_parts": {"parts": [{"text": "a"}, {"text": "b"}]}}, item_pb2.SETTLEMENT_OUTPUT, "ab"),
        ({"failure": "no such city"}, item_pb2.SETTLEMENT_FAILURE, "no such city"),
        ({"crash": {"type": "KeyError", "text": "secret"}}, item_pb2.SETTLEMENT_CRASH, "The function failed"),
    ],
    ids=["text", "empty text", "json", "parts", "failure", "crash"],
)
async def test_every_kind_of_result_settles_its_call(
    stage: Stage, outcome: dict[str, Any], settlement: int, told: str
) -> None:
    """The log says what it was; the model is told what is meant for it, of a crash only that it failed."""
    worker = await stage.worker("f")
    turn = await stage.call("f")

    await worker.finish(await worker.expect("call"), **outcome)

    await turn.completed()
    (output,) = await turn.outputs()
    assert output.settlement == settlement
    assert (output.attempt, output.worker_id) == (1, worker.welcome.worker_id)
    assert "".join(part.text for part in output.output).startswith(told)
    assert "secret" not in stage.model.requests[-1].items[-1]
    assert ("secret" in output.error.message) == ("crash" in outcome)


# -- again, late, stale --------------------------------------------------------------------------


async def test_the_same_result_again_is_durable_again(stage: Stage) -> None:
    """A worker that missed the ack gets it again, before and after the turn's end, and the log shows nothing."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    for _ in range(2):
        await worker.settle(call, output="same")
    first, second = await worker.expect_all("result_ack", 2)
    await turn.completed()
    third = await worker.finish(call, output="same")

    assert [ack.verdict for ack in (first, second, third)] == [DURABLE] * 3
    assert await turn.told("result_discarded") == []
    assert len(await turn.outputs()) == 1


async def test_another_result_for_a_settled_call_is_discarded(stage: Stage) -> None:
    """The first one stays; the second is answered and shown as an event."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.finish(call, output="first")

    await worker.settle(call, output="second")

    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_SETTLED)
    assert ack.error.metadata == {"call_id": call.call_id, "settled_by": "worker"}
    (event,) = await turn.told("result_discarded")
    assert (event.call_id, event.attempt, event.worker_id) == (call.call_id, 1, worker.welcome.worker_id)
    assert event.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    assert len(event.result_digest) == 64
    (output,) = await turn.outputs()
    assert output.output[0].text == "first"


async def test_a_result_of_a_replaced_attempt_is_discarded(stage: Stage) -> None:
    """The attempt's number fences: whoever lost the call cannot settle it any more."""
    slow, quick = await stage.worker("f"), await stage.worker("f", credit=1)
    turn = await stage.call("f")
    call = await slow.expect("call")
    await slow.send(nack={"call_id": call.call_id, "attempt": 1, "reason": "changed my mind"})
    again = await quick.expect("call")

    await slow.settle(call, output="too late")

    ack = await slow.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_ATTEMPT_STALE)
    assert ack.error.metadata == {"attempt": "1", "current_attempt": "2"}
    (event,) = await turn.told("result_discarded")
    assert (event.attempt, event.error.reason) == (1, error_pb2.ERROR_REASON_ATTEMPT_STALE)
    assert again.attempt == 2


async def test_a_result_of_another_workers_attempt_is_discarded(stage: Stage) -> None:
    """Knowing the ids is not holding the call."""
    holder, stranger = await stage.worker("f"), await stage.worker("g")
    turn = await stage.call("f")
    call = await holder.expect("call")

    await stranger.settle(call, output="not mine")

    assert (await stranger.expect("result_ack")).verdict == DISCARDED
    await holder.finish(call, output="mine")
    await turn.completed()


async def test_a_result_for_a_call_that_never_was_is_discarded(stage: Stage) -> None:
    """The worker may forget it; there is no log to show it in."""
    worker = await stage.worker("f")

    await worker.send(result={"call_id": "call_of_nobody", "attempt": 1, "output": "x"})

    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_NOT_FOUND)


async def test_frames_about_calls_that_are_not_held_are_passed_over(stage: Stage) -> None:
    """Races are normal: an ack, a Nack or a CancelAck that comes too late is no error, and changes nothing."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.finish(call)
    await turn.completed()

    for about in (call.call_id, "call_of_nobody"):
        await worker.send(call_ack={"call_id": about, "attempt": 1})
        await worker.send(nack={"call_id": about, "attempt": 1})
        await worker.send(cancel_ack={"call_id": about, "attempt": 1, "outcome": handler_pb2.CANCEL_OUTCOME_STOPPED})

    await worker.nothing()
    assert kinds(await turn.ended())[-1] == "turn_completed"


# -- refused -------------------------------------------------------------------------------------


async def test_a_result_that_is_too_large_is_refused_and_a_smaller_one_taken(stage: Stage) -> None:
    """The call stays open and the worker's, also past the time for a CallAck: the result has acked it."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await worker.settle(call, output="x" * (4 * MIB + 1))

    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (REFUSED, error_pb2.ERROR_REASON_RESULT_TOO_LARGE)
    assert ack.error.metadata == {"size": str(4 * MIB + 1), "limit": str(4 * MIB)}
    stage.pass_time(6)
    await worker.nothing()
    await worker.finish(call, output="x" * 100)
    await turn.completed()


@pytest.mark.parametrize(
    ("outcome", "field"),
    [
        ({}, "result.outcome"),
        ({"output": "a\0b"}, "result.output"),
        ({"failure": "a\0b"}, "result.failure"),
        ({"output_json": "{"}, "result.output_json"),
        ({"output_json": "NaN"}, "result.output_json"),
        ({"output_parts": {}}, "result.output_parts.parts"),
        ({"output_parts": {"parts": [{"text": "a\0"}]}}, "result.output_parts.parts[0].text"),
        ({"output_parts": {"parts": [{"image": {"url": "ftp://x"}}]}}, "result.output_parts.parts[0].image.url"),
        ({"crash": {"type": "x" * 257}}, "result.crash.type"),
        ({"crash": {"text": "\0"}}, "result.crash.text"),
    ],
)
async def test_a_result_that_cannot_be_taken_is_refused(stage: Stage, outcome: dict[str, Any], field: str) -> None:
    """The ack names the field; the call stays the worker's, who sends another one."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await worker.send(result={"call_id": call.call_id, "attempt": 1, **outcome})

    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (REFUSED, error_pb2.ERROR_REASON_FRAME_INVALID)
    assert ack.error.metadata["field"] == field
    await worker.finish(call, failure="I cannot say it")
    await turn.completed()


async def test_a_crash_keeps_the_end_of_a_long_text(stage: Stage) -> None:
    """The end of a stack says what happened; it is cut at the front, to 16 KiB."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    text = "x" * 20_000 + "KeyError: 'city'"

    await worker.finish(await worker.expect("call"), crash={"type": "KeyError", "text": text})

    await turn.completed()
    (output,) = await turn.outputs()
    assert output.error.message.endswith("KeyError: 'city'")
    assert len(output.error.message.encode()) <= 16_384
    assert output.error.metadata == {"type": "KeyError"}


# -- given back ----------------------------------------------------------------------------------


async def test_a_nack_gives_the_call_to_another_worker(stage: Stage) -> None:
    """At once, with the next attempt, and without an event; it may have run."""
    first = await stage.worker("f", credit=5)
    turn = await stage.call("f")
    call = await first.expect("call")
    second = await stage.worker("f", credit=1)

    await first.send(nack={"call_id": call.call_id, "attempt": 1})

    again = await second.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    assert again.idempotency_key == call.idempotency_key
    await first.nothing()
    await second.finish(again)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_a_nack_comes_back_if_nobody_else_can_take_the_call(stage: Stage) -> None:
    """Better the same worker again than nobody."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await worker.expect("call")

    await worker.send(nack={"call_id": call.call_id, "attempt": 1})

    assert (await worker.expect("call")).attempt == 2


async def test_a_nack_with_a_delay_waits(stage: Stage) -> None:
    """Not before the delay has passed, for nobody; then at once."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "delay": {"seconds": 20}})
    await eventually(lambda: stage.baton.dispatcher.leases.get(call.call_id) is None)
    stage.pass_time(19)
    other = await stage.worker("f")
    await worker.nothing()
    await other.nothing()
    assert await turn.state() == "QUEUED"

    stage.pass_time(2)

    assert (await other.expect("call")).attempt == 2
    await worker.nothing()


async def test_a_delay_outlives_a_restart(stage: Stage) -> None:
    """What was put off is put off for the next process too."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await worker.expect("call")
    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "delay": {"seconds": 20}})
    await eventually(lambda: stage.baton.dispatcher.leases.get(call.call_id) is None)
    await stage.restart()
    worker = await stage.worker("f")
    await worker.nothing()

    stage.pass_time(21)

    assert (await worker.expect("call")).attempt == 2


async def test_a_nack_keeps_the_calls_place_in_the_queue(stage: Stage) -> None:
    """A call that is given back comes before those that were made after it."""
    worker = await stage.worker("f", credit=1)
    turns = [await stage.call("f", f'{{"n":{n}}}') for n in range(3)]
    call = await worker.expect("call")
    for turn in turns:
        await turn.waiting()

    await worker.send(nack={"call_id": call.call_id, "attempt": call.attempt})
    await eventually(lambda: stage.baton.dispatcher.leases.get(call.call_id) is None)
    await worker.send(credit={"messages": 1})

    assert (await worker.expect("call")).arguments_json == '{"n":0}'


# -- from outside --------------------------------------------------------------------------------


async def test_a_result_from_outside_stops_the_worker(stage: Stage) -> None:
    """Whoever settles first wins, in any state of the call; the holder is told, and its own result discarded."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await turn.settle(call.call_id, output="by hand")

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.attempt) == (call.call_id, 1)
    assert cancel.reason == handler_pb2.CANCEL_REASON_SETTLED_ELSEWHERE
    assert cancel.grace.ToTimedelta().total_seconds() == 0
    await turn.completed()
    await worker.settle(call, output="too late")
    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_SETTLED)
    assert ack.error.metadata["settled_by"] == "outside"
    (output,) = await turn.outputs()
    assert (output.settlement, output.output[0].text) == (item_pb2.SETTLEMENT_OUTSIDE_OUTPUT, "by hand")


async def test_a_waiting_call_that_is_settled_from_outside_is_not_delivered(stage: Stage) -> None:
    """A worker that comes later finds nothing to do."""
    turn = await stage.call("f")
    await turn.waiting()
    (action,) = await turn.actions()
    await turn.settle(action.call_id, output="by hand")
    await turn.completed()

    worker = await stage.worker("f")

    await worker.nothing()


async def test_many_results_at_once_are_each_acked_once(stage: Stage) -> None:
    """Results of one turn that come together are taken together, and every worker gets its answers."""
    worker = await stage.worker("f", credit=50)
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(50)])
    calls = await worker.expect_all("call", 50)

    for call in calls:
        await worker.send(result=result_of(call, output=call.arguments_json))

    acks = await worker.expect_all("result_ack", 50)
    assert {ack.verdict for ack in acks} == {DURABLE}
    assert {ack.call_id for ack in acks} == {call.call_id for call in calls}
    await turn.completed()
