"""Workers and calls as people are shown them: what ListWorkers and ExplainCall tell. Times are wall seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.items import Settlement
from baton_server.ports.frames import Credit, Handler, Held
from baton_server.ports.store import CallRow


class WorkerState(StrEnum):
    """Where a worker stands: `baton.v1.WorkerState`."""

    ATTACHED = "ATTACHED"
    DRAINING = "DRAINING"
    LOST = "LOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """An attached process: `baton.v1.Worker`.

    `sdk`: name, version, language. `handlers`: what it serves. `credit`: what is left; bytes may be below zero.
    """

    worker_id: str
    instance_id: str
    state: WorkerState
    attached_at: float
    last_heard_at: float
    sdk: tuple[str, str, str] = ("", "", "")
    scopes: tuple[str, ...] = ()
    handlers: tuple[Handler, ...] = ()
    credit: Credit = field(default_factory=Credit)
    held: tuple[Held, ...] = ()
    half_duplex: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)


class CauseKind(StrEnum):
    """Why a call does not run: `baton.v1.CauseKind`."""

    NO_WORKER = "NO_WORKER"
    OTHER_SCOPE = "OTHER_SCOPE"
    OTHER_VERSION = "OTHER_VERSION"
    HANDLER_REFUSED = "HANDLER_REFUSED"
    NO_CREDIT = "NO_CREDIT"
    DRAINING = "DRAINING"
    LEASED = "LEASED"
    DELAYED = "DELAYED"
    CONCURRENCY = "CONCURRENCY"
    EFFECT_UNKNOWN = "EFFECT_UNKNOWN"
    JOINED = "JOINED"
    CHECKED = "CHECKED"
    CANCELLING = "CANCELLING"
    AWAITING_DECISION = "AWAITING_DECISION"
    HELD = "HELD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason why a call does not run: `baton.v1.Cause`.

    `text`: for people, with names and numbers, and what to do. `worker_id` empty: it is about none. `until`: when it
    ends by itself; None: it does not.
    """

    kind: CauseKind
    text: str
    worker_id: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a call does not run, or what settled it: `baton.v1.ExplainCallResponse`.

    `call` None: it was settled, and `settlement` says by what. `causes`: the nearest first; empty: it runs, or was
    settled.
    """

    call: CallRow | None = None
    settlement: Settlement | None = None
    causes: tuple[Cause, ...] = ()
