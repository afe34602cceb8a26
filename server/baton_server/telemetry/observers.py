"""Several observers as one, whose failures reach nobody but the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from baton_server.core.agents import Pinned
from baton_server.core.events import Event, TurnSnapshot
from baton_server.ports.observer import Attendance, Observer

log = structlog.get_logger(__name__)


class Observers:
    """Implements `ports.observer.Observer` by telling others."""

    def __init__(self, *others: Observer) -> None:
        self._others = others

    def turn_ended(self, turn: TurnSnapshot, pinned: Pinned, started_at: float, ended_at: float) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.turn_ended(turn, pinned, started_at, ended_at))

    def recorded(self, events: Sequence[Event]) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.recorded(events))

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.delivered(name, attempt, waited_s))

    def attended(self, attendance: Attendance) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.attended(attendance))

    def _tell(self, say: Callable[[Observer], None]) -> None:
        for other in self._others:
            try:
                say(other)
            except Exception:
                log.exception("an observer failed; what it was told is true all the same")
