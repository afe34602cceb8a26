"""Turns that are cancelled while workers hold their calls, and calls that never arrived."""

import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import held
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2


async def only_output(turn: Turn) -> item_pb2.FunctionCallOutput:
    """Look at the one output of a turn."""
    (output,) = await turn.outputs()
    return output


# -- cancel NOW ----------------------------------------------------------------------------------


async def test_a_cancel_asks_the_holder_to_stop_within_the_grace(stage: Stage) -> None:
    """The worker is told why, and how long it has."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await turn.cancel(grace={"seconds": 7})

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.attempt) == (call.call_id, 1)
    assert cancel.reason == handler_pb2.CANCEL_REASON_TURN_ENDED
    assert cancel.grace.ToTimedelta().total_seconds() == pytest.approx(7, abs=0.5)


async def test_a_result_within_the_grace_counts(stage: Stage) -> None:
    """What was done is in the log, though the turn is cancelled."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel()
    await worker.expect("cancel")

    await worker.finish(call, output="done after all")

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    output = await only_output(turn)
    assert (output.settlement, output.output[0].text) == (item_pb2.SETTLEMENT_OUTPUT, "done after all")


@pytest.mark.parametrize("outcome", [handler_pb2.CANCEL_OUTCOME_STOPPED, handler_pb2.CANCEL_OUTCOME_NOT_BEGUN])
async def test_a_worker_that_has_stopped_ends_the_turn_at_once(
    stage: Stage, outcome: handler_pb2.CancelOutcome.ValueType
) -> None:
    """Nobody waits for the grace then, and the worker is not told a second time."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel()
    await worker.expect("cancel")

    await worker.send(cancel_ack={"call_id": call.call_id, "attempt": 1, "outcome": outcome})

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    assert (await only_output(turn)).settlement == item_pb2.SETTLEMENT_CANCELLED
    await worker.nothing()


async def test_a_worker_that_cannot_stop_is_waited_for(stage: Stage) -> None:
    """NOT_STOPPED means that a result may follow; within the grace it counts."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel()
    await worker.expect("cancel")

    outcome = handler_pb2.CANCEL_OUTCOME_NOT_STOPPED
    await worker.send(cancel_ack={"call_id": call.call_id, "attempt": 1, "outcome": outcome})
    await worker.nothing()

    assert len(await turn.actions()) == 1
    await worker.finish(call)
    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    assert (await only_output(turn)).settlement == item_pb2.SETTLEMENT_OUTPUT


async def test_silence_ends_with_the_grace(stage: Stage) -> None:
    """The turn ends without the worker, whose late result is discarded."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.ack(call)
    await turn.cancel(grace={"seconds": 7})
    await worker.expect("cancel")

    stage.pass_time(6)
    assert len(await turn.actions()) == 1
    stage.pass_time(2)

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    assert (await only_output(turn)).settlement == item_pb2.SETTLEMENT_CANCELLED
    await worker.settle(call)
    ack = await worker.expect("result_ack")
    assert ack.verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    assert ack.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED


async def test_a_worker_that_comes_back_is_told_of_the_cancel_again(stage: Stage) -> None:
    """The first Cancel may have been lost with the stream; what is left of the grace is said."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel(grace={"seconds": 30})
    await worker.expect("cancel")
    await stage.break_off(worker, call.call_id)
    stage.pass_time(5)

    worker = await stage.back(worker, "f", held=held(call))

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.reason) == (call.call_id, handler_pb2.CANCEL_REASON_TURN_ENDED)
    assert cancel.grace.ToTimedelta().total_seconds() == pytest.approx(25, abs=0.5)


