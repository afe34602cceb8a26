"""Asks a server why a call does not run."""

from __future__ import annotations

import pytest
from tests.api.calling import soon
from tests.support.stage import Stage, Turn

from baton.v1 import handler_pb2, item_pb2


async def explain(stage: Stage, call_id: str) -> handler_pb2.ExplainCallResponse:
    """Ask about a call."""
    return await soon(stage.client.handlers.ExplainCall(handler_pb2.ExplainCallRequest(call_id=call_id)))


async def causes(stage: Stage, call_id: str) -> list[handler_pb2.Cause]:
    """Ask why an open call does not run."""
    told = await explain(stage, call_id)
    assert (told.required_action.call_id, told.settlement) == (call_id, item_pb2.SETTLEMENT_UNSPECIFIED)
    return list(told.causes)


async def cause(stage: Stage, call_id: str, kind: str, *words: str) -> handler_pb2.Cause:
    """Ask why, for which there must be one cause of this kind, whose text holds these words."""
    found = await causes(stage, call_id)
    assert [handler_pb2.CauseKind.Name(one.kind) for one in found] == [f"CAUSE_KIND_{kind}"], found
    for word in words:
        assert word in found[0].text, found[0].text
    return found[0]


async def opened(turn: Turn) -> str:
    """Wait until a turn waits for its one call; returns its id."""
    await turn.waiting()
    (action,) = await turn.actions()
    return action.call_id


def at(stage: Stage, seconds: float) -> object:
    """Say when something is, in seconds from now by the stage's clock."""
    return pytest.approx(stage.clock.wall() + seconds, abs=0.05)


def until(one: handler_pb2.Cause) -> float:
    """Read when a cause ends by itself."""
    assert one.HasField("until")
    return one.until.ToMicroseconds() / 1e6
