"""Going on from an ended turn: with what it had, under a new limit of rounds, and not from any turn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.approvals import status
from tests.api.calling import AT_ONCE, Client, frame, fresh, helper, refused, result_for, soon, told
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, Reply, calls, fail, say

from baton.v1 import agent_pb2, error_pb2, event_pb2
from baton.v1 import runner_pb2 as runner
from baton.v1 import session_pb2 as pb
from baton_server.core.errors import Reason

KYOTO = ("get_weather", '{"city":"Kyoto"}')
FAILED, COMPLETED = event_pb2.TURN_STATUS_FAILED, event_pb2.TURN_STATUS_COMPLETED


def continues(turn_id: str, **fields: Any) -> dict[str, Any]:
    """Make the input that goes on from a turn."""
    return {"continues": {"turn_id": turn_id, **fields}}


async def run_on(client: Client, session_id: str, turn_id: str, **fields: Any) -> runner.RunResponse:
    """Run on from a turn."""
    request = runner.RunRequest(request_id=fresh(), session_id=session_id, continues={"turn_id": turn_id}, **fields)
    return await client.runner.Run(request)


async def exhausted(client: Client, **fields: Any) -> runner.RunResponse:
    """Run a turn whose first round calls a function, and which may take no other one."""
    config = {"max_turns": 1, "unserved_grace": AT_ONCE, **fields}
    answer = await client.run(agent=helper("get_weather"), run_config=config, text="What is it?")
    (action,) = answer.required_actions
    await client.submit(answer.session_id, result_for(action, output="18"))
    await client.rest(answer.session_id)
    turn = await client.turn(answer.session_id, answer.turn.turn_id)
    assert turn.error.reason == error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED
    return answer


def asked(item: dict[str, Any]) -> str:
    """Say shortly what an item of a request is."""
    return item.get("type") or item["content"]


# -- what the new turn has -----------------------------------------------------------------------


async def test_a_turn_that_ran_out_of_rounds_is_gone_on_with(serve: Serve) -> None:
    """The model sees what it saw, and what came of it; the agent is the pinned one, and the rounds are counted anew."""
    served = await serve(calls(KYOTO), say("18 °C."))
    old = await exhausted(served.client)

    answer = await served.client.submit(old.session_id, continues(old.turn.turn_id))
    events = await served.client.rest(old.session_id)

    assert [status(outcome) for outcome in answer.outcomes] == ["STARTED"]
    assert [asked(item) for item in served.model.input_of(1)] == [
        "What is it?",
        "function_call",
        "function_call_output",
    ]
    (ended,) = told(events, "turn_completed")
    assert (ended.turn.turn_id, ended.turn.output, ended.turn.rounds) == (answer.turn_id, "18 °C.", 1)
    assert (ended.turn.continues, ended.turn.max_turns) == (old.turn.turn_id, 1)
    assert ended.turn.agent_digest == old.turn.agent_digest
    assert ended.turn.run_config_digest == old.turn.run_config_digest


async def test_what_is_attached_meanwhile_changes_nothing(serve: Serve) -> None:
    """The graph was pinned with what its handlers said then."""
    served = await serve(calls(KYOTO), say("18 °C."))
    old = await exhausted(served.client)
    worker = served.client.handlers.Connect()
    declared = {"name": "get_weather", "execution": {"timeout": {"seconds": 5}, "idempotency_fields": ["/city"]}}
    await worker.write(frame(hello={"handlers": [declared]}))
    assert (await soon(worker.read())).HasField("welcome")

    answer = await run_on(served.client, old.session_id, old.turn.turn_id)

    assert answer.turn.agent_digest == old.turn.agent_digest


async def test_a_new_limit_takes_the_place_of_the_old_one(serve: Serve) -> None:
    """So many rounds, or any number of them; all else of the configuration stays."""
    served = await serve(calls(KYOTO), calls(KYOTO), say("18 °C."), say("19 °C."))
    first, second = [await exhausted(served.client, model="m") for _ in range(2)]

    for old, limit, shown in ((first, {"max_turns": 3}, 3), (second, {"unlimited_turns": True}, None)):
        answer = await served.client.submit(old.session_id, continues(old.turn.turn_id, **limit))
        await served.client.rest(old.session_id)
        request = pb.GetTurnRequest(session_id=old.session_id, turn_id=answer.turn_id, with_pinned=True)
        told_ = await served.client.sessions.GetTurn(request)
        assert told_.turn.status == COMPLETED
        assert (told_.turn.max_turns if told_.turn.HasField("max_turns") else None) == shown
        assert told_.run_config.model == "m"


async def test_a_run_may_go_on_and_bring_something_new(serve: Serve) -> None:
    """What is new comes behind what the old turn had."""
    served = await serve(calls(KYOTO), say("In short: 18."))
    old = await exhausted(served.client)

    answer = await run_on(served.client, old.session_id, old.turn.turn_id, text="Be short.")

    assert (answer.turn.status, answer.turn.output) == (COMPLETED, "In short: 18.")
    said = ["What is it?", "function_call", "function_call_output", "Be short."]
    assert [asked(item) for item in served.model.input_of(1)] == said
    items = await served.client.items(old.session_id, history_only=True)
    assert [item.WhichOneof("item") for item in items].count("function_call") == 1


@pytest.mark.parametrize(
    "reason",
    [Reason.MODEL_TIMEOUT, Reason.MODEL_UNAVAILABLE, Reason.MODEL_RESPONSE_FAILED, Reason.MODEL_QUOTA_EXCEEDED],
)
async def test_a_turn_whose_model_failed_is_gone_on_with(serve: Serve, reason: Reason) -> None:
    """The request that failed is made again."""
    served = await serve(fail(reason), say("Hello."))
    old = await served.client.run(text="Hi.")
    assert old.turn.status == FAILED

    answer = await run_on(served.client, old.session_id, old.turn.turn_id)

    assert answer.turn.output == "Hello."
    assert [asked(item) for item in served.model.input_of(1)] == ["Hi."]


async def test_a_turn_that_was_cancelled_after_its_round_is_gone_on_with(serve: Serve) -> None:
    """The round was finished, so nothing is missing."""
    gate = Gate()
    served = await serve(calls(KYOTO, before=gate), say("Hello."))
    session = await served.client.session(agent=helper("get_weather"))
    old = await served.client.submit(session.session_id, "Hi.")
    await gate.reached()
    await served.client.cancel(session.session_id, old.turn_id, mode=event_pb2.CANCEL_MODE_AFTER_ROUND)
    gate.open()
    await served.client.rest(session.session_id)

    answer = await run_on(served.client, session.session_id, old.turn_id)

    assert answer.turn.output == "Hello."
    assert [asked(item) for item in served.model.input_of(1)] == ["Hi.", "function_call", "function_call_output"]


async def test_the_agent_that_was_handed_over_to_goes_on(serve: Serve) -> None:
    """And not the one that began."""
    handoff = {"type": "function_call", "call_id": "h", "name": "transfer_to_billing", "arguments": "{}"}
    served = await serve(Reply(items=(handoff,)), say("From billing."))
    graph = agent_pb2.Agent(name="Triage", handoffs=[{"agent": "Billing"}], agents=[{"name": "Billing"}])
    old = await served.client.run(agent=graph, run_config={"max_turns": 1})
    assert (old.turn.status, old.turn.last_agent) == (FAILED, "Billing")

    answer = await run_on(served.client, old.session_id, old.turn.turn_id)

    assert (answer.turn.agent, answer.turn.last_agent, answer.turn.output) == ("Billing", "Billing", "From billing.")


async def test_it_queues_behind_a_turn_that_runs(serve: Serve) -> None:
    """A continued turn is one of its own, also where messages would be steered; or it is refused."""
    gate = Gate()
    served = await serve(fail(Reason.MODEL_UNAVAILABLE), say(gate, "One."), say("Two."))
    made = await served.client.session()
    old = await served.client.run(session_id=made.session_id, text="Hi.")
    await served.client.submit(old.session_id, "Go.")
    await gate.reached()

    steered = await served.client.submit(old.session_id, continues(old.turn.turn_id))
    rejected = await refused(
        served.client.submit(old.session_id, continues(old.turn.turn_id), if_busy=pb.IF_BUSY_REJECT)
    )
    gate.open()
    events = await served.client.rest(old.session_id)

    assert [status(outcome) for outcome in steered.outcomes] == ["QUEUED"]
    assert rejected.reason == "SESSION_BUSY"
    assert [one.turn.output for one in told(events, "turn_completed")] == ["One.", "Two."]


# -- turns that cannot be gone on with -----------------------------------------------------------


async def test_a_turn_that_has_its_answer_is_not_gone_on_with(serve: Serve) -> None:
    """By an input and by a run; the turn and its status are named."""
    served = await serve(say("Hello."))
    old = await served.client.run()

    by_input = await refused(served.client.submit(old.session_id, continues(old.turn.turn_id)))
    by_run = await refused(run_on(served.client, old.session_id, old.turn.turn_id))

    assert {by_input.reason, by_run.reason} == {"TURN_NOT_CONTINUABLE"}
    assert by_input.metadata == by_run.metadata == {"turn_id": old.turn.turn_id, "status": "COMPLETED"}


async def test_a_turn_that_runs_is_not_gone_on_with(serve: Serve) -> None:
    """It goes on by itself."""
    gate = Gate()
    served = await serve(say(gate, "Hello."))
    session = await served.client.session()
    running = await served.client.submit(session.session_id, "Hi.")
    await gate.reached()

    refusal = await refused(served.client.submit(session.session_id, continues(running.turn_id)))

    assert (refusal.reason, refusal.metadata["status"]) == ("TURN_NOT_CONTINUABLE", "IN_PROGRESS")
    gate.open()


async def test_a_turn_that_was_cancelled_at_once_is_not_gone_on_with(serve: Serve) -> None:
    """Its round is cut off."""
    gate = Gate()
    served = await serve(say(gate, "Hello."))
    session = await served.client.session()
    cancelled = await served.client.submit(session.session_id, "Hi.")
    await gate.reached()
    await served.client.cancel(session.session_id, cancelled.turn_id)
    await served.client.rest(session.session_id)

    refusal = await refused(served.client.submit(session.session_id, continues(cancelled.turn_id)))

    assert (refusal.reason, refusal.metadata["status"]) == ("TURN_NOT_CONTINUABLE", "CANCELLED")


async def test_a_turn_whose_error_would_come_again_is_not_gone_on_with(serve: Serve) -> None:
    """A model that does what it must not would do it again; the reason is told."""
    served = await serve(calls(("unknown", "{}")))
    old = await served.client.run()

    refusal = await refused(served.client.submit(old.session_id, continues(old.turn.turn_id)))

    assert (refusal.reason, refusal.metadata["status"]) == ("TURN_NOT_CONTINUABLE", "FAILED")
    assert "MODEL_BEHAVIOR_ERROR" in refusal.message


async def test_a_turn_of_another_session_is_none(serve: Serve) -> None:
    """Nor is one of a session that is not there yet."""
    served = await serve(fail(Reason.MODEL_UNAVAILABLE))
    old = await served.client.run()
    other = await served.client.session()
    by_key = runner.RunRequest(request_id=fresh(), session_key="new", continues={"turn_id": old.turn.turn_id})

    elsewhere = await refused(served.client.submit(other.session_id, continues(old.turn.turn_id)))
    nowhere = await refused(served.client.runner.Run(by_key))

    assert (elsewhere.reason, nowhere.reason) == ("TURN_NOT_FOUND", "TURN_NOT_FOUND")


async def test_a_batch_goes_on_from_one_turn(serve: Serve) -> None:
    """Messages of the batch join it; a second one is refused by its place."""
    served = await serve(fail(Reason.MODEL_UNAVAILABLE), say("Both."))
    old = await served.client.run(text="Hi.")
    once = continues(old.turn.turn_id)

    twice = await refused(served.client.submit(old.session_id, once, once))
    answer = await served.client.submit(old.session_id, "And you?", once)
    await served.client.rest(old.session_id)

    assert (twice.reason, twice.paths) == ("INVALID_REQUEST", ["inputs[1].continues"])
    assert {outcome.turn_id for outcome in answer.outcomes} == {answer.turn_id}
    assert [asked(item) for item in served.model.input_of(1)] == ["Hi.", "And you?"]
