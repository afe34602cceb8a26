"""Who serves what: the attached workers of this process, and the lost ones within their grace.

Pure bookkeeping: no clock but the times it is told, no I/O. A handler is registered under every scope of its
worker; a name is looked up in the scopes of a turn, in order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from baton_server.app.calls.frames import Handler, Link
from baton_server.core.errors import Failure, Reason

UNSERVED_REMEMBERED_S = 900.0
"""How long it is kept since when a name is unserved: longer than any `unserved_grace`."""

MAX_HANDLERS = 512
MAX_DECLARED_BYTES = 8 * 1024 * 1024
"""What one worker may register: handlers, and the bytes of what they say of themselves (PROTOCOL.md §5)."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """An attached process. `lost_at`: when its stream broke, None: it is attached (monotonic seconds).

    `unanswered`: results that have come and have no Ack yet. `declared`: bytes of its handlers.
    """

    worker_id: str
    instance_id: str
    scopes: tuple[str, ...]
    link: Link
    heard_at: float
    handlers: dict[str, Handler] = field(default_factory=dict)
    declared: int = 0
    credit: int = 0
    draining: bool = False
    lost_at: float | None = None
    unanswered: int = 0

    @property
    def takes_calls(self) -> bool:
        """Tell whether a call may be handed to it now."""
        return self.credit > 0 and self.lost_at is None


@dataclass(frozen=True, slots=True)
class Reservation:
    """A worker's credit on the stream that it has, set aside for a call that is about to be committed."""

    worker: Worker
    scope: str
    link: Link

    @property
    def good(self) -> bool:
        """Tell whether the stream that granted the credit is still the worker's."""
        return self.worker.lost_at is None and self.worker.link is self.link


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

        Refused where another worker that is attached serves the name in one of the scopes with other
        parameters. A lost one yields: it may well be the former life of this one. Refused also where the worker
        has too many. One that drains serves nothing more, whatever it registers.
        """
        declared = worker.declared + handler.size - _size(worker.handlers.get(handler.name))
        if declared > MAX_DECLARED_BYTES or len({*worker.handlers, handler.name}) > MAX_HANDLERS:
            return _too_many(handler)
        outdated: list[Worker] = []
        for scope in worker.scopes:
            for other in self._serving.get((scope, handler.name), {}).values():
                if other is worker or _agree(other.handlers[handler.name], handler):
                    continue
                if other.lost_at is None:
                    return Failure(
                        reason=Reason.HANDLER_CONFLICT,
                        message=f"Another worker serves {handler.name!r} in scope {scope!r} with other "
                        "parameters. Give the new parameters a new name, or stop the other worker first.",
                        metadata={"name": handler.name, "scope": scope},
                    )
                outdated.append(other)
        for other in outdated:
            self.unregister(other, (handler.name,), other.lost_at or 0.0)
        if worker.draining:
            return None
        worker.handlers[handler.name], worker.declared = handler, declared
        for scope in worker.scopes:
            self._serving.setdefault((scope, handler.name), {})[worker.worker_id] = worker
        return None

    def unregister(self, worker: Worker, names: Sequence[str], now: float) -> None:
        """Take handlers back; names that are not registered are passed over."""
        for name in names:
            handler = worker.handlers.pop(name, None)
            if handler is None:
                continue
            worker.declared -= handler.size
            for scope in worker.scopes:
                serving = self._serving.get((scope, name), {})
                serving.pop(worker.worker_id, None)
                if not serving:
                    self._serving.pop((scope, name), None)
                    self._unserved_since[(scope, name)] = now

    def retire(self, worker: Worker, now: float) -> None:
        """Take a worker out of the search, for it drains: it serves nothing more. What it holds stays its own."""
        self.unregister(worker, tuple(worker.handlers), now)
        worker.draining = True

    def find(self, name: str, scopes: Sequence[str], avoid: str = "") -> tuple[Worker, str] | None:
        """Choose who gets a call: of those in the first scope that serves the name, the one with most credit.

        Who else serves it, in a later scope, may mean something else by the name, however busy the first are.
        `avoid`: a worker that gets it only if no other can take it.
        """
        for scope in scopes:
            serving = self._serving.get((scope, name))
            if serving:
                ready = [worker for worker in serving.values() if worker.takes_calls]
                best = max(ready, key=lambda worker: (worker.worker_id != avoid, worker.credit), default=None)
                return None if best is None else (best, scope)
        return None

    def handler(self, name: str, scopes: Sequence[str]) -> Handler | None:
        """Find what is said about a name: by the first scope in which a worker serves it with parameters."""
        for scope in scopes:
            for worker in self._serving.get((scope, name), {}).values():
                if worker.handlers[name].parameters_json:
                    return worker.handlers[name]
        return None

    def serves(self, name: str, scopes: Sequence[str]) -> bool:
        """Tell whether any worker that does not drain, attached or lost within its grace, serves a name."""
        return any((scope, name) in self._serving for scope in scopes)

    def unserved_since(self, name: str, scopes: Sequence[str]) -> float | None:
        """Say since when nobody serves a name (monotonic; 0: it was never served); None: somebody does."""
        if self.serves(name, scopes):
            return None
        return max((self._unserved_since.get((scope, name), 0.0) for scope in scopes), default=0.0)

    def forget_unserved(self, now: float) -> None:
        """Forget since when names are unserved where that was so long ago that nobody asks any more."""
        for key, since in tuple(self._unserved_since.items()):
            if now - since > UNSERVED_REMEMBERED_S:
                del self._unserved_since[key]


def _agree(one: Handler, other: Handler) -> bool:
    """Tell whether two declarations of a name mean the same arguments; one that says nothing agrees with any."""
    texts = (one.parameters_json, other.parameters_json)
    return not all(texts) or texts[0] == texts[1] or _canonical(texts[0]) == _canonical(texts[1])


def _size(handler: Handler | None) -> int:
    return 0 if handler is None else handler.size


def _too_many(handler: Handler) -> Failure:
    return Failure(
        reason=Reason.HANDLER_INVALID,
        message=f"The handler {handler.name!r} was not registered: a worker may have {MAX_HANDLERS} handlers, whose "
        f"names, descriptions and parameters have {MAX_DECLARED_BYTES} bytes in all. Unregister others first.",
        metadata={"name": handler.name, "problem": "too_many"},
    )


def _canonical(text: str) -> str:
    """Write JSON in one way: no spaces, keys in order, whole numbers without a fraction."""
    return json.dumps(json.loads(text, parse_int=_number, parse_float=_number), sort_keys=True)


def _number(text: str) -> dict[str, Any]:
    value = float(text)
    # Whole numbers up to 2^53 are the same with and without a fraction; beyond it digits count, so the text stays.
    return {"number": str(int(value)) if abs(value) < 2**53 and value.is_integer() else text}
