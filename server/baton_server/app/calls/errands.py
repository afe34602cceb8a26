"""Errands: work that goes on apart from who asked for it, owned here and ended with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from baton_server.ports.clock import Clock
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

STORE_PAUSE_S = 0.5
"""Between two tries of what the store could not do."""

T = TypeVar("T")


class Errands:
    """Runs them. What is cut off by `close` is in the store either way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Awaitable[None]) -> None:
        """Do a piece of work apart."""
        self.start(work)

    def start(self, work: Awaitable[None]) -> asyncio.Future[None]:
        """Do a piece of work apart, for who waits until it is done. It never fails."""
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def persist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do a piece of work as soon as the store can be reached."""
        while True:
            try:
                return await work()
            except StoreUnavailable as error:
                log.warning("the store is away; it is tried again", error=str(error))
                await self.pause()

    async def pause(self) -> None:
        """Wait a moment before something is tried again."""
        await self._clock.sleep(STORE_PAUSE_S)

    async def close(self) -> None:
        """End what is still being done."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _logged(work: Awaitable[None]) -> None:
    """Do a piece of work; what fails in it is our fault, and the call stays in the store."""
    try:
        await work
    except Exception:
        log.exception("dispatching failed; the call stays in the store")
