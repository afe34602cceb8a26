"""The engine: promises that a turn is driven on until it rests."""

from __future__ import annotations

from typing import Protocol


class Engine(Protocol):
    """Runs `advance` for turns. Its only signal is "look again"; it keeps nothing of a turn's state."""

    def wake(self, turn_id: str) -> None:
        """Have the turn looked at again, soon, by one task at a time. Never waits."""
        ...

    async def start(self) -> None:
        """Wake every unfinished turn, and those whose timers are due from then on."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Drive nothing new; give what runs so long to come to a commit, then let go of it."""
        ...
