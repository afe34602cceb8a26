"""A store that a test looks into: it remembers what was committed, and holds commits back where it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from baton_server.ports.store import Batch, Committed, Store


class ObservedStore:
    """A `Store` around another one. `committed`: the batches that were written, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.committed: list[Batch] = []
        self._held: list[tuple[Callable[[Batch], bool], asyncio.Event, asyncio.Event]] = []

    def hold(self, which: Callable[[Batch], bool]) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold the next commit of a kind back; returns what tells that it has come, and what lets it go on."""
        came, go = asyncio.Event(), asyncio.Event()
        self._held.append((which, came, go))
        return came, go

    async def commit(self, batch: Batch) -> Committed:
        """Implement `Store.commit`."""
        for held in self._held:
            which, came, go = held
            if which(batch):
                self._held.remove(held)
                came.set()
                await go.wait()
                break
        done = await self._store.commit(batch)
        self.committed.append(batch)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
