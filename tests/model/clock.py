"""A clock whose time passes only when somebody sleeps, and then at once."""

from __future__ import annotations


class InstantClock:
    """A `ports.clock.Clock`. `slept`: every wait, in seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Sum what was slept."""
        return sum(self.slept)

    def wall(self) -> float:
        """Count from the epoch."""
        return self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Do not wait."""
        self.slept.append(seconds)
