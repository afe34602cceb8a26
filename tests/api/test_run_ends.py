"""How runs end, and which are not begun: limits, models that fail, agents and functions that are not there."""

import asyncio
from dataclasses import replace

import grpc
import pytest
from tests.api.calling import (
    attach,
    fresh,
    helper,
    kinds,
    refused,
    run_request,
    soon,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import PATIENCE_S, Gate, Reply, calls, fail, say

from baton.v1 import agent_pb2, error_pb2, event_pb2, item_pb2
from baton.v1 import session_pb2 as pb
from baton_server.core.errors import Reason

KYOTO = ("get_weather", '{"city":"Kyoto"}')


@pytest.mark.parametrize(("config", "rounds"), [({"max_turns": 0}, 0), ({"max_turns": 1}, 1), ({}, 10)])
async def test_a_turn_ends_at_its_limit_of_rounds(serve: Serve, config: dict[str, int], rounds: int) -> None:
    """The turn fails with the reason and the limit; Run itself succeeds."""
    served = await serve(lambda _: calls(("get_weather", "no JSON")))

    answer = await served.client.run(agent=helper("get_weather"), run_config=config)

    assert answer.turn.status == event_pb2.TURN_STATUS_FAILED
    assert answer.turn.error.reason == error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED
    assert answer.turn.error.metadata["max_turns"] == str(config.get("max_turns", 10))
    assert (answer.turn.rounds, len(served.model.requests)) == (rounds, rounds)
    assert (await served.client.get(answer.session_id)).status == pb.SESSION_STATUS_IDLE


async def test_a_turn_may_be_without_a_limit(serve: Serve) -> None:
    """With unlimited_turns a turn goes on as long as the model calls."""
    served = await serve(lambda asked: calls(("get_weather", "no JSON")) if asked.round < 15 else say("done"))

    answer = await served.client.run(agent=helper("get_weather"), run_config={"unlimited_turns": True})

    assert (answer.turn.output, answer.turn.rounds) == ("done", 15)
    assert not answer.turn.HasField("max_turns")


async def test_arguments_that_break_the_schema_go_back_to_the_model(serve: Serve) -> None:
    """The model is told what was wrong, and nobody is asked to execute the call."""
    served = await serve(calls(("get_weather", '{"town":"Kyoto"}')), say("sorry"))

    answer = await served.client.run(agent=helper("get_weather"))

    output = answer.new_items[1].function_call_output
    assert output.settlement == item_pb2.SETTLEMENT_ARGUMENTS_INVALID
    assert "town" in served.model.input_of(1)[-1]["output"]
    assert answer.turn.output == "sorry"


async def test_a_run_without_any_agent_is_refused(serve: Serve) -> None:
    """Neither in the run nor on the session: there is nobody to answer, and no turn is made."""
    client = (await serve()).client
    made = (await client.sessions.CreateSession(pb.CreateSessionRequest(request_id=fresh()))).session

    told_ = await refused(client.run(session_id=made.session_id))

    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "AGENT_MISSING")
    assert told_.metadata == {"session_id": made.session_id}
    assert kinds(await client.events(made.session_id)) == ["session_created"]


