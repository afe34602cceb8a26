"""The clocks of calls: a timeout from the first ack over all attempts, an expiry from the opening, and how long a
decision is waited for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.hand import Hand, held
from tests.support.room import SESSION, TURN, Room

from baton_server.app.calls.frames import CancelReason, Deliver
from baton_server.core.events import Decision
from baton_server.core.inputs import CallExpired, CallTimedOut, DecisionMade
from baton_server.core.tools import LostWorker
from baton_server.ports.store import Batch, CallRow, CallState, Move


def written(room: Room) -> list[tuple[str, float]]:
    """List the deadlines that were written down: call, and seconds from now."""
    return [(one.call_id, one.at - room.clock.wall()) for batch in room.batches for one in batch.deadlines]


async def out(room: Room, **fields: Any) -> tuple[Hand, CallRow, Deliver]:
    """Bring a call to a worker, not acked yet."""
    worker = await room.worker("f")
    opened = await room.open(**fields)
    return worker, opened, worker.expect(Deliver)


async def keep_alive(room: Room, worker: Hand, seconds: int) -> None:
    """Let time pass with a heartbeat now and then."""
    for _ in range(seconds // 5):
        await room.pass_time(5)
        worker.beat()


# -- timeouts ------------------------------------------------------------------------------------


async def test_the_timeout_runs_from_the_ack(room: Room) -> None:
    """Not while the call waits for a worker, nor on its way there."""
    opened = await room.open(timeout_s=20.0)
    await room.pass_time(500)
    worker = await room.worker("f")
    call = worker.expect(Deliver)
    await room.pass_time(4)
    worker.ack(call)
    await keep_alive(room, worker, 15)
    assert room.fed_of(CallTimedOut) == []

    await keep_alive(room, worker, 5)

    assert room.fed_of(CallTimedOut) == [CallTimedOut(call_id=opened.call_id)]
    assert worker.stop() == (opened.call_id, CancelReason.TIMEOUT, 0.0)


async def test_the_worker_is_told_when_the_function_times_out(room: Room) -> None:
    """As if it acked at once; the next attempt is told the moment that was fixed by the first ack."""
    worker, _, call = await out(room, timeout_s=60.0)
    assert call.deadline == pytest.approx(room.clock.wall() + 60)
    await room.pass_time(3)
    worker.ack(call)
    deadline = room.clock.wall() + 60
    await room.pass_time(2)

    await worker.nack(call)

    assert worker.expect(Deliver).deadline == pytest.approx(deadline)


async def test_without_a_timeout_there_is_no_deadline(room: Room) -> None:
    """And nothing is written down."""
    worker, _, call = await out(room)

    worker.ack(call)
    await keep_alive(room, worker, 100)

    assert call.deadline is None
    assert written(room) == []
    assert room.fed_of(CallTimedOut) == []


async def test_the_timeout_goes_on_over_attempts_and_while_the_call_waits_again(room: Room) -> None:
    """A function that is given back and taken again has no more time than once."""
    worker, opened, call = await out(room, timeout_s=60.0)
    worker.ack(call)
    await keep_alive(room, worker, 30)
    await worker.nack(call)
    call = worker.expect(Deliver)
    worker.ack(call)
    await keep_alive(room, worker, 20)
    await worker.nack(call, delay_s=3600.0)

    await keep_alive(room, worker, 10)

    assert room.fed_of(CallTimedOut) == [CallTimedOut(call_id=opened.call_id)]
    assert await room.state(opened) is CallState.SETTLED


async def test_the_timeout_goes_on_while_the_effect_is_unknown(room: Room) -> None:
    """Nobody works on the call, but its time is up all the same."""
    worker, opened, call = await out(room, timeout_s=60.0, lost_worker=LostWorker.ASK)
    worker.ack(call)
    await worker.breaks()
    await room.pass_time(11)
    assert await room.state(opened) is CallState.EFFECT_UNKNOWN

    await room.pass_time(50)

    assert len(room.fed_of(CallTimedOut)) == 1


async def test_a_deadline_is_written_down_within_a_second_of_the_ack(room: Room) -> None:
    """Once for the call, together with others that came up meanwhile."""
    worker, first, call = await out(room, timeout_s=60.0)
    second = await room.open(timeout_s=90.0)
    worker.ack(call)
    await room.pass_time(0.5)
    worker.ack(worker.expect(Deliver))
    assert written(room) == []

    await room.pass_time(0.5)

    assert written(room) == [(first.call_id, pytest.approx(59)), (second.call_id, pytest.approx(89.5))]
    assert sum(bool(batch.deadlines) for batch in room.batches) == 1
    assert (await room.row(first)).deadline == pytest.approx(room.clock.wall() + 59)
    await keep_alive(room, worker, 20)
    assert len(written(room)) == 2


async def test_a_result_that_is_faster_spares_the_writing(room: Room) -> None:
    """Most functions take less than a second; others that take longer are written down all the same, each once."""
    worker, _, call = await out(room, timeout_s=60.0)
    slow, later = await room.open(timeout_s=60.0), await room.open(timeout_s=60.0)
    worker.ack(call)
    worker.ack(worker.expect(Deliver))
    await room.pass_time(0.5)

    await worker.result(call)
    await room.pass_time(0.5)
    worker.ack(worker.expect(Deliver))
    await room.pass_time(1)

    assert [call_id for call_id, _ in written(room)] == [slow.call_id, later.call_id]
    await keep_alive(room, worker, 60)
    assert len(room.fed_of(CallTimedOut)) == 2


@pytest.mark.parametrize(("away_s", "left_s"), [(20, 40), (600, 0)])
async def test_a_timeout_goes_on_over_a_restart(room: Room, away_s: float, left_s: float) -> None:
    """From the row; one that passed meanwhile fires at once."""
    worker, opened, call = await out(room, timeout_s=60.0)
    worker.ack(call)
    await room.pass_time(1)
    room.clock.advance(away_s - 1)
    room = await room.restarted(registration_grace_s=1e6)

    if left_s:
        await room.pass_time(left_s - 1)
        assert room.fed_of(CallTimedOut) == []
        await room.pass_time(1)
    else:
        await room.pass_time(0)

    assert room.fed_of(CallTimedOut) == [CallTimedOut(call_id=opened.call_id)]


async def test_a_worker_that_comes_back_starts_the_timeout_if_nobody_did(room: Room) -> None:
    """Its ack was lost with the server; that it names the attempt is one."""
    worker, opened, call = await out(room, timeout_s=60.0)
    room = await room.restarted()
    await room.pass_time(5)

    back = await room.worker("f", resume_token=worker.token, held=held(call))
    await room.pass_time(1)

    assert [call_id for call_id, _ in written(room)] == [opened.call_id]
    await keep_alive(room, back, 60)
    assert len(room.fed_of(CallTimedOut)) == 1


# -- expiry --------------------------------------------------------------------------------------


async def test_a_call_that_nobody_settles_expires(room: Room) -> None:
    """Whether it waits, is out, or of unknown effect."""
    now = room.clock.wall()
    waiting = await room.open("unserved", expires_at=now + 100)
    worker, held_, call = await out(room, expires_at=now + 100)
    worker.ack(call)
    doubtful = await room.open("g", expires_at=now + 100, lost_worker=LostWorker.ASK)
    gone = await room.worker("g")
    await gone.breaks()
    await keep_alive(room, worker, 95)
    assert room.fed_of(CallExpired) == []

    await keep_alive(room, worker, 5)

    expired = [given.call_id for given in room.fed_of(CallExpired)]
    assert sorted(expired) == sorted(one.call_id for one in (waiting, held_, doubtful))
    assert worker.stop() == (held_.call_id, CancelReason.EXPIRED, 0.0)


async def test_a_call_that_was_settled_does_not_expire(room: Room) -> None:
    """Its clock is gone with it."""
    worker, _, call = await out(room, expires_at=room.clock.wall() + 100)

    await worker.result(call)
    await room.pass_time(200)

    assert room.fed_of(CallExpired) == []
    assert len(room.dispatcher.alarms) == 0


async def test_an_expiry_that_passed_while_the_server_was_away_is_told_at_once(room: Room) -> None:
    """It stands in the row from the opening on."""
    opened = await room.open(expires_at=room.clock.wall() + 100)
    room.clock.advance(500)

    room = await room.restarted()
    await room.pass_time(0)

    assert room.fed_of(CallExpired) == [CallExpired(call_id=opened.call_id)]
    assert await room.state(opened) is CallState.SETTLED


# -- decisions -----------------------------------------------------------------------------------


async def asked(room: Room, within_s: float) -> CallRow:
    """Open a call that somebody must allow within a time."""
    row = CallRow(
        call_id="call_1_0000a0",
        session_id=SESSION,
        turn_id=TURN,
        name="f",
        agent="A",
        arguments="{}",
        scopes=("",),
        state=CallState.AWAITING_DECISION,
        decide_by=room.clock.wall() + within_s,
    )
    await room.store.commit(Batch(session_id=SESSION, calls_opened=(row,)))
    room.dispatcher.opened(row)
    return row


async def test_a_call_is_rejected_by_itself_where_nobody_decides(room: Room) -> None:
    """Once its time is up, and not before."""
    call = await asked(room, 100)
    await room.pass_time(99)
    assert room.fed == []

    await room.pass_time(1)

    rejected = DecisionMade(decision=Decision(call_id=call.call_id, approve=False), expired=True)
    assert room.fed == [rejected]
    assert await room.state(call) is CallState.SETTLED


async def test_a_decision_is_waited_for_over_a_restart(room: Room) -> None:
    """The end of the waiting stands in the row; one that passed meanwhile is told at once."""
    await asked(room, 100)
    await room.pass_time(50)
    room = await room.restarted()
    await room.pass_time(49)
    assert room.fed == []
    room.clock.advance(500)
    room = await room.restarted()

    await room.pass_time(0)

    assert len(room.fed_of(DecisionMade)) == 1


async def test_a_call_that_was_decided_is_not_rejected_by_itself(room: Room) -> None:
    """Its clock is gone with the waiting, also for the next process."""
    call = await asked(room, 100)
    allowed = Move(call_id=call.call_id, state=CallState.HELD)
    await room.store.commit(Batch(session_id=SESSION, moves=(allowed,)))
    room = await room.restarted()

    await room.pass_time(200)

    assert room.fed == []
