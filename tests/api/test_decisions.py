"""Decisions about calls that somebody must allow: what they do, what they are bound to, and which of several holds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.approvals import APPROVE, KYOTO, NARA, REJECT, decide, decision, guarded, reason, status, undecided
from tests.api.calling import Client, attach, fresh, helper, kinds, refused, result_for, soon, text_of, told
from tests.api.conftest import Serve
from tests.support.scripted_model import Reply, calls, say
from tests.support.stage import Stage

from baton.v1 import event_pb2, item_pb2
from baton.v1 import session_pb2 as pb


async def waiting(client: Client, agent: Any = None, **fields: Any) -> event_pb2.RequiredAction:
    """Run an agent until a call of it waits for a decision."""
    answer = await client.run(agent=agent or guarded("get_weather"), **fields)
    (action,) = answer.required_actions
    assert action.state == event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
    return action


# -- what a call that must be allowed looks like -------------------------------------------------


async def test_a_call_that_must_be_allowed_pauses_its_turn(serve: Serve) -> None:
    """The run rests with it, and who decides is shown all that the decision is about."""
    served = await serve(calls(KYOTO))
    await attach(served.client, "get_weather")

    answer = await served.client.run(agent=guarded("get_weather"))

    (action,) = answer.required_actions
    assert answer.turn.status == event_pb2.TURN_STATUS_WAITING
    assert action.state == event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
    assert (action.agent, action.name, action.arguments_json) == ("Helper", *KYOTO)
    assert {len(action.approval.arguments_digest), len(action.approval.definition_digest)} == {64}
    assert not action.HasField("expires_at")
    session = await served.client.get(answer.session_id)
    assert session.status == pb.SESSION_STATUS_REQUIRES_ACTION
    assert list(session.required_actions) == [action]
    turn = await served.client.sessions.GetTurn(
        pb.GetTurnRequest(session_id=answer.session_id, turn_id=answer.turn.turn_id)
    )
    assert list(turn.required_actions) == [action]
    listed = await served.client.sessions.ListRequiredActions(pb.ListRequiredActionsRequest(states=[action.state]))
    assert list(listed.required_actions) == [action]
    (asked,) = told(await served.client.events(answer.session_id), "approval_requested")
    assert (asked.call_id, asked.binding) == (action.call_id, action.approval)


async def test_equal_calls_are_bound_to_the_same_and_others_are_not(serve: Serve) -> None:
    """The digest of arguments is of what they mean; spaces and the order of members are none of it."""
    spaced = (KYOTO[0], ' { "city" : "Kyoto" } ')
    served = await serve(calls(KYOTO, spaced, NARA))

    answer = await served.client.run(agent=guarded("get_weather"))

    same, again, other = (action.approval for action in answer.required_actions)
    assert same == again
    assert same.arguments_digest != other.arguments_digest
    assert same.definition_digest == other.definition_digest


# -- what a decision does ------------------------------------------------------------------------


async def test_an_approved_call_goes_on(serve: Serve) -> None:
    """It is not open for a decision any more once that is answered; the log says who allowed it."""
    served = await serve(calls(KYOTO), say("18 °C."))
    action = await waiting(served.client)

    outcome = await decide(served.client, action, APPROVE, decided_by="ops")

    assert (status(outcome), outcome.turn_id) == ("SETTLED", action.turn_id)
    assert await undecided(served.client, action.session_id) == []
    worker = await attach(served.client, "get_weather")
    call = (await soon(worker.read())).call
    assert (call.call_id, call.attempt) == (action.call_id, 1)
    await served.client.submit(action.session_id, result_for(action, output="18"))
    events = await served.client.rest(action.session_id)
    (decided,) = told(events, "approval_decided")
    assert (decided.decision.verdict, decided.decision.decided_by) == (APPROVE, "ops")
    assert not decided.HasField("error")
    assert told(events, "turn_completed")[0].turn.output == "18 °C."


@pytest.mark.parametrize(("message", "words"), [("Not on a Sunday.", "Not on a Sunday."), ("", "not approved")])
async def test_a_rejected_call_is_told_to_the_model(serve: Serve, message: str, words: str) -> None:
    """In the words of who rejected it, or in the default ones; nobody is asked to execute it."""
    served = await serve(calls(KYOTO), say("Then not."))
    await attach(served.client, "get_weather")
    action = await waiting(served.client)

    outcome = await decide(served.client, action, REJECT, message=message)

    assert status(outcome) == "SETTLED"
    await served.client.rest(action.session_id)
    (output,) = [item for item in served.model.input_of(1) if item.get("type") == "function_call_output"]
    assert words in output["output"]
    (item,) = [i for i in await served.client.items(action.session_id) if i.HasField("function_call_output")]
    assert item.function_call_output.settlement == item_pb2.SETTLEMENT_REJECTED
    assert words in text_of(item)


async def test_a_decision_is_taken_before_the_cancel_of_its_batch(serve: Serve) -> None:
    """Whatever stands first in the batch: what was allowed is in the log."""
    served = await serve(calls(KYOTO))
    action = await waiting(served.client)
    cancel = {"cancel": {"turn_id": action.turn_id}}

    answer = await served.client.submit(action.session_id, cancel, decision(action, APPROVE))
    events = await served.client.rest(action.session_id)

    assert [status(outcome) for outcome in answer.outcomes] == ["CANCELLING", "SETTLED"]
    found = [kind for kind in kinds(events) if kind in ("approval_decided", "cancel_requested", "turn_cancelled")]
    assert found == ["approval_decided", "cancel_requested", "turn_cancelled"]


async def test_a_decision_survives_the_server(serve: Serve) -> None:
    """What waits for it, and what was decided."""
    served = await serve(calls(KYOTO))
    action = await waiting(served.client)

    served = await serve(say("18 °C."))
    assert await undecided(served.client, action.session_id) == [action]
    await decide(served.client, action, REJECT)
    events = await served.client.rest(action.session_id)

    assert told(events, "turn_completed")[0].turn.output == "18 °C."


# -- decisions that hold for later calls ---------------------------------------------------------


async def test_always_holds_for_the_rest_of_the_turn(serve: Serve) -> None:
    """The same function by the same agent is not asked about again, with whatever arguments; the next turn is."""
    served = await serve(calls(KYOTO), calls(NARA), say("Both."), calls(KYOTO))
    session = await served.client.session(agent=guarded("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(session.session_id, "Go.")
    await served.client.rest(session.session_id)
    (action,) = await undecided(served.client, session.session_id)

    await decide(served.client, action, APPROVE, always=True)
    await served.client.submit(session.session_id, result_for(action, output="18"))
    await served.client.rest(session.session_id)
    (second,) = (await served.client.get(session.session_id)).required_actions

    assert second.state == event_pb2.REQUIRED_ACTION_STATE_UNSERVED
    await served.client.submit(session.session_id, result_for(second, output="19"))
    await served.client.rest(session.session_id)
    await served.client.submit(session.session_id, "Again.")
    await served.client.rest(session.session_id)
    assert len(await undecided(served.client, session.session_id)) == 1


async def test_always_in_the_session_holds_for_later_turns(serve: Serve) -> None:
    """Also over a restart; a rejection says what it said the first time."""
    served = await serve(calls(KYOTO), say("No."))
    session = await served.client.session(agent=guarded("get_weather"))
    await served.client.submit(session.session_id, "Go.")
    await served.client.rest(session.session_id)
    (action,) = await undecided(served.client, session.session_id)
    await decide(served.client, action, REJECT, always_in_session=True, message="Never.")
    await served.client.rest(session.session_id)

    other = {**calls(NARA).items[0], "call_id": "model_call_of_the_other_turn"}  # its model counts anew
    served = await serve(Reply(items=(other,)), say("No again."))
    await served.client.submit(session.session_id, "Again.")
    events = await served.client.rest(session.session_id)

    assert [one.turn.output for one in told(events, "turn_completed")] == ["No.", "No again."]
    outputs = [item for item in served.model.input_of(1) if item.get("type") == "function_call_output"]
    assert [item["output"] for item in outputs] == ["Never.", "Never."]


# -- decisions that do not count -----------------------------------------------------------------


@pytest.mark.parametrize("first", [APPROVE, REJECT])
async def test_the_first_decision_holds(serve: Serve, first: event_pb2.Verdict.ValueType) -> None:
    """The same one again changes nothing, another one is told what holds; while it goes on and when it is over."""
    served = await serve(calls(KYOTO), say("Done."))
    action = await waiting(served.client)
    other = REJECT if first == APPROVE else APPROVE
    await decide(served.client, action, first, decided_by="ops")

    for over in (False, True):
        if over:
            await served.client.submit(action.session_id, result_for(action, output="18"))
            await served.client.rest(action.session_id)
        again = await decide(served.client, action, first)
        against = await decide(served.client, action, other)

        assert (status(again), again.turn_id) == ("DUPLICATE", action.turn_id)
        assert (status(against), reason(against)) == ("DISCARDED", "DECISION_CONFLICT")
        assert against.error.metadata["decision"] == ("APPROVE" if first == APPROVE else "REJECT")
        assert "ops" in against.error.message
    assert len(told(await served.client.events(action.session_id), "approval_decided")) == 1


async def test_of_many_decisions_at_once_one_holds(serve: Serve) -> None:
    """Each caller is told whether it was theirs."""
    served = await serve(calls(KYOTO), say("Done."))
    action = await waiting(served.client)
    verdicts = [APPROVE, REJECT] * 4

    outcomes = await asyncio.gather(*(decide(served.client, action, verdict) for verdict in verdicts))

    found = [status(outcome) for outcome in outcomes]
    assert sorted(set(found)) == ["DISCARDED", "DUPLICATE", "SETTLED"]
    assert (found.count("SETTLED"), found.count("DUPLICATE"), found.count("DISCARDED")) == (1, 3, 4)
    holds = verdicts[found.index("SETTLED")]
    assert {found[n] for n, verdict in enumerate(verdicts) if verdict != holds} == {"DISCARDED"}
    await served.client.cancel(action.session_id, action.turn_id)
    events = await served.client.rest(action.session_id)
    assert [one.decision.verdict for one in told(events, "approval_decided")] == [holds]


async def test_a_batch_decides_once_about_a_call(serve: Serve) -> None:
    """The second decision of a batch is judged against the first."""
    served = await serve(calls(KYOTO), say("Done."))
    action = await waiting(served.client)
    inputs = [decision(action, verdict) for verdict in (REJECT, REJECT, APPROVE)]

    answer = await served.client.submit(action.session_id, *inputs)

    assert [status(outcome) for outcome in answer.outcomes] == ["SETTLED", "DUPLICATE", "DISCARDED"]
    assert reason(answer.outcomes[2]) == "DECISION_CONFLICT"


async def test_a_result_that_came_first_leaves_nothing_to_decide(serve: Serve) -> None:
    """Who knows the result need not allow the call."""
    served = await serve(calls(KYOTO), say("Done."))
    action = await waiting(served.client)

    settled = await served.client.submit(action.session_id, result_for(action, output="18"), decision(action, APPROVE))
    await served.client.rest(action.session_id)
    late = await decide(served.client, action, REJECT)

    assert [status(outcome) for outcome in settled.outcomes] == ["SETTLED", "DISCARDED"]
    assert (status(late), reason(late)) == ("DISCARDED", "CALL_SETTLED")
    assert told(await served.client.events(action.session_id), "approval_decided") == []


@pytest.mark.parametrize("field", ["arguments_digest", "definition_digest"])
async def test_a_decision_about_something_else_refuses_the_whole_batch(serve: Serve, field: str) -> None:
    """Who decided saw other arguments, or another function; nothing of the batch is taken, and it says which."""
    served = await serve(calls(KYOTO), say("Done."))
    action = await waiting(served.client)
    stale = decision(action, APPROVE, **{field: "0" * 64})

    refusal = await refused(served.client.submit(action.session_id, "Hello?", stale))

    now = getattr(action.approval, field)
    assert (refusal.reason, refusal.metadata) == ("APPROVAL_STALE", {"call_id": action.call_id, field: now})
    assert await undecided(served.client, action.session_id) == [action]
    seen = {
        "arguments_digest": action.approval.arguments_digest,
        "definition_digest": action.approval.definition_digest,
    }
    assert status(await decide(served.client, action, APPROVE, **seen)) == "SETTLED"


async def test_a_call_that_was_never_asked_about_cannot_be_decided(serve: Serve) -> None:
    """While it is open and when it is settled; the batch is refused, since its author meant something else."""
    served = await serve(calls(KYOTO), say("Done."))
    answer = await served.client.run(agent=helper("get_weather"))
    (action,) = answer.required_actions

    opened = await refused(served.client.submit(action.session_id, decision(action, APPROVE)))
    await served.client.submit(action.session_id, result_for(action, output="18"))
    await served.client.rest(action.session_id)
    settled = await refused(served.client.submit(action.session_id, decision(action, APPROVE)))

    assert (opened.reason, opened.metadata["state"]) == ("CALL_STATE", "QUEUED")
    assert (settled.reason, settled.metadata["state"]) == ("CALL_STATE", "SETTLED")


async def test_a_call_that_is_not_there_cannot_be_decided(serve: Serve) -> None:
    """Nor one of another turn."""
    served = await serve(calls(KYOTO))
    action = await waiting(served.client)
    unknown = {"decision": {"turn_id": action.turn_id, "call_id": "call_x", "verdict": APPROVE}}
    elsewhere = decision(action, APPROVE, turn_id="turn_x")

    for given in (unknown, elsewhere):
        assert (await refused(served.client.submit(action.session_id, given))).reason == "CALL_NOT_FOUND"


# -- messages meanwhile --------------------------------------------------------------------------


async def test_a_message_that_does_not_wait_is_told_what_is_waited_for(serve: Serve) -> None:
    """Of a session and of a run: a person is waited for, and not a model."""
    served = await serve(calls(KYOTO, NARA))
    session = await served.client.session(agent=guarded("get_weather"))
    await served.client.submit(session.session_id, "Go.")
    await served.client.rest(session.session_id)
    first, second = await undecided(served.client, session.session_id)

    submitted = await refused(served.client.submit(session.session_id, "Hello?", if_busy=pb.IF_BUSY_REJECT))
    run = await refused(served.client.run(session_id=session.session_id, if_busy=pb.IF_BUSY_REJECT))
    both = [decision(action, APPROVE) for action in (first, second)]
    decided = await refused(served.client.submit(session.session_id, "Hi.", *both, if_busy=pb.IF_BUSY_REJECT))

    ids = f"{first.call_id},{second.call_id}"
    assert {submitted.reason, run.reason} == {"AWAITING_DECISION"}
    assert submitted.metadata == run.metadata == {"turn_id": first.turn_id, "call_ids": ids}
    assert decided.reason == "SESSION_BUSY"
    assert len(await undecided(served.client, session.session_id)) == 2


async def test_a_decision_that_is_sent_again_gets_the_first_answer(serve: Serve) -> None:
    """By its request_id, over a restart."""
    served = await serve(calls(KYOTO))
    action = await waiting(served.client)
    request_id = fresh()
    first = await served.client.submit(action.session_id, decision(action, REJECT), request_id=request_id)

    served = await serve(say("Done."))
    again = await served.client.submit(action.session_id, decision(action, REJECT), request_id=request_id)

    assert again == first


# -- nobody decides ------------------------------------------------------------------------------


async def test_a_call_that_nobody_decides_about_is_rejected_by_itself(stage: Stage) -> None:
    """Once its time is up; the turn goes on, and a decision comes too late."""
    turn = await stage.turn([("f", "{}")], tools=[_expiring("f", 60)])
    await turn.waiting()
    (action,) = await turn.actions()
    assert action.expires_at.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 60, abs=1)

    stage.pass_time(61)
    events = await turn.completed()
    late = await decide(stage.client, action, APPROVE)

    (decided,) = told(events, "approval_decided")
    assert decided.decision.verdict == REJECT and decided.decision.decided_by == ""
    assert decided.error.metadata["call_id"] == action.call_id
    assert (status(late), reason(late)) == ("DISCARDED", "DECISION_CONFLICT")
    assert "nobody decided in time" in late.error.message


async def test_the_time_for_a_decision_goes_on_while_the_server_is_away(stage: Stage) -> None:
    """It stands on disk; one that passed meanwhile is rejected at once."""
    turn = await stage.turn([("f", "{}")], tools=[_expiring("f", 60)])
    await turn.waiting()
    at = stage.clock.wall()
    await stage.restart()
    stage.clock.advance(at + 61 - stage.clock.wall())

    stage.pass_time(0)

    (decided,) = told(await stage.again(turn).until("approval_decided"), "approval_decided")
    assert decided.HasField("error")


def _expiring(name: str, seconds: int) -> dict[str, Any]:
    """Make a tool whose calls are rejected if nobody decides in time."""
    approval = {"always": True, "expires": {"seconds": seconds}}
    return {"function": {"name": name, "parameters_json": '{"type":"object"}', "needs_approval": approval}}
