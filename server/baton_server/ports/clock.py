"""Ids by chance and waiting by a clock: what the use cases need and tests replace."""

from __future__ import annotations

from typing import Protocol


class Ids(Protocol):
    """Makes ids that are unique and sort by time."""

    def new(self, prefix: str) -> str:
        """Make one, for example `turn_01k…` from "turn"."""
        ...


class Clock(Protocol):
    """Measures and waits within this process, and tells the store's clock as far as this process knows it."""

    def monotonic(self) -> float:
        """Seconds from an unspecified start, never going back."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, by the store's clock: for times that outlive the process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least so long; 0 or less: not at all."""
        ...
