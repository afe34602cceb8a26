"""The dispatcher: brings calls that wait to workers that can take them, and is what the driver talks to about calls.

Calls live in the store; here is what this process knows of them: who holds which attempt (`leases.py`), which calls
wait for a worker (`waiting.py`) or for another call of their key (`joining.py`), and which clocks run (`clocks.py`).
What workers say about attempts is taken in `returns.py`, what comes back without a result in `losses.py`. The core sees
only outcomes.

Two invariants. No call waits while a worker could take it, so whoever opens a call may use the credit that is
left. And an attempt leaves a worker in one way at most: by its result, or by being given back or lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

import structlog

from baton_server.app.calls.alarms import Alarms
from baton_server.app.calls.clocks import CallClocks
from baton_server.app.calls.errands import Errands
from baton_server.app.calls.frames import CancelReason, Credit, Deliver, Leave
from baton_server.app.calls.joining import Joining
from baton_server.app.calls.leases import Leased, Leases, argument_bytes, lease_of, leased_to
from baton_server.app.calls.losses import Feed, Kept, Losses
from baton_server.app.calls.progress import Reports, WhereIs
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.returns import Returns
from baton_server.app.calls.waiting import WaitingCall, WaitingCalls
from baton_server.app.calls.worker import Reservation, Worker
from baton_server.app.runtime import Runtime
from baton_server.core.items import Usage
from baton_server.ports.store import KEPT_BACK, Batch, CallRow, CallState, Conflict, Page, StoreUnavailable

log = structlog.get_logger(__name__)

UsageOf = Callable[[str], Usage | None]

AT_ONCE = 256
"""Calls leased by one commit, so that a backlog does not hold the writer for long."""


class Dispatcher:
    """Assigns calls and delivers them.

    `returns`: takes what workers say. `losses`: takes attempts back. `leases`, `joining`, `alarms`: for who looks.
    `draining`: nothing is handed out any more.
    """

    def __init__(
        self,
        runtime: Runtime,
        registry: Registry,
        feed: Feed,
        eased: Callable[[], None],
        where_is: WhereIs = lambda _turn_id, _call_id: ((), 0),
        usage_of: UsageOf = lambda _turn_id: None,
    ) -> None:
        """Make it.

        `eased`: called whenever fewer calls may be held than before. `where_is`: a call was made; round 0: not known.
        `usage_of`: a turn so far; None: not known.
        """
        self._runtime, self._registry, self.eased, self._usage_of = runtime, registry, eased, usage_of
        self._waiting = WaitingCalls()
        self._matched: list[tuple[WaitingCall, Reservation]] = []
        self._leasing = False
        self._next_place = 0
        self._parked: dict[str, int] = {}
        self.draining = False
        self._errands = Errands(runtime.clock)
        self.alarms = Alarms(runtime.clock)
        self.leases = Leases(eased)
        self._clocks = CallClocks(runtime, self.alarms, self._errands, feed)
        self.joining = Joining(runtime, self._errands, feed)
        kept = Kept(
            leases=self.leases,
            clocks=self._clocks,
            reports=Reports(runtime, self.alarms, where_is),
            errands=self._errands,
        )
        self.losses = Losses(runtime, registry, kept, feed, self)
        self.returns = Returns(runtime, kept, self.losses, feed)

    # -- for the driver --------------------------------------------------------------------------

    def reserve(
        self, name: str, version: str, scopes: tuple[str, ...], size_bytes: int, avoid: str = ""
    ) -> Reservation | None:
        """Set a worker's credit aside for a call; None: nobody can take it now.

        `version` empty: any. `size_bytes` of its arguments. `avoid`: a worker that gets it only if no other can.
        """
        found = None if self.draining else self._registry.find(name, version, scopes, avoid)
        return None if found is None else Reservation(*found, size_bytes)

    def release(self, reservation: Reservation) -> None:
        """Give the credit back: the commit failed."""
        worker, paid = reservation.worker, reservation.refund()
        if paid is not None:
            worker.grant(paid, self._runtime.limits.max_credit)
        self.offer(worker.functions)

    def opened(self, call: CallRow) -> None:
        """Set the clocks of a call that a commit has opened, whatever becomes of it."""
        self._clocks.opened(call)

    def asked(self, call: CallRow) -> None:
        """Set the clock of a call that waits for a decision on disk."""
        self._clocks.asked(call.call_id, call.turn_id, call.decide_by)

    def decided(self, call_id: str) -> None:
        """Clear the clock of a call that waits for a decision no more."""
        self._clocks.decided(call_id)

    def deliver(self, call: CallRow, reservation: Reservation) -> None:
        """Send a call whose lease is on disk to its worker."""
        self._deliver(call, reservation, self._place())

    def wait_for_worker(self, call: CallRow) -> None:
        """Note a call that is QUEUED on disk, and claim it for whoever can take it."""
        lease = self.losses.end(call.call_id)
        place = self._parked.pop(call.call_id, None) if lease is None else lease.place
        self._wait(call, self._place() if place is None else place)
        if lease is not None:
            self.losses.left(lease)

    def take_on(self, call: CallRow) -> None:
        """Take on a call that a commit has opened although it was reported as failed: nobody knows of it."""
        if call.call_id in self._waiting or self.leases.get(call.call_id) is not None:
            return
        self._clocks.opened(call)
        if call.state is CallState.QUEUED:
            self._wait(call, self._place())
        elif call.state is CallState.LEASED:
            self._give_back_unseen(call, self._place())

    def parked(self, call_id: str) -> None:
        """Let go of a lost attempt whose call is CHECKED or EFFECT_UNKNOWN on disk; its clocks go on."""
        lease = self.losses.end(call_id)
        if lease is not None:
            self._parked[call_id] = lease.place
            self.losses.left(lease)

    def forget(self, call_id: str, attempt: int, reason: CancelReason) -> None:
        """Let go of a call that is settled on disk; a worker that still works on it is told to stop, once.

        `attempt`: whose result settled it, 0: none's.
        """
        self._waiting.discard(call_id)
        self._parked.pop(call_id, None)
        self._clocks.forget(call_id)
        self.losses.settled(call_id, attempt, reason)
        self.joining.forget(call_id)

    def stop(self, call_ids: Iterable[str], grace_s: float) -> None:
        """Ask the workers that hold these calls of a cancelled turn to stop within the grace."""
        self.returns.stop(call_ids, grace_s)

    # -- for workers -----------------------------------------------------------------------------

    def credit(self, worker: Worker, credit: Credit) -> None:
        """Take a grant of credit, bounded by `max_credit`, and bring what waits."""
        worker.grant(credit, self._runtime.limits.max_credit)
        self.offer(worker.functions)

    def ahead_of(self, call_id: str) -> int:
        """Count the calls of the same function that wait before one."""
        return self._waiting.ahead_of(call_id)

    def sets_aside(self, worker: Worker) -> bool:
        """Tell whether a worker is about to be handed a call, whose lease is on its way to the disk."""
        return worker.taken.total() > len(self.leases.held_by(worker))

    def again(self, call: CallRow, lease: Leased, avoid: str) -> None:
        """Have a call wait again, at the place that it had. `avoid`: the worker that gets it only if no other can."""
        self._wait(call, lease.place, avoid, lease.unacked)

    def offer(self, names: Collection[str] | None = None) -> None:
        """Match calls that wait with workers that can take them. `names`: look at these alone, None: at all."""
        if self.draining or not (len(self._waiting) or self._matched):
            return
        self._waiting.release_due(self._runtime.clock.wall())
        self._matched.extend(self._waiting.take(names, self._reserve))
        if self._matched and not self._leasing:
            self._leasing = True
            self._errands.run(self._lease_matched())

    # -- life ------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Load what a former process left: leases wait for their workers, queued calls for any; clocks go on."""
        after = ""
        while rows := await self._runtime.store.calls.open_everywhere(Page(size=500, after=after)):
            for row in rows:
                self._recover(row)
            after = rows[-1].call_id

    def drain(self, reason: str, within_s: float | None = None) -> None:
        """Hand out nothing more, and ask every worker to attach elsewhere.

        `within_s`: how long their streams stay at most, None: not said.
        """
        self.draining = True
        deadline = None if within_s is None else self._runtime.clock.wall() + within_s
        for worker in self._registry.workers():
            if worker.lost_at is None:
                worker.ends_at = math.inf  # its stream ends with the server
                worker.link.send(Leave(reason=reason, deadline=deadline))

    async def close(self) -> None:
        """Let go of what is still being written, and of the clocks; the store has it either way."""
        await self.alarms.close()
        await self._errands.close()

    # -- inside ----------------------------------------------------------------------------------

    def _place(self) -> int:
        self._next_place += 1
        return self._next_place

    def _recover(self, row: CallRow) -> None:
        self._clocks.opened(row)
        if row.state is CallState.QUEUED:
            self._wait(row, self._place())
            return
        if row.state in KEPT_BACK:
            return
        if row.idempotency_key:
            self.joining.serving(row)
        if row.state is CallState.LEASED:
            self.leases.add(Leased.of(row, self._place(), self._runtime.clock.monotonic()))

    def _wait(self, call: CallRow, place: int, avoid: str = "", unacked: int = 0) -> None:
        waiting = WaitingCall(
            call_id=call.call_id,
            name=call.name,
            scopes=call.scopes,
            place=place,
            version=call.version,
            size_bytes=argument_bytes(call),
            available_at=call.available_at,
            avoid=avoid,
            unacked=unacked,
        )
        if call.idempotency_key:
            self.joining.wait(call, partial(self._queue, waiting))
        else:
            self._queue(waiting)

    def _queue(self, waiting: WaitingCall) -> None:
        now = self._runtime.clock.wall()
        self._waiting.add(replace(waiting, since=max(now, waiting.available_at)), now)
        self.offer((waiting.name,))

    def _reserve(self, call: WaitingCall) -> Reservation | None:
        return self.reserve(call.name, call.version, call.scopes, call.size_bytes, call.avoid)

    def _deliver(
        self, call: CallRow, reservation: Reservation, place: int, unacked: int = 0, since: float | None = None
    ) -> None:
        """Send a call to its worker. `since`: when it began to wait for one; None: it did not."""
        good = reservation.good
        lease = Leased.of(call, place, self._runtime.clock.monotonic(), reservation)
        lease.unacked = unacked
        reservation.end()
        self.leases.add(lease)
        if good:
            frame = Deliver(
                call=call,
                scope=reservation.scope,
                version=reservation.handler.version,
                deadline=self._clocks.deadline(call),
                usage=self._usage_of(call.turn_id),
            )
            waited_s = 0.0 if since is None else max(0.0, self._runtime.clock.wall() - since)
            self._runtime.observer.delivered(call.name, call.attempt, waited_s)
            reservation.worker.link.send(frame)
        else:  # its stream went while the lease was written; nobody has seen the call
            self.losses.give_back(lease, may_have_run=False)

    async def _lease_matched(self) -> None:
        """Lease what is matched, one commit at a time, so that calls reach a worker in their order."""
        try:
            while self._matched and not self.draining:
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
            await self._errands.pause()
        finally:
            if not done:
                self._unmatch(matched)
        return done

    async def _lease(self, matched: list[tuple[WaitingCall, Reservation]]) -> None:
        rows = [(await self._runtime.store.calls.get(w.call_id), w, reservation) for w, reservation in matched]
        ready = [
            (leased_to(reservation, row), waiting, reservation)
            for row, waiting, reservation in rows
            if row is not None and row.state is CallState.QUEUED
        ]
        if ready:
            await self._runtime.store.commit(Batch(leases=tuple(lease_of(row) for row, _, _ in ready)))
        for leased, waiting, reservation in ready:
            self._deliver(leased, reservation, waiting.place, waiting.unacked, waiting.since)
        for row, waiting, reservation in rows:
            if row is not None and row.state is CallState.LEASED and self.leases.get(row.call_id) is None:
                self._adopt(row, waiting, reservation)
            elif row is None or row.state is not CallState.QUEUED:
                self.release(reservation)

    def _adopt(self, row: CallRow, waiting: WaitingCall, reservation: Reservation) -> None:
        """Take on a lease of ours that is on disk although its commit was reported as failed; nobody has the call."""
        if row.holder == reservation.worker.holder:
            self._deliver(row, reservation, waiting.place, waiting.unacked, waiting.since)
            return
        self.release(reservation)
        self._give_back_unseen(row, waiting.place, waiting.unacked)

    def _give_back_unseen(self, row: CallRow, place: int, unacked: int = 0) -> None:
        """Queue a call again that is LEASED on disk and was sent to nobody."""
        lease = Leased.of(row, place, self._runtime.clock.monotonic())
        lease.unacked = unacked
        self.leases.add(lease)
        self.losses.give_back(lease, may_have_run=False)

    def _unmatch(self, matched: list[tuple[WaitingCall, Reservation]]) -> None:
        """Have calls wait again; their credit is not offered before the next try."""
        now = self._runtime.clock.wall()
        for waiting, reservation in matched:
            self._waiting.add(waiting, now)
            paid = reservation.refund()
            if paid is not None:
                reservation.worker.grant(paid, self._runtime.limits.max_credit)
