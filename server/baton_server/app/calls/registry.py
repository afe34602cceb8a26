"""Who serves what: the attached workers of this process, and the lost ones within their grace.

Pure bookkeeping: no clock but the times it is told, no I/O. A handler is registered under every scope of its
worker; a name is looked up in the scopes of a turn, in order, and the first in which anybody serves it has it: who
serves it in a later one may mean something else, however busy the first are. Versions of a name stand side by side;
the newest is the one that came first to be registered last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton_server.app.calls.frames import Handler, HandlerKey
from baton_server.app.calls.worker import Reservation, Worker
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind

__all__ = ["Registry", "Reservation", "Worker"]

UNSERVED_REMEMBERED_S = 900.0
"""How long it is kept since when a version is unserved, and its rank: longer than any `unserved_grace`."""

MAX_HANDLERS = 512
MAX_DECLARED_BYTES = 8 * 1024 * 1024
"""What one worker may register: handlers, and the bytes of what they say of themselves (PROTOCOL.md §5)."""

Found = tuple[Worker, str, Handler]
"""Who takes a call, the scope in which it was found, and its handler."""

_Place = tuple[str, HookKind | None, str]
"""Scope, kind and name."""


@dataclass(slots=True)
class _Version:
    """Who serves one version in one scope. `rank`: higher is newer."""

    rank: int
    workers: dict[str, Worker] = field(default_factory=dict)


class Registry:
    """Workers by id, by instance, by resume token, and by what they serve."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._by_instance: dict[str, Worker] = {}
        self._by_holder: dict[str, Worker] = {}
        self._served: dict[_Place, dict[str, _Version]] = {}
        self._unserved: dict[tuple[_Place, str], float] = {}
        self._rank = 0

    # -- workers ---------------------------------------------------------------------------------

    def workers(self) -> tuple[Worker, ...]:
        """List all workers, attached and lost, oldest first."""
        return tuple(self._workers.values())

    def get(self, worker_id: str) -> Worker | None:
        """Find a worker by its id."""
        return self._workers.get(worker_id)

    def instance(self, instance_id: str) -> Worker | None:
        """Find the worker of an instance, attached or lost."""
        return self._by_instance.get(instance_id)

    def holder(self, holder: str) -> Worker | None:
        """Find a worker by the digest of its resume token."""
        return self._by_holder.get(holder)

    def add(self, worker: Worker) -> None:
        """Take in a worker that has said Hello; its handlers are registered apart."""
        self._workers[worker.worker_id] = worker
        self._by_instance[worker.instance_id] = worker
        self._by_holder[worker.holder] = worker

    def remove(self, worker: Worker, now: float) -> None:
        """Forget a worker and its handlers."""
        self.unregister(worker, tuple(worker.handlers), now)
        for table, key in (
            (self._workers, worker.worker_id),
            (self._by_instance, worker.instance_id),
            (self._by_holder, worker.holder),
        ):
            if table.get(key) is worker:
                del table[key]

    # -- handlers --------------------------------------------------------------------------------

    def register(self, worker: Worker, handler: Handler) -> Failure | None:
        """Register a handler in every scope of its worker; None: it was.

        Refused where another worker that is attached serves its version in one of the scopes with other
        parameters. A lost one yields: it may well be the former life of this one. Refused also where the worker
        has too many. One that drains serves nothing more, whatever it registers.
        """
        key = handler.key
        declared = worker.declared + handler.size - _size(worker.handlers.get(key))
        if declared > MAX_DECLARED_BYTES or len({*worker.handlers, key}) > MAX_HANDLERS:
            return self._refuse(worker, handler, _too_many(handler))
        outdated: list[Worker] = []
        for scope in worker.scopes:
            for other in self._version(scope, key).workers.values():
                if other is worker or _agree(other.handlers[key], handler):
                    continue
                if other.lost_at is None:
                    return self._refuse(worker, handler, _conflict(handler, scope))
                outdated.append(other)
        for other in outdated:
            self.unregister(other, (key,), other.lost_at or 0.0)
        worker.refused.pop(key, None)
        if worker.draining:
            return None
        worker.handlers[key], worker.declared = handler, declared
        for scope in worker.scopes:
            place = (scope, key.kind, key.name)
            versions = self._served.setdefault(place, {})
            if key.version not in versions:
                self._rank += 1
                versions[key.version] = _Version(self._rank)
            versions[key.version].workers[worker.worker_id] = worker
            self._unserved.pop((place, key.version), None)
        return None

    def refused(self, worker: Worker, key: HandlerKey, failure: Failure) -> None:
        """Remember why a handler was not registered, for who asks why nobody serves it."""
        worker.refuse(key, failure, MAX_HANDLERS)

    def unregister(self, worker: Worker, keys: Iterable[HandlerKey], now: float) -> None:
        """Take handlers back; those that are not registered are passed over."""
        for key in keys:
            handler = worker.handlers.pop(key, None)
            if handler is None:
                continue
            worker.declared -= handler.size
            for scope in worker.scopes:
                served = self._version(scope, key)
                served.workers.pop(worker.worker_id, None)
                if not served.workers:
                    self._unserved[(scope, key.kind, key.name), key.version] = now

    def retire(self, worker: Worker, now: float) -> None:
        """Take a worker out of the search, for it drains: it serves nothing more. What it holds stays its own."""
        worker.retired += tuple(worker.handlers)
        self.unregister(worker, tuple(worker.handlers), now)
        worker.draining = True

    # -- looking up ------------------------------------------------------------------------------

    def find(self, name: str, version: str, scopes: Sequence[str], avoid: str = "") -> Found | None:
        """Choose who gets a call of a function, in which scope and by which handler; None: nobody can take it now.

        `version` empty: any, the newest that somebody can take; of its workers the one with most room. `avoid`: a
        worker that gets it only if no other can take it.
        """
        found = self._first(None, name, scopes)
        if found is None:
            return None
        scope, versions = found
        ready = [
            ((worker.worker_id != avoid, served.rank, worker.room), worker, worker.handlers[key])
            for said, served in versions.items()
            if version in ("", said)
            for key in (HandlerKey(kind=None, name=name, version=said),)
            for worker in served.workers.values()
            if worker.takes(key)
        ]
        best = max(ready, key=lambda one: one[0], default=None)
        return None if best is None else (best[1], scope, best[2])

    def serving(self, name: str, scopes: Sequence[str]) -> tuple[str, dict[str, tuple[Worker, ...]]] | None:
        """Say which scope has the calls of a function, and who serves it there, attached or lost, by version.

        None: nobody serves it.
        """
        found = self._first(None, name, scopes)
        if found is None:
            return None
        scope, versions = found
        return scope, {said: tuple(served.workers.values()) for said, served in versions.items() if served.workers}

    def hosts(self, kind: HookKind, name: str, scopes: Sequence[str]) -> tuple[Worker, ...]:
        """List who answers a hook, attached or lost within its grace: those of the first scope that serves it."""
        found = self._first(kind, name, scopes)
        versions = {} if found is None else found[1]
        return tuple(worker for served in versions.values() for worker in served.workers.values())

    def handler(self, name: str, scopes: Sequence[str], version: str = "") -> Handler | None:
        """Find what is said about a function: by the first scope in which a worker serves it with parameters.

        Of several versions by the newest; where nobody says any parameters, by whoever serves it.
        """
        serving = list(self._handlers(name, scopes, version))
        return next((handler for handler in serving if handler.parameters_json), next(iter(serving), None))

    def serves(self, name: str, scopes: Sequence[str], version: str = "", kind: HookKind | None = None) -> bool:
        """Tell whether any worker that does not drain, attached or lost within its grace, serves a name.

        `version` empty: any. `kind` None: a function.
        """
        found = self._first(kind, name, scopes)
        if found is None:
            return False
        return not version or (version in found[1] and bool(found[1][version].workers))

    def unserved_since(
        self, name: str, scopes: Sequence[str], version: str = "", kind: HookKind | None = None
    ) -> float | None:
        """Say since when nobody serves a name (monotonic; 0: it was never served); None: somebody does."""
        if self.serves(name, scopes, version, kind):
            return None
        places = [(scope, kind, name) for scope in scopes]
        return max(
            (
                self._unserved.get((place, said), 0.0)
                for place in places
                for said in self._served.get(place, {})
                if version in ("", said)
            ),
            default=0.0,
        )

    def forget_unserved(self, now: float) -> None:
        """Forget versions that are unserved since so long ago that nobody asks any more."""
        for (place, said), since in tuple(self._unserved.items()):
            if now - since > UNSERVED_REMEMBERED_S:
                del self._unserved[place, said]
                del self._served[place][said]
                if not self._served[place]:
                    del self._served[place]

    # -- inside ----------------------------------------------------------------------------------

    def _first(self, kind: HookKind | None, name: str, scopes: Sequence[str]) -> tuple[str, dict[str, _Version]] | None:
        """Find the first scope in which anybody serves a name."""
        for scope in scopes:
            versions = self._served.get((scope, kind, name))
            if versions and any(served.workers for served in versions.values()):
                return scope, versions
        return None

    def _handlers(self, name: str, scopes: Sequence[str], version: str) -> Iterator[Handler]:
        for scope in scopes:
            versions = self._served.get((scope, None, name), {})
            for said, served in sorted(versions.items(), key=lambda one: -one[1].rank):
                if version in ("", said):
                    for worker in served.workers.values():
                        yield worker.handlers[HandlerKey(kind=None, name=name, version=said)]

    def _version(self, scope: str, key: HandlerKey) -> _Version:
        return self._served.get((scope, key.kind, key.name), {}).get(key.version) or _Version(0)

    def _refuse(self, worker: Worker, handler: Handler, failure: Failure) -> Failure:
        self.refused(worker, handler.key, failure)
        return failure


def _agree(one: Handler, other: Handler) -> bool:
    """Tell whether two declarations of a name mean the same arguments; one that says nothing agrees with any."""
    texts = (one.parameters_json, other.parameters_json)
    return not all(texts) or texts[0] == texts[1] or _canonical(texts[0]) == _canonical(texts[1])


def _size(handler: Handler | None) -> int:
    return 0 if handler is None else handler.size


def _conflict(handler: Handler, scope: str) -> Failure:
    facts = {"name": handler.name, "scope": scope}
    version = f" version {handler.version!r} of" if handler.version else ""
    if handler.version:
        facts["version"] = handler.version
    return Failure(
        reason=Reason.HANDLER_CONFLICT,
        message=f"Another worker serves{version} {handler.name!r} in scope {scope!r} with other parameters. Give the "
        "new parameters a new version or a new name, or stop the other worker first.",
        metadata=facts,
    )


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
