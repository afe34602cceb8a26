"""The observer: told what happened, for traces and counters. Never waits, never fails its caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from baton_server.core.events import Event
from baton_server.core.run_config import Pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """Who is attached at the moment: workers on streams both ways, workers that watch, and the calls that all of them
    together would take."""

    streams: int
    watches: int
    credit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Events of a session's log, in order. `sequences` and `times` (seconds since the epoch, by the store's clock): one
    for each. `pinned`: what the turn runs with that they are about; None: who recorded them does not know.
    """

    session_id: str
    events: Sequence[Event]
    sequences: Sequence[int]
    times: Sequence[float]
    pinned: Pinned | None = None


class Observer(Protocol):
    """Watches the use cases from the outer ring."""

    def recorded(self, told: Recorded) -> None:
        """Note what a commit has put into the log. Of a turn's driver, in the order of the log."""
        ...

    def loaded(self, turn_id: str, read: Callable[[], Recorded]) -> None:
        """Note that a turn goes on whose log was read: after a restart, or where a commit's end was not known.

        `read` gives the turn's events from its first one on, for an observer that has not seen all of them.
        """
        ...

    def left(self, turn_id: str) -> None:
        """Note that nothing goes on for a turn in this process any more: it is over, or gone."""
        ...

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Note that a call of a function was handed to a worker. `waited_s`: for one that can take it."""
        ...

    def attended(self, attendance: Attendance) -> None:
        """Note who is attached; told about once a second."""
        ...


class Unobserved:
    """Nobody watches."""

    def recorded(self, told: Recorded) -> None:
        """Pass over it."""

    def loaded(self, turn_id: str, read: Callable[[], Recorded]) -> None:
        """Pass over it."""

    def left(self, turn_id: str) -> None:
        """Pass over it."""

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Pass over it."""

    def attended(self, attendance: Attendance) -> None:
        """Pass over it."""
