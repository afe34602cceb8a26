"""Workers that come back: with their token they go on, without it they are somebody new."""

from __future__ import annotations

import pytest
from tests.support.hand import held
from tests.support.room import Room

from baton_server.app.calls.frames import CancelReason, Deliver, End, HeldVerdict, Leave
from baton_server.core.errors import Reason
from baton_server.core.inputs import AttemptFailed
from baton_server.ports.store import CallState

CONTINUE, ABANDON, SETTLED = HeldVerdict.CONTINUE, HeldVerdict.ABANDON, HeldVerdict.ALREADY_SETTLED


async def test_with_its_token_a_worker_takes_its_place_again(room: Room) -> None:
    """The same worker_id and the same token; what it names goes on, at the same attempt."""
    worker = await room.worker("f", instance_id="pod")
    await room.open()
    call = worker.expect(Deliver)
    await worker.breaks()

    back = await worker.back("f", instance_id="pod", held=held(call))

    assert (back.id, back.token) == (worker.id, worker.token)
    assert back.attached.held == (CONTINUE,)
    await room.pass_time(25)
    back.beat()
    await back.result(call)
    assert room.fed_of(AttemptFailed) == []
    assert await room.state(call.call) is CallState.SETTLED


async def test_what_a_returning_worker_does_not_name_it_has_not_begun(room: Room) -> None:
    """It is delivered again freely, and whoever gets it is not told that it may have run."""
    worker = await room.worker("f")
    opened = await room.open()
    worker.expect(Deliver)
    await worker.breaks()

    back = await worker.back("f")

    again = back.expect(Deliver).call
    assert (again.call_id, again.attempt, again.may_have_run) == (opened.call_id, 2, False)
    assert room.fed_of(AttemptFailed) == []


async def test_a_token_is_recognised_by_a_server_that_was_started_again(room: Room) -> None:
    """By the rows of what its worker holds: the server itself remembers nothing."""
    worker = await room.worker("f", instance_id="pod")
    await room.open()
    call = worker.expect(Deliver)
    room = await room.restarted()

    back = await room.worker("f", resume_token=worker.token, held=held(call))

    assert (back.id, back.attached.held) == (worker.id, (CONTINUE,))
    assert back.attached.worker.instance_id == "pod"
    await back.result(call)
    assert await room.state(call.call) is CallState.SETTLED


async def test_a_token_that_holds_nothing_any_more_is_unknown_after_a_restart(room: Room) -> None:
    """Its worker is a new one, with a new token, since nobody could tell it from a guess."""
    worker = await room.worker("f")
    room = await room.restarted()

    back = await room.worker("f", resume_token=worker.token)

    assert back.token != worker.token
    assert back.id != worker.id


async def test_a_new_process_of_an_instance_resumes_nothing(room: Room) -> None:
    """What the former one held is lost at once, and what the new one claims to hold is not its own."""
    worker = await room.worker("f", instance_id="pod")
    await room.open()
    call = worker.expect(Deliver)
    worker.ack(call)

    new = await room.worker("f", instance_id="pod", held=held(call))

    assert new.attached.held == (ABANDON,)
    assert new.id != worker.id
    assert worker.expect(End).failure.reason is Reason.WORKER_REPLACED  # type: ignore[union-attr]
    (lost,) = room.fed_of(AttemptFailed)
    assert (lost.attempt, lost.worker_id, lost.may_retry, lost.ask) == (1, worker.id, True, False)
    again = new.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, True)


async def test_a_new_process_after_a_restart_of_the_server_resumes_nothing_either(room: Room) -> None:
    """The former one's leases need not wait out the grace: its instance tells that it is gone."""
    worker = await room.worker("f", instance_id="pod")
    await room.open()
    worker.expect(Deliver)
    room = await room.restarted()

    new = await room.worker("f", instance_id="pod")

    assert len(room.fed_of(AttemptFailed)) == 1
    assert new.expect(Deliver).call.attempt == 2


async def test_a_guessed_token_resumes_nothing(room: Room) -> None:
    """Nor does the digest that stands in the rows."""
    worker = await room.worker("f", instance_id="pod")
    opened = await room.open()
    call = worker.expect(Deliver)

    holder = (await room.row(opened)).holder
    for guess in ("", "x", holder):
        stranger = await room.worker("g", resume_token=guess, held=held(call))
        assert stranger.attached.held == (ABANDON,)
    assert room.lease(opened).worker_id == worker.id


