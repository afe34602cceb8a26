"""Attempts that come back without a result: given back, never acked, never begun, or lost with their worker.

Ack, lease and recall clocks are this module's own, and one tick looks after all of them, so that a thousand leases cost
one timer. Where a call must not run twice (`Leased.ask`), sent means may have run: only what was never written to a
stream, or what its worker says it has not begun, is queued again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from baton_server.app.calls.clocks import CallClocks
from baton_server.app.calls.errands import Errands
from baton_server.app.calls.frames import CancelReason, End, Stop
from baton_server.app.calls.leases import Leased, Leases, LeaseState
from baton_server.app.calls.progress import Reports
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.core.events import HookKind
from baton_server.core.inputs import AttemptFailed, CallsUnheld, Input
from baton_server.ports.store import Batch, CallRow, CallState, Requeue

log = structlog.get_logger(__name__)

Feed = Callable[[str, Input], "asyncio.Future[bool]"]
"""Brings an input to the driver of a turn. The future tells whether it counted, once that is on disk."""


class Queue(Protocol):
    """Where calls wait that no worker holds."""

    def again(self, call: CallRow, lease: Leased, avoid: str) -> None:
        """Have a call wait again, at the place that it had. `avoid`: the worker that gets it only if no other can."""
        ...

    def offer(self, names: Collection[str] | None = None) -> None:
        """Match calls that wait with workers: who serves these names has more room. None: look at all."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept about calls that are out, and who sees to what takes longer."""

    leases: Leases
    clocks: CallClocks
    reports: Reports
    errands: Errands


