"""The embedded engine: a task per turn that has something to do, in this process, over the store's own state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from baton_server.ports.clock import Clock
from baton_server.ports.store import Store, StoreUnavailable

log = structlog.get_logger(__name__)

FIRST_PAUSE_S = 0.1
"""Before a turn that could not be driven is looked at again; doubled each time."""

LAST_PAUSE_S = 30.0
"""The longest pause between two tries."""


class EmbeddedEngine:
    """Runs `advance` for each turn that was woken, one task per turn at a time."""

    def __init__(self, store: Store, clock: Clock, advance: Callable[[str], Awaitable[None]]) -> None:
        self._store, self._clock, self._advance = store, clock, advance
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._stopped = False

    def wake(self, turn_id: str) -> None:
        """Have the turn looked at again, soon."""
        if self._stopped:
            return
        self._again.add(turn_id)
        if turn_id not in self._tasks:
            self._tasks[turn_id] = asyncio.ensure_future(self._drive(turn_id))

    async def start(self) -> None:
        """Wake every turn that a former process left unfinished."""
        for turn_id in await self._store.turns.unfinished():
            self.wake(turn_id)

    async def stop(self, grace_s: float) -> None:
        """Drive nothing new, and let what runs come to a commit."""
        self._stopped = True
        running = set(self._tasks.values())
        if running:
            _, late = await asyncio.wait(running, timeout=max(grace_s, 0.001))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _drive(self, turn_id: str) -> None:
        try:
            while turn_id in self._again and not self._stopped:
                self._again.discard(turn_id)
                await self._try(turn_id)
        finally:
            self._tasks.pop(turn_id, None)

    async def _try(self, turn_id: str) -> None:
        """Advance a turn until it went through: what failed is in the store, and is done again."""
        pause = FIRST_PAUSE_S
        while not self._stopped:
            try:
                await self._advance(turn_id)
                return
            except StoreUnavailable as error:
                log.error("the store is away; the turn waits", turn_id=turn_id, error=str(error))
            except Exception:
                log.exception("a turn could not be driven; it is tried again", turn_id=turn_id, pause_s=pause)
            await self._clock.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
