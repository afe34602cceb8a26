"""Why a call does not run that its turn keeps back."""

from __future__ import annotations

import pytest
from tests.api.approvals import APPROVE, decide
from tests.api.explaining import cause, opened, until
from tests.support.scripted_worker import acked
from tests.support.stage import ANY_OBJECT, Stage

from baton.v1 import event_pb2


async def test_somebody_must_allow_it(stage: Stage) -> None:
    """And until when; afterwards it is a call like any other."""
    approval = {"always": True, "expires": {"seconds": 600}}
    tool = {"function": {"name": "f", "parameters_json": ANY_OBJECT, "needs_approval": approval}}
    turn = await stage.turn([("f", "{}")], tools=[tool])
    call_id = await opened(turn)

    told = await cause(stage, call_id, "AWAITING_DECISION", "allow 'f'", "send a decision", "by itself in 10 min")

    assert until(told) == pytest.approx(stage.clock.wall() + 600, abs=1)
    (action,) = await turn.actions()
    await decide(stage.client, action, APPROVE)
    await turn.until("approval_decided")
    await cause(stage, call_id, "NO_WORKER")


async def test_its_turn_runs_no_more_functions_at_once(stage: Stage) -> None:
    """The second one says so, and goes on once the first is settled."""
    worker = await stage.worker("f")
    text, asked = stage.script([("f", '{"n":1}'), ("f", '{"n":2}')])
    config = {"tool_execution": {"max_function_concurrency": 1}}
    session = await stage.client.session(agent=asked, run_config=config)
    await stage.client.submit(session.session_id, text)
    first = await acked(worker)
    held = next(action for action in await actions(stage, session.session_id) if action.call_id != first.call_id)

    await cause(stage, held.call_id, "HELD", "lets 1 function run at once, and 1 call of it goes on")

    assert held.state == event_pb2.REQUIRED_ACTION_STATE_QUEUED
    await worker.finish(first)
    assert (await worker.expect("call")).call_id == held.call_id


async def test_a_hook_about_it_is_asked(stage: Stage) -> None:
    """Nobody hands it out before the guardrail has answered."""
    guardrail = {"name": "places", "hook": {"name": "judge", "timeout": {"seconds": 600}}}
    tool = {"function": {"name": "f", "parameters_json": ANY_OBJECT, "input_guardrails": [guardrail]}}
    worker = await stage.worker(handlers=[{"name": "judge", "kind": event_pb2.HANDLER_KIND_TOOL_INPUT_GUARDRAIL}])
    turn = await stage.turn([("f", "{}")], tools=[tool])
    await worker.expect("hook_batch")
    (action,) = await turn.actions()

    await cause(stage, action.call_id, "HELD", "until a hook about it is answered")


async def actions(stage: Stage, session_id: str) -> list[event_pb2.RequiredAction]:
    """List what is open in a session."""
    return list((await stage.client.get(session_id)).required_actions)
