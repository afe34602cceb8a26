"""The observer: told what happened, for traces and counters. Never waits, never fails its caller."""

from __future__ import annotations

from typing import Protocol

from baton_server.core.agents import Pinned
from baton_server.core.events import TurnSnapshot


class Observer(Protocol):
    """Watches the use cases from the outer ring."""

    def turn_ended(self, turn: TurnSnapshot, pinned: Pinned, started_at: float, ended_at: float) -> None:
        """Note that a turn is over; times in seconds since the epoch, by the store's clock."""
        ...
