"""Workers that come back: with their resume token they go on where they were, without it they are somebody new."""

import grpc
from tests.api.calling import kinds
from tests.support.scripted_worker import acked, held
from tests.support.stage import Stage

from baton.v1 import handler_pb2

CONTINUE, ABANDON, ALREADY_SETTLED = (
    handler_pb2.HELD_VERDICT_CONTINUE,
    handler_pb2.HELD_VERDICT_ABANDON,
    handler_pb2.HELD_VERDICT_ALREADY_SETTLED,
)

# -- with the token ------------------------------------------------------------------------------


async def test_a_worker_that_comes_back_goes_on_with_what_it_holds(stage: Stage) -> None:
    """The same attempt, the same worker_id; its result counts though it was made while nobody was attached."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(9)

    back = await stage.back(worker, "f", held=held(call, finished=True))

    (verdict,) = back.welcome.attempts
    assert (verdict.call_id, verdict.attempt, verdict.verdict) == (call.call_id, 1, CONTINUE)
    assert back.welcome.worker_id == worker.welcome.worker_id
    stage.pass_time(9)
    await back.nothing()
    await back.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_what_a_returning_worker_does_not_name_is_delivered_again(stage: Stage) -> None:
    """It has not begun it, so the next attempt has not run before; no event, since nothing was lost."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await stage.break_off(worker, call.call_id)

    back = await stage.back(worker, "f")

    again = await back.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, False)
    await back.finish(again)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_an_attempt_that_was_given_away_is_abandoned(stage: Stage) -> None:
    """Whoever comes back after its grace is told to stop, and another worker goes on."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    other = await stage.worker("f")
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    again = await other.expect("call")

    back = await stage.back(worker, "f", held=held(call))

    assert [verdict.verdict for verdict in back.welcome.attempts] == [ABANDON]
    await other.finish(again)
    await turn.completed()


async def test_a_result_whose_ack_was_lost_is_already_settled(stage: Stage) -> None:
    """The worker may forget it without sending it again; what something else settled is abandoned."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}'), ("f", '{"n":2}')])
    mine, outside, open_ = await worker.expect_all("call", 3)
    await worker.finish(mine)
    await turn.settle(outside.call_id, output="by hand")
    await worker.expect("cancel")
    await stage.break_off(worker, open_.call_id)

    manifest = held(mine, outside, open_, handler_pb2.Call(call_id="call_of_nobody", attempt=1))
    back = await stage.back(worker, "f", held=manifest)

    verdicts = [verdict.verdict for verdict in back.welcome.attempts]
    assert verdicts == [ALREADY_SETTLED, ABANDON, CONTINUE, ABANDON]
    await back.finish(open_)
    await turn.completed()


async def test_an_attempt_named_twice_is_judged_twice(stage: Stage) -> None:
    """A muddled manifest costs nobody a call: the attempt that is held goes on."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)

    newer = handler_pb2.Call(call_id=call.call_id, attempt=2)
    back = await stage.back(worker, "f", held=held(call, newer))

    assert [verdict.verdict for verdict in back.welcome.attempts] == [CONTINUE, ABANDON]
    await back.finish(call)
    await turn.completed()


async def test_the_older_stream_of_an_instance_is_replaced(stage: Stage) -> None:
    """A worker whose connection hangs may attach anew at once; calls go on over the new stream."""
    older = await stage.worker("f", instance_id="pod")
    turn = await stage.call("f")
    call = await acked(older)

    newer = await stage.back(older, "f", held=held(call))

    ending = await older.ended()
    assert (ending.code, ending.reason) == (grpc.StatusCode.ABORTED, "WORKER_REPLACED")
    assert ending.metadata == {"instance_id": "pod"}
    assert [verdict.verdict for verdict in newer.welcome.attempts] == [CONTINUE]
    await newer.finish(call)
    await turn.completed()
    await stage.call("f")
    await newer.expect("call")


async def test_credit_does_not_outlive_its_stream(stage: Stage) -> None:
    """A worker that comes back says anew how much it takes."""
    worker = await stage.worker("f", credit=5)
    await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    back = await stage.back(worker, "f", credit=0, held=held(call))

    turn = await stage.call("f")
    await turn.waiting()

    await back.nothing()
    await back.send(credit={"messages": 1})
    await back.expect("call")


async def test_the_token_stays_the_same_over_resumes(stage: Stage) -> None:
    """Whoever comes back again and again may keep the first one; it is nobody else's, and long."""
    worker, other = await stage.worker("f"), await stage.worker("f")
    token = worker.welcome.resume_token
    assert len(token) >= 32
    assert token != other.welcome.resume_token

    for _ in range(3):
        worker = await stage.back(worker, "f")

    assert worker.welcome.resume_token == token


