"""Who holds which attempt, as this process knows it, and what its clocks say about that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from baton_server.app.calls.registry import Worker
from baton_server.app.runtime import Limits
from baton_server.ports.store import CallRow, CallState


@dataclass(slots=True, kw_only=True)
class Leased:
    """An attempt that is out. `worker` None: it has not come back since this process began.

    `since`: when it was queued for the worker, or read from the store (monotonic seconds). `written_at`: when it
    was written to the stream; None: not yet. `place`: of the call in the queue. `stop_by`: its worker was told to
    stop by then (monotonic seconds); None: it was not. `settling`: its result has come and is on its way to the
    disk. `resolving`: it is being given up. `unacked`: deliveries in a row, up to now, that were never acked.
    """

    turn_id: str
    attempt: int
    worker_id: str
    instance_id: str
    worker: Worker | None
    since: float
    place: int
    written_at: float | None = None
    acked: bool = False
    stop_by: float | None = None
    settling: bool = False
    resolving: bool = False
    unacked: int = 0

    @classmethod
    def of(cls, call: CallRow, worker: Worker | None, since: float, place: int, unacked: int = 0) -> Leased:
        """Make it of a call whose lease is on disk."""
        return cls(
            turn_id=call.turn_id,
            attempt=call.attempt,
            worker_id=call.worker_id,
            instance_id=call.instance_id,
            worker=worker,
            since=since,
            place=place,
            unacked=unacked,
        )

    @property
    def leaving(self) -> bool:
        """Tell whether its end is decided already, one way or the other."""
        return self.settling or self.resolving

    def expired(self, now: float, limits: Limits) -> bool:
        """Tell whether the worker's right to the attempt has ended: it is gone, or fell silent."""
        return now > self.until(limits)

    def until(self, limits: Limits) -> float:
        """Say until when the attempt is the worker's, if nothing more is heard of it (monotonic seconds)."""
        if self.worker is None:
            return self.since + limits.registration_grace_s
        if self.worker.lost_at is not None:
            return self.worker.lost_at + limits.registration_grace_s
        return self.worker.heard_at + limits.lease_s

    def ack_overdue(self, now: float, limits: Limits) -> bool:
        """Tell whether the call seems not to have arrived at a worker that is attached.

        A call that waits to be written, on a slow way or for a worker that does not read, has as long as a lease.
        """
        if self.acked or self.worker is None or self.worker.lost_at is not None:
            return False
        if self.written_at is None:
            return now - self.since > limits.lease_s
        return now - self.written_at > limits.ack_timeout_s


def leased_to(worker: Worker, row: CallRow) -> CallRow:
    """Say how the row of a queued call is once a worker has it."""
    return replace(
        row,
        state=CallState.LEASED,
        attempt=row.attempt + 1,
        worker_id=worker.worker_id,
        instance_id=worker.instance_id,
    )


class Leases:
    """Attempts by call. `eased`: called when one has left."""

    def __init__(self, eased: Callable[[], None]) -> None:
        self._eased = eased
        self._leases: dict[str, Leased] = {}
        self._of_turn: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[str, Leased]]:
        return iter(tuple(self._leases.items()))

    def add(self, call_id: str, lease: Leased) -> None:
        """Note an attempt that is on disk as leased."""
        self.pop(call_id)
        self._leases[call_id] = lease
        self._of_turn[lease.turn_id] += 1

    def get(self, call_id: str) -> Leased | None:
        """Find the attempt of a call that is out; None: nobody holds it."""
        return self._leases.get(call_id)

    def holds(self, call_id: str) -> bool:
        """Tell whether a worker works on a call, or may."""
        lease = self._leases.get(call_id)
        return lease is not None and not lease.resolving

    def pop(self, call_id: str) -> Leased | None:
        """Forget the attempt of a call."""
        lease = self._leases.pop(call_id, None)
        if lease is not None:
            self._of_turn[lease.turn_id] -= 1
            if not self._of_turn[lease.turn_id]:
                del self._of_turn[lease.turn_id]
            self._eased()
        return lease

    def any_of(self, turn_id: str) -> bool:
        """Tell whether any call of a turn is out."""
        return turn_id in self._of_turn

    def of(self, worker: Worker, call_id: str, attempt: int) -> Leased | None:
        """Find an attempt if it is this very one and this worker's."""
        lease = self._leases.get(call_id)
        mine = lease is not None and lease.attempt == attempt and lease.worker_id == worker.worker_id
        return lease if mine else None

    def held_by(self, worker: Worker) -> list[tuple[str, Leased]]:
        """List what a worker holds."""
        return [(call_id, lease) for call_id, lease in self if lease.worker is worker]

    def of_instance(self, instance_id: str) -> list[tuple[str, Leased]]:
        """List what an instance holds, over its streams and ours."""
        return [(call_id, lease) for call_id, lease in self if lease.instance_id == instance_id]
