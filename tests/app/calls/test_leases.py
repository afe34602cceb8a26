"""Attempts that are out: their states, and what the clocks say in each."""

from __future__ import annotations

from typing import cast

import pytest

from baton_server.app.calls.frames import Credit, Handler, Link, SideEffects
from baton_server.app.calls.leases import MOVES, Leased, Leases, LeaseState, lease_of, leased_to
from baton_server.app.calls.worker import Reservation, Worker
from baton_server.app.runtime import Limits
from baton_server.core.tools import LostWorker
from baton_server.ports.store import CallRow, CallState

S = LeaseState
LIMITS = Limits()


def worker(**fields: object) -> Worker:
    """Make a worker that serves f."""
    given = {"worker_id": "worker_1", "instance_id": "pod", "holder": "h", "scopes": ("",), "heard_at": 100.0}
    made = Worker(**{"link": cast(Link, None), **given, **fields})  # type: ignore[arg-type]
    made.welcomed = True
    made.handlers[Handler(name="f").key] = Handler(name="f")
    made.grant(Credit(messages=5), 100)
    return made


def call(**fields: object) -> CallRow:
    """Make a call of f."""
    given = {"call_id": "call_1", "session_id": "s", "turn_id": "t", "name": "f", "agent": "A", "arguments": "{}"}
    return CallRow(**{**given, "scopes": ("",), **fields})  # type: ignore[arg-type]


def lease(by: Worker | None, state: LeaseState, **fields: object) -> Leased:
    """Make an attempt that is out since moment 100."""
    reservation = None if by is None else Reservation(by, "", by.handlers[Handler(name="f").key], 2)
    made = Leased.of(call(), 1, 100.0, reservation)
    made.state = state
    for name, value in fields.items():
        setattr(made, name, value)
    return made


# -- states --------------------------------------------------------------------------------------


def test_every_state_has_its_moves() -> None:
    """None is forgotten in the table, and no state is left for itself or for how an attempt begins."""
    assert set(MOVES) == set(LeaseState)
    for state, moves in MOVES.items():
        assert state not in moves
        assert not moves & {S.WAITING, S.ORPHANED}


def test_an_end_is_final() -> None:
    """A result that has come is not lost, and what is given back has no result."""
    assert MOVES[S.SETTLING] == MOVES[S.LEAVING] == frozenset()
    assert all({S.SETTLING, S.LEAVING} <= MOVES[state] for state in MOVES if state not in (S.SETTLING, S.LEAVING))


@pytest.mark.parametrize("state", list(LeaseState))
@pytest.mark.parametrize("to", list(LeaseState))
def test_only_moves_of_the_table_are_made(state: LeaseState, to: LeaseState) -> None:
    """Any other one is told, and changes nothing."""
    made = lease(worker(), state)

    assert made.to(to) is (to in MOVES[state])
    assert made.state is (to if to in MOVES[state] else state)


def test_only_what_was_never_written_was_not_sent() -> None:
    """All else may have arrived, and may run."""
    assert [state for state in LeaseState if not lease(worker(), state).sent] == [S.WAITING]


# -- clocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "by", "state", "fields"),
    [
        (130.0, worker(), S.HELD, {}),  # heard at 100, a lease of 30 s
        (115.0, worker(lost_at=105.0), S.HELD, {}),  # the grace of 10 s
        (110.0, None, S.ORPHANED, {}),  # the grace from the start of the server
        (130.0, worker(half_duplex=True, heard_at=500.0), S.HELD, {}),  # no heartbeat renews it
        (130.0, worker(half_duplex=True, lost_at=101.0), S.HELD, {}),  # it outlives the stream
        (107.0, worker(), S.RECALLED, {"recalled_until": 107.0}),
        (111.0, worker(lost_at=101.0), S.RECALLED, {"recalled_until": 107.0}),  # the worker may come back and say
        (900.0, worker(), S.HELD, {"extended_until": 900.0}),
        (900.0, worker(lost_at=105.0), S.HELD, {"extended_until": 900.0}),
        (900.0, None, S.ORPHANED, {"extended_until": 900.0}),
        (130.0, worker(), S.HELD, {"extended_until": 120.0}),  # an extension never shortens
    ],
)
def test_until_when_an_attempt_is_its_workers(
    until: float, by: Worker | None, state: LeaseState, fields: dict[str, object]
) -> None:
    """By what is heard of it, by its grace, or by what it asked for."""
    made = lease(by, state, **fields)

    assert made.until(LIMITS) == until
    assert not made.expired(until, LIMITS)
    assert made.expired(until + 0.1, LIMITS)