async def test_while_the_old_stream_lives_the_new_one_takes_over(room: Room) -> None:
    """A connection that hangs holds nobody up; the old stream ends quietly, and what comes of it does not count."""
    worker = await room.worker("f")
    await room.open()
    call = worker.expect(Deliver)

    back = await worker.back("f", held=held(call))

    failure = worker.expect(End).failure
    assert failure is not None
    assert failure.reason is Reason.WORKER_REPLACED
    await worker.breaks()
    assert room.hooks.broken == [worker.id]
    assert room.registry.get(back.id) is back.attached.worker
    assert back.attached.worker.lost_at is None


async def test_a_worker_may_take_another_name_with_it(room: Room) -> None:
    """The token says who it is; whoever had the other name is replaced."""
    other = await room.worker("f", instance_id="b")
    worker = await room.worker("f", instance_id="a")

    back = await worker.back("f", instance_id="b")

    other.expect(End)
    assert room.registry.instance("a") is None
    assert room.registry.instance("b") is back.attached.worker
    assert [one.worker_id for one in room.registry.workers()] == [back.id]


async def test_what_was_settled_meanwhile_is_told(room: Room) -> None:
    """By this very attempt: forget it. By something else: stop, a result would be discarded."""
    worker = await room.worker("f")
    mine, outside = await room.open(), await room.open()
    calls = [worker.expect(Deliver), worker.expect(Deliver)]
    await worker.result(calls[0])
    await worker.breaks()
    await room.settle_outside(outside, "by hand")

    back = await worker.back("f", held=held(*calls))

    assert back.attached.held == (SETTLED, ABANDON)
    assert await room.state(mine) is CallState.SETTLED


async def test_nothing_is_sent_before_welcome(room: Room) -> None:
    """Calls that wait come behind it, whatever the worker registers and resumes in its Hello."""
    for _ in range(3):
        await room.open()
    worker = await room.worker("f", credit=2)  # it looks that nothing came

    worker.expect(Deliver)
    worker.expect(Deliver)
    worker.nothing()


async def test_what_waited_to_be_written_to_a_stream_that_broke_goes_to_another_at_once(room: Room) -> None:
    """Nobody has seen it; what was written waits for its worker."""
    worker = await room.worker("f", credit=2)
    other = await room.worker("f", credit=1)
    written = await room.open()
    worker.expect(Deliver)
    worker.takes = False
    waiting = await room.open()
    assert room.lease(waiting).worker_id == worker.id

    await worker.breaks()

    again = other.expect(Deliver).call
    assert (again.call_id, again.attempt, again.may_have_run) == (waiting.call_id, 2, False)
    assert room.lease(written).worker_id == worker.id


@pytest.mark.parametrize("goes", ["breaks", "replaced", "asked to leave"])
async def test_a_call_whose_worker_goes_while_its_lease_is_written_is_not_sent_there(room: Room, goes: str) -> None:
    """Nobody has seen it: it is free, and goes to a worker that is there."""
    worker = await room.worker("f", credit=9)
    go = room.hold_leases()
    opened = await room.open()
    if goes == "breaks":
        await worker.breaks()
    elif goes == "replaced":
        await worker.back("g")
    else:
        await room.pass_time(0)
        worker.worker.leave_at = 0.0
        await room.pass_time(0)
        worker.expect(Leave)
    worker.frames.clear()

    go.set()
    other = await room.worker("f")

    again = other.expect(Deliver).call
    assert (again.call_id, again.attempt, again.may_have_run) == (opened.call_id, 2, False)
    assert worker.frames == worker.unwritten == []


async def test_a_lost_worker_that_drained_with_nothing_held_is_gone_at_once(room: Room) -> None:
    """Its stream ends with OK, and its name is served by nobody from then on."""
    worker = await room.worker("f")
    room.workers.drain(worker.attached.worker)

    assert worker.expect(End).failure is None
    await worker.breaks()
    assert room.registry.workers() == ()


async def test_a_new_process_tells_the_old_one_nothing_about_its_calls(room: Room) -> None:
    """Its stream is over; whatever it sends about them is stale."""
    worker = await room.worker("f", instance_id="pod")
    opened = await room.open()
    call = worker.expect(Deliver)
    await room.worker("g", instance_id="pod")
    worker.expect(End)

    await worker.result(call, "late")

    worker.nothing()
    assert (await room.row(opened)).state is CallState.QUEUED
    assert not any(reason is CancelReason.LEASE_LOST for reason in worker.frames)
