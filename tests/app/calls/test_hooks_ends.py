"""Hooks: each question comes to an end, whatever becomes of its workers and of who asked it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.app.calls.conftest import Rooms
from tests.app.calls.hooking import GUARD, PASSED, answer, ask, asked, failed, failure, hosts, occasion, stopped
from tests.support.room import Room, quiet

from baton_server.app.calls.frames import Ask, CancelReason, End, Handler
from baton_server.core.errors import Reason

# -- clocks --------------------------------------------------------------------------------------


async def test_a_question_that_is_not_answered_in_time_fails(room: Room) -> None:
    """The worker is told to stop, its window has room again, and its late answer does not count."""
    worker = await room.worker(*hosts("a", "b"), max_hook_batches=1)
    (future,) = room.hooks.ask(occasion(), [asked("a", timeout_s=5.0)])
    ask(room, "b")
    batch = worker.expect(Ask)
    await room.pass_time(4.9)
    worker.beat()
    assert not future.done()

    assert await failed(room, future, 0.2) is Reason.HOOK_TIMEOUT

    told = failure(future)
    assert told.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a", "timeout": "5s"}
    assert stopped(worker) == ("hook_a", 1, CancelReason.TIMEOUT)
    assert worker.expect(Ask).questions[0].name == "b"
    assert not answer(room, worker, batch)


async def test_a_question_that_finds_no_room_in_time_fails_too(room: Room) -> None:
    """Nobody waits for ever behind a slow one; the words say what was missing."""
    worker = await room.worker(*hosts("a"), max_hook_batches=1)
    room.hooks.ask(occasion(), [asked("a", "hook_slow", timeout_s=600.0)])
    (future,) = room.hooks.ask(occasion(), [asked("a", timeout_s=5.0)])
    worker.expect(Ask)

    assert await failed(room, future, 5.1) is Reason.HOOK_TIMEOUT

    assert "no room" in failure(future).message
    worker.nothing()


async def settled_in(rooms: Rooms, **limits: Any) -> Room:
    """A room whose process is old enough to know its workers."""
    room = await rooms(**limits)
    await room.pass_time(room.runtime.limits.registration_grace_s + 1)
    return room


async def test_a_name_that_nobody_serves_fails_after_its_grace(rooms: Rooms) -> None:
    """The scopes that were looked into are told."""
    room = await settled_in(rooms)
    (future,) = ask(room, "a", scopes=("svc-7", ""))
    await room.pass_time(1.9)
    assert not future.done()

    assert await failed(room, future, 0.2) is Reason.HOOK_UNSERVED

    told = failure(future)
    assert told.metadata == {"kind": "INPUT_GUARDRAIL", "name": "a", "scopes": "svc-7,"}


async def test_without_a_grace_a_name_that_nobody_serves_fails_at_once(rooms: Rooms) -> None:
    """Whoever says 0 does not want to wait."""
    room = await settled_in(rooms)

    (future,) = ask(room, "a", unserved_grace_s=0.0)
    await quiet()

    assert await failed(room, future) is Reason.HOOK_UNSERVED


async def test_a_worker_that_comes_within_the_grace_is_asked(rooms: Rooms) -> None:
    """And the grace is over with it."""
    room = await settled_in(rooms)
    (future,) = ask(room, "a")
    await room.pass_time(1.5)

    worker = await room.worker(*hosts("a"))
    batch = worker.expect(Ask)
    await room.pass_time(10)

    assert answer(room, worker, batch)
    assert future.result().answer_json == PASSED


async def test_a_worker_that_is_lost_serves_on_within_its_grace(rooms: Rooms) -> None:
    """Only when it is gone for good, nobody serves its hooks; the unserved grace begins there."""
    room = await settled_in(rooms)
    worker = await room.worker(*hosts("a"))
    await worker.breaks()
    (future,) = ask(room, "a")
    await room.pass_time(9.9)
    assert not future.done()

    await room.pass_time(0.3)  # the worker is gone
    await room.pass_time(1.8)
    assert not future.done()

    assert await failed(room, future, 0.5) is Reason.HOOK_UNSERVED


async def test_a_new_process_waits_for_the_workers_of_the_former_one(room: Room) -> None:
    """They may be on their way back: a turn does not fail because its server began anew."""
    (future,) = ask(room, "a", unserved_grace_s=0.0)
    await room.pass_time(9.9)
    assert not future.done()

    worker = await room.worker(*hosts("a"))

    assert answer(room, worker, worker.expect(Ask))
    assert future.result().failure is None


async def test_a_question_whose_last_worker_goes_while_it_waits_for_room_fails(rooms: Rooms) -> None:
    """It was served when it was asked, and is not any more."""
    room = await settled_in(rooms)
    worker = await room.worker(*hosts("a"), max_hook_batches=1)
    room.hooks.ask(occasion(), [asked("a", "hook_slow")])
    (future,) = ask(room, "a")
    await room.pass_time(5)
    worker.beat()

    room.workers.unregister(worker.attached.worker, [Handler(name="a", kind=GUARD).key])
    await room.pass_time(1.5)
    assert not future.done()

    assert await failed(room, future, 3) is Reason.HOOK_UNSERVED


# -- streams that break --------------------------------------------------------------------------


async def test_what_a_broken_stream_has_not_answered_is_asked_elsewhere(room: Room) -> None:
    """As the next attempt, as one batch, with the deadline that it had."""
    worker = await room.worker(*hosts("a", "b", "c"))
    ask(room, "a", "b", "c")
    batch = worker.expect(Ask)
    answer(room, worker, batch, 1)
    other = await room.worker(*hosts("a", "b", "c"))
    await room.pass_time(1)

    await worker.breaks()
    again = other.expect(Ask)

    assert [(one.name, one.attempt) for one in again.questions] == [("a", 2), ("c", 2)]
    assert [one.deadline for one in again.questions] == [batch.questions[0].deadline] * 2
    assert again.batch_id != batch.batch_id


async def test_a_worker_that_comes_back_is_asked_again(room: Room) -> None:
    """On its new stream, if nobody else is there."""
    worker = await room.worker(*hosts("a"))
    (future,) = ask(room, "a")
    worker.expect(Ask)
    await worker.breaks()
    await room.pass_time(1)

    back = await worker.back(*hosts("a"))
    again = back.expect(Ask)

    assert again.questions[0].attempt == 2
    assert answer(room, back, again)
    assert future.result().worker_id == worker.id


async def test_an_answer_to_a_former_attempt_counts_while_there_is_none(room: Room) -> None:
    """A worker that went on over its broken stream has not worked for nothing; who was asked next is told to stop."""
    worker = await room.worker(*hosts("a"))
    (future,) = ask(room, "a")
    first = worker.expect(Ask)
    other = await room.worker(*hosts("a"))
    await worker.breaks()
    second = other.expect(Ask)
    back = await worker.back(*hosts("a"))

    assert answer(room, back, first)

    assert future.result().worker_id == worker.id
    assert stopped(other) == ("hook_a", 2, CancelReason.NOT_NEEDED)
    assert not answer(room, other, second)


async def test_the_deadline_ends_what_is_asked_again_and_again(room: Room) -> None:
    """However often its workers die."""
    (future,) = room.hooks.ask(occasion(), [asked("a", timeout_s=5.0)])

    for attempt in range(1, 5):
        worker = await room.worker(*hosts("a"))
        assert worker.expect(Ask).questions[0].attempt == attempt
        await room.pass_time(1)
        await worker.breaks()

    assert await failed(room, future, 1.5) is Reason.HOOK_TIMEOUT


async def test_a_half_duplex_worker_answers_without_a_stream(rooms: Rooms) -> None:
    """What it took is its own for as long as a lease, whoever else is there, and though its grace is over."""
    room = await rooms(lease_s=30.0)
    poller = await room.worker(*hosts("a"), half_duplex=True)
    (future,) = ask(room, "a", unserved_grace_s=0.0)
    batch = poller.expect(Ask)
    other = await room.worker(*hosts("a"))

    await poller.breaks()
    await room.pass_time(20)

    other.nothing()
    assert room.registry.get(poller.id) is None
    assert answer(room, poller, batch)
    assert future.result().worker_id == poller.id


async def test_what_a_half_duplex_worker_leaves_lying_is_asked_elsewhere(rooms: Rooms) -> None:
    """Once its lease is over; its answer counts all the same if it is the first."""
    room = await rooms(lease_s=10.0)
    poller = await room.worker(*hosts("a"), half_duplex=True)
    (future,) = ask(room, "a")
    batch = poller.expect(Ask)
    await poller.breaks()
    other = await room.worker(*hosts("a"))
    await room.pass_time(9)
    other.nothing()
    other.beat()

    await room.pass_time(1.1)

    assert other.expect(Ask).questions[0].attempt == 2
    assert answer(room, poller, batch)
    assert future.result().worker_id == poller.id
    assert stopped(other) == ("hook_a", 2, CancelReason.NOT_NEEDED)


# -- giving up -----------------------------------------------------------------------------------


async def test_what_is_dropped_is_stopped(room: Room) -> None:
    """A sibling has tripped: the others are not needed, their worker has room again, their answers do not count."""
    worker = await room.worker(*hosts("a", "b"), max_hook_batches=1)
    dropped = ask(room, "a", "b")
    (waits,) = ask(room, "c")
    room.hooks.ask(occasion(), [asked("a", "hook_next")])
    batch = worker.expect(Ask)

    room.hooks.drop(["hook_a", "hook_b", "hook_c", "hook_unknown"])

    assert all(future.cancelled() for future in (*dropped, waits))
    assert stopped(worker) == ("hook_a", 1, CancelReason.NOT_NEEDED)
    assert stopped(worker) == ("hook_b", 1, CancelReason.NOT_NEEDED)
    assert worker.expect(Ask).questions[0].hook_id == "hook_next"
    assert not answer(room, worker, batch)


async def test_an_asker_that_went_away_may_ask_again(room: Room) -> None:
    """Its task was cancelled before it could drop anything; the question is a new one then."""
    worker = await room.worker(*hosts("a"))
    (lost,) = ask(room, "a")
    worker.expect(Ask)
    lost.cancel()

    (future,) = ask(room, "a")

    assert stopped(worker) == ("hook_a", 1, CancelReason.NOT_NEEDED)
    assert answer(room, worker, worker.expect(Ask))
    assert future.result().answer_json == PASSED


async def test_a_worker_that_drains_answers_what_it_was_asked(room: Room) -> None:
    """It is asked nothing new, and its stream ends with its last answer."""
    worker = await room.worker(*hosts("a", "b"))
    both = ask(room, "a", "b")
    batch = worker.expect(Ask)

    room.workers.drain(worker.attached.worker)
    room.hooks.ask(occasion(), [asked("a", "hook_new")])
    answer(room, worker, batch, 0)
    worker.nothing()
    answer(room, worker, batch, 1)

    assert worker.expect(End).failure is None
    assert [future.result().answer_json for future in both] == [PASSED, PASSED]


async def test_a_worker_that_was_asked_to_leave_is_asked_nothing_new(rooms: Rooms) -> None:
    """Its new stream gets it, and it counts as serving until then."""
    room = await rooms(max_stream_age_s=60.0, heartbeat_s=600.0, lease_s=600.0)
    worker = await room.worker(*hosts("a"))
    await room.pass_time(70)
    worker.frames.clear()
    ask(room, "a")
    worker.nothing()

    back = await worker.back(*hosts("a"))

    back.expect(Ask)


async def test_a_closed_desk_leaves_nothing_running(room: Room) -> None:
    """Its clocks end with the server."""
    ask(room, "a")
    await quiet()

    await room.hooks.close()
    await room.dispatcher.close()
    await quiet()

    assert asyncio.all_tasks() == {asyncio.current_task()}
