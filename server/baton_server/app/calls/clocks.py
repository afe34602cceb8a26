"""The clocks of calls: a function's timeout, which runs from its first ack; a call's expiry, from its opening; and how
long it waits for a decision, from when it was asked for.

All outlive attempts, workers and this process. Expiry and end of waiting are in the call's row from their beginning on;
the deadline of a timeout is known here from the ack on and is written down a little later, and not at all where the
result is faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from baton_server.app.calls.alarms import Alarms
from baton_server.app.calls.errands import Errands
from baton_server.app.runtime import Runtime
from baton_server.core.events import Decision
from baton_server.core.inputs import CallExpired, CallTimedOut, DecisionMade
from baton_server.ports.store import Batch, CallRow, Deadline

WRITTEN_AFTER_S = 0.75
"""From an ack to the writing of the deadlines that have come up meanwhile; at most 1 s may be lost to a crash."""

Ended = CallTimedOut | CallExpired | DecisionMade
"""What the end of a clock is to a turn."""

Feed = Callable[[str, Ended], "asyncio.Future[bool]"]


class _Clock(Enum):
    TIMEOUT = "timeout"
    EXPIRY = "expiry"
    DECISION = "decision"


class CallClocks:
    """Tells turns when the time of a call is up. Times are wall seconds."""

    def __init__(self, runtime: Runtime, alarms: Alarms, errands: Errands, feed: Feed) -> None:
        self._runtime, self._alarms, self._errands, self._feed = runtime, alarms, errands, feed
        self._deadlines: dict[str, float] = {}
        self._unwritten: set[str] = set()

    def opened(self, row: CallRow) -> None:
        """Set the clocks of an open call, as far as its row tells them. A second time changes nothing."""
        call_id, turn_id = row.call_id, row.turn_id
        if row.expires_at is not None:
            given = CallExpired(call_id=call_id)
            self._alarms.set((_Clock.EXPIRY, call_id), row.expires_at, lambda: self._tell(turn_id, given))
        if row.deadline is not None and call_id not in self._deadlines:
            self._time(call_id, turn_id, row.deadline)
        if row.decide_by is not None:
            self.asked(call_id, turn_id, row.decide_by)

    def asked(self, call_id: str, turn_id: str, decide_by: float | None) -> None:
        """Have a call rejected if nobody has decided about it by a time; None: it waits for ever."""
        if decide_by is not None:
            rejected = DecisionMade(decision=Decision(call_id=call_id, approve=False), expired=True)
            self._alarms.set((_Clock.DECISION, call_id), decide_by, lambda: self._tell(turn_id, rejected))

    def decided(self, call_id: str) -> None:
        """Note that a call waits for no decision any more."""
        self._alarms.clear((_Clock.DECISION, call_id))

    def acked(self, call_id: str, turn_id: str, timeout_s: float | None) -> None:
        """Note that an attempt of a call has arrived: with the first one its timeout begins. `timeout_s` None: none."""
        if timeout_s is None or call_id in self._deadlines:
            return
        now = self._runtime.clock.wall()
        self._time(call_id, turn_id, now + timeout_s)
        self._unwritten.add(call_id)
        if self not in self._alarms:
            self._alarms.set(self, now + WRITTEN_AFTER_S, lambda: self._errands.run(self._write()))

    def deadline(self, row: CallRow) -> float | None:
        """Say when a call times out if its next delivery is acked now; None: never."""
        known = self._deadlines.get(row.call_id, row.deadline)
        if known is not None or row.timeout_s is None:
            return known
        return self._runtime.clock.wall() + row.timeout_s

    def forget(self, call_id: str) -> None:
        """Stop the clocks of a call that is settled."""
        self._deadlines.pop(call_id, None)
        self._unwritten.discard(call_id)
        for clock in _Clock:
            self._alarms.clear((clock, call_id))

    def _time(self, call_id: str, turn_id: str, at: float) -> None:
        given = CallTimedOut(call_id=call_id)
        self._deadlines[call_id] = at
        self._alarms.set((_Clock.TIMEOUT, call_id), at, lambda: self._tell(turn_id, given))

    def _tell(self, turn_id: str, given: Ended) -> None:
        self._feed(turn_id, given)

    async def _write(self) -> None:
        """Write down the deadlines that are not on disk yet; a call that is settled meanwhile needs none."""
        deadlines = tuple(Deadline(call_id=call_id, at=self._deadlines[call_id]) for call_id in sorted(self._unwritten))
        self._unwritten.clear()
        if deadlines:
            await self._errands.persist(lambda: self._runtime.store.commit(Batch(deadlines=deadlines)))
