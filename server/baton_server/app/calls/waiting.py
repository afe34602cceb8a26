"""Calls that no worker holds, oldest first. Pure bookkeeping: no clock but the times it is told, no I/O.

A call keeps its place: one that comes back after a lost attempt stands where it stood before. Calls of one name
and one list of scopes are a group; they may all go to the same workers, so that looking for the next call that
somebody can take costs a look at each group, not at each call.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Taker = TypeVar("Taker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call that is QUEUED on disk.

    `place`: in the queue, from 0, unique. `available_at`: not to be delivered before (wall seconds). `avoid`:
    the worker that gave it back, who gets it only if nobody else can take it; empty: none. `unacked`: its last
    deliveries that were never acked.
    """

    call_id: str
    name: str
    scopes: tuple[str, ...]
    place: int
    available_at: float = 0.0
    avoid: str = ""
    unacked: int = 0


@dataclass(slots=True)
class _Group:
    """Calls by place. `heap` may hold calls that were taken out; they are passed over."""

    heap: list[tuple[int, str]] = field(default_factory=list)


class WaitingCalls:
    """The queue."""

    def __init__(self) -> None:
        self._calls: dict[str, WaitingCall] = {}
        self._groups: dict[str, dict[tuple[str, ...], _Group]] = {}
        self._delayed: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def add(self, call: WaitingCall, now: float) -> None:
        """Take a call in, at its place. `now`: wall seconds."""
        self._calls[call.call_id] = call
        if call.available_at > now:
            heapq.heappush(self._delayed, (call.available_at, call.call_id))
        else:
            self._push(call)

    def discard(self, call_id: str) -> None:
        """Take a call out, wherever it stands; one that is not there is passed over."""
        self._calls.pop(call_id, None)

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
            (head.place, name, scopes)
            for name in wanted
            for scopes in tuple(self._groups[name])
            if (head := self._head(name, scopes)) is not None
        ]
        heapq.heapify(heads)
        while heads:
            _, name, scopes = heapq.heappop(heads)
            call = self._head(name, scopes)
            taker = None if call is None else choose(call)
            if call is None or taker is None:
                continue
            self.discard(call.call_id)
            following = self._head(name, scopes)
            if following is not None:
                heapq.heappush(heads, (following.place, name, scopes))
            yield call, taker

    def _push(self, call: WaitingCall) -> None:
        group = self._groups.setdefault(call.name, {}).setdefault(call.scopes, _Group())
        heapq.heappush(group.heap, (call.place, call.call_id))

    def _head(self, name: str, scopes: tuple[str, ...]) -> WaitingCall | None:
        """Find the oldest call of a group; an empty group is forgotten."""
        group = self._groups.get(name, {}).get(scopes)
        while group is not None and group.heap:
            place, call_id = group.heap[0]
            call = self._calls.get(call_id)
            if call is not None and call.place == place:
                return call
            heapq.heappop(group.heap)
        if group is not None:
            del self._groups[name][scopes]
            if not self._groups[name]:
                del self._groups[name]
        return None
