"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import time


class SteppedClock:
    """A `ports.clock.Clock`. The wall clock begins now, so that it agrees with the store's."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._began = time.time()
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        """Seconds since a start that is not zero."""
        return 1000.0 + self._passed

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self._began + self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the clock so far."""
        if seconds > 0:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleeping.append((self._passed + seconds, woken))
            await woken

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake who slept until now."""
        self._passed += seconds
        due = [woken for until, woken in self._sleeping if until <= self._passed]
        self._sleeping = [(until, woken) for until, woken in self._sleeping if until > self._passed]
        for woken in due:
            if not woken.done():
                woken.set_result(None)
