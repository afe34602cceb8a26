"""The clock of a store: the wall clock of its process, kept from going back."""

from __future__ import annotations

from collections.abc import Callable


class StoreClock:
    """Gives the time of each commit. Used by one thread."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._last = 0.0

    def now(self) -> float:
        """Read the time: seconds since the epoch, whole microseconds, never below what was given before."""
        self._last = max(self._last, round(self._wall(), 6))
        return self._last
