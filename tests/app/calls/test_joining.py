"""Calls of one idempotency key: they take effect once in their session."""

from __future__ import annotations

from typing import Any

from tests.support.hand import Hand
from tests.support.room import SESSION, TURN, Room, quiet

from baton_server.app.calls.frames import Credit, Deliver
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart
from baton_server.ports.store import Batch, CallRow, CallState


async def keyed(room: Room, key: str = "k", **fields: Any) -> CallRow:
    """Open a call with a key."""
    return await room.open(idempotency_key=key, **fields)


def joined(room: Room) -> dict[str, str]:
    """List the calls that took another one's result, with that one."""
    return {given.call_id: given.joined_call_id for given in room.fed_of(CallSettled) if given.joined_call_id}


async def ready(room: Room) -> Hand:
    """Attach a worker that takes everything."""
    return await room.worker("f", credit=100)


async def test_an_earlier_success_gives_its_output(room: Room) -> None:
    """No worker hears of the second call; what it is told is word for word the same, and says whose it is."""
    worker = await ready(room)
    first = await keyed(room)
    await worker.result(worker.expect(Deliver), "booked: 42")
    worker.frames.clear()

    second = await keyed(room)

    worker.nothing()
    assert joined(room) == {second.call_id: first.call_id}
    given = room.fed_of(CallSettled)[-1]
    assert (given.settlement, given.output, given.attempt) == (Settlement.OUTPUT, (TextPart(text="booked: 42"),), 0)
    assert (await room.row(second)).succeeded


async def test_an_output_that_was_too_large_for_its_event_is_read_whole(room: Room) -> None:
    """It stands beside the log by its digest."""
    worker = await ready(room)
    await keyed(room)
    await worker.result(worker.expect(Deliver), "x" * 300_000)

    await keyed(room)

    assert room.fed_of(CallSettled)[-1].output == (TextPart(text="x" * 300_000),)


async def test_an_earlier_failure_gives_nothing(room: Room) -> None:
    """What did not work is tried again."""
    worker = await ready(room)
    await keyed(room)
    await worker.result(worker.expect(Deliver), "no", settlement=Settlement.FAILURE)
    worker.frames.clear()

    second = await keyed(room)

    assert worker.expect(Deliver).call.call_id == second.call_id
    assert joined(room) == {}


async def test_of_several_open_ones_only_the_oldest_is_served(room: Room) -> None:
    """However many workers wait for them; calls of other keys, and of none, do not wait."""
    first, second = await keyed(room), await keyed(room)
    other, plain = await keyed(room, "other"), await room.open()

    worker = await ready(room)

    got = [worker.expect(Deliver).call.call_id for _ in range(3)]
    assert got == [first.call_id, other.call_id, plain.call_id]
    worker.nothing()
    assert room.dispatcher.joining.ahead_of(second.call_id) == first.call_id
    assert room.dispatcher.joining.ahead_of(first.call_id) == ""


async def test_when_the_oldest_fails_the_next_one_is_served(room: Room) -> None:
    """One after the other, until one succeeds; the others take its output."""
    calls = [await keyed(room) for _ in range(4)]
    worker = await ready(room)
    for call in calls[:2]:
        delivered = worker.expect(Deliver)
        assert delivered.call.call_id == call.call_id
        await worker.result(delivered, "no", settlement=Settlement.FAILURE)
        worker.frames.pop(0)  # its ack

    await worker.result(worker.expect(Deliver), "booked")

    assert joined(room) == {calls[3].call_id: calls[2].call_id}
    worker.frames.pop(0)
    worker.nothing()


async def test_one_that_is_given_back_or_lost_is_still_the_one_that_is_served(room: Room) -> None:
    """Nobody overtakes it on its way."""
    first, _ = await keyed(room), await keyed(room)
    worker = await ready(room)
    call = worker.expect(Deliver)
    await worker.nack(call)
    call = worker.expect(Deliver)
    assert (call.call.call_id, call.call.attempt) == (first.call_id, 2)
    worker.ack(call)
    await worker.breaks()

    other = await ready(room)
    await room.pass_time(11)

    call = other.expect(Deliver)
    assert (call.call.call_id, call.call.attempt) == (first.call_id, 3)
    other.nothing()


async def test_a_success_from_outside_is_waited_for_until_it_is_in_the_log(room: Room) -> None:
    """It was acknowledged, and settles the oldest call at once; the next one must not be executed beside it."""
    first, second = await keyed(room), await keyed(room)
    worker = await room.worker("f", credit=0)
    await room.settle_outside(first, "by hand")
    room.dispatcher.credit(worker.attached.worker, Credit(messages=9))
    await room.pass_time(1)
    worker.nothing()
    assert await room.state(second) is CallState.QUEUED

    await room.record(first, Settlement.OUTPUT, "by hand")
    await room.pass_time(1)

    worker.nothing()
    assert joined(room) == {second.call_id: first.call_id}


async def test_a_failure_from_outside_lets_the_next_one_be_served(room: Room) -> None:
    """Once it is in the log."""
    first, second = await keyed(room), await keyed(room)
    worker = await ready(room)
    worker.expect(Deliver)
    await room.settle_outside(first, "no")
    worker.frames.clear()
    worker.nothing()

    await room.record(first, Settlement.FAILURE, "no")
    await room.pass_time(1)

    assert worker.expect(Deliver).call.call_id == second.call_id


async def test_the_lines_are_found_again_after_a_restart(room: Room) -> None:
    """Who was being served goes on, and the others wait for it."""
    worker = await ready(room)
    first, second = await keyed(room), await keyed(room)
    call = worker.expect(Deliver)
    room = await room.restarted()
    other = await ready(room)
    other.nothing()
    assert room.dispatcher.joining.ahead_of(second.call_id) == first.call_id

    back = await room.worker("f", resume_token=worker.token, held=(), credit=0)
    await quiet()

    again = other.expect(Deliver)
    assert (again.call.call_id, again.call.attempt) == (first.call_id, 2)
    await other.result(again, "booked")
    assert joined(room) == {second.call_id: first.call_id}
    back.nothing()
    assert call.call.call_id == first.call_id


async def test_a_success_before_a_restart_is_found_after_it(room: Room) -> None:
    """By the rows alone."""
    worker = await ready(room)
    first = await keyed(room)
    await worker.result(worker.expect(Deliver), "booked")
    room = await room.restarted()

    second = await keyed(room)

    assert joined(room) == {second.call_id: first.call_id}


async def test_a_call_that_is_settled_while_it_is_looked_up_is_not_served(room: Room) -> None:
    """The next one is, and nothing is left behind."""
    worker = await ready(room)
    rows = [
        CallRow(
            call_id=f"call_1_0000f{number}",
            session_id=SESSION,
            turn_id=TURN,
            name="f",
            agent="A",
            arguments="{}",
            scopes=("",),
            idempotency_key="k",
        )
        for number in range(2)
    ]
    await room.store.commit(Batch(session_id=SESSION, calls_opened=tuple(rows)))
    for row in rows:
        room.dispatcher.wait_for_worker(row)

    await room.settle(rows[0].call_id, Settlement.CANCELLED)
    await quiet()

    assert worker.expect(Deliver).call.call_id == rows[1].call_id
    assert room.dispatcher.joining.ahead_of(rows[0].call_id) == ""
