"""Functions that are harmful twice: what may have run is asked about, and never run again by itself."""

from __future__ import annotations

import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import ScriptedWorker, acked, held
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import event_pb2, handler_pb2

ONCE = [{"name": "f", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]
LEASE_LOST = handler_pb2.CANCEL_REASON_LEASE_LOST


async def out(stage: Stage, *, ack: bool = True) -> tuple[ScriptedWorker, Turn, handler_pb2.Call]:
    """Bring a call to a worker whose function is harmful twice."""
    worker = await stage.worker(handlers=ONCE)
    turn = await stage.call("f")
    return worker, turn, await acked(worker) if ack else await worker.expect("call")


async def asked_about(turn: Turn, call: handler_pb2.Call) -> None:
    """Make sure that somebody is asked what became of an attempt, and that nobody has it."""
    events = await turn.until("effect_unknown")
    (lost,) = [event.attempt_lost for event in events if event.HasField("attempt_lost")]
    assert (lost.call_id, lost.attempt, lost.next) == (call.call_id, call.attempt, event_pb2.AFTER_LOSS_EFFECT_UNKNOWN)
    assert await turn.state() == "EFFECT_UNKNOWN"


async def test_a_lost_worker_leaves_a_question(stage: Stage) -> None:
    """Whoever else serves the function does not get the call; an answer from outside settles it."""
    worker, turn, call = await out(stage)
    other = await stage.worker(handlers=ONCE)
    await stage.break_off(worker, call.call_id)

    stage.pass_time(11)

    await asked_about(turn, call)
    await other.nothing()
    await turn.settle(call.call_id, output="it had taken effect")
    await turn.completed()


async def test_a_server_that_died_leaves_a_question(stage: Stage) -> None:
    """What was leased may have run."""
    _, turn, call = await out(stage)
    await stage.restart()

    stage.pass_time(11)

    await asked_about(stage.again(turn), call)


async def test_a_worker_that_comes_back_and_has_not_begun_frees_it(stage: Stage) -> None:
    """It does not name it, and gets it again."""
    worker, turn, call = await out(stage, ack=False)
    await stage.break_off(worker, call.call_id)

    back = await stage.back(worker, handlers=ONCE)

    again = await back.expect("call")
    assert (again.attempt, again.may_have_run) == (2, False)
    await back.finish(again)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_a_new_process_leaves_a_question(stage: Stage) -> None:
    """Nobody can say how far the former one got."""
    former = await stage.worker(handlers=ONCE, instance_id="pod")
    turn = await stage.call("f")
    call = await acked(former)

    new = await stage.worker(handlers=ONCE, instance_id="pod")

    await asked_about(turn, call)
    await new.nothing()


async def test_a_nack_leaves_a_question_unless_it_has_not_begun(stage: Stage) -> None:
    """The worker says which."""
    worker, turn, call = await out(stage)
    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "not_begun": True})
    again = await worker.expect("call")
    assert (again.attempt, again.may_have_run) == (2, False)

    await worker.send(nack={"call_id": call.call_id, "attempt": 2})

    await asked_about(turn, again)


async def never_acked(stage: Stage) -> tuple[ScriptedWorker, Turn, handler_pb2.Call]:
    """Let the ack of a call be overdue."""
    worker, turn, call = await out(stage, ack=False)
    await stage.never_acked(call.call_id)
    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.attempt, cancel.reason) == (call.call_id, 1, LEASE_LOST)
    assert cancel.grace.ToTimedelta().total_seconds() == 5
    return worker, turn, call


async def test_one_that_is_not_acked_is_free_only_if_its_worker_has_not_begun(stage: Stage) -> None:
    """Nobody else gets it before its worker has said so."""
    worker, turn, call = await never_acked(stage)
    other = await stage.worker(handlers=ONCE)
    await other.nothing()

    outcome = handler_pb2.CANCEL_OUTCOME_NOT_BEGUN
    await worker.send(cancel_ack={"call_id": call.call_id, "attempt": 1, "outcome": outcome})

    again = await other.expect("call")
    assert (again.attempt, again.may_have_run) == (2, False)
    await other.finish(again)
    assert "attempt_lost" not in kinds(await turn.completed())


@pytest.mark.parametrize("outcome", [handler_pb2.CANCEL_OUTCOME_STOPPED, None])
async def test_one_that_is_not_acked_and_may_have_begun_leaves_a_question(
    stage: Stage, outcome: handler_pb2.CancelOutcome.ValueType | None
) -> None:
    """Its worker stopped it midway, or says nothing within the grace."""
    worker, turn, call = await never_acked(stage)

    if outcome is None:
        stage.pass_time(6)
    else:
        await worker.send(cancel_ack={"call_id": call.call_id, "attempt": 1, "outcome": outcome})

    await asked_about(turn, call)


async def test_a_result_of_one_that_was_not_acked_counts(stage: Stage) -> None:
    """Only the ack was late."""
    worker, turn, call = await never_acked(stage)

    await worker.finish(call)

    await turn.completed()


@pytest.mark.slow
async def test_what_was_never_written_is_free(stage: Stage) -> None:
    """A call that waits behind a worker that does not read goes to another one, and is withdrawn from the first."""
    lazy = stage.stream(reading=False)
    await lazy.send(hello={"handlers": ONCE, "credit": {"messages": 1000}})
    turn = await stage.turn([("f", f'{{"n":{n},"text":"{"x" * 160_000}"}}') for n in range(100)])
    await turn.waiting()
    leases = stage.baton.dispatcher.leases
    await eventually(lambda: any(lease.written_at is not None for _, lease in leases))
    waiting = sum(not lease.sent for _, lease in leases)
    assert waiting > 10
    stage.pass_time(29)
    await lazy.send(heartbeat={})
    await eventually(lambda: all(lease.worker.heard_at > 1028 for _, lease in leases if lease.worker is not None))
    reader = await stage.worker(handlers=ONCE, credit=100)

    stage.pass_time(2)

    calls = await reader.expect_all("call", waiting)
    assert {(call.attempt, call.may_have_run) for call in calls} == {(2, False)}
    assert len(await turn.told("effect_unknown")) <= 100 - waiting


async def test_a_redelivery_from_outside_goes_on(stage: Stage) -> None:
    """Somebody found out that it took no effect, or takes the risk; the handler is told that it may have run."""
    worker, turn, call = await out(stage)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await asked_about(turn, call)
    other = await stage.worker(handlers=ONCE)

    await stage.client.submit(
        turn.session_id, {"redelivery": {"turn_id": turn.turn_id, "call_id": call.call_id, "decided_by": "Ann"}}
    )

    again = await other.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    await other.finish(again)
    (decided,) = [event.effect_decided for event in await turn.completed() if event.HasField("effect_decided")]
    assert decided.decided_by == "Ann"


async def test_a_late_result_of_the_very_attempt_settles_it(stage: Stage) -> None:
    """The worker was away for longer than its grace, and comes back with what everyone waits for."""
    worker, turn, call = await out(stage)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await asked_about(turn, call)

    back = await stage.back(worker, handlers=ONCE, held=held(call, finished=True))

    assert [verdict.verdict for verdict in back.welcome.attempts] == [handler_pb2.HELD_VERDICT_CONTINUE]
    ack = await back.finish(call, output="done once")
    assert ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE
    events = await turn.completed()
    (output,) = [
        event.item_added.item.function_call_output
        for event in events
        if event.item_added.item.HasField("function_call_output")
    ]
    assert (output.output[0].text, output.attempt) == ("done once", call.attempt)
    assert "result_discarded" not in kinds(events)
