"""A worker as this process knows it: who it is, what it serves, and how much more it takes.

On a stream it grants credit, and each call uses some up for good. On its half-duplex twin the credit is the most that
may be unsettled at once, so that settling gives it back. Beside either, a handler may be bounded by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from baton_server.app.calls.frames import Credit, Handler, HandlerKey, Link, SideEffects
from baton_server.core.errors import Failure
from baton_server.core.tools import LostWorker

MAX_CREDIT_BYTES = 2**40
"""Bytes that a worker may have granted at a time (handler.proto, `Credit.bytes`)."""


@dataclass(slots=True, kw_only=True)
class Worker:
    """An attached process. Moments are monotonic seconds, but for `attached_at` (wall seconds).

    `holder`: digest of its resume token. `sdk`: name, version, language. `handlers` by key; `refused`: why others were
    not registered; `declared`: bytes of what it registered. `welcomed`: its Welcome is on the way, so that more may
    follow. `credit`: messages left, or at once; `credit_bytes` the same for arguments, None: no limit. `taken` and
    `taken_bytes`: what it holds, or is about to be handed. `draining`: it takes nothing new; `retired`: what it served
    until then. `lost_at`: when its stream broke, None: it is attached. `leave_at`: when it will be asked to attach
    anew, None: never; `ends_at`: it was, and its stream ends then. `extended_until`: it is not silent before.
    `unanswered`: frames that are owed an answer. `hook_batches`: batches of hooks that it was asked and has not
    answered whole.
    """

    worker_id: str
    instance_id: str
    scopes: tuple[str, ...]
    link: Link
    heard_at: float
    holder: str = ""
    half_duplex: bool = False
    attached_at: float = 0.0
    sdk: tuple[str, str, str] = ("", "", "")
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_hook_batches: int = 16
    hook_batches: int = 0
    handlers: dict[HandlerKey, Handler] = field(default_factory=dict)
    refused: dict[HandlerKey, Failure] = field(default_factory=dict)
    declared: int = 0
    welcomed: bool = False
    credit: int = 0
    credit_bytes: int | None = None
    taken: Counter[HandlerKey] = field(default_factory=Counter)
    taken_bytes: int = 0
    draining: bool = False
    retired: tuple[HandlerKey, ...] = ()
    lost_at: float | None = None
    leave_at: float | None = None
    ends_at: float | None = None
    extended_until: float = 0.0
    unanswered: int = 0

    @property
    def reachable(self) -> bool:
        """Tell whether something new may be sent to it: it is there, was welcomed, and was not asked to leave."""
        return self.welcomed and self.lost_at is None and self.ends_at is None

    @property
    def room(self) -> int:
        """Count the calls that it takes at the moment, as far as its messages of credit go."""
        return self.credit - self.taken.total() if self.half_duplex else self.credit

    @property
    def room_bytes(self) -> int | None:
        """Count the bytes of arguments that it takes at the moment; one call may exceed them. None: no limit."""
        if self.credit_bytes is None:
            return None
        return self.credit_bytes - self.taken_bytes if self.half_duplex else self.credit_bytes

    @property
    def hook_room(self) -> int:
        """Count the batches of hooks that it may be asked at the moment."""
        return self.max_hook_batches - self.hook_batches

    @property
    def functions(self) -> tuple[str, ...]:
        """Name the functions that it serves."""
        return tuple({key.name: None for key in self.handlers if key.kind is None})

    def likely(self, key: HandlerKey) -> HandlerKey:
        """Say which of its handlers has a call of which no version is known: the one that it declared last."""
        mine = [one for one in self.handlers if (one.kind, one.name) == (key.kind, key.name)]
        return mine[-1] if mine and key not in self.handlers else key

    def busy(self, key: HandlerKey) -> bool:
        """Tell whether it has as many calls of a handler as it takes at once."""
        most = self.handlers[key].max_concurrency
        return 0 < most <= self.taken[key]

    def takes(self, key: HandlerKey) -> bool:
        """Tell whether a call of a handler may be handed to it now."""
        left = self.room_bytes
        return self.reachable and self.room > 0 and (left is None or left > 0) and not self.busy(key)

    def grant(self, credit: Credit, most: int) -> None:
        """Add to its credit, up to `most` messages. Its bytes are limited from the first grant of any on."""
        self.credit = min(self.credit + credit.messages, most)
        if credit.bytes or self.credit_bytes is not None:
            self.credit_bytes = min((self.credit_bytes or 0) + credit.bytes, MAX_CREDIT_BYTES)

    def pay(self, size_bytes: int) -> bool:
        """Use up the credit of a call; tells whether its bytes counted. The twin's credit is not used up."""
        if self.half_duplex:
            return False
        self.credit -= 1
        if self.credit_bytes is None:
            return False
        self.credit_bytes -= size_bytes
        return True

    def refuse(self, key: HandlerKey, failure: Failure, most: int) -> None:
        """Remember why a handler was not registered, of the last `most`."""
        self.refused.pop(key, None)
        self.refused[key] = failure
        while len(self.refused) > most:
            del self.refused[next(iter(self.refused))]

    def hold(self, key: HandlerKey, size_bytes: int) -> None:
        """Count a call among those that it has."""
        self.taken[key] += 1
        self.taken_bytes += size_bytes

    def let_go(self, key: HandlerKey, size_bytes: int) -> None:
        """Count it no more."""
        self.taken[key] -= 1
        self.taken_bytes -= size_bytes
        if self.taken[key] <= 0:
            del self.taken[key]

    def attach(self, link: Link, now: float, wall: float) -> None:
        """Give it a new stream, on which nothing is granted yet."""
        self.link, self.heard_at, self.attached_at = link, now, wall
        self.lost_at = self.leave_at = self.ends_at = None
        self.draining = self.welcomed = False
        self.retired = ()

    def lose(self, now: float) -> None:
        """Note that its stream is gone, and with it what was granted there."""
        self.lost_at, self.credit, self.credit_bytes = now, 0, None


class Reservation:
    """A place for one call on the stream that a worker has, set aside until a commit has gone through, or not."""

    __slots__ = ("_open", "_paid_bytes", "handler", "link", "scope", "size_bytes", "worker")

    def __init__(self, worker: Worker, scope: str, handler: Handler, size_bytes: int) -> None:
        """Take the place. `scope`: in which the handler was found. `size_bytes` of the call's arguments."""
        self.worker, self.scope, self.handler, self.size_bytes = worker, scope, handler, size_bytes
        self.link = worker.link
        self._open = True
        self._paid_bytes = worker.pay(size_bytes)
        worker.hold(handler.key, size_bytes)

    @property
    def good(self) -> bool:
        """Tell whether the stream that it was taken on is still the worker's, and may be sent something new."""
        return self.worker.reachable and self.worker.link is self.link

    @property
    def lost_worker(self) -> LostWorker | None:
        """Say what the handler says about the loss of its worker, for a call that says nothing."""
        return LostWorker.ASK if self.handler.side_effects is SideEffects.ONCE else None

    def end(self) -> None:
        """Turn the place over to the lease that has come of it, which counts by itself."""
        if self._open:
            self._open = False
            self.worker.let_go(self.handler.key, self.size_bytes)

    def refund(self) -> Credit | None:
        """Give the place back; what was paid for it, if it is to be granted again."""
        was_open = self._open
        self.end()
        if not was_open or not self.good or self.worker.half_duplex:
            return None
        return Credit(messages=1, bytes=self.size_bytes if self._paid_bytes else 0)
