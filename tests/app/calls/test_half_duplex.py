"""Workers that cannot hold a stream both ways: their calls outlive it, and come back one by one."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.hand import Hand, held
from tests.support.room import Room, quiet

from baton_server.app.calls.frames import (
    Ack,
    CancelReason,
    Credit,
    Deliver,
    Extended,
    Handler,
    HeldVerdict,
    ResultVerdict,
    Stop,
)
from baton_server.core.errors import Reason
from baton_server.core.inputs import AttemptFailed, CallSettled, CallTimedOut
from baton_server.core.items import Settlement, TextPart
from baton_server.ports.store import CallRow, CallState


async def watcher(room: Room, credit: int | Credit = 10, **hello: object) -> Hand:
    """Attach a worker by the twin."""
    return await room.worker("f", credit=credit, half_duplex=True, **hello)


async def out(room: Room, **fields: object) -> tuple[Hand, CallRow, Deliver]:
    """Bring a call to one."""
    worker = await watcher(room)
    opened = await room.open(**fields)
    return worker, opened, worker.expect(Deliver)


async def settle(room: Room, call: Deliver, text: str = "done", worker_id: str = "") -> Ack:
    """Give a result back without a stream."""
    given = CallSettled(
        call_id=call.call.call_id,
        settlement=Settlement.OUTPUT,
        output=(TextPart(text=text),),
        attempt=call.call.attempt,
        digest=text,
    )
    return await room.dispatcher.returns.settle(given, worker_id)


async def extend(room: Room, call: Deliver, seconds: float, worker_id: str = "") -> Extended:
    """Renew a lease without a stream."""
    return await room.dispatcher.returns.extend(call.call.call_id, call.call.attempt, seconds, worker_id)


# -- leases --------------------------------------------------------------------------------------


async def test_a_call_that_was_written_counts_as_acked(room: Room) -> None:
    """No ack is owed, and the timeout runs."""
    worker, opened, _ = await out(room, timeout_s=20.0)

    await room.pass_time(19)
    worker.nothing()
    await room.pass_time(2)

    assert room.fed_of(CallTimedOut) == [CallTimedOut(call_id=opened.call_id)]


async def test_its_lease_begins_when_the_call_was_written(room: Room) -> None:
    """On a slow way it loses none of it."""
    worker = await watcher(room)
    worker.takes = False
    await room.open()
    await room.pass_time(20)
    worker.read_on()

    await room.pass_time(25)

    assert room.fed_of(AttemptFailed) == []
    await room.pass_time(6)
    assert len(room.fed_of(AttemptFailed)) == 1


async def test_its_lease_outlives_the_stream(room: Room) -> None:
    """It is as long as Welcome says, and the worker's registrations go with their grace."""
    worker, opened, call = await out(room)
    await worker.breaks()
    await room.pass_time(25)
    assert room.registry.workers() == ()

    ack = await settle(room, call, worker_id=worker.id)

    assert ack.verdict is ResultVerdict.DURABLE
    assert (await room.row(opened)).worker_id == worker.id


async def test_nothing_but_an_extension_renews_it(room: Room) -> None:
    """No sign of life of the stream does; the attempt is lost at its end, and the watcher is told."""
    worker, opened, call = await out(room)
    for _ in range(3):
        await room.pass_time(9)
        worker.beat()
    assert (await extend(room, call, 60)).until == pytest.approx(room.clock.wall() + 60)
    await room.pass_time(59)
    assert room.fed_of(AttemptFailed) == []

    await room.pass_time(2)

    assert worker.stop() == (opened.call_id, CancelReason.LEASE_LOST, 0.0)
    assert len(room.fed_of(AttemptFailed)) == 1


async def test_a_watcher_is_never_silent(room: Room) -> None:
    """It has no way to say anything on its stream."""
    worker = await watcher(room)

    await room.pass_time(600)

    worker.nothing()
    assert worker.attached.worker.lost_at is None


async def test_after_a_restart_its_leases_are_one_grace_long(room: Room) -> None:
    """Within it a result counts, and an extension renews, without any stream."""
    worker, first, call = await out(room)
    second = await room.open()
    other = worker.expect(Deliver)
    room = await room.restarted()
    await room.pass_time(9)
    assert (await extend(room, call, 60, worker.id)).failure is None

    await room.pass_time(2)

    assert [lost.call_id for lost in room.fed_of(AttemptFailed)] == [second.call_id]
    assert (await settle(room, call, worker_id=worker.id)).verdict is ResultVerdict.DURABLE
    late = await settle(room, other, worker_id=worker.id)
    assert late.verdict is ResultVerdict.DISCARDED
    assert (await room.row(first)).settled_attempt == 1


