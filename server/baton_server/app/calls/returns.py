"""What workers say about attempts: that they have arrived, how they go, what came of them.

A worker is known by its id; who names none is taken at its word, for the attempt that it names. An attempt leaves a
worker in one way at most: by its result, or by being given back or lost (`leases.MOVES`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from baton_server.app.calls.frames import (
    Ack,
    CancelOutcome,
    CancelReason,
    Extended,
    Progress,
    ResultVerdict,
    Stop,
)
from baton_server.app.calls.late import call_not_found, late_ack, stale
from baton_server.app.calls.leases import Leased, LeaseState
from baton_server.app.calls.losses import Feed, Kept, Losses
from baton_server.app.calls.worker import Worker
from baton_server.app.recent import Recent
from baton_server.app.runtime import Runtime
from baton_server.core.inputs import CallSettled, CallsUnheld
from baton_server.ports.store import IN_DOUBT

log = structlog.get_logger(__name__)

REASONS_KEPT = 1000
"""Calls of which it is known why they were given back last, with at most 256 characters each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBack:
    """Who gave a call back, at which attempt, and why. `reason` empty: not said."""

    attempt: int
    instance_id: str
    reason: str


class Returns:
    """Takes what workers say. `given_back`: the latest of it by call, for who asks why one waits."""

    def __init__(self, runtime: Runtime, kept: Kept, losses: Losses, feed: Feed) -> None:
        self.given_back: Recent[str, GivenBack] = Recent(REASONS_KEPT)
        self._runtime, self._losses, self._feed = runtime, losses, feed
        self._leases, self._clocks, self._reports = kept.leases, kept.clocks, kept.reports
        self._errands = kept.errands

    # -- what workers say ------------------------------------------------------------------------

    def writing(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a call is being written to its stream: from here on it may have arrived."""
        lease = self._leases.of(worker.worker_id, call_id, attempt)
        if lease is not None:
            lease.to(LeaseState.WRITING)

    def written(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a call has been written: the time for its ack runs. On the twin's stream it is an ack by itself."""
        lease = self._leases.of(worker.worker_id, call_id, attempt)
        if lease is None:
            return
        now = self._runtime.clock.monotonic()
        if worker.half_duplex:
            lease.extended_until = now + self._runtime.limits.lease_s
            self._arrived(lease)
        elif lease.to(LeaseState.WRITTEN):
            lease.written_at = now

    def acked(self, call_id: str, attempt: int, worker_id: str = "") -> None:
        """Note that a call has arrived. A stale ack means nothing."""
        lease = self._leases.of(worker_id, call_id, attempt)
        if lease is not None:
            self._arrived(lease)

    def result(self, worker: Worker, given: CallSettled) -> None:
        """Take a result. Its Ack is sent when the outcome is on disk, over whatever stream the worker has then."""
        given = replace(given, worker_id=worker.worker_id)
        worker.unanswered += 1
        counted = self._settle(given, worker.worker_id)
        if counted is None:
            self._errands.run(self._answer_late(worker, given))
        else:
            counted.add_done_callback(lambda counted: self._acknowledge(worker, given, counted))

    async def settle(self, given: CallSettled, worker_id: str = "") -> Ack:
        """Take a result that comes without a stream, and say what became of it once that is on disk.

        `worker_id` empty: it is taken from anyone, for the attempt that it names.
        """
        given = replace(given, worker_id=worker_id)
        counted = self._settle(given, worker_id)
        if counted is not None and await asyncio.shield(counted):
            return Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE)
        return await self._late(given)

    def nack(
        self,
        call_id: str,
        attempt: int,
        worker_id: str = "",
        *,
        delay_s: float = 0.0,
        not_begun: bool = False,
        reason: str = "",
    ) -> asyncio.Future[Any] | None:
        """Take a call back that a worker gives back. `reason`: in its words, for people.

        What is returned is done when that is on disk; None: the attempt is not the sender's, and nothing was done.
        """
        lease = self._find(worker_id, call_id, attempt)
        if lease is None or lease.leaving:
            return None
        lease.unacked = 0
        self.given_back.put(call_id, GivenBack(attempt=attempt, instance_id=lease.instance_id, reason=reason))
        log.info("a call was given back", call_id=call_id, attempt=attempt, worker_id=lease.worker_id, reason=reason)
        if lease.ask and not not_begun:
            return self._losses.lose(lease)
        return self._losses.give_back(lease, delay_s=delay_s, may_have_run=not not_begun, avoid=lease.worker_id)

    def stopped(self, call_id: str, attempt: int, outcome: CancelOutcome, worker_id: str = "") -> None:
        """Take in what became of a Stop. One that could not be stopped may still have a result."""
        lease = self._leases.of(worker_id, call_id, attempt)
        if lease is None or lease.leaving or outcome is CancelOutcome.NOT_STOPPED:
            return
        if lease.stop_by is not None:
            lease.to(LeaseState.LEAVING)
            self._feed(lease.turn_id, CallsUnheld(call_ids=(call_id,)))
        elif lease.state is LeaseState.RECALLED:
            if outcome is CancelOutcome.NOT_BEGUN:
                self._losses.undelivered(lease, may_have_run=False)
            else:
                self._losses.lose(lease)

    async def extend(self, call_id: str, attempt: int, lease_s: float, worker_id: str = "") -> Extended:
        """Lengthen the lease of one attempt, also over silence and a broken stream, and say how long it is then."""
        lease = self._find(worker_id, call_id, attempt)
        if lease is not None and lease.state not in (LeaseState.LEAVING, LeaseState.RECALLED):
            now = self._runtime.clock.monotonic()
            self._arrived(lease)
            lease.extended_until = max(lease.extended_until, now + lease_s)
            if lease.worker is not None:
                lease.worker.extended_until = max(lease.worker.extended_until, lease.extended_until)
            left = lease.until(self._runtime.limits) - now
            return Extended(call_id=call_id, attempt=attempt, until=self._runtime.clock.wall() + left)
        row = await self._errands.persist(lambda: self._runtime.store.calls.get(call_id))
        failure = call_not_found(call_id) if row is None else stale(row, attempt)
        return Extended(call_id=call_id, attempt=attempt, until=0.0, failure=failure)

    def extend_for(self, worker: Worker, call_id: str, attempt: int, lease_s: float) -> None:
        """Lengthen a lease for a worker, which is answered over its stream."""

        async def answer() -> None:
            extended = await self.extend(call_id, attempt, lease_s, worker.worker_id)
            self._answer(worker, extended)

        worker.unanswered += 1
        self._errands.run(answer())

    def progress(self, progress: Progress, worker_id: str = "") -> bool:
        """Take in what a handler reports. A stale report means nothing; tells whether it was not."""
        lease = self._find(worker_id, progress.call_id, progress.attempt)
        if lease is None or lease.leaving:
            return False
        self._arrived(lease)
        lease.begun = True
        self._reports.take(lease, progress)
        return True

    def resumed(self, lease: Leased, *, begun: bool, finished: bool) -> None:
        """Note that the worker of an attempt has come back and names it: it goes on.

        `begun`, `finished`: as it says.
        """
        lease.begun, lease.finished = lease.begun or begun, finished
        if lease.to(LeaseState.HELD):
            self._clocks.acked(lease.call_id, lease.turn_id, lease.timeout_s)

    # -- what workers are told -------------------------------------------------------------------

    def stop(self, call_ids: Iterable[str], grace_s: float) -> None:
        """Ask the workers that hold these calls of a cancelled turn to stop within the grace."""
        for call_id in call_ids:
            lease = self._leases.get(call_id)
            if lease is not None and lease.state is not LeaseState.LEAVING:
                lease.stop_by = self._runtime.clock.monotonic() + grace_s
                self._send_stop(lease)

    def remind(self, worker: Worker) -> None:
        """Say again, on a new stream, what is to be stopped: the first time may have been lost with the old one."""
        for lease in self._leases.held_by(worker):
            if lease.state is not LeaseState.LEAVING:
                self._send_stop(lease)

    def stop_of(self, call_id: str, attempt: int) -> Stop | None:
        """Say whether somebody wants an attempt to stop: what its worker was told about that. None: nobody does."""
        lease = self._leases.of("", call_id, attempt)
        if lease is None or lease.stop_by is None:
            return None
        left = max(0.0, lease.stop_by - self._runtime.clock.monotonic())
        return Stop(call_id=call_id, attempt=attempt, reason=CancelReason.TURN_ENDED, grace_s=left)

    # -- inside ----------------------------------------------------------------------------------

    def _find(self, worker_id: str, call_id: str, attempt: int) -> Leased | None:
        """Find the attempt that something is said about. Of a worker without a stream this is a sign of life."""
        lease = self._leases.of(worker_id, call_id, attempt)
        if lease is not None and lease.worker is not None and lease.worker.half_duplex:
            lease.worker.heard_at = self._runtime.clock.monotonic()
        return lease

    def _arrived(self, lease: Leased) -> None:
        """Note that an attempt has arrived; with the first one of its call the timeout begins.

        An ack of one that was recalled comes too late: its worker was asked for another answer.
        """
        if lease.state is not LeaseState.RECALLED and lease.to(LeaseState.HELD):
            self._clocks.acked(lease.call_id, lease.turn_id, lease.timeout_s)

    def _settle(self, given: CallSettled, worker_id: str) -> asyncio.Future[bool] | None:
        """Bring a result to its turn. None: the attempt is not the sender's any more."""
        lease = self._find(worker_id, given.call_id, given.attempt)
        if lease is None or lease.state is LeaseState.LEAVING:
            return None
        self._reports.flush(given.call_id)
        lease.to(LeaseState.SETTLING)  # where it is that already, the same result has come again
        if given.worker_id != lease.worker_id:
            given = replace(given, worker_id=lease.worker_id)
        return self._feed(lease.turn_id, given)

    def _acknowledge(self, worker: Worker, given: CallSettled, counted: asyncio.Future[bool]) -> None:
        if counted.cancelled():
            return  # the server stops; the worker keeps the result and sends it again
        if counted.result():
            self._answer(worker, Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE))
        else:
            self._errands.run(self._answer_late(worker, given))

    async def _answer_late(self, worker: Worker, given: CallSettled) -> None:
        self._answer(worker, await self._late(given))

    async def _late(self, given: CallSettled) -> Ack:
        """Answer a result whose attempt is not out any more; where it is in doubt, this is what everyone waits for."""
        row = await self._errands.persist(lambda: self._runtime.store.calls.get(given.call_id))
        doubted = row is not None and row.state in IN_DOUBT and row.attempt == given.attempt
        if row is not None and doubted and await asyncio.shield(self._feed(row.turn_id, given)):
            return Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE)
        return await self._errands.persist(lambda: late_ack(self._runtime, given))

    def _answer(self, worker: Worker, answer: Ack | Extended) -> None:
        worker.unanswered -= 1
        worker.link.send(answer)
        self._losses.let_leave(worker)

    def _send_stop(self, lease: Leased) -> None:
        stop = self.stop_of(lease.call_id, lease.attempt)
        if lease.worker is not None and stop is not None:
            lease.worker.link.send(stop)
