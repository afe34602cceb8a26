"""Who holds which attempt, as this process knows it, and what its clocks say about that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from baton_server.app.registry import Worker
from baton_server.app.runtime import Limits


@dataclass(slots=True, kw_only=True)
class Leased:
    """An attempt that is out. `worker` None: it has not come back since this process began.

    `since`: when it was sent, or read from the store (monotonic seconds). `resolving`: it is being given up.
    """

    turn_id: str
    attempt: int
    worker_id: str
    instance_id: str
    worker: Worker | None
    since: float
    acked: bool = False
    resolving: bool = False

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

    def unacked(self, now: float, limits: Limits) -> bool:
        """Tell whether the call seems not to have arrived at a worker that is attached."""
        attached = self.worker is not None and self.worker.lost_at is None
        return attached and not self.acked and now - self.since > limits.ack_timeout_s


class Leases:
    """Attempts by call."""

    def __init__(self) -> None:
        self._leases: dict[str, Leased] = {}

    def __iter__(self) -> Iterator[tuple[str, Leased]]:
        return iter(tuple(self._leases.items()))

    def add(self, call_id: str, lease: Leased) -> None:
        """Note an attempt that is on disk as leased."""
        self._leases[call_id] = lease

    def get(self, call_id: str) -> Leased | None:
        """Find the attempt of a call that is out; None: nobody holds it."""
        return self._leases.get(call_id)

    def pop(self, call_id: str) -> Leased | None:
        """Forget the attempt of a call."""
        return self._leases.pop(call_id, None)

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