@pytest.mark.parametrize(
    ("overdue_at", "state", "fields"),
    [
        (130.0, S.WAITING, {}),
        (130.0, S.WRITING, {}),
        (109.0, S.WRITTEN, {"written_at": 104.0}),
    ],
)
def test_when_an_ack_is_overdue(overdue_at: float, state: LeaseState, fields: dict[str, object]) -> None:
    """5 s after it was written; what waits to be written has as long as a lease."""
    made = lease(worker(), state, **fields)

    assert not made.ack_overdue(overdue_at, LIMITS)
    assert made.ack_overdue(overdue_at + 0.1, LIMITS)


@pytest.mark.parametrize("state", [S.HELD, S.RECALLED, S.SETTLING, S.LEAVING])
def test_no_ack_is_owed_twice(state: LeaseState) -> None:
    """Nor by a worker that is not there."""
    assert not lease(worker(), state, written_at=1.0).ack_overdue(9999.0, LIMITS)
    assert not lease(worker(lost_at=1.0), S.WRITTEN, written_at=1.0).ack_overdue(9999.0, LIMITS)


# -- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "handler", "row"),
    [
        (None, None, None),
        (None, SideEffects.ONCE, LostWorker.ASK),
        (None, SideEffects.IDEMPOTENT, None),
        (LostWorker.REDELIVER, SideEffects.ONCE, LostWorker.REDELIVER),
        (LostWorker.ASK, SideEffects.NONE, LostWorker.ASK),
    ],
)
def test_what_a_lost_worker_means_is_fixed_with_the_lease(
    said: LostWorker | None, handler: SideEffects | None, row: LostWorker | None
) -> None:
    """The agent's word wins; else a handler that is harmful twice must not run twice."""
    by = worker()
    serving = Handler(name="f", side_effects=handler)
    leased = leased_to(Reservation(by, "", serving, 2), call(lost_worker=said))

    assert leased.lost_worker is row
    assert (leased.state, leased.attempt, leased.worker_id, leased.holder) == (CallState.LEASED, 1, "worker_1", "h")
    assert lease_of(leased).lost_worker is row
    assert Leased.of(leased, 1, 0.0).ask is (row is LostWorker.ASK)


# -- the table -----------------------------------------------------------------------------------


def test_a_place_on_a_worker_is_counted_once() -> None:
    """From the reservation on, as the lease that comes of it, over a change of streams, until it is gone."""
    by, other = worker(), worker(worker_id="worker_2")
    leases = Leases(lambda: None)
    reservation = Reservation(by, "", by.handlers[Handler(name="f").key], 2)
    assert (by.taken.total(), by.credit) == (1, 4)

    made = Leased.of(call(worker_id="worker_1"), 1, 0.0, reservation)
    reservation.end()
    leases.add(made)
    assert (by.taken.total(), by.taken_bytes) == (1, 2)
    assert reservation.refund() is None

    leases.hand_over(made, other)
    assert (by.taken.total(), other.taken.total()) == (0, 1)
    leases.pop("call_1")
    assert (other.taken.total(), other.taken_bytes) == (0, 0)
    assert by.credit == 4  # credit is used up for good


def test_a_reservation_that_came_to_nothing_gives_back_what_it_cost() -> None:
    """Once, and only on the stream that granted it."""
    by = worker()
    by.grant(Credit(messages=0, bytes=10), 100)
    first = Reservation(by, "", Handler(name="f"), 4)
    assert (by.credit, by.credit_bytes) == (4, 6)
    assert first.refund() == Credit(messages=1, bytes=4)
    assert first.refund() is None
    second = Reservation(by, "", Handler(name="f"), 4)
    by.link = cast(Link, object())
    assert second.refund() is None
    assert by.taken.total() == 0


def test_an_attempt_is_found_for_its_worker_or_for_anyone() -> None:
    """But only that very attempt."""
    leases = Leases(lambda: None)
    made = Leased.of(call(worker_id="worker_1", attempt=3), 1, 0.0)
    leases.add(made)

    assert leases.of("worker_1", "call_1", 3) is made
    assert leases.of("", "call_1", 3) is made
    assert leases.of("worker_2", "call_1", 3) is None
    assert leases.of("worker_1", "call_1", 2) is None
    assert leases.of("worker_1", "call_2", 3) is None
