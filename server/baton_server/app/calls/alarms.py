"""Alarms: one task that sleeps to the soonest of many times, so that a thousand clocks cost one timer.

Times are wall seconds of the Clock port, since most of them outlive the process. A time that has passed rings at once.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import structlog

from baton_server.ports.clock import Clock

log = structlog.get_logger(__name__)

LONGEST_SLEEP_S = 60.0
"""Between two looks at the clock, so that a wall clock that was set forward is noticed."""

SPARE_ENTRIES = 64
"""Entries of alarms that were cleared, kept besides as many as there are alarms, before they are swept out."""


@dataclass(frozen=True, slots=True)
class _Alarm:
    at: float
    number: int
    ring: Callable[[], None]


class Alarms:
    """Calls back when times have come. What is called must not wait, and may set and clear alarms."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: dict[Hashable, _Alarm] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0
        self._sleeper: asyncio.Task[None] | None = None
        self._wakes_at = 0.0

    def __len__(self) -> int:
        return len(self._alarms)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._alarms

    def set(self, key: Hashable, at: float, ring: Callable[[], None]) -> None:
        """Have `ring` called at a time (wall seconds). An alarm of the same key is replaced."""
        self._number += 1
        self._alarms[key] = _Alarm(at, self._number, ring)
        heapq.heappush(self._heap, (at, self._number, key))
        if len(self._heap) > 2 * len(self._alarms) + SPARE_ENTRIES:
            self._heap = [(alarm.at, alarm.number, key) for key, alarm in self._alarms.items()]
            heapq.heapify(self._heap)
        self._sleep_to_the_soonest()

    def clear(self, key: Hashable) -> None:
        """Forget an alarm; one that is not set is passed over."""
        self._alarms.pop(key, None)

    async def close(self) -> None:
        """Forget all alarms."""
        self._alarms.clear()
        self._heap.clear()
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            sleeper.cancel()
            await asyncio.gather(sleeper, return_exceptions=True)

    def _sleep_to_the_soonest(self) -> None:
        if not self._heap or (self._sleeper is not None and self._wakes_at <= self._heap[0][0]):
            return
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._wakes_at = min(self._heap[0][0], self._clock.wall() + LONGEST_SLEEP_S)
        self._sleeper = asyncio.ensure_future(self._sleep(self._wakes_at))

    async def _sleep(self, until: float) -> None:
        await self._clock.sleep(until - self._clock.wall())
        self._sleeper = None  # from here on nothing is awaited, so that nothing rings half
        self._ring_due()
        self._sleep_to_the_soonest()

    def _ring_due(self) -> None:
        now = self._clock.wall()
        while self._heap and self._heap[0][0] <= now:
            _, number, key = heapq.heappop(self._heap)
            alarm = self._alarms.get(key)
            if alarm is None or alarm.number != number:
                continue
            del self._alarms[key]
            try:
                alarm.ring()
            except Exception:
                log.exception("what an alarm was set for failed; the others go on", key=str(key))
