"""Calls that must be settled by a moment, whoever has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.scripted_worker import acked
from tests.support.stage import ANY_OBJECT, Stage, Turn

from baton.v1 import error_pb2, handler_pb2, item_pb2


def tools(expires_s: int = 100, **execution: Any) -> list[dict[str, Any]]:
    """Give an agent a function whose calls expire."""
    given = {"expires": {"seconds": expires_s}, **execution}
    return [{"function": {"name": "f", "parameters_json": ANY_OBJECT, "execution": given}}]


async def expired(turn: Turn) -> None:
    """Wait for the end of the turn, whose one call must have expired."""
    await turn.completed()
    (output,) = await turn.outputs()
    assert output.settlement == item_pb2.SETTLEMENT_EXPIRED
    assert output.error.reason == error_pb2.ERROR_REASON_CALL_EXPIRED


async def test_a_call_that_nobody_serves_expires(stage: Stage) -> None:
    """The required action says when, so that people can see it."""
    turn = await stage.call("f", tools=tools(100))
    await turn.waiting()
    (action,) = await turn.actions()
    assert action.expires_at.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 100, abs=1)
    stage.pass_time(99)
    assert len(await turn.actions()) == 1

    stage.pass_time(2)

    await expired(turn)


async def test_a_call_that_a_worker_has_expires_too(stage: Stage) -> None:
    """The worker is told to stop."""
    worker = await stage.worker("f")
    turn = await stage.call("f", tools=tools(20))
    call = await acked(worker)

    stage.pass_time(21)

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.reason) == (call.call_id, handler_pb2.CANCEL_REASON_EXPIRED)
    await expired(turn)


async def test_a_question_that_nobody_answers_expires(stage: Stage) -> None:
    """An unknown effect does not hold up a turn for ever."""
    worker = await stage.worker("f")
    turn = await stage.call("f", tools=tools(100, lost_worker=2))
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await turn.until("effect_unknown")

    stage.pass_time(90)

    await expired(turn)


async def test_an_expiry_goes_on_over_a_restart(stage: Stage) -> None:
    """The moment is in the row of the call."""
    turn = await stage.call("f", tools=tools(100))
    await turn.waiting()
    await stage.restart()
    stage.pass_time(95)
    assert len(await stage.again(turn).actions()) == 1

    stage.pass_time(6)

    await expired(stage.again(turn))
