"""Several observers as one, whose failures reach nobody but the log."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from baton_server.ports.observer import Attendance, Observer, Recorded

log = structlog.get_logger(__name__)


class Observers:
    """Implements `ports.observer.Observer` by telling others."""

    def __init__(self, *others: Observer) -> None:
        self._others = others

    def recorded(self, told: Recorded) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.recorded(told))

    def loaded(self, turn_id: str, read: Callable[[], Recorded]) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.loaded(turn_id, read))

    def left(self, turn_id: str) -> None:
        """Tell it to each."""
        self._tell(lambda other: other.left(turn_id))

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
