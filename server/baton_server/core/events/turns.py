"""Events of sessions, turns and their runs: how they stand, what was said in them, who goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from baton_server.core.errors import Failure
from baton_server.core.events.calls import OpenCall
from baton_server.core.events.words import CancelMode, Stage, TurnStatus, Verdict, Withdrawal
from baton_server.core.items import Item, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSnapshot:
    """How a turn stands: `baton.v1.Turn`, without what the store knows (times and sequences).

    `max_turns` None: no limit. `output` only when COMPLETED, `failure` only when FAILED, else None.
    `structured`: the output
    is JSON, of an agent with an output schema. `continues`: the turn that it goes on from, empty: none.
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
    structured: bool = False
    continues: str = ""


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
    """Items left the history. Empty: all of it."""

    item_ids: tuple[str, ...]
    reason: Withdrawal = Withdrawal.REMOVED


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCompleted:
    """The model has replied; its items are in the same commit. `duration_ms` from the first request to the reply."""

    model: str
    response_id: str
    usage: Usage
    duration_ms: int = 0
    model_attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAttemptFailed:
    """One request to the model failed, and another one follows after `retry_after_s`. `model_attempt` from 1."""

    model_attempt: int
    failure: Failure
    retry_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged:
    """Another agent goes on: the first of a run, or one handed over to."""

    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailTripped:
    """A guardrail tripped, and the run ends with it, or put its text in place of an output.

    `info_json` empty: it told nothing. `call_id` empty: an input or a final output.
    """

    name: str
    info_json: str = ""
    stage: Stage = Stage.INPUT
    verdict: Verdict = Verdict.TRIPPED
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRunCreated:
    """An agent tool began its run: events of it have the call's id at the end of their run_path."""

    call_id: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRunClosed:
    """An agent tool ended its run. `failure` None: it gave an output."""

    call_id: str
    usage: Usage
    failure: Failure | None = None
