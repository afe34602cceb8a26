"""A store whose reads and commits fail, or wait, where a test says so.

store = FaultyStore(store)
store.fail("inbox.rows")                        # the next read of an inbox cannot be done
read, go_on = store.hold("sessions.get")        # the next answer is held back
store.fail("commit", which=lambda b: b.leases, written=True)   # it is written, and reported as failed
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from baton_server.ports.store import Store, StoreUnavailable

AGGREGATES = frozenset({"sessions", "turns", "events", "items", "calls", "documents", "inbox", "timers"})


def _any(*_: Any) -> bool:
    return True


@dataclass(slots=True, kw_only=True)
class _Fault:
    name: str
    which: Callable[..., Any]
    left: int = 1
    error: Exception | None = None
    written: bool = False
    came: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


class FaultyStore:
    """A `Store` around another one. `counts`: rows that reads gave, by the name of the read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._faults: list[_Fault] = []
        self.counts: Counter[str] = Counter()

    def fail(
        self,
        name: str,
        times: int = 1,
        *,
        which: Callable[..., Any] = _any,
        error: Exception | None = None,
        written: bool = False,
    ) -> asyncio.Event:
        """Have the next calls of a name fail; returns what tells that the first one has come.

        `error` None: the store is away. `written`: a commit is written all the same.
        """
        away = error or StoreUnavailable("as the test says")
        fault = _Fault(name=name, which=which, left=times, error=away, written=written)
        self._faults.append(fault)
        return fault.came

    def hold(self, name: str, *, which: Callable[..., Any] = _any) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold the next answer of a name back; returns what tells that it was read, and what lets it go on."""
        fault = _Fault(name=name, which=which)
        self._faults.append(fault)
        return fault.came, fault.go

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in AGGREGATES:
            return _Aggregate(self, name, found)
        return self._wrapped(name, found) if name == "commit" else found

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(*given: Any, **named: Any) -> Any:
            fault = next((one for one in self._faults if one.name == name and one.which(*given)), None)
            if fault is not None:
                fault.left -= 1
                if not fault.left:
                    self._faults.remove(fault)
            if fault is None or fault.error is None or fault.written:
                answer = await call(*given, **named)
                self.counts[name] += len(answer) if isinstance(answer, list | tuple) else 1
            if fault is not None:
                fault.came.set()
                if fault.error is not None:
                    raise fault.error
                await fault.go.wait()
            return answer

        return wrapped


class _Aggregate:
    def __init__(self, store: FaultyStore, name: str, reads: Any) -> None:
        self._faulty, self._name, self._reads = store, name, reads

    def __getattr__(self, name: str) -> Any:
        return self._faulty._wrapped(f"{self._name}.{name}", getattr(self._reads, name))
