"""The dispatcher: brings calls to workers and results back, and watches over what is out.

Calls live in the store; here is what this process knows of them: who holds which attempt (`leases.py`) and
which calls wait for a worker (`waiting.py`). The core sees only outcomes; ack, lease and grace clocks are this
module's own, and one ticking task looks after all of them, so that a thousand leases cost one timer.

Two invariants. No call waits while a worker could take it, so whoever opens a call may use the credit that is
left. And an attempt leaves a worker in one way at most: by its result, or by being given back or lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from typing import TypeVar

import structlog

from baton_server.app.calls.frames import Ack, CancelReason, Deliver, End, Leave, ResultVerdict, Stop
from baton_server.app.calls.late import late_ack
from baton_server.app.calls.leases import Leased, Leases, leased_to
from baton_server.app.calls.registry import Registry, Reservation, Worker
from baton_server.app.calls.waiting import WaitingCall, WaitingCalls
from baton_server.app.runtime import Runtime
from baton_server.core.inputs import AttemptFailed, CallSettled, CallsUnheld
from baton_server.ports.store import Batch, CallRow, CallState, Conflict, Lease, Page, Requeue, StoreUnavailable

log = structlog.get_logger(__name__)

AT_ONCE = 256
"""Calls leased by one commit, so that a backlog does not hold the writer for long."""

STORE_PAUSE_S = 0.5
"""Between two tries of what the store could not do."""

T = TypeVar("T")

Feed = Callable[[str, CallSettled | AttemptFailed | CallsUnheld], "asyncio.Future[bool]"]
"""Brings an input to the driver of a turn. The future tells whether it counted, once that is on disk."""


class Dispatcher:
    """Assigns calls, delivers them, takes their results, and takes back what was lost."""

    def __init__(self, runtime: Runtime, registry: Registry, feed: Feed, eased: Callable[[], None]) -> None:
        """Make it. `eased`: called whenever fewer calls may be held than before."""
        self._runtime, self._registry, self._feed, self.eased = runtime, registry, feed, eased
        self._waiting = WaitingCalls()
        self._matched: list[tuple[WaitingCall, Reservation]] = []
        self._leasing = False
        self._next_place = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False
        self.leases = Leases(eased)

    # -- for the driver --------------------------------------------------------------------------

    def reserve(self, name: str, scopes: tuple[str, ...], avoid: str = "") -> Reservation | None:
        """Set a worker's credit aside for a call; None: nobody can take it now."""
        found = None if self._draining else self._registry.find(name, scopes, avoid)
        if found is None:
            return None
        worker, scope = found
        worker.credit -= 1
        return Reservation(worker, scope, worker.link)

    def release(self, reservation: Reservation) -> None:
        """Give the credit back: the commit failed."""
        if reservation.good:
            self.credit(reservation.worker, 1)

    def deliver(self, call: CallRow, reservation: Reservation) -> None:
        """Send a call whose lease is on disk to its worker."""
        self._deliver(call, reservation, self._place())

    def wait_for_worker(self, call: CallRow) -> None:
        """Note a call that is QUEUED on disk, and claim it for whoever can take it."""
        lease = self.leases.pop(call.call_id)
        self._wait(call, self._place() if lease is None else lease.place)
        if lease is not None and lease.worker is not None:
            self.let_leave(lease.worker)

    def take_on(self, call: CallRow) -> None:
        """Take on a call that a commit has opened although it was reported as failed: nobody knows of it."""
        if call.call_id in self._waiting or self.leases.get(call.call_id) is not None:
            return
        if call.state is CallState.QUEUED:
            self._wait(call, self._place())
        elif call.state is CallState.LEASED:
            self._give_back_unseen(call, self._place())

    def forget(self, call_id: str, attempt: int, reason: CancelReason) -> None:
        """Let go of a call that is settled on disk; a worker that still works on it is told to stop, once."""
        self._waiting.discard(call_id)
        lease = self.leases.pop(call_id)
        if lease is None or lease.worker is None:
            return
        if lease.attempt != attempt and not lease.resolving and lease.stop_by is None:
            lease.worker.link.send(Stop(call_id=call_id, attempt=lease.attempt, reason=reason))
        self.let_leave(lease.worker)

    def stop(self, call_ids: Iterable[str], grace_s: float) -> None:
        """Ask the workers that hold these calls of a cancelled turn to stop within the grace."""
        for call_id in call_ids:
            lease = self.leases.get(call_id)
            if lease is not None:
                lease.stop_by = self._runtime.clock.monotonic() + grace_s
                self._send_stop(call_id, lease)

    # -- for the stream --------------------------------------------------------------------------

    def credit(self, worker: Worker, messages: int) -> None:
        """Take a grant of credit, bounded by `max_credit`, and bring what waits."""
        worker.credit = min(worker.credit + messages, self._runtime.limits.max_credit)
        self.offer(worker.handlers)

    def remind(self, worker: Worker) -> None:
        """Say again, on a new stream, what is to be stopped: the first time may have been lost with the old one."""
        for call_id, lease in self.leases.held_by(worker):
            if lease.stop_by is not None and not lease.resolving:
                self._send_stop(call_id, lease)

    def written(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a call has been written to its stream: the time for its ack runs."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            lease.written_at = self._runtime.clock.monotonic()

    def acked(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a call has arrived. A stale ack means nothing."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            lease.acked = True

    def result(self, worker: Worker, given: CallSettled) -> None:
        """Take a result. Its Ack is sent when the outcome is on disk, over whatever stream the worker has then."""
        given = replace(given, worker_id=worker.worker_id)
        worker.unanswered += 1
        lease = self.leases.of(worker, given.call_id, given.attempt)
        if lease is None or lease.resolving:
            self._spawn(self._answer_late(worker, given))
            return
        lease.acked = lease.settling = True
        self._feed(lease.turn_id, given).add_done_callback(lambda counted: self._acknowledge(worker, given, counted))

    def nack(self, worker: Worker, call_id: str, attempt: int, delay_s: float) -> None:
        """Take a call back that a worker gives back. A stale one means nothing."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None:
            lease.unacked = 0
            self.give_back(call_id, lease, delay_s=delay_s, avoid=worker.worker_id)

    def stopped(self, worker: Worker, call_id: str, attempt: int) -> None:
        """Note that a worker has stopped a call as it was told, and that no result will come."""
        lease = self.leases.of(worker, call_id, attempt)
        if lease is not None and lease.stop_by is not None and not lease.leaving:
            lease.resolving = True
            self._feed(lease.turn_id, CallsUnheld(call_ids=(call_id,)))

    def let_leave(self, worker: Worker) -> None:
        """End the stream of a worker that drains, in good order, once nothing of it is open."""
        if worker.draining and worker.lost_at is None and not worker.unanswered and not self.leases.held_by(worker):
            worker.link.send(End(failure=None))

    # -- what comes back -------------------------------------------------------------------------

    def give_back(
        self, call_id: str, lease: Leased, *, delay_s: float = 0.0, may_have_run: bool = True, avoid: str = ""
    ) -> None:
        """Queue an attempt again without an event: it was given back, never acked, or never begun."""
        if lease.leaving:
            return
        lease.resolving = True
        requeue = Requeue(
            call_id=call_id,
            attempt=lease.attempt,
            available_at=self._runtime.clock.wall() + delay_s if delay_s > 0 else 0.0,
            may_have_run=may_have_run,
        )
        self._spawn(self._requeue(requeue, lease, avoid))

    def lose(self, call_id: str, lease: Leased, *, may_retry: bool = True) -> None:
        """Give an attempt up whose worker is gone or silent: an event, and another attempt if one is left.

        `may_retry` False: there is no use in another one.
        """
        if lease.leaving:
            return
        lease.resolving = True
        log.warning("attempt lost", call_id=call_id, attempt=lease.attempt, worker_id=lease.worker_id)
        self._feed(
            lease.turn_id,
            AttemptFailed(
                call_id=call_id,
                attempt=lease.attempt,
                worker_id=lease.worker_id,
                may_retry=may_retry,
            ),
        )

    # -- life ------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Load what a former process left: leases wait for their workers, queued calls for any."""
        now = self._runtime.clock.monotonic()
        after = ""
        while rows := await self._runtime.store.calls.open_everywhere(Page(size=500, after=after)):
            for row in rows:
                if row.state is CallState.LEASED:
                    self.leases.add(row.call_id, Leased.of(row, None, now, self._place()))
                else:
                    self._wait(row, self._place())
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

    def offer(self, names: Collection[str] | None = None) -> None:
        """Match calls that wait with workers that can take them. `names`: look at these alone, None: at all."""
        if self._draining or not (len(self._waiting) or self._matched):
            return
        self._waiting.release_due(self._runtime.clock.wall())
        self._matched.extend(self._waiting.take(names, lambda call: self.reserve(call.name, call.scopes, call.avoid)))
        if self._matched and not self._leasing:
            self._leasing = True
            self._spawn(self._lease_matched())

    # -- inside ----------------------------------------------------------------------------------

    def _place(self) -> int:
        self._next_place += 1
        return self._next_place

    def _wait(self, call: CallRow, place: int, avoid: str = "", unacked: int = 0) -> None:
        waiting = WaitingCall(
            call_id=call.call_id,
            name=call.name,
            scopes=call.scopes,
            place=place,
            available_at=call.available_at,
            avoid=avoid,
            unacked=unacked,
        )
        self._waiting.add(waiting, self._runtime.clock.wall())
        self.offer((call.name,))

    def _deliver(self, call: CallRow, reservation: Reservation, place: int, unacked: int = 0) -> None:
        worker = reservation.worker
        lease = Leased.of(call, worker, self._runtime.clock.monotonic(), place, unacked)
        self.leases.add(call.call_id, lease)
        if reservation.good:
            worker.link.send(Deliver(call=call, scope=reservation.scope))
        else:  # its stream went while the lease was written; nobody has seen the call
            self.give_back(call.call_id, lease, may_have_run=False)

    async def _lease_matched(self) -> None:
        """Lease what is matched, one commit at a time, so that calls reach a worker in their order."""
        try:
            while self._matched and not self._draining:
                matched, self._matched = self._matched[:AT_ONCE], self._matched[AT_ONCE:]
                if not await self._leased(matched):
                    self.offer()
        finally:
            self._leasing = False

    async def _leased(self, matched: list[tuple[WaitingCall, Reservation]]) -> bool:
        """Lease some calls; False: it could not be done, and they wait again."""
        done = False
        try:
            await self._lease(matched)
            done = True
        except Conflict as conflict:
            log.info("calls that wait were settled meanwhile", conflict=str(conflict))
        except StoreUnavailable as error:
            log.warning("the store is away; calls wait", error=str(error))
            await self._runtime.clock.sleep(STORE_PAUSE_S)
        finally:
            if not done:
                self._unmatch(matched)
        return done

    async def _lease(self, matched: list[tuple[WaitingCall, Reservation]]) -> None:
        rows = [(await self._runtime.store.calls.get(w.call_id), w, reservation) for w, reservation in matched]
        ready = [
            (leased_to(reservation.worker, row), waiting, reservation)
            for row, waiting, reservation in rows
            if row is not None and row.state is CallState.QUEUED
        ]
        leases = tuple(
            Lease(call_id=r.call_id, attempt=r.attempt, worker_id=r.worker_id, instance_id=r.instance_id)
            for r, _, _ in ready
        )
        if leases:
            await self._runtime.store.commit(Batch(leases=leases))
        for leased, waiting, reservation in ready:
            self._deliver(leased, reservation, waiting.place, waiting.unacked)
        for row, waiting, reservation in rows:
            if row is not None and row.state is CallState.LEASED and self.leases.get(row.call_id) is None:
                self._adopt(row, waiting, reservation)
            elif row is None or row.state is not CallState.QUEUED:
                self.release(reservation)

    def _adopt(self, row: CallRow, waiting: WaitingCall, reservation: Reservation) -> None:
        """Take on a lease of ours that is on disk although its commit was reported as failed; nobody has the call."""
        if row.worker_id == reservation.worker.worker_id:
            self._deliver(row, reservation, waiting.place, waiting.unacked)
            return
        self.release(reservation)
        self._give_back_unseen(row, waiting.place, waiting.unacked)

    def _give_back_unseen(self, row: CallRow, place: int, unacked: int = 0) -> None:
        """Queue a call again that is LEASED on disk and was sent to nobody."""
        worker, now = self._registry.get(row.worker_id), self._runtime.clock.monotonic()
        lease = Leased.of(row, worker, now, place, unacked)
        self.leases.add(row.call_id, lease)
        self.give_back(row.call_id, lease, may_have_run=False)

    def _unmatch(self, matched: list[tuple[WaitingCall, Reservation]]) -> None:
        now = self._runtime.clock.wall()
        for waiting, reservation in matched:
            self._waiting.add(waiting, now)
            if reservation.good:
                reservation.worker.credit += 1

    async def _requeue(self, requeue: Requeue, lease: Leased, avoid: str) -> None:
        if await self._feed(lease.turn_id, CallsUnheld(call_ids=(requeue.call_id,))):
            return  # its turn is being cancelled, and waits for no other worker

        async def written() -> CallRow | None:
            await self._runtime.store.commit(Batch(requeues=(requeue,)))
            return await self._runtime.store.calls.get(requeue.call_id)

        row = await self._persist(written)
        if self.leases.get(requeue.call_id) is lease:
            self.leases.pop(requeue.call_id)
        if row is not None and row.state is CallState.QUEUED:
            self._wait(row, lease.place, avoid, lease.unacked)
            self._runtime.bus.publish(row.session_id, ())  # nobody works on it any more: its turn may rest
        if lease.worker is not None:
            self.let_leave(lease.worker)

    def _acknowledge(self, worker: Worker, given: CallSettled, counted: asyncio.Future[bool]) -> None:
        if counted.cancelled():
            return  # the server stops; the worker keeps the result and sends it again
        if counted.result():
            self._answer(worker, Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE))
        else:
            self._spawn(self._answer_late(worker, given))

    async def _answer_late(self, worker: Worker, given: CallSettled) -> None:
        self._answer(worker, await self._persist(lambda: late_ack(self._runtime, given)))

    def _answer(self, worker: Worker, ack: Ack) -> None:
        worker.unanswered -= 1
        worker.link.send(ack)
        self.let_leave(worker)

    def _send_stop(self, call_id: str, lease: Leased) -> None:
        if lease.worker is None or lease.stop_by is None:
            return
        left = max(0.0, lease.stop_by - self._runtime.clock.monotonic())
        reason = CancelReason.TURN_ENDED
        lease.worker.link.send(Stop(call_id=call_id, attempt=lease.attempt, reason=reason, grace_s=left))

    async def _persist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do a piece of work as soon as the store can be reached."""
        while True:
            try:
                return await work()
            except StoreUnavailable as error:
                log.warning("the store is away; it is tried again", error=str(error))
                await self._runtime.clock.sleep(STORE_PAUSE_S)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Awaitable[None]) -> None:
    """Do a piece of work apart; what fails in it is our fault, and the call stays in the store."""
    try:
        await work
    except Exception:
        log.exception("dispatching failed; the call stays in the store")