async def test_a_function_that_nobody_declares_is_refused(serve: Serve) -> None:
    """Without parameters in the agent, and without a worker that says them, the turn is not accepted."""
    served = await serve(calls(KYOTO), say("never"))
    client = served.client
    bare = agent_pb2.Agent(name="Helper", tools=[{"function": {"name": "get_weather"}}])
    config = {"scopes": ["svc-7"]}

    told_ = await refused(client.run(agent=bare, run_config=config))
    worker = await attach(client, "get_weather", scopes=["svc-7"])
    running = asyncio.ensure_future(client.run(agent=bare, run_config=config))
    call = (await soon(worker.read())).call

    assert (told_.code, told_.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FUNCTION_UNDECLARED")
    assert told_.metadata == {"function": "get_weather", "scopes": "svc-7,"}
    assert (call.name, call.scope) == ("get_weather", "svc-7")
    running.cancel()


@pytest.mark.parametrize("reason", [Reason.MODEL_RATE_LIMITED, Reason.MODEL_AUTHENTICATION, Reason.MODEL_TIMEOUT])
async def test_a_failing_model_ends_the_turn_with_its_reason(serve: Serve, reason: Reason) -> None:
    """Run succeeds, the turn says why it failed, and the session takes new input."""
    served = await serve(fail(reason, "some ", "words"), say("better"))
    made = await served.client.session()

    failed = await served.client.run(session_id=made.session_id)
    again = await served.client.run(session_id=made.session_id)

    assert failed.turn.status == event_pb2.TURN_STATUS_FAILED
    assert error_pb2.ErrorReason.Name(failed.turn.error.reason) == f"ERROR_REASON_{reason}"
    assert failed.turn.error.message == "as the script says"
    assert not failed.turn.HasField("output")
    assert again.turn.output == "better"


async def test_an_unknown_function_ends_the_turn(serve: Serve) -> None:
    """The call is in the log as rejected, nobody owes it an output, and the next turn goes well."""
    served = await serve(calls(("get_wether", "{}")), say("better"))
    made = await served.client.session(agent=helper("get_weather"))

    failed = await served.client.run(session_id=made.session_id)
    await served.client.run(session_id=made.session_id)

    assert failed.turn.error.reason == error_pb2.ERROR_REASON_MODEL_BEHAVIOR_ERROR
    assert failed.turn.error.metadata["tool"] == "get_wether"
    logged = [item for item in await served.client.items(made.session_id) if item.HasField("function_call")]
    assert [item.status for item in logged] == [item_pb2.ITEM_STATUS_REJECTED]
    assert [item["role"] for item in served.model.input_of(1)] == ["user", "user"]


async def test_a_run_takes_a_kept_agent_as_it_is_now_or_was(serve: Serve) -> None:
    """A kept agent runs at its newest revision or at the one that is named."""
    served = await serve(lambda _: say("hello"))
    client = served.client
    kept = await client.agents.CreateAgent(
        agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper(instructions="v1"))
    )
    agent_id = kept.revision.agent_id
    await client.agents.UpdateAgent(
        agent_pb2.UpdateAgentRequest(request_id=fresh(), agent_id=agent_id, agent=helper(instructions="v2"))
    )

    await client.run(agent_ref={"agent_id": agent_id})
    await client.run(agent_ref={"agent_id": agent_id, "revision": 1})
    lost = await refused(client.run(agent_ref={"agent_id": agent_id, "revision": 3}))

    assert [asked.instructions for asked in served.model.requests] == ["v2", "v1"]
    assert (lost.code, lost.reason) == (grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND")
    assert lost.metadata == {"agent_id": agent_id, "revision": "3"}


async def test_an_incomplete_reply_ends_the_turn(serve: Serve) -> None:
    """A reply that was cut off is no answer: it is in the log as rejected, and the next turn goes on without it."""
    served = await serve(replace(say("half a "), incomplete="max_output_tokens"), say("whole"))
    made = await served.client.session()

    failed = await served.client.run(session_id=made.session_id, text="a")
    await served.client.run(session_id=made.session_id, text="b")

    assert failed.turn.error.reason == error_pb2.ERROR_REASON_MODEL_BEHAVIOR_ERROR
    assert failed.turn.error.metadata["incomplete"] == "max_output_tokens"
    items = await served.client.items(made.session_id)
    assert [item.status for item in items if item.turn_id == failed.turn.turn_id] == [
        item_pb2.ITEM_STATUS_COMPLETED,
        item_pb2.ITEM_STATUS_REJECTED,
    ]
    assert [item["content"] for item in served.model.input_of(1)] == ["a", "b"]


async def test_a_refusal_ends_the_turn_with_the_models_words(serve: Serve) -> None:
    """The turn fails with the reason; the refusal is in the log, and what was asked alone in the history."""
    words = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I won't."}]}
    served = await serve(Reply(items=(words,)), say("sorry"))
    made = await served.client.session()

    failed = await served.client.run(session_id=made.session_id, text="a")
    await served.client.run(session_id=made.session_id, text="b")

    assert failed.turn.error.reason == error_pb2.ERROR_REASON_MODEL_REFUSAL
    assert failed.turn.error.metadata["refusal"] == "I won't."
    assert failed.new_items[0].message.content[0].refusal == "I won't."
    assert [item["content"] for item in served.model.input_of(1)] == ["a", "b"]


async def test_a_model_that_breaks_in_the_server_is_told_by_an_error_id(serve: Serve) -> None:
    """A fault of the server ends the turn and not the session; the id leads to the server's log."""
    served = await serve()
    made = await served.client.session()

    failed = await served.client.run(session_id=made.session_id)

    assert failed.turn.error.reason == error_pb2.ERROR_REASON_INTERNAL
    assert failed.turn.error.metadata["error_id"] in failed.turn.error.message
    assert "script" not in failed.turn.error.message
    assert (await served.client.get(made.session_id)).status == pb.SESSION_STATUS_IDLE


async def test_a_stop_of_the_server_cancels_no_turn(serve: Serve) -> None:
    """It is the server that goes, not the caller: the next process completes the turn."""
    gate = Gate()
    served = await serve(say("one", gate))
    made = await served.client.session()
    call = served.client.runner.Run(run_request(session_id=made.session_id, cancel_on_disconnect=True))
    reading = asyncio.ensure_future(call.code())
    await gate.reached()

    served = await serve(say("Done."))

    assert await soon(reading) is not grpc.StatusCode.OK
    events = await served.client.rest(made.session_id)
    assert "cancel_requested" not in kinds(events)
    assert kinds(events)[-2:] == ["turn_completed", "session_idle"]


async def test_the_grace_of_an_unserved_call_is_not_prolonged_by_other_events(serve: Serve) -> None:
    """A session into which others write all the time rests when its turn does."""
    served = await serve(calls(("get_weather", '{"city":"Kyoto"}')))
    made = await served.client.session(agent=helper("get_weather"))
    grace = {"unserved_grace": {"nanos": 200_000_000}}
    running = asyncio.ensure_future(served.client.run(session_id=made.session_id, run_config=grace))

    async with asyncio.timeout(PATIENCE_S):
        while not running.done():
            item = '[{"role":"user","content":"more"}]'
            given = pb.AddItemsRequest(request_id=fresh(), session_id=made.session_id, items_json=item)
            await served.client.sessions.AddItems(given)

    assert len((await running).required_actions) == 1
