"""The one write: a batch is guards, then writes, all or nothing.

What fails is told by `Conflict` or `Duplicate`, and then nothing was written. Duplicate comes before any Conflict;
of several Conflicts any one is told. Sequences, versions and times are given inside the commit: where a row to be
inserted has them, they are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baton_server.core.events import SessionStatus
from baton_server.core.items import Usage
from baton_server.core.tools import LostWorker
from baton_server.ports.store.rows import (
    AgentRow,
    CallRow,
    CallState,
    EventRow,
    GrantRow,
    InboxRow,
    ItemRow,
    RequestRow,
    SessionRow,
    TimerRow,
    TurnRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to append, serialised without sequence and time, and what it does to items.

    `item`: the item that it records, if any; `rank` and texts as in ItemRow.
    """

    turn_id: str
    data: bytes
    item: ItemRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleGuard:
    """The call must still be open (Conflict CALL); with `attempt` not 0, leased at that very attempt.

    `state`: the call is in that very one; None: in any in which it is open. A call that the same batch opens is open.
    """

    call_id: str
    attempt: int = 0
    state: CallState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A call to mark as settled. `attempt` 0, `worker_id` and `digest` empty: not a worker's result.

    `succeeded` and `output_item_id` as in CallRow; empty where the output is recorded later (a result of the inbox),
    and written when it is: a call that is settled already takes them, and stays as it is otherwise. One that is
    unknown is passed over; a SettleGuard makes that a Conflict.
    """

    call_id: str
    attempt: int = 0
    worker_id: str = ""
    digest: str = ""
    succeeded: bool = False
    output_item_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A call that is kept back, or is so no more: it becomes `state`, which is HELD, AWAITING_DECISION or QUEUED.

    Guard: it is HELD or AWAITING_DECISION; else it is skipped. The digests and `decide_by` are as in CallRow, and
    written with AWAITING_DECISION, to which alone they belong; another state leaves the digests and ends `decide_by`.
    QUEUED: any worker may have it at once, at the place that it was opened at.
    """

    call_id: str
    state: CallState
    arguments_digest: str = ""
    definition_digest: str = ""
    decide_by: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A call to hand to a worker: it becomes LEASED with `attempt`.

    Guard (Conflict CALL): it is QUEUED, perhaps by a move or requeue of the same batch, and `attempt` is its next one.
    `holder` as in CallRow. `lost_worker`: what the handler says, for a call that says nothing; None: neither does it.
    """

    call_id: str
    attempt: int
    worker_id: str
    instance_id: str
    holder: str = ""
    lost_worker: LostWorker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """An attempt to take back: the call becomes QUEUED. Guard: it is LEASED, CHECKED or EFFECT_UNKNOWN at that attempt;
    else it is skipped.

    A call that may have run stays one, whatever `may_have_run` says of this attempt.
    """

    call_id: str
    attempt: int
    available_at: float = 0.0
    may_have_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A lost attempt after which the call waits for an answer: it becomes `state`, CHECKED or EFFECT_UNKNOWN.

    Guard: it is LEASED or CHECKED at that attempt; else it is skipped.
    """

    call_id: str
    attempt: int
    state: CallState


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When an open call times out; the first one that is written stays. A call that is settled is passed over."""

    call_id: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWrite:
    """What becomes of a turn's row.

    `expected_version` None: the turn is new, and `row` is inserted with version 1; otherwise the guard is that the
    row has this version (Conflict VERSION) and has not ended (Conflict ENDED), and status, snapshot and times are
    written. `starts`: this batch starts the turn, with at least one event of it; `ends`: this batch ends it, which
    goes with a terminal status, and the guard is that its inbox holds nothing but what is consumed (Conflict
    INBOX).
    """

    row: TurnRow
    expected_version: int | None = None
    starts: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWrite:
    """What becomes of a session's row. A field that is None stays as it is.

    `new`: insert this row; the guard is that its key and its id are free (Conflict KEY); the other fields are then
    written over it. `expected_version`: guard, None: none; `bump`: grow the version. `add_usage` is added up.
    `history_keeper` as in SessionRow.
    """

    new: SessionRow | None = None
    expected_version: int | None = None
    bump: bool = False
    status: SessionStatus | None = None
    active_turn_id: str | None = None
    add_usage: Usage | None = None
    history_keeper: str | None = None
    replace: SessionRow | None = None
    """Defaults to take over (agent, config, scopes, metadata, expires_after_s); the rest of the row is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One step of one session, all or nothing.

    `session_id` empty only for batches that touch no session (agents, leases, requeues, deadlines); if there is no such
    session, Conflict GONE. Order of effects, where one part meets another: items are recorded, then withdrawn; calls
    are opened, settled, moved, parked, requeued, leased; inbox rows are consumed, then added; timers are cleared, then
    set. A batch that contradicts itself (an event of a turn that the session has not, an id that is there already) is
    a ValueError.
    """

    session_id: str = ""
    request: RequestRow | None = None
    """Guard: the key is unused, else Duplicate. Its answer is stored."""
    session: SessionWrite | None = None
    turn: TurnWrite | None = None
    next_turn: TurnWrite | None = None
    """A second turn that the same step makes or starts: the next one of the queue."""
    settles: tuple[SettleGuard, ...] = ()
    events: tuple[NewEvent, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Items that leave the history with the first event of the batch; one that this batch adds, with its own. One that
    is not in the history is passed over."""
    documents: Mapping[str, bytes] = field(default_factory=dict)
    """Pinned agents and configurations by digest; one that is there stays."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Large texts of the session by digest; one that is there stays."""
    calls_opened: tuple[CallRow, ...] = ()
    calls_settled: tuple[Settled, ...] = ()
    moves: tuple[Move, ...] = ()
    leases: tuple[Lease, ...] = ()
    requeues: tuple[Requeue, ...] = ()
    parked: tuple[Parked, ...] = ()
    deadlines: tuple[Deadline, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    """Of the session. A later one for the same agent and tool replaces the one before, in this batch too."""
    timers_set: tuple[TimerRow, ...] = ()
    timers_cleared: tuple[tuple[str, str], ...] = ()
    """(turn_id, name)."""
    inbox_added: tuple[InboxRow, ...] = ()
    """Guard: the turn has not ended, nor ends in this batch (Conflict ENDED). A source that waits there already is
    passed over."""
    inbox_consumed: tuple[tuple[str, int], ...] = ()
    """(turn_id, n): exactly the rows that were fed. Guard: they are still there (Conflict INBOX)."""
    agent: AgentRow | None = None
    """A new revision. Guard: the newest one is `revision - 1` (Conflict VERSION; GONE if there is none), 0: none."""
    agent_deleted: str = ""
    """An agent to remove with all its revisions. Guard: it is there (Conflict GONE)."""
    session_deleted: bool = False
    """Removes the session with all that belongs to it, its answered requests too, but for this batch's own; documents
    stay. Guard: no turn of it runs, waits or is queued (Conflict BUSY)."""


class ConflictKind(StrEnum):
    """Which guard failed."""

    VERSION = "version"
    CALL = "call"
    INBOX = "inbox"
    ENDED = "ended"
    KEY = "key"
    BUSY = "busy"
    GONE = "gone"
    """The session, or the agent, is not there."""


class Conflict(Exception):
    """A guard failed; nothing was written. The caller drops what it knew, loads, and tries again."""

    def __init__(self, kind: ConflictKind, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


class Duplicate(Exception):
    """The request_id was used before; nothing was written. `row` has the first body's digest and answer."""

    def __init__(self, row: RequestRow) -> None:
        super().__init__(row.key.request_id)
        self.row = row


class StoreUnavailable(Exception):
    """The store cannot be reached or written: disk full, file gone, closed. Nothing is known to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a commit gave. `events`: the stored rows, in order, ready to be sent.

    `turn_version`: of `Batch.turn` now. `session_version` and `last_sequence` of the session now (0 where the
    batch had none). `inbox_left`: rows that the turn's inbox still holds.
    """

    at: float
    events: tuple[EventRow, ...] = ()
    turn_version: int = 0
    session_version: int = 0
    last_sequence: int = 0
    inbox_left: int = 0
