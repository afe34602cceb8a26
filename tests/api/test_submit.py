"""SubmitInput: messages that start, queue or join turns, in batches that are taken whole or not at all."""

import asyncio

import grpc
import pytest
from tests.api.calling import (
    fresh,
    helper,
    history_is_well_formed,
    kinds,
    refused,
    result_for,
    submit_request,
    text_of,
    told,
    until,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
NARA = ("get_weather", '{"city":"Nara"}')
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def statuses(answer: pb.SubmitInputResponse) -> list[str]:
    """Name what became of each input."""
    return [pb.InputStatus.Name(outcome.status).removeprefix("INPUT_STATUS_") for outcome in answer.outcomes]


async def test_a_message_starts_a_turn(serve: Serve) -> None:
    """In an idle session a message starts a turn; what follows from it comes above the sequence told."""
    served = await serve(say("hello"))
    made = await served.client.session()

    answer = await served.client.submit(made.session_id, "hi", request_id="x")
    events = await served.client.rest(made.session_id, after_sequence=answer.sequence)

    assert statuses(answer) == ["STARTED"]
    assert answer.outcomes[0].turn_id == answer.turn_id
    assert (answer.request_id, answer.sequence) == ("x", made.last_sequence)
    assert kinds(events)[:2] == ["session_in_progress", "turn_created"]
    assert told(events, "turn_completed")[0].turn.output == "hello"
    assert told(events, "turn_created")[0].turn.request_id == "x"


async def test_queued_messages_are_turns_of_their_own_in_order(serve: Serve) -> None:
    """With QUEUE each batch is answered by itself, after those that came before it."""
    gate = Gate()
    served = await serve(say(gate, "1"), say("2"), say("3"))
    made = await served.client.session()
    first = await served.client.submit(made.session_id, "a")
    await gate.reached()
    later = [await served.client.submit(made.session_id, text, if_busy=pb.IF_BUSY_QUEUE) for text in ("b", "c")]
    queued = (await served.client.get(made.session_id)).queued_turn_ids
    gate.open()
    events = await served.client.rest(made.session_id)

    assert [statuses(answer) for answer in later] == [["QUEUED"], ["QUEUED"]]
    assert list(queued) == [answer.turn_id for answer in later]
    assert [one.turn.turn_id for one in told(events, "turn_completed")] == [first.turn_id, *queued]
    assert [one.turn.output for one in told(events, "turn_completed")] == ["1", "2", "3"]
    asked = [[item["content"] for item in served.model.input_of(n) if item["role"] == "user"] for n in range(3)]
    assert asked == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert told(events, "turn_created")[1].turn.status == event_pb2.TURN_STATUS_QUEUED


async def test_adjacent_messages_join_one_turn(serve: Serve) -> None:
    """A batch of messages is one turn, which sees them all, in order."""
    served = await serve(say("hello"))
    made = await served.client.session()
    parts = {"message": {"content": [{"text": "b"}, {"image": {"url": PIXEL, "detail": "low"}}]}}
    items = {"items_json": '[{"role":"developer","content":"c"},{"role":"user","content":"d"}]'}

    answer = await served.client.submit(made.session_id, "a", parts, items)
    await served.client.rest(made.session_id)

    assert statuses(answer) == ["STARTED"] * 3
    assert {outcome.turn_id for outcome in answer.outcomes} == {answer.turn_id}
    assert served.model.input_of(0) == [
        {"content": "a", "role": "user"},
        {
            "content": [
                {"type": "input_text", "text": "b"},
                {"type": "input_image", "image_url": PIXEL, "detail": "low"},
            ],
            "role": "user",
        },
        {"role": "developer", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    roles = [item.message.role for item in await served.client.items(made.session_id)]
    assert roles == [1, 1, item_pb2.MESSAGE_ROLE_DEVELOPER, 1, item_pb2.MESSAGE_ROLE_ASSISTANT]


async def test_a_message_joins_the_running_turn(serve: Serve) -> None:
    """By default a message that comes during a round is seen by the next one, behind the outputs."""
    gate = Gate()
    served = await serve(calls(KYOTO, before=gate), say("both"))
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    first = await served.client.submit(made.session_id, "a")
    await gate.reached()
    joined = await served.client.submit(made.session_id, "b")
    gate.open()
    await served.client.rest(made.session_id)
    (action,) = (await served.client.get(made.session_id)).required_actions
    await served.client.submit(made.session_id, result_for(action, output="18"))
    events = await served.client.rest(made.session_id)

    assert statuses(joined) == ["STEERED"]
    assert joined.turn_id == first.turn_id
    assert [item.get("type", item.get("content")) for item in served.model.input_of(1)] == [
        "a",
        "function_call",
        "function_call_output",
        "b",
    ]
    assert len(told(events, "turn_created")) == 1
    assert history_is_well_formed(await served.client.items(made.session_id, history_only=True))


async def test_messages_join_a_waiting_turn_in_order_behind_the_outputs(serve: Serve) -> None:
    """While calls are open a message waits; it never stands between a call and its output."""
    served = await serve(calls(KYOTO, NARA), say("all"))
    client = served.client
    made = await client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await client.submit(made.session_id, "a")
    await client.rest(made.session_id)
    joined = [await client.submit(made.session_id, text) for text in ("b", "c")]
    actions = (await client.get(made.session_id)).required_actions
    batch = await client.submit(
        made.session_id, result_for(actions[1], output="2"), "d", result_for(actions[0], output="1")
    )
    await client.rest(made.session_id)

    assert [statuses(answer) for answer in joined] == [["STEERED"], ["STEERED"]]
    assert statuses(batch) == ["SETTLED", "STEERED", "SETTLED"]
    assert [item.get("output") or item.get("content") for item in served.model.input_of(1)[3:]] == [
        *("1", "2"),
        *("b", "c", "d"),
    ]


async def test_a_message_that_comes_too_late_starts_the_next_turn(serve: Serve) -> None:
    """If the round was the last one, the message is carried over, and the new turn says so."""
    gate = Gate()
    served = await serve(say(gate, "one"), say("two"), say("three"))
    client = served.client
    made = await client.session()
    first = await client.submit(made.session_id, "a")
    await gate.reached()
    queued = await client.submit(made.session_id, "q", if_busy=pb.IF_BUSY_QUEUE)
    late = [await client.submit(made.session_id, text) for text in ("b", "c")]
    gate.open()
    events = await client.rest(made.session_id)

    assert {answer.turn_id for answer in late} == {first.turn_id}
    created = told(events, "turn_created")
    (carried,) = [one for one in created if one.carried_item_ids]
    items = {item.item_id: text_of(item) for item in await client.items(made.session_id)}
    assert [items[item_id] for item_id in carried.carried_item_ids] == ["b", "c"]
    assert carried.turn.turn_id not in (first.turn_id, queued.turn_id)
    ended = [(one.turn.turn_id, one.turn.output) for one in told(events, "turn_completed")]
    assert ended == [(first.turn_id, "one"), (carried.turn.turn_id, "two"), (queued.turn_id, "three")]
    assert kinds(events).count("session_idle") == 1


async def test_a_busy_session_can_be_left_alone(serve: Serve) -> None:
    """With REJECT the whole batch is refused, results in it included."""
    served = await serve(calls(KYOTO), say("done"))
    client = served.client
    made = await client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    turn_id = (await client.submit(made.session_id, "a")).turn_id
    await client.rest(made.session_id)
    before = await client.get(made.session_id)
    result = result_for(before.required_actions[0], output="18")

    told_ = await refused(client.submit(made.session_id, result, "b", if_busy=pb.IF_BUSY_REJECT))
    unchanged = await client.get(made.session_id)
    taken = await client.submit(made.session_id, result, if_busy=pb.IF_BUSY_REJECT)

    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_BUSY")
    assert told_.metadata == {"turn_id": turn_id}
    assert unchanged == before
    assert (statuses(taken), taken.turn_id) == (["SETTLED"], "")


@pytest.mark.parametrize(
    "bad",
    [
        {"tool_result": {"turn_id": "turn_1", "call_id": "call_1", "output": "x"}},
        {"cancel": {"turn_id": "turn_1"}},
        {"message": {}},
        {"items_json": "no"},
        {},
    ],
    ids=str,
)
async def test_one_bad_input_refuses_the_batch(serve: Serve, bad: dict[str, object]) -> None:
    """Nothing of a batch is taken if one of its inputs cannot be."""
    served = await serve(say("never"))
    made = await served.client.session()

    told_ = await refused(served.client.submit(made.session_id, "a", bad, "b"))

    assert told_.reason in ("CALL_NOT_FOUND", "TURN_NOT_FOUND", "INVALID_REQUEST")
    assert await served.client.get(made.session_id) == made
    assert not served.model.requests


async def test_many_writers_of_one_session_all_get_through(serve: Serve) -> None:
    """Messages sent at once are all taken, each exactly once, in turns that follow one another."""
    served = await serve(lambda _: say("ok"))
    client = served.client
    made = await client.session()

    answers = await asyncio.gather(*(client.submit(made.session_id, f"m{n}", if_busy=1 + n % 2) for n in range(16)))
    events = await client.rest(made.session_id)

    assert {status for answer in answers for status in statuses(answer)} <= {"STARTED", "STEERED", "QUEUED"}
    said = [text_of(item) for item in await client.items(made.session_id) if item.message.role == 1]
    assert sorted(said) == sorted(f"m{n}" for n in range(16))
    assert len(told(events, "turn_created")) == len(told(events, "turn_completed"))
    assert kinds(events)[-1] == "session_idle"


async def test_a_session_without_an_agent_takes_no_message(serve: Serve) -> None:
    """A turn without an agent cannot be answered; the batch is refused."""
    client = (await serve()).client
    made = (await client.sessions.CreateSession(pb.CreateSessionRequest(request_id=fresh()))).session

    told_ = await refused(client.submit(made.session_id, "a"))

    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "AGENT_MISSING")


async def test_a_message_for_an_undeclared_function_is_refused(serve: Serve) -> None:
    """As in Run: who is to say the parameters is not attached."""
    client = (await serve()).client
    made = await client.session(agent={"name": "Helper", "tools": [{"function": {"name": "f"}}]})

    assert (await refused(client.submit(made.session_id, "a"))).reason == "FUNCTION_UNDECLARED"


async def test_consequences_come_above_the_answered_sequence(serve: Serve) -> None:
    """A watch from the answer's sequence sees all that follows, however fast it was."""
    served = await serve(lambda _: say("ok"))
    made = await served.client.session()
    for _ in range(3):
        answer = await served.client.submit(made.session_id, "a")
        watch = served.client.sessions.Watch(
            pb.WatchRequest(session_id=made.session_id, after_sequence=answer.sequence)
        )
        seen = await until(watch, "session_idle")
        assert seen[0].event.sequence == answer.sequence + 1


async def test_the_largest_batch_is_taken(serve: Serve) -> None:
    """64 inputs are one batch, 65 are refused."""
    served = await serve(say("ok"))
    made = await served.client.session()

    answer = await served.client.submit(made.session_id, *["a"] * 64)
    told_ = await refused(served.client.sessions.SubmitInput(submit_request(made.session_id, *["a"] * 65)))

    assert statuses(answer) == ["STARTED"] * 64
    assert told_.paths == ["inputs"]


async def test_a_crowd_of_writers_of_one_session_all_get_through(serve: Serve) -> None:
    """A hundred callers at once are served one after another, and none is sent away to try again."""
    gate = Gate()
    served = await serve(lambda asked: say(gate, "ok"))
    client = served.client
    made = await client.session()
    await client.submit(made.session_id, "first")
    await gate.reached()

    answers = await asyncio.gather(
        *(client.submit(made.session_id, f"m{n}", if_busy=pb.IF_BUSY_QUEUE) for n in range(100))
    )

    assert {status for answer in answers for status in statuses(answer)} == {"QUEUED"}
    assert len((await client.get(made.session_id)).queued_turn_ids) == 100