async def test_a_cancelled_turn_does_not_wait_for_a_worker_that_died(stage: Stage) -> None:
    """No other attempt is made; the turn ends with the grace of the registration at the latest."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel(grace={"seconds": 60})
    await worker.expect("cancel")
    await stage.break_off(worker, call.call_id)
    other = await stage.worker("f")

    stage.pass_time(11)

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    await other.nothing()


async def test_a_call_given_back_under_a_cancel_goes_to_nobody(stage: Stage) -> None:
    """A Nack crosses the Cancel: the call gets its synthetic output and no other worker."""
    worker = await stage.worker("f")
    other = await stage.worker("f", credit=1)
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel(grace={"seconds": 60})
    await worker.expect("cancel")

    await worker.send(nack={"call_id": call.call_id, "attempt": 1})

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    assert (await only_output(turn)).settlement == item_pb2.SETTLEMENT_CANCELLED
    await other.nothing()
    await worker.nothing()


async def test_a_cancel_reaches_calls_that_wait(stage: Stage) -> None:
    """Calls that no worker holds get a synthetic output at once, and are not delivered afterwards."""
    turn = await stage.turn([("f", "{}"), ("g", "{}")])
    await turn.waiting()

    await turn.cancel()

    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    worker = await stage.worker("f", "g")
    await worker.nothing()


async def test_an_unasked_cancel_ack_changes_nothing(stage: Stage) -> None:
    """Only a Cancel is answered by a CancelAck; the call is still the worker's."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    outcome = handler_pb2.CANCEL_OUTCOME_STOPPED
    await worker.send(cancel_ack={"call_id": call.call_id, "attempt": 1, "outcome": outcome})
    await worker.nothing()

    await worker.finish(call)
    await turn.completed()


# -- AFTER_ROUND ---------------------------------------------------------------------------------


async def test_a_cancel_after_the_round_lets_holders_finish(stage: Stage) -> None:
    """What a worker holds is finished; what waits gets a synthetic output; nobody is told to stop."""
    worker = await stage.worker("f", credit=1)
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}')])
    call = await worker.expect("call")
    await turn.waiting()

    await turn.cancel(mode=event_pb2.CANCEL_MODE_AFTER_ROUND)

    await eventually(lambda: len(stage.model.requests) == 1)
    await worker.nothing()
    await worker.finish(call)
    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    settlements = {output.call_id == call.call_id: output.settlement for output in await turn.outputs()}
    assert settlements == {True: item_pb2.SETTLEMENT_OUTPUT, False: item_pb2.SETTLEMENT_CANCELLED}


async def test_a_call_given_back_after_the_cancel_of_its_round_goes_to_nobody(stage: Stage) -> None:
    """AFTER_ROUND waits for holders, never for workers to come."""
    worker = await stage.worker("f", credit=1)
    turn = await stage.call("f")
    call = await worker.expect("call")
    await turn.cancel(mode=event_pb2.CANCEL_MODE_AFTER_ROUND)
    await turn.until("cancel_requested")

    await worker.send(nack={"call_id": call.call_id, "attempt": 1, "delay": {"seconds": 600}})

    assert kinds(await turn.ended())[-1] == "turn_cancelled"


# -- never acked ---------------------------------------------------------------------------------


async def test_a_call_that_is_not_acked_is_given_to_another(stage: Stage) -> None:
    """The first worker is told to forget it; the second knows that it may have run."""
    first, second = await stage.worker("f"), await stage.worker("f", credit=1)
    turn = await stage.call("f")
    call = await first.expect("call")

    await stage.never_acked(call.call_id)

    cancel = await first.expect("cancel")
    assert (cancel.call_id, cancel.attempt) == (call.call_id, 1)
    assert cancel.reason == handler_pb2.CANCEL_REASON_LEASE_LOST
    again = await second.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    await second.finish(again)
    assert "attempt_lost" not in kinds(await turn.completed())
    await first.nothing()


async def test_an_acked_call_is_not_taken_away(stage: Stage) -> None:
    """The ack is all that the server waits for; the handler may take its time."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()

    for _ in range(10):
        stage.pass_time(6)
        await worker.send(heartbeat={})
        await worker.nothing()

    await worker.finish(call)
    await turn.completed()


async def test_a_call_that_never_arrives_ends_like_a_lost_one(stage: Stage) -> None:
    """After five attempts that nobody acked the model is told, so that no turn waits for ever."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    for attempt in range(1, 6):
        call = await worker.expect("call")
        assert call.attempt == attempt
        await stage.never_acked(call.call_id)
        await worker.expect("cancel")

    await turn.completed()

    output = await only_output(turn)
    assert output.settlement == item_pb2.SETTLEMENT_WORKER_LOST
    assert output.error.reason == error_pb2.ERROR_REASON_WORKER_LOST
    assert output.error.metadata == {"attempts": "5"}
