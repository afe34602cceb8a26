"""Streams grow old: their workers are asked to attach anew, and nothing is lost over that."""

from __future__ import annotations

from tests.support.hand import Hand, held
from tests.support.room import Room

from baton_server.app.calls.frames import Deliver, End, Leave
from baton_server.core.errors import Reason
from baton_server.core.inputs import AttemptFailed
from baton_server.ports.store import CallState

from .conftest import Rooms


async def grow_old(room: Room, worker: Hand) -> Leave:
    """Let time pass until the worker is asked to leave."""
    for _ in range(200):
        await room.pass_time(10)
        worker.beat()
        if any(isinstance(frame, Leave) for frame in worker.frames):
            return worker.expect(Leave)
    raise AssertionError("nobody was asked to leave")


async def test_a_worker_is_asked_to_attach_anew_after_about_half_an_hour(room: Room) -> None:
    """And told when its stream ends. Streams that began together do not all end together."""
    workers = [await room.worker("f") for _ in range(20)]
    began, asked = room.clock.wall(), []

    for _ in range(100):
        await room.pass_time(20)
        for worker in workers:
            worker.beat()
            asked += [frame for frame in worker.frames if isinstance(frame, Leave)]
            worker.frames.clear()

    ages = [leave.deadline - began - 10 for leave in asked if leave.deadline is not None]
    assert len(ages) == 20
    assert 1620 <= min(ages) < max(ages) <= 2000
    assert len(set(ages)) > 3


async def test_what_it_holds_goes_on_over_the_new_stream(room: Room) -> None:
    """The old one ends quietly, and new calls come over the new one."""
    worker = await room.worker("f")
    opened = await room.open()
    call = worker.expect(Deliver)
    worker.ack(call)
    await grow_old(room, worker)

    back = await worker.back("f", held=held(call))

    assert worker.expect(End).failure.reason is Reason.WORKER_REPLACED  # type: ignore[union-attr]
    await back.result(call)
    assert (await room.row(opened)).settled_attempt == 1
    assert room.fed_of(AttemptFailed) == []
    back.frames.clear()
    await room.open()
    back.expect(Deliver)


async def test_nothing_new_is_sent_behind_the_request_to_leave(room: Room) -> None:
    """It could cross the worker's new Hello, which does not name it: it would count as not begun, and begin."""
    worker = await room.worker("f")
    await grow_old(room, worker)

    opened = await room.open()

    worker.nothing()
    assert await room.state(opened) is CallState.QUEUED
    back = await worker.back("f")
    assert back.expect(Deliver).call.call_id == opened.call_id


async def test_a_worker_that_does_not_leave_loses_its_stream(room: Room) -> None:
    """With a status that says so; its grace runs from then on, and what it holds waits for it."""
    worker = await room.worker("f")
    await room.open()
    call = worker.expect(Deliver)
    worker.ack(call)
    await grow_old(room, worker)
    await room.pass_time(9)
    worker.beat()
    worker.nothing()

    await room.pass_time(2)

    failure = worker.expect(End).failure
    assert failure is not None
    assert failure.reason is Reason.UNAVAILABLE
    assert room.hooks.broken == [worker.id]
    await room.pass_time(9)
    back = await worker.back("f", held=held(call))
    await back.result(call)
    assert room.fed_of(AttemptFailed) == []


async def test_a_stream_may_live_for_ever(rooms: Rooms) -> None:
    """Where the setting says 0."""
    room = await rooms(max_stream_age_s=0.0)
    worker = await room.worker("f")

    for _ in range(100):
        await room.pass_time(29)
        worker.beat()

    worker.nothing()


async def test_a_draining_server_says_when_streams_end(room: Room) -> None:
    """And hands out nothing more."""
    worker = await room.worker("f")
    opened = await room.open()
    call = worker.expect(Deliver)

    room.dispatcher.drain("the server stops", 5.0)

    leave = worker.expect(Leave)
    assert (leave.reason, leave.deadline) == ("the server stops", room.clock.wall() + 5.0)
    assert await room.state(await room.open()) is CallState.QUEUED
    await worker.result(call)
    assert (await room.row(opened)).settled_attempt == 1
    await room.pass_time(20)
    assert not any(isinstance(frame, End | Deliver) for frame in worker.frames)


async def test_what_is_being_leased_while_the_server_begins_to_drain_is_given_back(room: Room) -> None:
    """It could cross the worker's leaving: its next Hello would not name it, and it would begin all the same."""
    worker = await room.worker("f")
    go = room.hold_leases()
    opened = await room.open()
    room.dispatcher.drain("the server stops", 5.0)
    worker.expect(Leave)

    go.set()
    await room.pass_time(0)

    worker.nothing()
    assert await room.state(opened) is CallState.QUEUED
