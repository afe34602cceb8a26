"""The dispatcher: brings calls to workers and results back, and watches over what is out.

Calls live in the store; here is what this process knows of them: who holds which attempt (`leases.py`) and
which calls wait for a worker. The core sees only outcomes; ack, lease and grace clocks are this module's own,
and one ticking task looks after all of them, so that a thousand leases cost one timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

import structlog

from baton_server.app.frames import Ack, CancelReason, Deliver, Leave, ResultVerdict, Stop
from baton_server.app.late import late_ack
from baton_server.app.leases import Leased, Leases
from baton_server.app.registry import Registry, Worker
from baton_server.app.runtime import Runtime
from baton_server.core.inputs import AttemptFailed, CallSettled, CallsUnheld
from baton_server.ports.store import Batch, CallRow, CallState, Claim, Page, Requeue

log = structlog.get_logger(__name__)

Feed = Callable[[str, CallSettled | AttemptFailed | CallsUnheld], "asyncio.Future[bool]"]
"""Brings an input to the driver of a turn. The future tells whether it counted, once that is on disk."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A worker's credit, set aside for a call that is about to be committed."""

    worker: Worker
    scope: str


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """A call that no worker holds."""

    name: str
    scopes: tuple[str, ...]
    available_at: float


class Dispatcher:
    """Assigns calls, delivers them, takes their results, and takes back what was lost."""

    def __init__(self, runtime: Runtime, registry: Registry, feed: Feed) -> None:
        self._runtime, self._registry, self._feed = runtime, registry, feed
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self.leases = Leases()

    # -- for the driver --------------------------------------------------------------------------

    def reserve(self, name: str, scopes: tuple[str, ...]) -> Reservation | None:
        """Set a worker's credit aside for a call that opens; None: nobody can take it now."""
        found = None if self._draining else self._registry.find(name, scopes)
        if found is None:
            return None
        found[0].credit -= 1
        return Reservation(*found)

    def release(self, reservation: Reservation) -> None:
        """Give the credit back: the commit failed."""
        reservation.worker.credit += 1

    def deliver(self, call: CallRow, reservation: Reservation) -> None:
        """Send a call whose lease is on disk to its worker."""
        worker = reservation.worker
        self.leases.add(
            call.call_id,
            Leased(
                turn_id=call.turn_id,
                attempt=call.attempt,
                worker_id=worker.worker_id,
                instance_id=worker.instance_id,
                worker=worker,
                since=self._runtime.clock.monotonic(),
            ),
        )
        self._waiting.pop(call.call_id, None)
        worker.link.send(Deliver(call=call, scope=reservation.scope))

    def wait_for_worker(self, call: CallRow) -> None:
        """Note a call that is QUEUED on disk, and claim it for whoever can take it."""
        self.leases.pop(call.call_id)
        self._waiting[call.call_id] = _Waiting(name=call.name, scopes=call.scopes, available_at=call.available_at)
        self._offer_all()

    def forget(self, call_id: str, attempt: int, reason: CancelReason) -> None:
        """Let go of a call that is settled on disk; a worker that still holds it is told to stop."""
        self._waiting.pop(call_id, None)
        lease = self.leases.pop(call_id)
        if lease is not None and lease.worker is not None and lease.attempt != attempt:
            lease.worker.link.send(Stop(call_id=call_id, attempt=lease.attempt, reason=reason))

    def stop(self, call_ids: Iterable[str], grace_s: float) -> None:
        """Ask the workers that hold these calls of a cancelled turn to stop within the grace."""
        for call_id in call_ids:
            lease = self.leases.get(call_id)
            if lease is not None and lease.worker is not None:
                lease.worker.link.send(
                    Stop(
                        call_id=call_id,
                        attempt=lease.attempt,
                        reason=CancelReason.TURN_ENDED,
                        grace_s=grace_s,
                    )
                )

    # -- for the stream --------------------------------------------------------------------------

    def credit(self, worker: Worker, messages: int) -> None:
        """Take a grant of credit, bounded by `max_credit`, and bring what waits."""
        worker.credit = min(worker.credit + messages, self._runtime.limits.max_credit)
        self._offer(worker)

    def acked(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a call has arrived. A stale ack means nothing."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            lease.acked = True

    def result(self, worker: Worker, given: CallSettled) -> None:
        """Take a result. Its Ack is sent when the outcome is on disk, over whatever stream the worker has then."""
        given = replace(given, worker_id=worker.worker_id)
        lease = self.leases.of(worker, given.call_id, given.attempt)
        if lease is None or lease.resolving:
            self._spawn(self._answer_late(worker, given))
            return
        lease.acked = True
        self._feed(lease.turn_id, given).add_done_callback(lambda counted: self._acknowledge(worker, given, counted))

    def nack(self, worker: Worker, call_id: str, attempt: int, delay_s: float) -> None:
        """Take a call back that a worker gives back. A stale one means nothing."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            self.give_back(call_id, lease, delay_s=delay_s)

    def stopped(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a worker has stopped a call of a cancelled turn and that no result will come."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            self._feed(lease.turn_id, CallsUnheld(call_ids=(call_id,)))

    def give_back(self, call_id: str, lease: Leased, *, delay_s: float = 0.0, may_have_run: bool = True) -> None:
        """Queue an attempt again without an event: it was given back, never acked, or never begun."""
        if lease.resolving:
            return
        lease.resolving = True
        requeue = Requeue(
            call_id=call_id,
            attempt=lease.attempt,
            available_at=self._runtime.clock.wall() + delay_s if delay_s > 0 else 0.0,
            may_have_run=may_have_run,
        )
        self._spawn(self._requeue(requeue))

    def lose(self, call_id: str, lease: Leased) -> None:
        """Give an attempt up whose worker is gone or silent: an event, and another attempt if one is left."""
        if lease.resolving:
            return
        lease.resolving = True
        log.warning("attempt lost", call_id=call_id, attempt=lease.attempt, worker_id=lease.worker_id)
        self._feed(
            lease.turn_id,
            AttemptFailed(
                call_id=call_id,
                attempt=lease.attempt,
                worker_id=lease.worker_id,
                may_retry=lease.attempt < self._runtime.limits.max_attempts,
            ),
        )

    # -- life ------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Load what a former process left: leases wait for their workers, queued calls for any."""
        now = self._runtime.clock.monotonic()
        for row in await self._runtime.store.calls.leased():
            self.leases.add(
                row.call_id,
                Leased(
                    turn_id=row.turn_id,
                    attempt=row.attempt,
                    worker_id=row.worker_id,
                    instance_id=row.instance_id,
                    worker=None,
                    since=now,
                ),
            )
        after = ""
        while rows := await self._runtime.store.calls.open_everywhere(Page(size=500, after=after)):
            for row in rows:
                if row.state is CallState.QUEUED:
                    self._waiting[row.call_id] = _Waiting(
                        name=row.name, scopes=row.scopes, available_at=row.available_at
                    )
            after = rows[-1].call_id

    def drain(self, reason: str) -> None:
        """Hand out nothing more, and ask every worker to attach elsewhere."""
        self._draining = True
        for worker in self._registry.workers():
            worker.link.send(Leave(reason=reason))

    async def close(self) -> None:
        """Let go of what is still being written; the store has it either way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def offer_due(self) -> None:
        """Bring calls whose delay has passed."""
        if any(call.available_at for call in self._waiting.values()):
            self._offer_all()

    # -- inside ----------------------------------------------------------------------------------

    def _offer_all(self) -> None:
        for worker in self._registry.workers():
            self._offer(worker)

    def _offer(self, worker: Worker) -> None:
        if self._draining or worker.claiming or not worker.takes_calls:
            return
        now = self._runtime.clock.wall()
        if any(self._fits(worker, call, now) for call in self._waiting.values()):
            worker.claiming = True
            self._spawn(self._claim(worker))

    def _fits(self, worker: Worker, call: _Waiting, now: float) -> bool:
        return (
            call.available_at <= now
            and call.name in worker.handlers
            and any(scope in call.scopes for scope in worker.scopes)
        )

    async def _claim(self, worker: Worker) -> None:
        """Take the oldest calls that a worker serves, as many as it has credit for."""
        limit, worker.credit = worker.credit, 0
        claimed: tuple[CallRow, ...] = ()
        try:
            done = await self._runtime.store.commit(
                Batch(
                    claim=Claim(
                        worker_id=worker.worker_id,
                        instance_id=worker.instance_id,
                        names=tuple(worker.handlers),
                        scopes=worker.scopes,
                        limit=limit,
                    )
                )
            )
            claimed = done.claimed
        finally:
            worker.claiming = False
            if worker.lost_at is None:
                worker.credit += limit - len(claimed)
        for call in claimed:
            scope = self._registry.scope_of(worker, call.name, call.scopes)
            self.deliver(call, Reservation(worker, scope))
        if claimed:
            self._offer(worker)

    async def _requeue(self, requeue: Requeue) -> None:
        await self._runtime.store.commit(Batch(requeues=(requeue,)))
        row = await self._runtime.store.calls.get(requeue.call_id)
        if row is not None and row.state is CallState.QUEUED:
            self.wait_for_worker(row)
        else:
            self.leases.pop(requeue.call_id)

    def _acknowledge(self, worker: Worker, given: CallSettled, counted: asyncio.Future[bool]) -> None:
        if counted.cancelled():
            return  # the server stops; the worker keeps the result and sends it again
        if counted.result():
            worker.link.send(Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE))
        else:
            self._spawn(self._answer_late(worker, given))

    async def _answer_late(self, worker: Worker, given: CallSettled) -> None:
        worker.link.send(await late_ack(self._runtime, given))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Awaitable[None]) -> None:
    """Do a piece of work apart. What it could not do, a clock or a restart does again."""
    try:
        await work
    except Exception:
        log.exception("dispatching failed; the call stays in the store")
