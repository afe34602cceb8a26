"""Extensions: one lease lasts longer, over silence and broken streams."""

from __future__ import annotations

import pytest
from tests.support.hand import Hand, held
from tests.support.room import Room

from baton_server.app.calls.frames import Deliver, End, Extended, HeldVerdict
from baton_server.core.errors import Reason
from baton_server.core.inputs import AttemptFailed
from baton_server.ports.store import CallRow


async def out(room: Room) -> tuple[Hand, CallRow, Deliver]:
    """Bring a call to a worker."""
    worker = await room.worker("f")
    opened = await room.open()
    call = worker.expect(Deliver)
    worker.ack(call)
    return worker, opened, call


async def extend(room: Room, worker: Hand, call: Deliver, seconds: float) -> Extended:
    """Ask for a longer lease, over the stream."""
    room.dispatcher.returns.extend_for(worker.attached.worker, call.call.call_id, call.call.attempt, seconds)
    await room.pass_time(0)
    return worker.expect(Extended)


async def test_an_extended_lease_lasts_over_silence(room: Room) -> None:
    """The worker is not taken for dead meanwhile; then it is."""
    worker, opened, call = await out(room)

    answer = await extend(room, worker, call, 300)

    assert (answer.call_id, answer.attempt, answer.failure) == (opened.call_id, 1, None)
    assert answer.until == pytest.approx(room.clock.wall() + 300)
    await room.pass_time(299)
    worker.nothing()
    assert room.fed_of(AttemptFailed) == []
    await room.pass_time(2)
    assert len(room.fed_of(AttemptFailed)) == 1
    assert worker.frames[-1].failure.reason is Reason.WORKER_SILENT  # type: ignore[union-attr]


async def test_it_lengthens_one_lease_alone(room: Room) -> None:
    """The others end as they do."""
    worker, _, call = await out(room)
    other = await room.open()
    worker.ack(worker.expect(Deliver))
    await extend(room, worker, call, 300)

    await room.pass_time(31)

    assert [lost.call_id for lost in room.fed_of(AttemptFailed)] == [other.call_id]


async def test_an_extended_lease_lasts_over_a_broken_stream(room: Room) -> None:
    """To its end, and the worker may come back until then, although its registrations are gone."""
    worker, opened, call = await out(room)
    await extend(room, worker, call, 300)
    await worker.breaks()
    await room.pass_time(200)
    assert room.registry.workers() == ()
    assert not room.registry.serves("f", ("",))
    assert room.fed_of(AttemptFailed) == []

    back = await worker.back("f", held=held(call))

    assert (back.id, back.attached.held) == (worker.id, (HeldVerdict.CONTINUE,))
    await back.result(call)
    assert (await room.row(opened)).settled_attempt == 1


async def test_an_extension_never_shortens(room: Room) -> None:
    """The longest one holds; heartbeats renew the lease beside it."""
    worker, _, call = await out(room)
    await extend(room, worker, call, 300)

    answer = await extend(room, worker, call, 1)

    assert answer.until == pytest.approx(room.clock.wall() + 300)
    await room.pass_time(290)
    worker.beat()
    answer = await extend(room, worker, call, 1)
    assert answer.until == pytest.approx(room.clock.wall() + 30)


async def test_it_moves_no_deadline(room: Room) -> None:
    """A function's time is its own."""
    worker = await room.worker("f")
    opened = await room.open(timeout_s=60.0)
    call = worker.expect(Deliver)
    worker.ack(call)
    await extend(room, worker, call, 3600)

    await room.pass_time(61)

    assert (await room.row(opened)).settled_attempt == 0
    assert worker.stop()[0] == opened.call_id


async def test_it_acks_the_call(room: Room) -> None:
    """Whoever wants more time has got it."""
    worker = await room.worker("f")
    await room.open()
    await extend(room, worker, worker.expect(Deliver), 60)

    await room.pass_time(6)

    worker.nothing()


async def test_whoever_has_no_lease_is_told_why(room: Room) -> None:
    """Settled, replaced by another attempt, or never there."""
    worker, opened, call = await out(room)
    await worker.nack(call)
    again = worker.expect(Deliver)

    stale = await extend(room, worker, call, 60)
    await worker.result(again)
    worker.frames.clear()
    settled = await extend(room, worker, again, 60)
    unknown = await room.dispatcher.returns.extend("call_of_nobody", 1, 60)

    assert stale.failure is not None
    assert (stale.failure.reason, stale.failure.metadata["current_attempt"]) == (Reason.ATTEMPT_STALE, "2")
    assert settled.failure is not None
    assert settled.failure.reason is Reason.CALL_SETTLED
    assert unknown.failure is not None
    assert unknown.failure.reason is Reason.CALL_NOT_FOUND
    assert (await room.row(opened)).settled_attempt == 2


async def test_a_stream_that_drains_ends_behind_its_answers(room: Room) -> None:
    """What was asked before the worker left is answered first."""
    worker, _, call = await out(room)
    await worker.nack(call)
    again = worker.expect(Deliver)
    await worker.result(again)
    worker.frames.clear()
    room.dispatcher.returns.extend_for(worker.attached.worker, call.call.call_id, 1, 60)

    room.workers.drain(worker.attached.worker)
    await room.pass_time(0)

    worker.expect(Extended)
    assert worker.expect(End).failure is None
