"""Functions that take too long: the time runs from the first ack, and what follows is the agent's to say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import ScriptedWorker, acked, held
from tests.support.stage import ANY_OBJECT, Stage, Turn, eventually

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2

TIMEOUT = handler_pb2.CANCEL_REASON_TIMEOUT


def tools(timeout_s: int = 60, **said: Any) -> list[dict[str, Any]]:
    """Give an agent a function with a timeout."""
    execution = {"timeout": {"seconds": timeout_s}, **said.pop("execution", {})}
    return [{"function": {"name": "f", "parameters_json": ANY_OBJECT, "execution": execution, **said}}]


async def keep_alive(stage: Stage, worker: ScriptedWorker, seconds: int) -> None:
    """Let time pass with a heartbeat now and then."""
    for _ in range(seconds // 5):
        stage.pass_time(5)
        await worker.send(heartbeat={})
        await worker.nothing()


async def timed_out(turn: Turn) -> item_pb2.FunctionCallOutput:
    """Wait for the end of the turn, whose one call must have timed out."""
    await turn.ended()
    (output,) = await turn.outputs()
    assert output.settlement == item_pb2.SETTLEMENT_TIMEOUT
    assert output.error.reason == error_pb2.ERROR_REASON_TOOL_TIMEOUT
    return output


async def test_a_function_that_takes_too_long_is_stopped_and_the_model_is_told(stage: Stage) -> None:
    """With the agent's words; the worker's late result is discarded."""
    worker = await stage.worker("f")
    turn = await stage.call("f", tools=tools(on_timeout={"text": "The station does not answer."}))
    call = await worker.expect("call")
    assert call.deadline.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 60, abs=0.1)
    await worker.ack(call)
    await worker.nothing()
    await keep_alive(stage, worker, 55)

    stage.pass_time(6)

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.attempt, cancel.reason) == (call.call_id, 1, TIMEOUT)
    assert (await timed_out(turn)).output[0].text == "The station does not answer."
    await worker.settle(call, output="late")
    ack = await worker.expect("result_ack")
    assert (ack.verdict, ack.error.reason) == (
        handler_pb2.RESULT_VERDICT_DISCARDED,
        error_pb2.ERROR_REASON_CALL_SETTLED,
    )


async def test_the_turn_may_fail_over_it(stage: Stage) -> None:
    """Where the agent says so."""
    worker = await stage.worker("f")
    turn = await stage.call("f", tools=tools(on_timeout={"fail_turn": True}))
    await acked(worker)

    await keep_alive_until_cancelled(stage, worker)

    events = await turn.ended()
    assert kinds(events)[-1] == "turn_failed"
    assert events[-1].turn_failed.turn.error.reason == error_pb2.ERROR_REASON_TOOL_TIMEOUT


async def keep_alive_until_cancelled(stage: Stage, worker: ScriptedWorker) -> None:
    """Let a minute pass, at the end of which the worker is told to stop."""
    await keep_alive(stage, worker, 55)
    stage.pass_time(6)
    assert (await worker.expect("cancel")).reason == TIMEOUT


async def test_the_time_does_not_run_while_the_call_waits(stage: Stage) -> None:
    """Nor before its ack; a call that nobody serves for an hour has all of its time."""
    turn = await stage.call("f", tools=tools(60))
    await turn.waiting()
    stage.pass_time(3600)
    worker = await stage.worker("f")

    call = await acked(worker)
    await keep_alive(stage, worker, 50)

    await worker.finish(call)
    await turn.completed()


async def test_the_time_runs_over_all_attempts(stage: Stage) -> None:
    """The next worker is told when it ends, and has what is left."""
    first = await stage.worker("f")
    turn = await stage.call("f", tools=tools(60))
    call = await acked(first)
    await keep_alive(stage, first, 40)
    second = await stage.worker("f")
    await first.send(nack={"call_id": call.call_id, "attempt": 1})

    again = await acked(second)

    assert again.deadline.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 20, abs=0.1)
    await keep_alive(stage, second, 15)
    stage.pass_time(6)
    assert (await second.expect("cancel")).reason == TIMEOUT
    await timed_out(turn)


async def test_the_time_runs_on_over_a_restart(stage: Stage) -> None:
    """The deadline is on disk within a second of the ack."""
    worker = await stage.worker("f")
    turn = await stage.call("f", tools=tools(60))
    call = await acked(worker)
    stage.pass_time(1)
    await eventually(lambda: any(batch.deadlines for batch in stage.store.committed))
    deadline = next(batch.deadlines[0].at for batch in stage.store.committed if batch.deadlines)
    await stage.restart()
    back = await stage.back(worker, "f", held=held(call))
    await back.nothing()

    left = deadline - stage.clock.wall()
    await keep_alive(stage, back, int(left) // 5 * 5)
    stage.pass_time(6)

    assert (await back.expect("cancel")).reason == TIMEOUT
    await timed_out(stage.again(turn))


async def test_a_handler_may_say_the_time_where_the_agent_does_not(stage: Stage) -> None:
    """It is taken from whoever serves the function when the turn is accepted."""
    worker = await stage.worker(handlers=[{"name": "f", "execution": {"timeout": {"seconds": 60}}}])
    turn = await stage.call("f")
    await acked(worker)

    await keep_alive_until_cancelled(stage, worker)

    await timed_out(turn)


async def test_a_timeout_under_ask_settles_a_call_of_unknown_effect(stage: Stage) -> None:
    """Nobody need find out any more what became of it."""
    worker = await stage.worker("f")
    ask = {"execution": {"lost_worker": 2}}
    turn = await stage.call("f", tools=tools(60, **ask))
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await turn.until("effect_unknown")

    stage.pass_time(50)

    await timed_out(turn)
    lost = [event.attempt_lost.next for event in await turn.ended() if event.HasField("attempt_lost")]
    assert lost == [event_pb2.AFTER_LOSS_EFFECT_UNKNOWN]
