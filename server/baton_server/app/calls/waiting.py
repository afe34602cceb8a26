"""Calls that no worker holds, oldest first. Pure bookkeeping: no clock but the times it is told, no I/O.

A call keeps its place: one that comes back after a lost attempt stands where it stood before. Calls of one name,
one version and one list of scopes are a group; they may all go to the same workers, so that looking for the next call
that somebody can take costs a look at each group, not at each call.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Taker = TypeVar("Taker")

_Group = tuple[str, tuple[str, ...]]
"""Version and scopes, of calls of one name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call that is QUEUED on disk.

    `place`: in the queue, from 0, unique. `available_at`: not to be delivered before (wall seconds). `avoid`:
    the worker that gave it back, who gets it only if nobody else can take it; empty: none. `unacked`: its last
    deliveries that were never acked. `version` empty: any. `size_bytes` of its arguments.
    `since`: when it began to wait for a worker (wall seconds).
    """

    call_id: str
    name: str
    scopes: tuple[str, ...]
    place: int
    version: str = ""
    size_bytes: int = 0
    available_at: float = 0.0
    avoid: str = ""
    unacked: int = 0
    since: float = 0.0

    @property
    def group(self) -> _Group:
        """Say with which other calls of its name it stands."""
        return self.version, self.scopes


@dataclass(slots=True)
class _Heap:
    """Calls of one group by place. What was taken out of the queue is passed over here."""

    calls: list[tuple[int, str]] = field(default_factory=list)


class WaitingCalls:
    """The queue."""

    def __init__(self) -> None:
        self._calls: dict[str, WaitingCall] = {}
        self._ready: set[str] = set()
        self._groups: dict[str, dict[_Group, _Heap]] = {}
        self._delayed: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def add(self, call: WaitingCall, now: float) -> None:
        """Take a call in, at its place. `now`: wall seconds."""
        self._calls[call.call_id] = call
        if call.available_at > now:
            self._ready.discard(call.call_id)
            heapq.heappush(self._delayed, (call.available_at, call.call_id))
        else:
            self._push(call)

    def discard(self, call_id: str) -> None:
        """Take a call out, wherever it stands; one that is not there is passed over."""
        self._calls.pop(call_id, None)
        self._ready.discard(call_id)

    def release_due(self, now: float) -> None:
        """Let calls be taken whose delay has passed. `now`: wall seconds."""
        while self._delayed and self._delayed[0][0] <= now:
            at, call_id = heapq.heappop(self._delayed)
            call = self._calls.get(call_id)
            if call is not None and call.available_at == at:
                self._push(call)

    def take(
        self, names: Collection[str] | None, choose: Callable[[WaitingCall], Taker | None]
    ) -> Iterator[tuple[WaitingCall, Taker]]:
        """Take out, oldest first, every call for which `choose` finds a taker.

        `names`: look at these alone, None: at all. A group whose oldest call finds none is left alone: what
        keeps one of its calls back keeps back all of them.
        """
        wanted = tuple(self._groups) if names is None else [name for name in names if name in self._groups]
        heads = [
            (head.place, name, group)
            for name in wanted
            for group in tuple(self._groups[name])
            if (head := self._head(name, group)) is not None
        ]
        heapq.heapify(heads)
        while heads:
            _, name, group = heapq.heappop(heads)
            call = self._head(name, group)
            taker = None if call is None else choose(call)
            if call is None or taker is None:
                continue
            self.discard(call.call_id)
            following = self._head(name, group)
            if following is not None:
                heapq.heappush(heads, (following.place, name, group))
            yield call, taker

    def ahead_of(self, call_id: str) -> int:
        """Count the calls of the same function that stand before one; 0 also where it does not wait."""
        call = self._calls.get(call_id)
        if call is None:
            return 0
        return sum(other.name == call.name and other.place < call.place for other in self._calls.values())

    def _push(self, call: WaitingCall) -> None:
        self._ready.add(call.call_id)
        heap = self._groups.setdefault(call.name, {}).setdefault(call.group, _Heap())
        heapq.heappush(heap.calls, (call.place, call.call_id))

    def _head(self, name: str, group: _Group) -> WaitingCall | None:
        """Find the oldest call of a group; an empty group is forgotten."""
        heap = self._groups.get(name, {}).get(group)
        while heap is not None and heap.calls:
            place, call_id = heap.calls[0]
            call = self._calls.get(call_id)
            if call is not None and call.place == place and call_id in self._ready:
                return call
            heapq.heappop(heap.calls)
        if heap is not None:
            del self._groups[name][group]
            if not self._groups[name]:
                del self._groups[name]
        return None
