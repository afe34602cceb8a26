"""Who serves what: the attached workers of this process, and the lost ones within their grace.

Pure bookkeeping: no clock but the times it is told, no I/O. A handler is registered under every scope of its
worker; a name is looked up in the scopes of a turn, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from baton_server.app.frames import Handler, Link
from baton_server.core.errors import Failure, Reason


@dataclass(slots=True, kw_only=True)
class Worker:
    """An attached process. `lost_at`: when its stream broke, None: it is attached (monotonic seconds)."""

    worker_id: str
    instance_id: str
    scopes: tuple[str, ...]
    link: Link
    heard_at: float
    handlers: dict[str, Handler] = field(default_factory=dict)
    credit: int = 0
    draining: bool = False
    lost_at: float | None = None
    claiming: bool = False

    @property
    def takes_calls(self) -> bool:
        """Tell whether a call may be handed to it now."""
        return self.credit > 0 and not self.draining and self.lost_at is None


class Registry:
    """Workers by id, by instance, and by (scope, name)."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._by_instance: dict[str, Worker] = {}
        self._serving: dict[tuple[str, str], dict[str, Worker]] = {}
        self._unserved_since: dict[tuple[str, str], float] = {}

    def workers(self) -> tuple[Worker, ...]:
        """List all workers, attached and lost."""
        return tuple(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        """Find a worker by its id."""
        return self._workers.get(worker_id)

    def instance(self, instance_id: str) -> Worker | None:
        """Find the worker of an instance, attached or lost."""
        return self._by_instance.get(instance_id)

    def add(self, worker: Worker) -> None:
        """Take in a worker that has said Hello; its handlers are registered apart."""
        self._workers[worker.worker_id] = worker
        self._by_instance[worker.instance_id] = worker

    def remove(self, worker: Worker, now: float) -> None:
        """Forget a worker and its handlers."""
        self.unregister(worker, tuple(worker.handlers), now)
        if self._workers.get(worker.worker_id) is worker:
            del self._workers[worker.worker_id]
        if self._by_instance.get(worker.instance_id) is worker:
            del self._by_instance[worker.instance_id]

    def register(self, worker: Worker, handler: Handler) -> Failure | None:
        """Register a handler in every scope of its worker; None: it was.

        Refused where another worker serves the name in one of the scopes with other parameters.
        """
        for scope in worker.scopes:
            for other in self._serving.get((scope, handler.name), {}).values():
                known = other.handlers[handler.name].parameters_json
                differs = known and handler.parameters_json and known != handler.parameters_json
                if differs and other.instance_id != worker.instance_id:
                    return Failure(
                        reason=Reason.HANDLER_CONFLICT,
                        message=f"Another worker serves {handler.name!r} in scope {scope!r} with other "
                        "parameters. Give the new parameters a new name, or stop the other worker first.",
                        metadata={"name": handler.name, "scope": scope},
                    )
        worker.handlers[handler.name] = handler
        for scope in worker.scopes:
            self._serving.setdefault((scope, handler.name), {})[worker.worker_id] = worker
        return None

    def unregister(self, worker: Worker, names: Sequence[str], now: float) -> None:
        """Take handlers back; names that are not registered are passed over."""
        for name in names:
            if worker.handlers.pop(name, None) is None:
                continue
            for scope in worker.scopes:
                serving = self._serving.get((scope, name), {})
                serving.pop(worker.worker_id, None)
                if not serving:
                    self._serving.pop((scope, name), None)
                    self._unserved_since[(scope, name)] = now

    def find(self, name: str, scopes: Sequence[str]) -> tuple[Worker, str] | None:
        """Choose who gets a call: in the first scope that has a worker with credit, the one with the most."""
        for scope in scopes:
            ready = [w for w in self._serving.get((scope, name), {}).values() if w.takes_calls]
            if ready:
                return max(ready, key=lambda worker: worker.credit), scope
        return None

    def handler(self, name: str, scopes: Sequence[str]) -> Handler | None:
        """Find what is said about a name: by the first scope in which a worker serves it with parameters."""
        for scope in scopes:
            for worker in self._serving.get((scope, name), {}).values():
                if worker.handlers[name].parameters_json:
                    return worker.handlers[name]
        return None

    def scope_of(self, worker: Worker, name: str, scopes: Sequence[str]) -> str:
        """Say in which scope of a turn a worker serves a name."""
        return next((s for s in scopes if worker.worker_id in self._serving.get((s, name), {})), "")

    def serves(self, name: str, scopes: Sequence[str]) -> bool:
        """Tell whether any worker, attached or lost within its grace, serves a name in one of the scopes."""
        return any((scope, name) in self._serving for scope in scopes)

    def unserved_since(self, name: str, scopes: Sequence[str]) -> float | None:
        """Say since when nobody serves a name (monotonic; 0: it was never served); None: somebody does."""
        if self.serves(name, scopes):
            return None
        return max((self._unserved_since.get((scope, name), 0.0) for scope in scopes), default=0.0)
