"""Workers that fall silent, break off, come back or do not: no call is lost, none is settled twice."""

import grpc
import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import acked
from tests.support.stage import Stage

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2

# -- silence -------------------------------------------------------------------------------------


async def test_the_server_sends_heartbeats(empty_stage: Stage) -> None:
    """As frames, since a proxy answers pings by itself."""
    await empty_stage.start(heartbeat_s=0.01)
    worker = await empty_stage.worker("f")

    assert (await worker.heartbeat()).HasField("now")


@pytest.mark.parametrize("frame", [{"heartbeat": {}}, {"credit": {"messages": 0}}, {}], ids=["heartbeat", "any", "bad"])
async def test_whatever_is_heard_renews_the_lease(stage: Stage, frame: dict[str, dict[str, int]]) -> None:
    """A worker that says something every 20 s keeps its call for as long as it likes."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)

    for _ in range(5):
        stage.pass_time(20)
        await worker.send(**frame)
        if not frame:
            await worker.expect_error()
        await worker.nothing()

    await worker.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_silence_beyond_the_lease_gives_the_call_to_another(empty_stage: Stage) -> None:
    """The loss is an event; the silent worker is told, and what it sends later is discarded."""
    stage = await empty_stage.start(heartbeat_s=60.0)
    silent = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(silent)
    other = await stage.worker("f", credit=99)

    stage.pass_time(31)

    again = await other.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    cancel = await silent.expect("cancel")
    assert (cancel.attempt, cancel.reason) == (1, handler_pb2.CANCEL_REASON_LEASE_LOST)
    await silent.settle(call, output="late")
    ack = await silent.expect("result_ack")
    assert ack.error.reason == error_pb2.ERROR_REASON_ATTEMPT_STALE
    await other.finish(again)
    (lost,) = [event.attempt_lost for event in await turn.completed() if event.HasField("attempt_lost")]
    assert (lost.call_id, lost.attempt, lost.worker_id) == (call.call_id, 1, silent.welcome.worker_id)
    assert lost.next == event_pb2.AFTER_LOSS_REDELIVERED


async def test_three_missed_heartbeats_end_the_stream(stage: Stage) -> None:
    """The status says how long nothing was heard, and that attaching again makes sense."""
    worker = await stage.worker("f")

    stage.pass_time(29)
    await worker.nothing()
    stage.pass_time(31)

    ending = await worker.ended()
    assert (ending.code, ending.reason) == (grpc.StatusCode.UNAVAILABLE, "WORKER_SILENT")
    assert ending.metadata == {"silent": "31.0s"}


async def test_five_lost_attempts_settle_the_call(empty_stage: Stage) -> None:
    """The model is told that the function failed, the log how often it was tried."""
    stage = await empty_stage.start(heartbeat_s=60.0)
    worker = await stage.worker("f")
    turn = await stage.call("f")
    for attempt in range(1, 6):
        assert (await acked(worker)).attempt == attempt
        stage.pass_time(31)
        assert (await worker.expect("cancel")).attempt == attempt

    events = await turn.completed()

    lost = [event.attempt_lost for event in events if event.HasField("attempt_lost")]
    assert [(one.attempt, one.next) for one in lost] == [
        *((attempt, event_pb2.AFTER_LOSS_REDELIVERED) for attempt in range(1, 5)),
        (5, event_pb2.AFTER_LOSS_FAILED),
    ]
    (output,) = await turn.outputs()
    assert output.settlement == item_pb2.SETTLEMENT_WORKER_LOST
    assert output.error.metadata == {"attempts": "5"}


# -- breaks --------------------------------------------------------------------------------------


async def test_within_the_grace_nothing_is_lost(stage: Stage) -> None:
    """The handlers of a worker that broke off are served, and its call is nobody else's."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    other = await stage.worker("f")
    await stage.break_off(worker, call.call_id)

    stage.pass_time(9)

    await other.nothing()
    assert await turn.state() == "LEASED"


async def test_after_the_grace_the_call_goes_to_another(stage: Stage) -> None:
    """An event tells of the loss; the next attempt may find the first one's work."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    other = await stage.worker("f")
    await stage.break_off(worker, call.call_id)

    stage.pass_time(11)

    again = await other.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    await other.finish(again)
    assert "attempt_lost" in kinds(await turn.completed())


async def test_after_the_grace_a_name_is_unserved(stage: Stage) -> None:
    """Until then its calls wait for the worker to come back."""
    worker = await stage.worker("f", credit=1)
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    waiting = await stage.call("f")
    await waiting.waiting()

    assert await waiting.state() == "QUEUED"
    stage.pass_time(11)

    assert await waiting.state() == "UNSERVED"
    await turn.until("attempt_lost")


async def test_a_call_whose_worker_left_before_it_was_written_goes_to_another(stage: Stage) -> None:
    """Nobody has seen the first attempt, so the second has not run before, and nothing was lost."""
    leaving = await stage.worker("f", credit=99)
    other = await stage.worker("f", credit=1)
    came, go_on = stage.store.hold(lambda batch: bool(batch.calls_opened))
    turn = await stage.call("f")
    await came.wait()
    await leaving.send(drain={})
    assert (await leaving.ended()).code == grpc.StatusCode.OK

    go_on.set()

    call = await other.expect("call")
    assert (call.attempt, call.may_have_run) == (2, False)
    await other.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_a_waiting_call_whose_worker_left_meanwhile_goes_to_another(stage: Stage) -> None:
    """The same for a call that was taken out of the queue."""
    turn = await stage.call("f")
    await turn.waiting()
    came, go_on = stage.store.hold(lambda batch: bool(batch.leases))
    leaving = await stage.worker("f")
    await came.wait()
    await leaving.send(drain={})
    assert (await leaving.ended()).code == grpc.StatusCode.OK
    other = await stage.worker("f")

    go_on.set()

    call = await other.expect("call")
    assert (call.attempt, call.may_have_run) == (2, False)
    await other.finish(call)
    await turn.completed()


async def test_a_call_that_is_settled_while_it_is_handed_out_is_not_delivered(stage: Stage) -> None:
    """A result from outside may come between the choice of a worker and the lease; the others are delivered."""
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}')])
    await turn.waiting()
    first, _ = await turn.actions()
    came, go_on = stage.store.hold(lambda batch: bool(batch.leases))
    worker = await stage.worker("f")
    await came.wait()
    await turn.settle(first.call_id, output="by hand")

    go_on.set()

    call = await worker.expect("call")
    assert call.arguments_json == '{"n":1}'
    await worker.finish(call)
    await turn.completed()
    await worker.nothing()


# -- restarts ------------------------------------------------------------------------------------


async def test_after_a_restart_a_lease_waits_out_the_grace(stage: Stage) -> None:
    """The worker may be on its way; who is there gets the call when it does not come."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await acked(worker)
    await stage.restart()
    other = await stage.worker("f")
    stage.pass_time(9)
    await other.nothing()

    stage.pass_time(2)

    again = await other.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)


async def test_calls_that_waited_are_found_after_a_restart(stage: Stage) -> None:
    """In their order."""
    for n in range(3):
        await (await stage.call("f", f'{{"n":{n}}}')).waiting()
    await stage.restart()

    worker = await stage.worker("f")

    got = await worker.expect_all("call", 3)
    assert [call.arguments_json for call in got] == ['{"n":0}', '{"n":1}', '{"n":2}']
