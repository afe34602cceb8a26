"""Agents whose functions must be allowed, and decisions about their calls, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.api.calling import WEATHER, Client

from baton.v1 import agent_pb2, error_pb2, event_pb2, session_pb2

KYOTO, NARA = ("get_weather", '{"city":"Kyoto"}'), ("get_weather", '{"city":"Nara"}')
APPROVE, REJECT = event_pb2.VERDICT_APPROVE, event_pb2.VERDICT_REJECT


def guarded(*names: str, free: Sequence[str] = (), **approval: Any) -> agent_pb2.Agent:
    """Make an agent whose functions of these names must be allowed. `free`: functions that need not be."""
    rule = {"always": True, **approval}
    tools = [{"function": {"name": name, "parameters_json": WEATHER, "needs_approval": rule}} for name in names]
    tools += [{"function": {"name": name, "parameters_json": WEATHER}} for name in free]
    return agent_pb2.Agent(name="Helper", tools=tools)


def decision(action: event_pb2.RequiredAction, verdict: event_pb2.Verdict.ValueType, **fields: Any) -> dict[str, Any]:
    """Make the input that decides about a required action."""
    return {"decision": {"turn_id": action.turn_id, "call_id": action.call_id, "verdict": verdict, **fields}}


async def decide(
    client: Client, action: event_pb2.RequiredAction, verdict: event_pb2.Verdict.ValueType, **fields: Any
) -> session_pb2.InputOutcome:
    """Decide about a required action; returns what became of that."""
    answer = await client.submit(action.session_id, decision(action, verdict, **fields))
    return answer.outcomes[0]


async def undecided(client: Client, session_id: str) -> list[event_pb2.RequiredAction]:
    """List what of a session waits for a decision."""
    state = event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION
    return [action for action in (await client.get(session_id)).required_actions if action.state == state]


def status(outcome: session_pb2.InputOutcome) -> str:
    """Name what became of an input."""
    return session_pb2.InputStatus.Name(outcome.status).removeprefix("INPUT_STATUS_")


def reason(outcome: session_pb2.InputOutcome) -> str:
    """Name why an input was not taken."""
    return error_pb2.ErrorReason.Name(outcome.error.reason).removeprefix("ERROR_REASON_")
