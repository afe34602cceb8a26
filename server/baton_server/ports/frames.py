"""The way to a worker: what this server says to it and what it says of itself, in plain values.

The wire package writes and reads them as frames of `ConnectResponse` and `ConnectRequest`. Times are wall seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from baton_server.core.errors import Failure
from baton_server.core.events import HookKind
from baton_server.core.items import Usage
from baton_server.ports.store import CallRow


class CancelReason(StrEnum):
    """Why a worker is to stop: `baton.v1.CancelReason`."""

    TURN_ENDED = "TURN_ENDED"
    SETTLED_ELSEWHERE = "SETTLED_ELSEWHERE"
    TIMEOUT = "TIMEOUT"
    EXPIRED = "EXPIRED"
    LEASE_LOST = "LEASE_LOST"
    NOT_NEEDED = "NOT_NEEDED"


class SideEffects(StrEnum):
    """What a function does to the world: `baton.v1.SideEffects`. ONCE: harmful twice."""

    NONE = "NONE"
    IDEMPOTENT = "IDEMPOTENT"
    ONCE = "ONCE"


class ResultVerdict(StrEnum):
    """What became of a result: `baton.v1.ResultVerdict`."""

    DURABLE = "DURABLE"
    DISCARDED = "DISCARDED"
    REFUSED = "REFUSED"


class HeldVerdict(StrEnum):
    """What to do about a held attempt: `baton.v1.HeldVerdict`."""

    CONTINUE = "CONTINUE"
    ABANDON = "ABANDON"
    ALREADY_SETTLED = "ALREADY_SETTLED"


class CancelOutcome(StrEnum):
    """What became of a Stop: `baton.v1.CancelOutcome`."""

    NOT_BEGUN = "NOT_BEGUN"
    STOPPED = "STOPPED"
    NOT_STOPPED = "NOT_STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """A function to execute. `scope` and `version`: of the handler that was found. `deadline`: when it times out, if
    it is acked now; None: never. `usage`: of its turn so far; None: not known."""

    call: CallRow
    scope: str
    version: str = ""
    deadline: float | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A hook to answer: `baton.v1.Hook`. `attempt` from 1. `deadline` None: a notification, no answer is owed."""

    hook_id: str
    attempt: int
    kind: HookKind
    name: str
    payload_json: str
    deadline: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Hooks that one moment asks of one worker: `baton.v1.HookBatch`. `round` 0: before the first.

    `usage`: of the turn so far.
    """

    batch_id: str
    session_id: str
    turn_id: str
    agent: str
    round: int
    questions: tuple[Question, ...]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop a call, or a hook by its hook_id. `grace_s` 0: the result is of no use any more."""

    call_id: str
    attempt: int
    reason: CancelReason
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """What became of a result."""

    call_id: str
    attempt: int
    verdict: ResultVerdict
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """Until when a lease lasts now. `failure`: the sender has none, and `until` says nothing."""

    call_id: str
    attempt: int
    until: float
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Attach anew, here or elsewhere. `deadline`: when this stream ends; None: when the server does."""

    reason: str
    deadline: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The stream ends: with a status, since nothing can go on, or (None) with OK behind all that is queued."""

    failure: Failure | None


Frame = Deliver | Ask | Stop | Ack | Extended | Leave | End


class Link(Protocol):
    """The way to one worker. Never waits; what it holds back is bounded by the worker's credit and frames."""

    @property
    def full(self) -> bool:
        """Tell whether so much waits to be written that nothing should be sent which may as well be lost."""
        ...

    def send(self, frame: Frame) -> None:
        """Queue a frame; on a stream that has broken it is lost, and the dispatcher's clocks notice."""
        ...

    def withdraw(self, call_id: str, attempt: int) -> bool:
        """Take back a Deliver that waits to be written; False: none of it waits any more, and it may arrive.

        Its credit comes back with the next frame that the worker takes.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An attempt that a worker says it holds: `baton.v1.HeldAttempt`."""

    call_id: str
    attempt: int
    begun: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Room for more calls. `bytes` of arguments; 0 where the worker never grants any: no limit."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What a worker serves under one name: `baton.v1.HandlerSpec`. `kind` None: a function.

    `parameters_json` empty: it does not say. `timeout_s` None, `side_effects` None, `idempotency_fields` empty: it does
    not say. `max_concurrency` 0: as its credit allows.
    """

    name: str
    kind: HookKind | None = None
    version: str = ""
    description: str = ""
    parameters_json: str = ""
    timeout_s: float | None = None
    side_effects: SideEffects | None = None
    idempotency_fields: tuple[str, ...] = ()
    max_concurrency: int = 0

    @property
    def key(self) -> HandlerKey:
        """Say what tells it from the worker's other handlers."""
        return HandlerKey(kind=self.kind, name=self.name, version=self.version)

    @property
    def size(self) -> int:
        """Count its bytes, in UTF-8."""
        texts = (self.name, self.version, self.description, self.parameters_json, *self.idempotency_fields)
        return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerKey:
    """Kind, name and version of a handler. `kind` None: a function."""

    kind: HookKind | None
    name: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """What one program says: `baton.v1.HookAnswer`. Exactly one is set: the answer, or why there is none.

    `crash_type` empty: it said that it failed, on purpose.
    """

    hook_id: str
    attempt: int
    answer_json: str | None = None
    failure: str | None = None
    crash_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a worker says of itself in Hello. `scopes` empty: the empty scope alone. `resume_token` empty: it is new.

    `half_duplex`: it came by WatchCalls, where a lease is renewed by ExtendCall alone and `credit.messages` is the most
    that may be unsettled at once. `max_hook_batches`: hook batches without all answers at once.
    """

    instance_id: str
    scopes: tuple[str, ...] = ()
    handlers: tuple[Handler, ...] = ()
    held: tuple[Held, ...] = ()
    resume_token: str = ""
    credit: Credit = field(default_factory=Credit)
    metadata: Mapping[str, str] = field(default_factory=dict)
    sdk: tuple[str, str, str] = ("", "", "")
    max_hook_batches: int = 16
    half_duplex: bool = False
