"""Events: facts of a session, in the order in which they happened. Frozen; never rewritten.

Each class is an arm of `baton.v1.Event`. Session, sequence and time are given by the commit and are not
here; `Event` adds the turn and the round. `TurnState.apply` (state.py) is the one place that reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.errors import Failure
from baton_server.core.items import Item, Usage


class TurnStatus(StrEnum):
    """Where a turn stands: `baton.v1.TurnStatus`."""

    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TERMINAL = frozenset({TurnStatus.COMPLETED, TurnStatus.FAILED, TurnStatus.CANCELLED})
"""A turn never leaves these."""


class SessionStatus(StrEnum):
    """Where a session stands: `baton.v1.SessionStatus`."""

    IDLE = "IDLE"
    IN_PROGRESS = "IN_PROGRESS"
    REQUIRES_ACTION = "REQUIRES_ACTION"


class CancelMode(StrEnum):
    """How a turn is cancelled: `baton.v1.CancelMode`."""

    NOW = "NOW"
    AFTER_ROUND = "AFTER_ROUND"


class AfterLoss(StrEnum):
    """What follows a lost attempt: `baton.v1.AfterLoss`.

    EFFECT_UNKNOWN: none by itself; CHECKED: the handler's check decides; FAILED: no other one, the output says why.
    """

    REDELIVERED = "REDELIVERED"
    EFFECT_UNKNOWN = "EFFECT_UNKNOWN"
    CHECKED = "CHECKED"
    FAILED = "FAILED"


class HookKind(StrEnum):
    """What a hook is asked: `baton.v1.HandlerKind`, without functions."""

    EFFECT_CHECK = "EFFECT_CHECK"
    INPUT_GUARDRAIL = "INPUT_GUARDRAIL"
    MODEL_INPUT_FILTER = "MODEL_INPUT_FILTER"
    LIFECYCLE = "LIFECYCLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSnapshot:
    """How a turn stands: `baton.v1.Turn`, without what the store knows (times and sequences).

    `max_turns` None: no limit. `output` only when COMPLETED, `failure` only when FAILED, else None.
    """

    turn_id: str
    session_id: str
    status: TurnStatus
    agent: str
    last_agent: str
    agent_digest: str
    run_config_digest: str
    request_id: str
    rounds: int = 0
    max_turns: int | None = None
    usage: Usage = field(default_factory=Usage)
    output: str | None = None
    failure: Failure | None = None
    last_response_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCall:
    """A call that is open, as history knows it: what `baton.v1.RequiredAction` says inside an event.

    `key`: handed to its handler. `effect_unknown`: it waits for someone who finds out whether it took effect.
    """

    call_id: str
    name: str
    agent: str
    arguments: str
    key: str
    effect_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCreated:
    """A session came to be. `key` and `agent_digest` empty: none."""

    key: str = ""
    agent_digest: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionInProgress:
    """A turn runs, or runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequiresAction:
    """Nothing goes on in the turn but open calls; the turn is WAITING from here on."""

    calls: tuple[OpenCall, ...]


@dataclass(frozen=True, slots=True)
class SessionIdle:
    """No turn runs and none is queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionUpdated:
    """Defaults of the session changed: the paths of UpdateSession."""

    paths: tuple[str, ...]
    agent_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCreated:
    """A turn was accepted, QUEUED or IN_PROGRESS.

    `carried_item_ids`: items that were steered into the turn before and start this one instead.
    """

    turn: TurnSnapshot
    carried_item_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnInProgress:
    """The turn has left QUEUED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The turn is over; `turn.status` says how: turn_completed, turn_failed or turn_cancelled."""

    turn: TurnSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Someone asked for a cancel."""

    mode: CancelMode
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAdded:
    """An item that the model did not make, or a call that it opened. `in_history`: it joined the history."""

    item: Item
    in_history: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDone:
    """An item that the model made, whole; not a call. `in_history`: it joined the history."""

    item: Item
    in_history: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsWithdrawn:
    """Items left the history by RemoveItems. Empty: all of it."""

    item_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCompleted:
    """The model has replied; its items are in the same commit. `duration_ms` from request to reply."""

    model: str
    response_id: str
    usage: Usage
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged:
    """Another agent goes on: the first of a turn."""

    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailTripped:
    """A guardrail tripped; the turn ends with it. `info_json` empty: it told nothing."""

    name: str
    info_json: str = ""


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


EventBody = (
    SessionCreated
    | SessionInProgress
    | SessionRequiresAction
    | SessionIdle
    | SessionUpdated
    | TurnCreated
    | TurnInProgress
    | TurnEnded
    | CancelRequested
    | ItemAdded
    | ItemDone
    | ItemsWithdrawn
    | RoundCompleted
    | AgentChanged
    | GuardrailTripped
    | HookSettled
    | EffectUnknown
    | EffectDecided
    | AttemptLost
    | ResultDiscarded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact: what happened, in which turn and round. `turn_id` empty and `round` 0: none's."""

    body: EventBody
    turn_id: str = ""
    round: int = 0
