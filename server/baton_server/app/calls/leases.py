"""Who holds which attempt, as this process knows it, and what its clocks say about that.

An attempt that is out is in one state, and only the moves of `MOVES` are made. `SETTLING` and `LEAVING` are its end:
how it goes on from there is on its way to the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from baton_server.app.calls.frames import HandlerKey
from baton_server.app.calls.worker import Reservation, Worker
from baton_server.app.runtime import Limits
from baton_server.core.tools import LostWorker
from baton_server.ports.store import CallRow, CallState, Lease


class LeaseState(StrEnum):
    """Where an attempt is.

    WAITING: to be written to its worker's stream. WRITING: it may arrive at any moment. WRITTEN: its ack is owed.
    HELD: its worker works on it. ORPHANED: its worker has not come back since this process began. RECALLED: it was
    never acked and must not run twice, so its worker was asked whether it has begun. SETTLING: its result has come.
    LEAVING: it is being given back or up.
    """

    WAITING = "waiting"
    WRITING = "writing"
    WRITTEN = "written"
    HELD = "held"
    ORPHANED = "orphaned"
    RECALLED = "recalled"
    SETTLING = "settling"
    LEAVING = "leaving"


MOVES: dict[LeaseState, frozenset[LeaseState]] = {
    LeaseState.WAITING: frozenset({*LeaseState} - {LeaseState.WAITING, LeaseState.ORPHANED}),
    LeaseState.WRITING: frozenset({*LeaseState} - {LeaseState.WAITING, LeaseState.WRITING, LeaseState.ORPHANED}),
    LeaseState.WRITTEN: frozenset({LeaseState.HELD, LeaseState.RECALLED, LeaseState.SETTLING, LeaseState.LEAVING}),
    LeaseState.HELD: frozenset({LeaseState.SETTLING, LeaseState.LEAVING}),
    LeaseState.ORPHANED: frozenset({LeaseState.HELD, LeaseState.SETTLING, LeaseState.LEAVING}),
    LeaseState.RECALLED: frozenset({LeaseState.HELD, LeaseState.SETTLING, LeaseState.LEAVING}),
    LeaseState.SETTLING: frozenset(),
    LeaseState.LEAVING: frozenset(),
}
"""To which state an attempt may go from each. Whatever else is told about it comes too late, or twice."""


@dataclass(slots=True, kw_only=True)
class Leased:
    """An attempt that is out. Moments are monotonic seconds.

    `worker` None: it has not come back. `key`: of the handler that has it. `ask`: it must not run twice. `since`: when
    it was queued for the worker, or read from the store. `place`: of the call in the queue. `written_at`: when it was
    written; None: not yet, or by a former process. `recalled_until`: when it is given up if its worker does not answer.
    `stop_by`: its turn is cancelled, and its worker was told to stop by then. `extended_until`: it is the worker's
    until then, whatever is heard of it. `begun`, `finished`: what the worker said of it. `unacked`: deliveries in a
    row, up to now, that were never acked.
    """

    call_id: str
    session_id: str
    turn_id: str
    scopes: tuple[str, ...]
    attempt: int
    worker_id: str
    instance_id: str
    holder: str
    worker: Worker | None
    key: HandlerKey
    size_bytes: int
    ask: bool
    timeout_s: float | None
    since: float
    place: int
    state: LeaseState
    written_at: float | None = None
    recalled_until: float = 0.0
    stop_by: float | None = None
    extended_until: float = 0.0
    begun: bool = False
    finished: bool = False
    unacked: int = 0

    @classmethod
    def of(cls, call: CallRow, place: int, since: float, reservation: Reservation | None = None) -> Leased:
        """Make it of a call whose lease is on disk. `reservation` None: it was leased by a former process."""
        return cls(
            call_id=call.call_id,
            session_id=call.session_id,
            turn_id=call.turn_id,
            scopes=call.scopes,
            attempt=call.attempt,
            worker_id=call.worker_id,
            instance_id=call.instance_id,
            holder=call.holder,
            worker=None if reservation is None else reservation.worker,
            key=HandlerKey(kind=None, name=call.name, version=call.version)
            if reservation is None
            else reservation.handler.key,
            size_bytes=argument_bytes(call) if reservation is None else reservation.size_bytes,
            ask=call.lost_worker is LostWorker.ASK,
            timeout_s=call.timeout_s,
            since=since,
            place=place,
            state=LeaseState.ORPHANED if reservation is None else LeaseState.WAITING,
        )

    def to(self, state: LeaseState) -> bool:
        """Move to a state; False: that is not a move from here, and nothing was changed."""
        if state not in MOVES[self.state]:
            return False
        self.state = state
        return True

    @property
    def leaving(self) -> bool:
        """Tell whether its end is decided already, one way or the other."""
        return self.state in (LeaseState.SETTLING, LeaseState.LEAVING)

    @property
    def acked(self) -> bool:
        """Tell whether it is known to have arrived."""
        return self.state in (LeaseState.HELD, LeaseState.SETTLING)

    @property
    def sent(self) -> bool:
        """Tell whether it may have arrived, and may run."""
        return self.state is not LeaseState.WAITING

    def until(self, limits: Limits) -> float:
        """Say until when the attempt is the worker's, if nothing more is heard of it."""
        if self.worker is None:
            ends = self.since + limits.registration_grace_s
        elif self.worker.half_duplex:
            ends = self.since + limits.lease_s
        elif self.worker.lost_at is not None:
            ends = self.worker.lost_at + limits.registration_grace_s
        elif self.state is LeaseState.RECALLED:
            return self.recalled_until
        else:
            ends = self.worker.heard_at + limits.lease_s
        return max(ends, self.extended_until)

    def expired(self, now: float, limits: Limits) -> bool:
        """Tell whether the worker's right to the attempt has ended: it is gone, or fell silent."""
        return now > self.until(limits)

    def ack_overdue(self, now: float, limits: Limits) -> bool:
        """Tell whether the call seems not to have arrived at a worker that is attached.

        A call that waits to be written, on a slow way or for a worker that does not read, has as long as a lease.
        """
        if self.worker is None or self.worker.lost_at is not None:
            return False
        if self.state is LeaseState.WRITTEN and self.written_at is not None:
            return now - self.written_at > limits.ack_timeout_s
        return self.state in (LeaseState.WAITING, LeaseState.WRITING) and now - self.since > limits.lease_s


