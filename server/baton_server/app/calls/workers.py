"""Workers come, fall silent, come back and go: attaching, and the clocks of what is attached.

A worker is who has its resume token. With it a process takes its place again, over broken streams and over restarts of
the server: what it names goes on, what it does not name it has not begun. Without it a process is a new one, and what a
former one of its instance held is lost at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import (
    Credit,
    End,
    Handler,
    HandlerKey,
    Held,
    HeldVerdict,
    Introduction,
    Leave,
    Link,
)
from baton_server.app.calls.hooks import Hooks
from baton_server.app.calls.leases import Leased
from baton_server.app.calls.registry import Registry
from baton_server.app.calls.tokens import holder_of, new_token
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.core.errors import Failure, Reason
from baton_server.ports.observer import Attendance
from baton_server.ports.store import IN_DOUBT, CallState

log = structlog.get_logger(__name__)

MISSED_HEARTBEATS = 3
"""Heartbeats that may be missed before a worker counts as silent (PROTOCOL.md §7)."""

AGE_JITTER = 0.1
"""Streams that began together do not all end together: by so much of their greatest age earlier or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What Welcome answers: the worker, its token, a failure or None per handler, a verdict per held attempt."""

    worker: Worker
    resume_token: str
    handlers: tuple[Failure | None, ...]
    held: tuple[HeldVerdict, ...]


class Workers:
    """Attaches workers and watches over their streams."""

    def __init__(self, runtime: Runtime, registry: Registry, dispatcher: Dispatcher, hooks: Hooks) -> None:
        self._runtime, self._registry, self._hooks = runtime, registry, hooks
        self._dispatcher, self._losses, self._returns = dispatcher, dispatcher.losses, dispatcher.returns
        self._leases = dispatcher.leases
        hooks.left = self._losses.let_leave

    # -- coming ----------------------------------------------------------------------------------

    async def attach(self, hello: Introduction, link: Link) -> Attached:
        """Take a worker in. It is sent nothing before `welcomed`, so that Welcome is its first frame."""
        settled = [await self._settled(hello, held) for held in hello.held]
        worker, token, resumed = self._take_place(hello, link)
        answers = self.register(worker, hello.handlers)
        if resumed:
            self._resume(worker, hello.held)
        verdicts = [verdict or self._held(worker, held) for verdict, held in zip(settled, hello.held, strict=True)]
        return Attached(worker=worker, resume_token=token, handlers=answers, held=tuple(verdicts))

    def welcomed(self, worker: Worker, credit: Credit) -> None:
        """Let a worker have calls, and the cancels of those that it held before: its Welcome is on the way."""
        age = self._runtime.limits.max_stream_age_s
        if age:
            now = self._runtime.clock.monotonic()
            worker.leave_at = now + age * random.uniform(1 - AGE_JITTER, 1 + AGE_JITTER)
        worker.welcomed = True
        self._returns.remind(worker)
        self._dispatcher.credit(worker, credit)
        self._hooks.look(worker.handlers, worker.scopes)

    def register(self, worker: Worker, handlers: Sequence[Handler]) -> tuple[Failure | None, ...]:
        """Register handlers of a worker; a failure or None for each."""
        answers = tuple(self._registry.register(worker, handler) for handler in handlers)
        self._changed(worker, tuple(worker.handlers))
        return answers

    def refused(self, worker: Worker, declared: Iterable[tuple[HandlerKey, Failure]]) -> None:
        """Remember declarations of a worker that are malformed, for who asks why nobody serves them."""
        for key, failure in declared:
            self._registry.refused(worker, key, failure)

    # -- being there -----------------------------------------------------------------------------

    def unregister(self, worker: Worker, keys: Sequence[HandlerKey]) -> None:
        """Take handlers of a worker back; what it holds goes on."""
        self._registry.unregister(worker, keys, self._runtime.clock.monotonic())
        self._changed(worker, keys)

    def heard(self, worker: Worker) -> None:
        """Note that a frame has come: it renews the leases of all that the worker holds."""
        worker.heard_at = self._runtime.clock.monotonic()

    # -- going -----------------------------------------------------------------------------------

    def drain(self, worker: Worker) -> None:
        """Give a worker nothing new; its stream ends when nothing of it is open."""
        keys = tuple(worker.handlers)
        self._registry.retire(worker, self._runtime.clock.monotonic())
        self._changed(worker, keys)
        self._losses.let_leave(worker)

    def ends_soon(self, worker: Worker, link: Link) -> None:
        """Give a worker nothing new over a stream that is about to end, and that its worker will not miss."""
        if worker.link is link:
            worker.ends_at = math.inf

    def unheard(self, worker: Worker) -> None:
        """Note that no frame will come any more: it has half-closed or is dead, and can settle and answer nothing."""
        worker.credit = worker.max_hook_batches = 0
        self._hooks.broke(worker)

    def broke(self, worker: Worker, link: Link) -> None:
        """Note that a stream has ended. The grace runs, unless the worker left in order with nothing held."""
        if worker.link is not link or worker.lost_at is not None:
            return
        now = self._runtime.clock.monotonic()
        worker.lose(now)
        self._losses.broke(worker)
        self._hooks.broke(worker)
        if worker.draining and not self._leases.held_by(worker):
            self._gone(worker, now)
        self._dispatcher.eased()

    # -- the clocks ------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Look after all clocks until cancelled."""
        limits = self._runtime.limits
        shortest = min(limits.ack_timeout_s, limits.lease_s, limits.registration_grace_s, limits.heartbeat_s)
        while True:
            await self._runtime.clock.sleep(min(1.0, max(0.02, shortest / 5)))
            self.tick()

    def tick(self) -> None:
        """Look at every clock once."""
        now = self._runtime.clock.monotonic()
        self._losses.tick()
        for worker in self._registry.workers():
            self._look_at(worker, now)
        self._registry.forget_unserved(now)
        self._dispatcher.offer()
        self._hooks.look_at_all()
        self._runtime.observer.attended(self._attendance())

    def _attendance(self) -> Attendance:
        here = [worker for worker in self._registry.workers() if worker.lost_at is None]
        watches = sum(worker.half_duplex for worker in here)
        credit = sum(max(0, worker.room) for worker in here if worker.reachable)
        return Attendance(streams=len(here) - watches, watches=watches, credit=credit)

    def _look_at(self, worker: Worker, now: float) -> None:
        limits = self._runtime.limits
        if worker.lost_at is not None:
            if now - worker.lost_at > limits.registration_grace_s:
                self._gone(worker, now)
        elif self._silent(worker, now):
            self._end(worker, _silence(now - worker.heard_at, limits.heartbeat_s))
        elif worker.ends_at is not None:
            if now > worker.ends_at:
                self._end(worker, _too_old(limits.max_stream_age_s))
        elif worker.leave_at is not None and now > worker.leave_at and not worker.draining:
            worker.ends_at = now + limits.registration_grace_s
            deadline = self._runtime.clock.wall() + limits.registration_grace_s
            worker.link.send(Leave(reason="the stream is old", deadline=deadline))

    def _silent(self, worker: Worker, now: float) -> bool:
        """Tell whether nothing was heard for too long of a worker that owes heartbeats, and said nothing about it."""
        quiet = now - worker.heard_at > MISSED_HEARTBEATS * self._runtime.limits.heartbeat_s
        return quiet and not worker.half_duplex and now > worker.extended_until

    def _end(self, worker: Worker, failure: Failure) -> None:
        worker.link.send(End(failure=failure))
        self.broke(worker, worker.link)

    def _gone(self, worker: Worker, now: float) -> None:
        keys = tuple(worker.handlers)
        self._registry.remove(worker, now)
        self._changed(worker, keys)

    def _changed(self, worker: Worker, keys: Sequence[HandlerKey]) -> None:
        """See to what follows when a worker serves some functions, or hooks, that it did not, or no more."""
        self._runtime.bus.nudge()
        self._dispatcher.offer({key.name for key in keys if key.kind is None})
        self._hooks.look(keys, worker.scopes)

    # -- taking a place --------------------------------------------------------------------------

    def _take_place(self, hello: Introduction, link: Link) -> tuple[Worker, str, bool]:
        """Find the place of a worker by its token, or make a new one; returns also its token, and whether it resumes.

        Whoever else has its instance is replaced.
        """
        now, wall = self._runtime.clock.monotonic(), self._runtime.clock.wall()
        holder = holder_of(hello.resume_token)
        worker, held = self._registry.holder(holder), self._leases.of_holder(holder)
        resumes = worker is not None or bool(held)
        token = hello.resume_token if resumes else new_token()
        named = hello.instance_id or (worker.instance_id if worker is not None else held[0].instance_id if held else "")
        instance_id = named or self._runtime.ids.new("instance")
        self._replace(instance_id, worker, holder, now)
        if worker is None:
            worker = Worker(
                worker_id=held[0].worker_id if held else self._runtime.ids.new("worker"),
                instance_id=instance_id,
                scopes=hello.scopes or ("",),
                link=link,
                heard_at=now,
                holder=holder_of(token),
            )
        else:
            self._leave_old_stream(worker, now)
            self._registry.remove(worker, now)
        worker.attach(link, now, wall)
        worker.instance_id, worker.scopes, worker.half_duplex = instance_id, hello.scopes or ("",), hello.half_duplex
        worker.sdk, worker.metadata, worker.max_hook_batches = hello.sdk, hello.metadata, hello.max_hook_batches
        self._registry.add(worker)
        return worker, token, resumes

    def _leave_old_stream(self, worker: Worker, now: float) -> None:
        """Let go of the stream that a worker has, for it has another one, or another process has its place."""
        if worker.lost_at is None:
            worker.link.send(End(failure=_replaced(worker.instance_id)))
            worker.lose(now)
            self._hooks.broke(worker)

    def _replace(self, instance_id: str, own: Worker | None, holder: str, now: float) -> None:
        """Give up whoever else has an instance's place, and what it held: its process is gone."""
        former = self._registry.instance(instance_id)
        if former is not None and former is not own:
            self._leave_old_stream(former, now)
            self._gone(former, now)
        self._losses.abandon(
            lease for lease in self._leases.of_instance(instance_id) if not holder or lease.holder != holder
        )

    def _resume(self, worker: Worker, held: Sequence[Held]) -> None:
        """Have a worker go on with what it names; what it does not name it has not begun."""
        named = {(one.call_id, one.attempt): one for one in held}
        for lease in self._leases.of_holder(worker.holder):
            self._leases.hand_over(lease, worker)
            one = named.get((lease.call_id, lease.attempt))
            if one is None:
                self._losses.give_back(lease, may_have_run=False)
            else:
                self._returns.resumed(lease, begun=one.begun, finished=one.finished)

    async def _settled(self, hello: Introduction, held: Held) -> HeldVerdict | None:
        lease = self._leases.get(held.call_id)
        if lease is not None and (lease.holder, lease.attempt) == (holder_of(hello.resume_token), held.attempt):
            return None  # it is open; thousands may be, and need no look at the store
        row = await self._runtime.store.calls.get(held.call_id)
        if row is not None and row.state is CallState.SETTLED and row.settled_attempt == held.attempt:
            return HeldVerdict.ALREADY_SETTLED
        if row is not None and row.state in IN_DOUBT and row.attempt == held.attempt:
            return HeldVerdict.CONTINUE  # it is not the worker's any more, but its result is what everyone waits for
        return None

    def _held(self, worker: Worker, held: Held) -> HeldVerdict:
        lease = self._leases.of(worker.worker_id, held.call_id, held.attempt)
        return HeldVerdict.CONTINUE if _goes_on(lease) else HeldVerdict.ABANDON


def _goes_on(lease: Leased | None) -> bool:
    return lease is not None and (lease.acked or not lease.leaving)


def _silence(silent_s: float, heartbeat_s: float) -> Failure:
    return Failure(
        reason=Reason.WORKER_SILENT,
        message=f"Nothing was heard of the worker for {silent_s:.1f} s. Send a heartbeat at least every "
        f"{heartbeat_s:g} s, and attach again.",
        metadata={"silent": f"{silent_s:.1f}s"},
    )


def _too_old(age_s: float) -> Failure:
    return Failure(
        reason=Reason.UNAVAILABLE,
        message=f"The stream is older than about {age_s:g} s, and its worker did not attach anew when it was asked to. "
        "Attach again with the resume token.",
        metadata={"part": "stream"},
    )


def _replaced(instance_id: str) -> Failure:
    return Failure(
        reason=Reason.WORKER_REPLACED,
        message=f"The instance {instance_id!r} has attached again; this stream is over.",
        metadata={"instance_id": instance_id},
    )