async def test_what_a_worker_that_comes_back_says_of_its_calls_is_shown(stage: Stage) -> None:
    """Begun or not, finished or not: for whoever lists workers."""
    worker = await stage.worker("f")
    await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}')])
    calls = await worker.expect_all("call", 2)
    manifest = [
        {"call_id": calls[0].call_id, "attempt": 1, "begun": True, "finished": True},
        {"call_id": calls[1].call_id, "attempt": 1},
    ]

    await stage.back(worker, "f", held=manifest)

    leases = [stage.lease(call.call_id) for call in calls]
    assert [(lease.begun, lease.finished) for lease in leases] == [(True, True), (False, False)]


# -- without it ----------------------------------------------------------------------------------


async def test_a_stranger_resumes_nothing(stage: Stage) -> None:
    """Without the token what is named is somebody else's, whatever the name of the instance."""
    worker = await stage.worker("f", instance_id="pod")
    await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)

    for stranger in ("", "other"):
        other = await stage.worker("f", held=held(call), instance_id=stranger)
        assert [verdict.verdict for verdict in other.welcome.attempts] == [ABANDON]
        await other.nothing()


async def test_a_new_process_of_an_instance_takes_its_place_at_once(stage: Stage) -> None:
    """The former one is gone: its stream ends, and what it held is lost without waiting for any clock."""
    former = await stage.worker("f", instance_id="pod")
    turn = await stage.call("f")
    call = await acked(former)

    new = await stage.worker("f", instance_id="pod", held=held(call))

    assert (await former.ended()).reason == "WORKER_REPLACED"
    assert [verdict.verdict for verdict in new.welcome.attempts] == [ABANDON]
    assert new.welcome.worker_id != former.welcome.worker_id
    again = await new.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, True)
    await new.finish(again)
    (lost,) = [event.attempt_lost for event in await turn.completed() if event.HasField("attempt_lost")]
    assert (lost.attempt, lost.worker_id) == (1, former.welcome.worker_id)


# -- over a restart of the server -----------------------------------------------------------------


async def test_a_worker_goes_on_over_a_restart_of_the_server(stage: Stage) -> None:
    """Leases are in the store: after a restart the instance names what it holds, and its result counts."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.restart()

    back = await stage.back(worker, "f", held=held(call))

    assert [verdict.verdict for verdict in back.welcome.attempts] == [CONTINUE]
    assert back.welcome.worker_id == worker.welcome.worker_id
    await back.finish(call)
    assert "attempt_lost" not in kinds(await stage.again(turn).completed())


async def test_what_is_not_named_after_a_restart_has_not_begun(stage: Stage) -> None:
    """It is delivered again at once, and no event tells of it."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.restart()

    back = await stage.back(worker, "f")

    again = await back.expect("call")
    assert (again.call_id, again.attempt, again.may_have_run) == (call.call_id, 2, False)
    await back.finish(again)
    assert "attempt_lost" not in kinds(await stage.again(turn).completed())


async def test_a_new_process_after_a_restart_loses_what_the_former_one_held(stage: Stage) -> None:
    """The server knows by its instance that it is gone, and waits for no grace."""
    worker = await stage.worker("f", instance_id="pod")
    turn = await stage.call("f")
    await acked(worker)
    await stage.restart()

    new = await stage.worker("f", instance_id="pod")

    again = await new.expect("call")
    assert (again.attempt, again.may_have_run) == (2, True)
    await new.finish(again)
    assert "attempt_lost" in kinds(await stage.again(turn).completed())
