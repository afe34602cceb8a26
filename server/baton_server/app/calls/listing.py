"""Listing: the attached workers, and the lost ones within their grace, as people are shown them."""

from __future__ import annotations

from collections.abc import Sequence

from baton_server.app.calls.leases import Leased, Leases, LeaseState
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.ports.frames import Credit, Held
from baton_server.ports.workers import WorkerState, WorkerView


class Listing:
    """Looks at workers. What it shows is of one moment, and may be over when it is read."""

    def __init__(self, runtime: Runtime, registry: Registry, leases: Leases) -> None:
        self._runtime, self._registry, self._leases = runtime, registry, leases

    def workers(self, name: str = "", scope: str | None = None) -> list[WorkerView]:
        """List workers, those that attached last first. `name` empty: whatever they serve; `scope` None: in any."""
        found = [
            worker
            for worker in self._registry.workers()
            if (not name or any(key.name == name for key in worker.handlers))
            and (scope is None or scope in worker.scopes)
        ]
        held: dict[str, list[Leased]] = {}
        for _, lease in self._leases:
            if lease.worker is not None and lease.state is not LeaseState.LEAVING:
                held.setdefault(lease.worker.worker_id, []).append(lease)
        return [self._view(worker, held.get(worker.worker_id, ())) for worker in reversed(found)]

    def _view(self, worker: Worker, held: Sequence[Leased]) -> WorkerView:
        clock = self._runtime.clock
        return WorkerView(
            worker_id=worker.worker_id,
            instance_id=worker.instance_id,
            state=_state(worker),
            attached_at=worker.attached_at,
            last_heard_at=clock.wall() - (clock.monotonic() - worker.heard_at),
            sdk=worker.sdk,
            scopes=worker.scopes,
            handlers=tuple(worker.handlers.values()),
            credit=Credit(messages=max(0, worker.room), bytes=worker.room_bytes or 0),
            held=tuple(
                Held(
                    call_id=lease.call_id,
                    attempt=lease.attempt,
                    begun=lease.begun,
                    finished=lease.finished or lease.state is LeaseState.SETTLING,
                )
                for lease in held
            ),
            half_duplex=worker.half_duplex,
            metadata=worker.metadata,
        )


def _state(worker: Worker) -> WorkerState:
    if worker.lost_at is not None:
        return WorkerState.LOST
    return WorkerState.DRAINING if worker.draining else WorkerState.ATTACHED
