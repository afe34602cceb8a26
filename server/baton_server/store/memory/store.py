"""The fake: tables that one process holds, replaced whole by each commit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from baton_server.ports.store import Batch, Committed, Stamp, StoreUnavailable
from baton_server.store.clock import StoreClock
from baton_server.store.memory.commit import commit
from baton_server.store.memory.reads import (
    MemoryAgents,
    MemoryCalls,
    MemoryDocuments,
    MemoryEvents,
    MemoryInbox,
    MemoryItems,
    MemoryRequests,
    MemorySessions,
    MemoryTimers,
    MemoryTurns,
)
from baton_server.store.memory.tables import Tables


class MemoryStore:
    """A store that forgets with its process. `clock`: the wall clock, in seconds since the epoch."""

    def __init__(self, *, stamp: Stamp, clock: Callable[[], float] = time.time) -> None:
        self._stamp, self._clock = stamp, StoreClock(clock)
        self._tables: Tables | None = Tables()
        self.sessions = MemorySessions(self._current)
        self.turns = MemoryTurns(self._current)
        self.events = MemoryEvents(self._current)
        self.items = MemoryItems(self._current)
        self.calls = MemoryCalls(self._current)
        self.agents = MemoryAgents(self._current)
        self.documents = MemoryDocuments(self._current)
        self.inbox = MemoryInbox(self._current)
        self.requests = MemoryRequests(self._current)
        self.timers = MemoryTimers(self._current)

    async def commit(self, batch: Batch) -> Committed:
        """Check the guards and write the batch. Raises Conflict, Duplicate, StoreUnavailable.

        ValueError: the batch contradicts itself, or repeats a row that is there already.
        """
        self._tables, done = commit(self._current(), batch, self._clock.now(), self._stamp)
        await asyncio.sleep(0)  # others go on, and see it, before the caller knows
        return done

    async def forget(self, before: float, limit: int) -> int:
        """Remove up to `limit` answered requests from before a time, oldest first. Returns how many."""
        requests = self._current().requests
        old = sorted(
            (row.created_at, key.session_id, key.rpc, key.request_id)
            for key, row in requests.items()
            if row.created_at < before
        )
        gone = {key[1:] for key in old[:limit]}
        kept = {k: row for k, row in requests.items() if (k.session_id, k.rpc, k.request_id) not in gone}
        self._current().requests = kept
        return len(gone)

    async def healthy(self) -> bool:
        """Tell whether the store can be read and written now."""
        return self._tables is not None

    async def close(self) -> None:
        """Forget everything. Later calls raise StoreUnavailable."""
        self._tables = None

    def _current(self) -> Tables:
        if self._tables is None:
            raise StoreUnavailable("the store was closed")
        return self._tables
