"""Results from outside: the first one settles its call, every other one is told what became of it."""

import asyncio
import json

import grpc
import pytest
from tests.api.calling import (
    Client,
    attach,
    frame,
    helper,
    history_is_well_formed,
    kinds,
    refused,
    result_for,
    soon,
    text_of,
    told,
)
from tests.api.conftest import Serve, Served
from tests.support.scripted_model import calls, say

from baton.v1 import error_pb2, event_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
NARA = ("get_weather", '{"city":"Nara"}')
PIXEL = "data:image/png;base64,iVBORw0KGgo="


async def waiting(served: Served) -> pb.Session:
    """Bring a session to where its turn waits for all that the script calls."""
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(made.session_id, "weather?")
    await served.client.rest(made.session_id)
    return await served.client.get(made.session_id)


async def settled(client: Client, session_id: str) -> list[item_pb2.Item]:
    """List the outputs of calls."""
    await client.rest(session_id)
    items = await client.items(session_id)
    assert history_is_well_formed(items)
    return [item for item in items if item.HasField("function_call_output")]


@pytest.mark.parametrize(
    ("outcome", "settlement", "seen"),
    [
        ({"output": "18 °C"}, "OUTSIDE_OUTPUT", "18 °C"),
        ({"output": ""}, "OUTSIDE_OUTPUT", ""),
        ({"output": "18", "success": True}, "OUTSIDE_OUTPUT", "18"),
        ({"output_json": '{"big":9007199254740993}'}, "OUTSIDE_OUTPUT", '{"big":9007199254740993}'),
        ({"error": "no such city"}, "OUTSIDE_FAILURE", "no such city"),
        ({"error": "no such city", "success": False}, "OUTSIDE_FAILURE", "no such city"),
        (
            {"output_parts": {"parts": [{"text": "see"}, {"image": {"url": PIXEL}}]}},
            "OUTSIDE_OUTPUT",
            [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": PIXEL}],
        ),
    ],
    ids=str,
)
async def test_a_result_reaches_the_model(
    serve: Serve, outcome: dict[str, object], settlement: str, seen: object
) -> None:
    """Text, JSON, parts and failures go to the model as they came, and the log says who settled the call."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)

    answer = await served.client.submit(session.session_id, result_for(session.required_actions[0], **outcome))
    (item,) = await settled(served.client, session.session_id)

    assert [one.status for one in answer.outcomes] == [pb.INPUT_STATUS_SETTLED]
    output = item.function_call_output
    assert item_pb2.Settlement.Name(output.settlement) == f"SETTLEMENT_{settlement}"
    assert (item.status == item_pb2.ITEM_STATUS_FAILED) == ("error" in outcome)
    assert (output.name, output.attempt, output.worker_id) == ("get_weather", 0, "")
    assert served.model.input_of(1)[-1]["output"] == seen
    assert (
        '"output":' + json.dumps(seen, ensure_ascii=False, separators=(",", ":")) in served.model.requests[1].items[-1]
    )


async def test_outputs_stand_in_the_order_of_their_calls(serve: Serve) -> None:
    """Whichever is settled first, the model sees the outputs in call order."""
    served = await serve(calls(KYOTO, NARA), say("done"))
    session = await waiting(served)
    kyoto, nara = session.required_actions

    await served.client.submit(session.session_id, result_for(nara, output="nara"))
    left = (await served.client.get(session.session_id)).required_actions
    await served.client.submit(session.session_id, result_for(kyoto, output="kyoto"))
    outputs = await settled(served.client, session.session_id)

    assert [action.call_id for action in left] == [kyoto.call_id]
    assert [text_of(item) for item in outputs] == ["kyoto", "nara"]
    assert [item["output"] for item in served.model.input_of(1)[3:]] == ["kyoto", "nara"]


async def test_the_same_result_again_is_a_duplicate(serve: Serve) -> None:
    """A sender that never saw its answer sends again, under a new request_id, and changes nothing."""
    served = await serve(calls(KYOTO, NARA), say("done"))
    session = await waiting(served)
    action = session.required_actions[0]
    await served.client.submit(session.session_id, result_for(action, output="18"))
    before = await served.client.events(session.session_id)

    again = await served.client.submit(session.session_id, result_for(action, output="18"))

    (outcome,) = again.outcomes
    assert (outcome.status, outcome.turn_id) == (pb.INPUT_STATUS_DUPLICATE, action.turn_id)
    assert outcome.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    await served.client.submit(session.session_id, result_for(session.required_actions[1], output="2"))
    after = await served.client.rest(session.session_id)
    assert kinds(after[: len(before)]) == kinds(before)
    assert "result_discarded" not in kinds(after)


@pytest.mark.parametrize("later", [{"output": "19"}, {"error": "18"}, {"output_json": "18"}], ids=str)
async def test_another_result_for_a_settled_call_is_discarded(serve: Serve, later: dict[str, str]) -> None:
    """The first result stays; the second one is told, and leaves a trace in the log."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)
    (action,) = session.required_actions
    await served.client.submit(session.session_id, result_for(action, output="18"))
    await served.client.rest(session.session_id)

    (outcome,) = (await served.client.submit(session.session_id, result_for(action, **later))).outcomes
    events = await served.client.events(session.session_id)

    assert outcome.status == pb.INPUT_STATUS_DISCARDED
    assert outcome.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    assert outcome.error.metadata == {"call_id": action.call_id, "settled_by": "outside"}
    (discarded,) = told(events, "result_discarded")
    assert (discarded.call_id, discarded.attempt, discarded.worker_id) == (action.call_id, 0, "")
    assert len(discarded.result_digest) == 64
    assert [text_of(item) for item in await settled(served.client, session.session_id)] == ["18"]


async def test_two_results_for_one_call_in_one_batch_settle_it_once(serve: Serve) -> None:
    """The first of the batch counts; the others are told as if they had come later."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)
    (action,) = session.required_actions

    answer = await served.client.submit(
        session.session_id,
        *(result_for(action, output=text) for text in ("18", "18", "19")),
    )

    assert [outcome.status for outcome in answer.outcomes] == [
        pb.INPUT_STATUS_SETTLED,
        pb.INPUT_STATUS_DUPLICATE,
        pb.INPUT_STATUS_DISCARDED,
    ]
    assert [text_of(item) for item in await settled(served.client, session.session_id)] == ["18"]
    assert len(told(await served.client.events(session.session_id), "result_discarded")) == 1


async def test_results_at_once_settle_a_call_once(serve: Serve) -> None:
    """Of many senders exactly one settles the call, and the log agrees with what each was told."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)
    (action,) = session.required_actions

    answers = await asyncio.gather(
        *(served.client.submit(session.session_id, result_for(action, output=str(n))) for n in range(6))
    )

    won = [n for n, answer in enumerate(answers) if answer.outcomes[0].status == pb.INPUT_STATUS_SETTLED]
    (item,) = await settled(served.client, session.session_id)
    assert [text_of(item)] == [str(n) for n in won]
    assert len(told(await served.client.events(session.session_id), "result_discarded")) == 5


@pytest.mark.parametrize("which", ["turn_id", "call_id", "another session's"])
async def test_a_result_for_a_call_that_never_was_is_refused(serve: Serve, which: str) -> None:
    """Both ids must be of one call of this session; the batch is refused, and the call stays open."""
    served = await serve(calls(KYOTO), calls(KYOTO))
    session = await waiting(served)
    (action,) = session.required_actions
    wrong = event_pb2.RequiredAction(turn_id=action.turn_id, call_id=action.call_id)
    if which == "another session's":
        (wrong,) = (await waiting(served)).required_actions
    else:
        setattr(wrong, which, f"{which}_none")

    told_ = await refused(served.client.submit(session.session_id, result_for(wrong, output="18")))

    assert (told_.code, told_.reason) == (grpc.StatusCode.NOT_FOUND, "CALL_NOT_FOUND")
    assert told_.metadata == {"turn_id": wrong.turn_id, "call_id": wrong.call_id}
    assert await served.client.get(session.session_id) == session


async def test_a_result_from_outside_takes_a_call_from_its_worker(serve: Serve) -> None:
    """In any state the first result counts: the worker is told to stop, and its own result is discarded."""
    served = await serve(calls(KYOTO), say("done"))
    worker = await attach(served.client, "get_weather")
    made = await served.client.session(agent=helper("get_weather"))
    await served.client.submit(made.session_id, "weather?")
    call = (await soon(worker.read())).call
    (action,) = (await served.client.get(made.session_id)).required_actions

    answer = await served.client.submit(made.session_id, result_for(action, output="outside"))
    stopped = (await soon(worker.read())).cancel
    await worker.write(frame(result={"call_id": call.call_id, "attempt": 1, "output": "inside"}))
    ack = (await soon(worker.read())).result_ack
    (item,) = await settled(served.client, made.session_id)

    assert (action.state, action.attempt) == (event_pb2.REQUIRED_ACTION_STATE_LEASED, 1)
    assert action.lease.worker_id
    assert [outcome.status for outcome in answer.outcomes] == [pb.INPUT_STATUS_SETTLED]
    assert stopped.call_id == ack.call_id == call.call_id
    assert ack.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    assert text_of(item) == "outside"
