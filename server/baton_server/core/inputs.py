"""Inputs: what the Runner is told happened. The store keeps them in a turn's inbox until they are fed."""

from __future__ import annotations

from dataclasses import dataclass, field

from baton_server.core.errors import Failure
from baton_server.core.events import CancelMode, Decision, HookKind
from baton_server.core.items import ContentPart, ItemBody, ItemStatus, Settlement, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item that has no id yet: its fields, and the text that goes to the model's API."""

    body: ItemBody
    json: str
    model_item_id: str = ""
    status: ItemStatus = ItemStatus.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The turn leaves QUEUED with its input, in order.

    `carried`: what a turn that goes on from another one takes from it, before the input; it is in that one's log.
    """

    items: tuple[NewItem, ...]
    carried: tuple[NewItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Messages that join the running turn before its next model request.

    Fed only while `state.takes_messages` and no model request is under way; until then its row waits, and if
    the turn ends first, it starts the next one. Fed at another time it would be lost. `carried`: as in Begun, of a turn
    that waits to begin.
    """

    items: tuple[NewItem, ...]
    carried: tuple[NewItem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """The model's terminal response of one round of the run at `run_path`.

    `incomplete_reason` empty: it is complete. `duration_ms` from the first request to the reply. `usage.requests`
    counts failed attempts too.
    """

    round: int
    items: tuple[NewItem, ...]
    response_id: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    incomplete_reason: str = ""
    duration_ms: int = 0
    model_attempts: int = 1
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTried:
    """A request of a round failed, and is made again after `retry_after_s`. `model_attempt` from 1."""

    round: int
    model_attempt: int
    failure: Failure
    retry_after_s: float
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """The model request of a round failed for good, at the `model_attempts`th attempt."""

    round: int
    failure: Failure
    model_attempts: int = 1
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettled:
    """A call has its result. `output`: what the model is told.

    `attempt` 0 and `worker_id` empty: from outside. `digest`: of the result as it came, to recognise it.
    `joined_call_id`: the call whose result this is, for both have one idempotency key; empty: its own.
    """

    call_id: str
    settlement: Settlement
    output: tuple[ContentPart, ...]
    attempt: int = 0
    worker_id: str = ""
    error: Failure | None = None
    digest: str = ""
    joined_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """A worker lost its attempt: it fell silent or went away.

    `may_retry` False: the host sees no use in another attempt. How many may be lost is the Runner's to say. `ask`: it
    may have run, and must not run twice. `check`: a handler can be asked whether it took effect.
    """

    call_id: str
    attempt: int
    worker_id: str
    may_retry: bool = True
    ask: bool = False
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimedOut:
    """The function's timeout has passed since its first ack."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExpired:
    """The call's expiry has passed since it was opened."""

    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryAsked:
    """Someone says that a call of unknown effect is to be delivered again."""

    call_id: str
    decided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMade:
    """Somebody decides about a call that waits for that, or nobody did in time (`expired`)."""

    decision: Decision
    expired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsMade:
    """What was decided at one moment. It is fed and never kept: each decision comes by itself, for one call each."""

    made: tuple[DecisionMade, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswered:
    """A hook was answered, or given up: then `failure` says why, one of the HOOK_ reasons.

    `hook`: its kind. `answer_json`: as it is to stand in the log. `ask`: of EFFECT_CHECK, whether the call must not run
    twice.
    """

    hook_id: str
    hook: HookKind
    name: str
    payload_digest: str
    answer_json: str = ""
    failure: Failure | None = None
    worker_id: str = ""
    ask: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAsked:
    """Someone asks for a cancel. `grace_s`: seconds that workers get to stop; NOW only."""

    mode: CancelMode
    reason: str = ""
    grace_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsUnheld:
    """Calls that no worker holds while a cancel is under way: they get a synthetic output.

    Fed with the cancel, and again whenever `state.cancel` is set and an open call is held by nobody (a reply
    that AFTER_ROUND waited for opens new ones): a cancel never waits for workers to come.
    """

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCutOff:
    """What the model had streamed when a cancel ended its request: kept outside the history.

    Fed right before its CancelAsked, with which the turn ends.
    """

    text: str
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceOver:
    """The grace of a cancel has passed; what workers still hold is settled without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The host cannot go on with the turn, for a fault of its own: the turn ends over `failure`."""

    failure: Failure


Input = (
    Begun
    | Steered
    | ModelReplied
    | ModelTried
    | ModelFailed
    | CallSettled
    | AttemptFailed
    | CallTimedOut
    | CallExpired
    | RedeliveryAsked
    | DecisionMade
    | HookAnswered
    | CancelAsked
    | CallsUnheld
    | TextCutOff
    | GraceOver
    | Broken
)
