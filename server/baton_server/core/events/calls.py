"""Events of calls and of questions to programs: what came of them, who decided, what got lost."""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.errors import Failure
from baton_server.core.events.words import AfterLoss, HookKind
from baton_server.core.items import ContentPart, Settlement


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a decision is bound to: `baton.v1.ApprovalBinding`. Digests in hex."""

    arguments_digest: str
    definition_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call that is open, as history knows it: what `baton.v1.RequiredAction` says inside an event.

    `key`: handed to its handler. `effect_unknown`: it waits for someone who finds out whether it took effect.
    `awaiting`: it waits for a decision, which is bound to this; None: it does not.
    """

    call_id: str
    name: str
    agent: str
    arguments: str
    key: str
    effect_unknown: bool = False
    awaiting: Binding | None = None
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettled:
    """A hook was answered (`answer_json`), or given up (`failure`). `worker_id` empty: nobody answered."""

    hook_id: str
    kind: HookKind
    name: str
    payload_digest: str
    answer_json: str = ""
    failure: Failure | None = None
    worker_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReturned:
    """What a call gave is known; what the model is told of it is in its output, which follows. As CallSettled."""

    call_id: str
    settlement: Settlement
    output: tuple[ContentPart, ...]
    attempt: int = 0
    worker_id: str = ""
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested:
    """A call waits for a decision. `expires_s` None: for ever."""

    call_id: str
    binding: Binding
    expires_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Allows or refuses a call: `baton.v1.Decision`. Texts empty: not said."""

    call_id: str
    approve: bool
    always: bool = False
    always_in_session: bool = False
    arguments_digest: str = ""
    definition_digest: str = ""
    decided_by: str = ""
    message: str = ""

    @property
    def lasts(self) -> bool:
        """Tell whether it is about other calls of the function in the turn too."""
        return self.always or self.always_in_session


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecided:
    """Somebody decided, or nobody did in time: then `failure` says so."""

    decision: Decision
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectUnknown:
    """Nobody knows whether an attempt took effect, and the call must not run twice."""

    call_id: str
    attempt: int
    idempotency_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectDecided:
    """Somebody said that a call of unknown effect is to be delivered again. `decided_by` empty: not said."""

    call_id: str
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost:
    """An attempt ended without a result."""

    call_id: str
    attempt: int
    worker_id: str
    next: AfterLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDiscarded:
    """A result came too late or twice and was not taken. `attempt` 0 and `worker_id` empty: from outside."""

    call_id: str
    attempt: int
    worker_id: str
    failure: Failure
    result_digest: str
