"""Checks: a handler is asked what a lost attempt did, before anything follows from the loss."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.calling import told
from tests.support.scripted_worker import ScriptedWorker, acked
from tests.support.stage import Stage, Turn

from baton.v1 import event_pb2, handler_pb2

CHECK = {"name": "f", "kind": event_pb2.HANDLER_KIND_EFFECT_CHECK}


def function(*, once: bool) -> dict[str, Any]:
    """Declare f."""
    effects = handler_pb2.SIDE_EFFECTS_ONCE if once else handler_pb2.SIDE_EFFECTS_IDEMPOTENT
    return {"name": "f", "execution": {"side_effects": effects}}


async def lost(stage: Stage, *, once: bool = False) -> tuple[ScriptedWorker, Turn, handler_pb2.HookBatch]:
    """Lose the worker of a call while another one serves its check; returns the one that is asked, and the question."""
    worker = await stage.worker(handlers=[function(once=once)])
    turn = await stage.call("f", '{"order":7}')
    call = await acked(worker)
    checker = await stage.worker(handlers=[function(once=once), CHECK])
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    batch = await checker.expect("hook_batch")
    (hook,) = batch.hooks
    assert json.loads(hook.payload_json) == {
        "idempotency_key": call.call_id,
        "call_id": call.call_id,
        "tool": "f",
        "arguments_json": '{"order":7}',
        "attempt": 1,
    }
    return checker, turn, batch


async def answer(checker: ScriptedWorker, batch: handler_pb2.HookBatch, **said: Any) -> None:
    """Say what the attempt did."""
    (hook,) = batch.hooks
    given = {"hook_id": hook.hook_id, "attempt": hook.attempt, "answer_json": json.dumps(said)}
    await checker.send(hook_answers={"batch_id": batch.batch_id, "answers": [given]})


@pytest.mark.parametrize("once", [False, True])
async def test_without_effect_the_call_is_delivered_again(stage: Stage, once: bool) -> None:
    """Also where it must not run twice: it has not run."""
    checker, turn, batch = await lost(stage, once=once)
    await checker.nothing()

    await answer(checker, batch, effect="none")

    again = await checker.expect("call")
    assert (again.attempt, again.may_have_run) == (2, True)
    await checker.finish(again)
    (event,) = told(await turn.completed(), "attempt_lost")
    assert event.next == event_pb2.AFTER_LOSS_CHECKED


async def test_an_effect_with_its_output_settles_the_call(stage: Stage) -> None:
    """Nobody executes it again."""
    checker, turn, batch = await lost(stage)

    await answer(checker, batch, effect="took_effect", output="booked: 42")

    await turn.completed()
    await checker.nothing()
    (output,) = await turn.outputs()
    assert output.output[0].text == "booked: 42"


@pytest.mark.parametrize("once", [False, True])
async def test_a_check_that_does_not_know_leaves_it_to_what_a_lost_worker_means(stage: Stage, once: bool) -> None:
    """A call that is harmless twice is delivered again; about the other somebody is asked."""
    checker, turn, batch = await lost(stage, once=once)

    await answer(checker, batch, effect="unknown")

    if once:
        await turn.until("effect_unknown")
        await checker.nothing()
        assert await turn.state() == "EFFECT_UNKNOWN"
    else:
        await checker.finish(await checker.expect("call"))
        await turn.completed()


async def test_a_check_is_asked_again_after_a_restart(stage: Stage) -> None:
    """That it was asked stands in the log; what it would have answered does not."""
    _, turn, _ = await lost(stage)
    await stage.restart()

    checker = await stage.worker(handlers=[function(once=False), CHECK])

    batch = await checker.expect("hook_batch")
    await answer(checker, batch, effect="none")
    await checker.finish(await checker.expect("call"))
    await stage.again(turn).completed()