class Losses:
    """Takes attempts back, and sees to what their end makes room for."""

    def __init__(self, runtime: Runtime, registry: Registry, kept: Kept, feed: Feed, queue: Queue) -> None:
        self._runtime, self._registry, self._feed, self._queue = runtime, registry, feed, queue
        self._leases, self._reports, self._errands = kept.leases, kept.reports, kept.errands

    # -- giving back and up ----------------------------------------------------------------------

    def give_back(
        self, lease: Leased, *, delay_s: float = 0.0, may_have_run: bool = True, avoid: str = ""
    ) -> asyncio.Future[None] | None:
        """Queue an attempt again without an event: it was given back, never acked, or never begun.

        What is returned is done when that is on disk; None: its end was decided before.
        """
        if not lease.to(LeaseState.LEAVING):
            return None
        requeue = Requeue(
            call_id=lease.call_id,
            attempt=lease.attempt,
            available_at=self._runtime.clock.wall() + delay_s if delay_s > 0 else 0.0,
            may_have_run=may_have_run,
        )
        return self._errands.start(self._requeue(requeue, lease, avoid))

    def lose(self, lease: Leased, *, may_retry: bool = True, began: bool | None = None) -> asyncio.Future[bool] | None:
        """Give an attempt up whose worker is gone or silent: what follows is the turn's to say.

        `may_retry` False: there is no use in another one. `began`: whether it may have run; None: as it was sent.
        What is returned is done when that is on disk; None: its end was decided before.
        """
        may_have_run = lease.sent if began is None else began
        if not lease.to(LeaseState.LEAVING):
            return None
        log.warning("attempt lost", call_id=lease.call_id, attempt=lease.attempt, worker_id=lease.worker_id)
        checks = self._registry.serves(lease.key.name, lease.scopes, kind=HookKind.EFFECT_CHECK)
        given = AttemptFailed(
            call_id=lease.call_id,
            attempt=lease.attempt,
            worker_id=lease.worker_id,
            may_retry=may_retry,
            ask=lease.ask and may_have_run,
            check=checks and may_have_run,
        )
        return self._feed(lease.turn_id, given)

    def abandon(self, leases: Iterable[Leased]) -> None:
        """Give up what a worker held that is gone for good; what was never sent to it is queued again."""
        for lease in leases:
            if lease.sent:
                self.lose(lease)
            else:
                self.give_back(lease, may_have_run=False)

    def undelivered(self, lease: Leased, *, may_have_run: bool) -> None:
        """Queue a call again that did not arrive; one that never arrives anywhere ends like a lost one."""
        lease.unacked += 1
        if lease.unacked < self._runtime.limits.max_unacked:
            self.give_back(lease, may_have_run=may_have_run, avoid=lease.worker_id)
        else:
            self.lose(lease, may_retry=False, began=may_have_run)

    def broke(self, worker: Worker) -> None:
        """Take back what waited to be written to a stream that has broken. What was sent waits for its worker."""
        for lease in self._leases.held_by(worker):
            if not lease.sent:
                self.give_back(lease, may_have_run=False)

    # -- the clocks ------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look at the clocks of all attempts once."""
        now, limits = self._runtime.clock.monotonic(), self._runtime.limits
        for _, lease in self._leases:
            if lease.leaving:
                continue
            if lease.expired(now, limits):
                self._over(lease)
            elif lease.ack_overdue(now, limits):
                self._never_arrived(lease, now)

    def _over(self, lease: Leased) -> None:
        """Give an attempt up whose worker's right to it has ended."""
        if not lease.sent and self._withdrawn(lease):
            self.undelivered(lease, may_have_run=False)
            return
        if lease.state is not LeaseState.RECALLED:
            self._tell_lost(lease)
        self.lose(lease, began=True)

    def _never_arrived(self, lease: Leased, now: float) -> None:
        """Take back a call that was not acked; one that must not run twice only if its worker says it may."""
        if not lease.sent and self._withdrawn(lease):
            self.undelivered(lease, may_have_run=False)
        elif lease.ask and lease.stop_by is None:
            grace_s = self._runtime.limits.ack_timeout_s
            lease.to(LeaseState.RECALLED)
            lease.recalled_until = now + grace_s
            self._tell_lost(lease, grace_s)
        else:
            self._tell_lost(lease)
            self.undelivered(lease, may_have_run=True)

    def _withdrawn(self, lease: Leased) -> bool:
        """Take a call back from the stream that it waits to be written to. False: it may arrive."""
        worker = lease.worker
        return worker is None or worker.lost_at is not None or worker.link.withdraw(lease.call_id, lease.attempt)

    def _tell_lost(self, lease: Leased, grace_s: float = 0.0) -> None:
        """Tell a worker whose stream lives that an attempt is not its own any more."""
        if lease.worker is not None and lease.worker.lost_at is None:
            reason = CancelReason.LEASE_LOST
            lease.worker.link.send(Stop(call_id=lease.call_id, attempt=lease.attempt, reason=reason, grace_s=grace_s))

    # -- the end of an attempt -------------------------------------------------------------------

    def end(self, call_id: str) -> Leased | None:
        """Forget the attempt of a call, and what it reported. The caller says `left` when the call is elsewhere."""
        self._reports.drop(call_id)
        return self._leases.pop(call_id)

    def left(self, lease: Leased) -> None:
        """See to what the end of an attempt makes room for: other calls, or the end of its worker's stream."""
        worker = lease.worker
        if worker is None:
            return
        self.let_leave(worker)
        handler = worker.handlers.get(lease.key)
        if worker.half_duplex:
            self._queue.offer(worker.functions)
        elif handler is not None and handler.max_concurrency:
            self._queue.offer((lease.key.name,))

    def settled(self, call_id: str, attempt: int, reason: CancelReason) -> None:
        """Let go of a call that is settled on disk; a worker that still works on it is told to stop, once."""
        lease = self.end(call_id)
        if lease is None:
            return
        told = lease.state is LeaseState.LEAVING or lease.stop_by is not None
        if lease.worker is not None and lease.attempt != attempt and not told:
            lease.worker.link.send(Stop(call_id=call_id, attempt=lease.attempt, reason=reason))
        self.left(lease)

    def let_leave(self, worker: Worker) -> None:
        """End the stream of a worker that drains, in good order, once nothing of it is open."""
        owed = worker.unanswered or worker.hook_batches or self._leases.held_by(worker)
        if worker.draining and worker.lost_at is None and not owed:
            worker.link.send(End(failure=None))

    async def _requeue(self, requeue: Requeue, lease: Leased, avoid: str) -> None:
        if await self._feed(lease.turn_id, CallsUnheld(call_ids=(requeue.call_id,))):
            return  # its turn is being cancelled, and waits for no other worker

        async def written() -> CallRow | None:
            await self._runtime.store.commit(Batch(requeues=(requeue,)))
            return await self._runtime.store.calls.get(requeue.call_id)

        row = await self._errands.persist(written)
        if self._leases.get(requeue.call_id) is lease:
            self.end(requeue.call_id)
        if row is not None and row.state is CallState.QUEUED:
            self._queue.again(row, lease, avoid)
            self._runtime.bus.publish(row.session_id, ())  # nobody works on it any more: its turn may rest
        self.left(lease)
