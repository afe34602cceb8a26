"""Rows: what the store's tables hold, in the core's types where it has them, else in bytes of the codec.

Times are seconds since the epoch by the store's clock (float). Every table has a `tenant` column filled with
`default`; it is the adapter's matter and not seen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.events import SessionStatus, TurnStatus
from baton_server.core.items import Usage
from baton_server.core.tools import LostWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session. `version` grows by 1 whenever a turn is accepted, starts or ends in it, or its defaults change.

    `key`, `agent_id`, `agent_digest`, `active_turn_id` empty: none. `config_digest`: of its default run
    configuration, empty: none. `expires_after_s` None: never. `last_active_at`: of its last event.
    `history_keeper`: SESSION or MODEL, empty: no turn has decided it yet (`baton.v1.HistoryKeeper`).
    """

    session_id: str
    key: str = ""
    status: SessionStatus = SessionStatus.IDLE
    agent_id: str = ""
    agent_revision: int = 0
    agent_digest: str = ""
    config_digest: str = ""
    scopes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    active_turn_id: str = ""
    last_sequence: int = 0
    usage: Usage = field(default_factory=Usage)
    created_at: float = 0.0
    last_active_at: float = 0.0
    expires_after_s: float | None = None
    version: int = 0
    history_keeper: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn. `snapshot`: bytes of the codec's turn. `version` grows by 1 with each batch that writes the turn.

    `first_sequence`: of its first event; `started_sequence`: of its own first event in the batch that started it
    (what the same batch recorded of another turn stands before it), 0: not started; `last_sequence`: of its last
    event, a late one too. `started_at`, `ended_at` None: not yet.
    """

    turn_id: str
    session_id: str
    status: TurnStatus
    snapshot: bytes
    agent_digest: str
    config_digest: str
    request_id: str
    version: int = 0
    first_sequence: int = 0
    started_sequence: int = 0
    last_sequence: int = 0
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None


class CallState(StrEnum):
    """Where a call is.

    HELD: not handed out yet, since a hook about it is asked, or its turn lets fewer functions run at once;
    AWAITING_DECISION: somebody must allow it first; QUEUED: for any worker; LEASED: a worker has it; CHECKED: its last
    attempt is lost, and a check is asked whether it took effect; EFFECT_UNKNOWN: nobody knows, and it must not run
    twice; SETTLED: it has its output. All but the last are open.
    """

    HELD = "held"
    AWAITING_DECISION = "awaiting_decision"
    QUEUED = "queued"
    LEASED = "leased"
    CHECKED = "checked"
    EFFECT_UNKNOWN = "effect_unknown"
    SETTLED = "settled"


IN_DOUBT = frozenset({CallState.CHECKED, CallState.EFFECT_UNKNOWN})
"""States of a call whose last attempt is lost and may have taken effect: its own result would settle it."""

KEPT_BACK = frozenset({CallState.HELD, CallState.AWAITING_DECISION})
"""States of a call that no worker may have yet: only a Move brings it to the queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """A call, for delivery and for required actions; the log has it as an item.

    Calls are ordered by when they were opened. `version`: of the handler that must serve it, empty: any.
    `attempt`: deliveries so far, 0: none. `worker_id` and `instance_id` of the holder, or of who settled it; empty:
    none. `holder`: digest of the holder's resume token; empty: none. `available_at`: not to be delivered before.
    `may_have_run`: an earlier attempt may have run. `lost_worker`: what its loss means, None: as the handler says
    that gets it. `idempotency_key`: made of argument fields; empty: the call_id is the key. `timeout_s`: from the
    first ack, None: none; `deadline`: when it times out, None: not acked yet, or none; `expires_at`: when it fails
    unless it is settled. `settled_attempt` and `result_digest` recognise a result that comes again;
    `settled_attempt` 0: settled from outside or by the Runner. `succeeded`: it was settled by an output that is no
    failure; `output_item_id`: that output, empty: open. `run_path`: calls that enclose it, outermost first; empty: the
    turn's own run. `arguments_digest` and `definition_digest`: what the decision about it is bound to, kept once it is
    made; empty: none was asked. `decide_by`: when it is rejected by itself, None: never; of AWAITING_DECISION alone.
    """

    call_id: str
    session_id: str
    turn_id: str
    name: str
    agent: str
    arguments: str
    scopes: tuple[str, ...]
    version: str = ""
    state: CallState = CallState.QUEUED
    attempt: int = 0
    worker_id: str = ""
    instance_id: str = ""
    holder: str = ""
    available_at: float = 0.0
    opened_at: float = 0.0
    may_have_run: bool = False
    lost_worker: LostWorker | None = None
    idempotency_key: str = ""
    timeout_s: float | None = None
    deadline: float | None = None
    expires_at: float | None = None
    settled_attempt: int = 0
    result_digest: str = ""
    succeeded: bool = False
    output_item_id: str = ""
    run_path: tuple[str, ...] = ()
    arguments_digest: str = ""
    definition_digest: str = ""
    decide_by: float | None = None

    @property
    def key(self) -> str:
        """Say by which key the outside world knows whether it took effect."""
        return self.idempotency_key or self.call_id


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A decision for all later calls of a function by an agent in a session. One for each agent and tool.

    `definition_digest`: of the function that was decided about. `approve` False: they are rejected, and `message` is
    what the model is told, empty: the default. `decided_by` empty: not said. `created_at`: of this decision, not of one
    that it replaced.
    """

    session_id: str
    agent: str
    tool: str
    definition_digest: str
    approve: bool
    message: str = ""
    decided_by: str = ""
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """An event at rest: the bytes of `baton.v1.Event`, as watchers are sent them."""

    sequence: int
    turn_id: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow:
    """An item. `data`: bytes of `baton.v1.Item`; `json`: the text that goes to the model, empty: never does.

    Order in a history: by (anchor, rank), where the anchor is the `started_sequence` of the item's turn (0 until
    it starts), or the sequence of its own event if it has no turn. `in_history`: given, it joins the history with
    its event; read, it is in the history now. `added` and `withdrawn`: sequences of the events by which
    it joined and left the history, 0: not. `sequence` and `created_at`: of the event that recorded it.
    """

    item_id: str
    turn_id: str
    rank: int
    data: bytes
    json: str
    in_history: bool
    sequence: int = 0
    anchor: int = 0
    added: int = 0
    withdrawn: int = 0
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """Something that reached a turn and was not fed to it yet. `n` orders it; `source` is unique in its turn.

    `data`: bytes of the codec's input. `n` is given by the store, growing, and never twice in a turn; a source may
    come again once its row was consumed.
    """

    turn_id: str
    source: str
    data: bytes
    n: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRow:
    """A timer of a turn, by name. It fires once `at` has come, until it is cleared."""

    turn_id: str
    name: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One revision of a kept agent, from 1."""

    agent_id: str
    revision: int
    digest: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKey:
    """The scope of a request_id: rpc and session (empty for a request that makes its own)."""

    rpc: str
    session_id: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A request that was answered: the digest of its body, and the answer. Kept 24 h."""

    key: RequestKey
    digest: str
    answer: bytes
    created_at: float = 0.0
