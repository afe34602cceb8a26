"""Workers come, fall silent, come back and go: attaching, and the clocks of what is attached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import CancelReason, End, Handler, Held, HeldVerdict, Link, Stop
from baton_server.app.calls.leases import Leased
from baton_server.app.calls.registry import Registry, Worker
from baton_server.app.runtime import Runtime
from baton_server.core.errors import Failure, Reason
from baton_server.ports.store import CallState

log = structlog.get_logger(__name__)

MISSED_HEARTBEATS = 3
"""Heartbeats that may be missed before a worker counts as silent (PROTOCOL.md §7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a worker says of itself in Hello. `scopes` empty: the empty scope alone."""

    instance_id: str
    scopes: tuple[str, ...]
    handlers: tuple[Handler, ...]
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What Welcome answers: the worker, a failure or None per handler, a verdict per held attempt."""

    worker: Worker
    handlers: tuple[Failure | None, ...]
    held: tuple[HeldVerdict, ...]


class Workers:
    """Attaches workers and watches over their streams."""

    def __init__(self, runtime: Runtime, registry: Registry, dispatcher: Dispatcher) -> None:
        self._runtime, self._registry, self._dispatcher = runtime, registry, dispatcher

    async def attach(self, hello: Introduction, link: Link) -> Attached:
        """Take a worker in. It is sent nothing before `welcomed`, so that Welcome is its first frame."""
        settled = [await self._settled(hello.instance_id, held) for held in hello.held]
        worker = self._take_over(hello, link)
        kept = {(held.call_id, held.attempt) for held in hello.held}
        for call_id, lease in self._dispatcher.leases.of_instance(hello.instance_id):
            lease.worker, lease.worker_id = worker, worker.worker_id
            if (call_id, lease.attempt) in kept:
                lease.acked = True
            else:  # what a returning instance does not name it has not begun
                self._dispatcher.give_back(call_id, lease, may_have_run=False)
        verdicts = tuple(verdict or self._held(worker, held) for verdict, held in zip(settled, hello.held, strict=True))
        answers = self.register(worker, hello.handlers)
        return Attached(worker=worker, handlers=answers, held=verdicts)

    def welcomed(self, worker: Worker, credit: int) -> None:
        """Let a worker have calls, and the cancels of those that it held before: its Welcome is on the way."""
        self._dispatcher.remind(worker)
        self._dispatcher.credit(worker, credit)

    def register(self, worker: Worker, handlers: Sequence[Handler]) -> tuple[Failure | None, ...]:
        """Register handlers of a worker; a failure or None for each."""
        answers = tuple(self._registry.register(worker, handler) for handler in handlers)
        self._runtime.bus.nudge()
        self._dispatcher.offer(worker.handlers)
        return answers

    def unregister(self, worker: Worker, names: Sequence[str]) -> None:
        """Take handlers of a worker back; what it holds goes on."""
        self._registry.unregister(worker, names, self._runtime.clock.monotonic())
        self._runtime.bus.nudge()
        self._dispatcher.offer(names)

    def heard(self, worker: Worker) -> None:
        """Note that a frame has come: it renews the leases of all that the worker holds."""
        worker.heard_at = self._runtime.clock.monotonic()

    def drain(self, worker: Worker) -> None:
        """Give a worker nothing new; its stream ends when nothing of it is open."""
        names = tuple(worker.handlers)
        self._registry.retire(worker, self._runtime.clock.monotonic())
        self._runtime.bus.nudge()
        self._dispatcher.offer(names)
        self._dispatcher.let_leave(worker)

    def unheard(self, worker: Worker) -> None:
        """Note that no frame will come any more: it has half-closed or is dead, and can settle nothing new."""
        worker.credit = 0

    def broke(self, worker: Worker, link: Link) -> None:
        """Note that a stream has ended. The grace runs, unless the worker left in order with nothing held."""
        if worker.link is not link or worker.lost_at is not None:
            return
        now = self._runtime.clock.monotonic()
        worker.lost_at, worker.credit = now, 0
        if worker.draining and not self._dispatcher.leases.held_by(worker):
            self._gone(worker, now)
        self._dispatcher.eased()

    async def watch(self) -> None:
        """Look after all clocks until cancelled."""
        limits = self._runtime.limits
        shortest = min(limits.ack_timeout_s, limits.lease_s, limits.registration_grace_s, limits.heartbeat_s)
        while True:
            await self._runtime.clock.sleep(min(1.0, max(0.02, shortest / 5)))
            self.tick()

    def tick(self) -> None:
        """Look at every clock once."""
        now, limits = self._runtime.clock.monotonic(), self._runtime.limits
        for call_id, lease in self._dispatcher.leases:
            if lease.leaving:
                continue
            if lease.expired(now, limits):
                self._lease_over(call_id, lease)
            elif lease.ack_overdue(now, limits):
                self._never_arrived(call_id, lease)
        for worker in self._registry.workers():
            self._look_at(worker, now)
        self._registry.forget_unserved(now)
        self._dispatcher.offer()

    def _lease_over(self, call_id: str, lease: Leased) -> None:
        self._tell_lost(call_id, lease)
        self._dispatcher.lose(call_id, lease)

    def _never_arrived(self, call_id: str, lease: Leased) -> None:
        """Take back a call that never arrived; one that never arrives anywhere ends like a lost one."""
        self._tell_lost(call_id, lease)
        lease.unacked += 1
        if lease.unacked < self._runtime.limits.max_unacked:
            self._dispatcher.give_back(call_id, lease, avoid=lease.worker_id)
        else:
            self._dispatcher.lose(call_id, lease, may_retry=False)

    def _tell_lost(self, call_id: str, lease: Leased) -> None:
        """Tell a worker whose stream lives that an attempt is not its own any more."""
        if lease.worker is not None and lease.worker.lost_at is None:
            lease.worker.link.send(Stop(call_id=call_id, attempt=lease.attempt, reason=CancelReason.LEASE_LOST))

    def _look_at(self, worker: Worker, now: float) -> None:
        limits = self._runtime.limits
        if worker.lost_at is not None:
            if now - worker.lost_at > limits.registration_grace_s:
                self._gone(worker, now)
        elif now - worker.heard_at > MISSED_HEARTBEATS * limits.heartbeat_s:
            silent = now - worker.heard_at
            worker.link.send(
                End(
                    failure=Failure(
                        reason=Reason.WORKER_SILENT,
                        message=f"Nothing was heard of the worker for {silent:.1f} s. Send a heartbeat at "
                        f"least every {limits.heartbeat_s:g} s, and attach again.",
                        metadata={"silent": f"{silent:.1f}s"},
                    )
                )
            )
            self.broke(worker, worker.link)

    def _gone(self, worker: Worker, now: float) -> None:
        names = tuple(worker.handlers)
        self._registry.remove(worker, now)
        self._runtime.bus.nudge()
        self._dispatcher.offer(names)

    def _take_over(self, hello: Introduction, link: Link) -> Worker:
        now = self._runtime.clock.monotonic()
        worker = self._registry.instance(hello.instance_id)
        if worker is None:
            known = self._dispatcher.leases.of_instance(hello.instance_id)
            worker_id = known[0][1].worker_id if known else self._runtime.ids.new("worker")
            worker = Worker(
                worker_id=worker_id,
                instance_id=hello.instance_id,
                scopes=hello.scopes or ("",),
                link=link,
                heard_at=now,
            )
            self._registry.add(worker)
            return worker
        if worker.lost_at is None:
            worker.link.send(
                End(
                    failure=Failure(
                        reason=Reason.WORKER_REPLACED,
                        message=f"The instance {hello.instance_id!r} has attached again; this stream is over.",
                        metadata={"instance_id": hello.instance_id},
                    )
                )
            )
        self._registry.unregister(worker, tuple(worker.handlers), now)
        worker.scopes, worker.link, worker.heard_at = hello.scopes or ("",), link, now
        worker.lost_at, worker.draining, worker.credit = None, False, 0
        return worker

    async def _settled(self, instance_id: str, held: Held) -> HeldVerdict | None:
        lease = self._dispatcher.leases.get(held.call_id)
        if lease is not None and (lease.instance_id, lease.attempt) == (instance_id, held.attempt):
            return None  # it is open; thousands may be, and need no look at the store
        row = await self._runtime.store.calls.get(held.call_id)
        if row is not None and row.state is CallState.SETTLED and row.settled_attempt == held.attempt:
            return HeldVerdict.ALREADY_SETTLED
        return None

    def _held(self, worker: Worker, held: Held) -> HeldVerdict:
        lease = self._dispatcher.leases.of(worker, held.call_id, held.attempt)
        alive = lease is not None and not lease.resolving
        return HeldVerdict.CONTINUE if alive else HeldVerdict.ABANDON


__all__ = ["Attached", "Introduction", "Workers"]