async def test_it_may_watch_again_with_its_token(room: Room) -> None:
    """What it names goes on; what it does not name is delivered again."""
    worker, named, call = await out(room)
    unnamed = await room.open()
    worker.expect(Deliver)
    await worker.breaks()

    back = await watcher(room, resume_token=worker.token, held=held(call))

    assert (back.id, back.attached.held) == (worker.id, (HeldVerdict.CONTINUE,))
    assert back.expect(Deliver).call.call_id == unnamed.call_id
    assert room.lease(named).attempt == 1


async def test_what_it_never_took_is_given_back_when_its_stream_ends(room: Room) -> None:
    """At once: it has not seen it."""
    worker = await watcher(room)
    worker.takes = False
    opened = await room.open()

    await worker.breaks()

    assert (await room.row(opened)).may_have_run is False
    assert await room.state(opened) is CallState.QUEUED


# -- credit --------------------------------------------------------------------------------------


async def test_its_credit_is_the_most_that_may_be_unsettled(room: Room) -> None:
    """Settling gives it back, without a grant."""
    worker = await watcher(room, credit=2)
    for _ in range(4):
        await room.open()
    first, _ = worker.expect(Deliver), worker.expect(Deliver)
    worker.nothing()

    await settle(room, first)
    await quiet()

    worker.expect(Deliver)
    worker.nothing()


async def test_its_bytes_are_bounded_in_the_same_way(room: Room) -> None:
    """One call may exceed them; the next comes when it is settled."""
    worker = await watcher(room, credit=Credit(messages=9, bytes=100))
    for _ in range(3):
        await room.open(arguments="x" * 99)
    first, _ = worker.expect(Deliver), worker.expect(Deliver)
    worker.nothing()

    await settle(room, first)
    await quiet()

    worker.expect(Deliver)


async def test_what_it_still_holds_counts_when_it_watches_again(room: Room) -> None:
    """Its window is not opened twice."""
    worker = await watcher(room, credit=1)
    await room.open()
    call = worker.expect(Deliver)
    await worker.breaks()
    await room.open()

    back = await watcher(room, credit=1, resume_token=worker.token, held=held(call))

    back.nothing()
    await settle(room, call)
    await quiet()
    back.expect(Deliver)


# -- by the attempt alone ------------------------------------------------------------------------


async def test_a_result_is_taken_from_anyone_who_names_the_attempt(room: Room) -> None:
    """The same one again is DURABLE again; another one is discarded."""
    worker, opened, call = await out(room)

    assert (await settle(room, call)).verdict is ResultVerdict.DURABLE
    assert (await settle(room, call)).verdict is ResultVerdict.DURABLE
    other = await settle(room, call, "something else")

    assert (other.verdict, other.failure and other.failure.reason) == (ResultVerdict.DISCARDED, Reason.CALL_SETTLED)
    assert (await room.row(opened)).worker_id == worker.id


async def test_who_names_another_worker_is_refused(room: Room) -> None:
    """The holder is checked where one is named."""
    _, opened, call = await out(room)

    ack = await settle(room, call, worker_id="worker_of_nobody")

    assert (ack.verdict, ack.failure and ack.failure.reason) == (ResultVerdict.DISCARDED, Reason.ATTEMPT_STALE)
    assert await room.state(opened) is CallState.LEASED


async def test_a_call_may_be_given_back_without_a_stream(room: Room) -> None:
    """A second time means nothing."""
    worker, opened, call = await out(room)
    nack = room.dispatcher.returns.nack

    assert nack(opened.call_id, 1, not_begun=True)
    assert not nack(opened.call_id, 1)
    await quiet()

    again = worker.expect(Deliver).call
    assert (again.attempt, again.may_have_run) == (2, False)
    assert call.call.attempt == 1


async def test_who_extends_learns_that_the_call_is_to_stop(room: Room) -> None:
    """The Cancel is told with what is left of its grace; nobody wants the others to stop."""
    _, opened, _ = await out(room)
    room.dispatcher.stop([opened.call_id], 7.0)
    await room.pass_time(2)

    stop = room.dispatcher.returns.stop_of(opened.call_id, 1)

    assert stop == Stop(call_id=opened.call_id, attempt=1, reason=CancelReason.TURN_ENDED, grace_s=5.0)
    assert room.dispatcher.returns.stop_of(opened.call_id, 2) is None


async def test_a_waiting_caller_that_goes_away_takes_nothing_with_it(room: Room) -> None:
    """The result is on its way to the disk, whoever waits for its ack."""
    _, opened, call = await out(room)
    asking = asyncio.ensure_future(settle(room, call))
    await quiet(1)
    asking.cancel()
    await quiet()

    assert (await room.row(opened)).settled_attempt == 1


async def test_a_handler_of_a_watcher_may_be_bounded_too(room: Room) -> None:
    """Beside its window."""
    worker = await room.worker(Handler(name="f", max_concurrency=1), half_duplex=True)
    await room.open()
    await room.open()
    first = worker.expect(Deliver)
    worker.nothing()

    await settle(room, first)
    await quiet()

    worker.expect(Deliver)
