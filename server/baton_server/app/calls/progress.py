"""Progress: what handlers report while they work, for who watches. A side channel: nothing of it is stored.

Of each call at most one report per 50 ms is published. In between the newest takes the place of the one before, and
what waits when the result comes is published before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baton_server.app.calls.alarms import Alarms
from baton_server.app.calls.leases import Leased
from baton_server.app.runtime import Runtime
from baton_server.ports.bus import Part, Progress

INTERVAL_S = 0.05
"""Between two reports of one call, as they are published."""


@dataclass(slots=True)
class _Reported:
    """Where a call's reports stand. `last`: attempt and number of the newest; `published_at` in wall seconds."""

    session_id: str
    turn_id: str
    last: tuple[int, int] = (0, 0)
    published_at: float = 0.0
    waiting: Progress | None = None


WhereIs = Callable[[str, str], tuple[tuple[str, ...], int]]
"""Of a turn and a call: its run's path and round."""


@dataclass(frozen=True, slots=True)
class _Due:
    """The alarm of a call whose newest report waits."""

    call_id: str


class Reports:
    """Publishes reports. `where_is`: says in which run and round a call of a turn was made; 0: not known."""

    def __init__(self, runtime: Runtime, alarms: Alarms, where_is: WhereIs) -> None:
        self._runtime, self._alarms, self._where_is = runtime, alarms, where_is
        self._reported: dict[str, _Reported] = {}

    def take(self, lease: Leased, progress: Progress) -> None:
        """Take in a report of an attempt that is out. One that is not newer than the last is passed over."""
        if not self._runtime.bus.heard(lease.session_id):
            return
        call_id, order = lease.call_id, (lease.attempt, progress.number)
        known = self._reported.setdefault(call_id, _Reported(lease.session_id, lease.turn_id))
        if order <= known.last:
            return
        known.last, known.waiting = order, progress
        due = known.published_at + INTERVAL_S
        if due <= self._runtime.clock.wall():
            self.flush(call_id)
        elif _Due(call_id) not in self._alarms:
            self._alarms.set(_Due(call_id), due, lambda: self.flush(call_id))

    def flush(self, call_id: str) -> None:
        """Publish what waits of a call's reports."""
        known = self._reported.get(call_id)
        if known is None or known.waiting is None:
            return
        progress, known.waiting = known.waiting, None
        known.published_at = self._runtime.clock.wall()
        run_path, round_number = self._where_is(known.turn_id, call_id)
        data = self._runtime.parts.progress_part(known.turn_id, round_number, progress, run_path)
        self._runtime.bus.publish(known.session_id, (Part(sequence=0, turn_id=known.turn_id, data=data),))

    def drop(self, call_id: str) -> None:
        """Forget the reports of a call: no other one of this attempt counts."""
        if self._reported.pop(call_id, None) is not None:
            self._alarms.clear(_Due(call_id))