def argument_bytes(call: CallRow) -> int:
    """Count what a call costs of a worker's credit: its arguments in UTF-8."""
    return len(call.arguments.encode("utf-8", "surrogatepass"))


def leased_to(reservation: Reservation, row: CallRow) -> CallRow:
    """Say how the row of a call that waits is once the worker that was set aside for it has it."""
    worker = reservation.worker
    return replace(
        row,
        state=CallState.LEASED,
        attempt=row.attempt + 1,
        worker_id=worker.worker_id,
        instance_id=worker.instance_id,
        holder=worker.holder,
        lost_worker=row.lost_worker or reservation.lost_worker,
    )


def lease_of(row: CallRow) -> Lease:
    """Say what the store is to do so that a call is leased as in `row`."""
    return Lease(
        call_id=row.call_id,
        attempt=row.attempt,
        worker_id=row.worker_id,
        instance_id=row.instance_id,
        holder=row.holder,
        lost_worker=row.lost_worker,
    )


class Leases:
    """Attempts by call. `eased`: called when one has left."""

    def __init__(self, eased: Callable[[], None]) -> None:
        self._eased = eased
        self._leases: dict[str, Leased] = {}
        self._of_turn: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[str, Leased]]:
        return iter(tuple(self._leases.items()))

    def add(self, lease: Leased) -> None:
        """Note an attempt that is on disk as leased."""
        self.pop(lease.call_id)
        self._leases[lease.call_id] = lease
        self._of_turn[lease.turn_id] += 1
        if lease.worker is not None:
            lease.worker.hold(lease.key, lease.size_bytes)

    def get(self, call_id: str) -> Leased | None:
        """Find the attempt of a call that is out; None: nobody holds it."""
        return self._leases.get(call_id)

    def holds(self, call_id: str) -> bool:
        """Tell whether a worker works on a call, or may."""
        lease = self._leases.get(call_id)
        return lease is not None and lease.state is not LeaseState.LEAVING

    def pop(self, call_id: str) -> Leased | None:
        """Forget the attempt of a call."""
        lease = self._leases.pop(call_id, None)
        if lease is not None:
            self._of_turn[lease.turn_id] -= 1
            if not self._of_turn[lease.turn_id]:
                del self._of_turn[lease.turn_id]
            if lease.worker is not None:
                lease.worker.let_go(lease.key, lease.size_bytes)
            self._eased()
        return lease

    def hand_over(self, lease: Leased, worker: Worker) -> None:
        """Note who holds an attempt now: its worker has come back."""
        if lease.worker is worker:
            return
        if lease.worker is not None:
            lease.worker.let_go(lease.key, lease.size_bytes)
        elif not lease.key.version:
            lease.key = worker.likely(lease.key)
        lease.worker = worker
        worker.hold(lease.key, lease.size_bytes)

    def any_of(self, turn_id: str) -> bool:
        """Tell whether any call of a turn is out."""
        return turn_id in self._of_turn

    def of(self, worker_id: str, call_id: str, attempt: int) -> Leased | None:
        """Find an attempt if it is this very one and this worker's. `worker_id` empty: whoever has it."""
        lease = self._leases.get(call_id)
        mine = lease is not None and lease.attempt == attempt and worker_id in ("", lease.worker_id)
        return lease if mine else None

    def held_by(self, worker: Worker) -> list[Leased]:
        """List what a worker holds."""
        return [lease for lease in self._leases.values() if lease.worker is worker]

    def of_holder(self, holder: str) -> list[Leased]:
        """List what the worker of a resume token holds, over its streams and ours. `holder`: the token's digest."""
        return [lease for lease in self._leases.values() if lease.holder == holder] if holder else []

    def of_instance(self, instance_id: str) -> list[Leased]:
        """List what an instance holds, over its streams and ours."""
        return [lease for lease in self._leases.values() if lease.instance_id == instance_id]
