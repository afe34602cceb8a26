"""Checks of lost attempts that are late, raise, or answer nonsense: they do not know, and the call goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.scripted_worker import ScriptedWorker, acked
from tests.support.stage import Stage, Turn

from baton.v1 import event_pb2, handler_pb2

CHECK = {"name": "f", "kind": event_pb2.HANDLER_KIND_EFFECT_CHECK}
FAULTS: dict[str, dict[str, Any] | None] = {
    "late": None,
    "raised": {"crash": {"type": "KeyError", "text": "?"}},
    "failed": {"failure": "no ledger today"},
    "nonsense": {"answer_json": '{"effect":7}'},
}


async def fail(stage: Stage, checker: ScriptedWorker, fault: str) -> None:
    """Take the question, and give no answer that can be used."""
    batch = await checker.expect("hook_batch")
    said = FAULTS[fault]
    if said is None:
        for seconds in (15, 15.1):
            await checker.nothing()  # it lives, and says so; it is late with its answer alone
            stage.pass_time(seconds)
        stop = await checker.expect("cancel")
        assert stop.reason == handler_pb2.CANCEL_REASON_TIMEOUT
        return
    (hook,) = batch.hooks
    answers = [{"hook_id": hook.hook_id, "attempt": hook.attempt, **said}]
    await checker.send(hook_answers={"batch_id": batch.batch_id, "answers": answers})


async def lost(stage: Stage, *, once: bool) -> tuple[ScriptedWorker, Turn]:
    """Lose the worker of a call; returns who is asked about it."""
    effects = handler_pb2.SIDE_EFFECTS_ONCE if once else handler_pb2.SIDE_EFFECTS_IDEMPOTENT
    function = {"name": "f", "execution": {"side_effects": effects}}
    worker = await stage.worker(handlers=[function])
    turn = await stage.call("f", '{"order":7}')
    call = await acked(worker)
    checker = await stage.worker(handlers=[function, CHECK])
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    return checker, turn


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_call_that_is_harmless_twice_is_delivered_again(stage: Stage, fault: str) -> None:
    """Nobody waits for the check any longer."""
    checker, turn = await lost(stage, once=False)

    await fail(stage, checker, fault)

    again = await checker.expect("call")
    assert (again.attempt, again.may_have_run) == (2, True)
    await checker.finish(again)
    await turn.completed()


@pytest.mark.parametrize("fault", FAULTS)
async def test_about_a_call_that_must_not_run_twice_somebody_is_asked(stage: Stage, fault: str) -> None:
    """It waits for a person, who may settle it."""
    checker, turn = await lost(stage, once=True)

    await fail(stage, checker, fault)

    events = await turn.until("effect_unknown")
    assert await turn.state() == "EFFECT_UNKNOWN"
    (unknown,) = [event.effect_unknown for event in events if event.HasField("effect_unknown")]
    await turn.settle(unknown.call_id, output="booked: 42")
    await turn.completed()
