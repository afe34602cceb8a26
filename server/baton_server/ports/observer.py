"""The observer: told what happened, for traces and counters. Never waits, never fails its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from baton_server.core.agents import Pinned
from baton_server.core.events import Event, TurnSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """Who is attached at the moment: workers on streams both ways, workers that watch, and the calls that all of them
    together would take."""

    streams: int
    watches: int
    credit: int


class Observer(Protocol):
    """Watches the use cases from the outer ring."""

    def turn_ended(self, turn: TurnSnapshot, pinned: Pinned, started_at: float, ended_at: float) -> None:
        """Note that a turn is over; times in seconds since the epoch, by the store's clock."""
        ...

    def recorded(self, events: Sequence[Event]) -> None:
        """Note what a commit has put into the log."""
        ...

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Note that a call of a function was handed to a worker. `waited_s`: for one that can take it."""
        ...

    def attended(self, attendance: Attendance) -> None:
        """Note who is attached; told about once a second."""
        ...


class Unobserved:
    """Nobody watches."""

    def turn_ended(self, turn: TurnSnapshot, pinned: Pinned, started_at: float, ended_at: float) -> None:
        """Pass over it."""

    def recorded(self, events: Sequence[Event]) -> None:
        """Pass over it."""

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Pass over it."""

    def attended(self, attendance: Attendance) -> None:
        """Pass over it."""
