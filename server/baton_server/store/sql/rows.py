"""Rows of the port as rows of the tables, and back. The order of columns here is the order in selects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from baton_server.core.events import SessionStatus, TurnStatus
from baton_server.core.items import Usage
from baton_server.core.tools import LostWorker
from baton_server.ports.store import (
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

Row = Sequence[Any]  # what a driver returns: values of several types, by position
Params = Mapping[str, Any]  # what a driver binds, by name

DEFAULTS_COLUMNS = (
    "agent_id",
    "agent_revision",
    "agent_digest",
    "config_digest",
    "scopes",
    "metadata",
    "expires_after_s",
)
USAGE_COLUMNS = (
    "usage_requests",
    "usage_input_tokens",
    "usage_cached_input_tokens",
    "usage_output_tokens",
    "usage_reasoning_tokens",
    "usage_total_tokens",
)
SESSION_COLUMNS = (
    "session_id",
    "key",
    "status",
    "agent_id",
    "agent_revision",
    "agent_digest",
    "config_digest",
    "scopes",
    "metadata",
    "active_turn_id",
    "last_sequence",
    "created_at",
    "last_active_at",
    "expires_after_s",
    "version",
    *USAGE_COLUMNS,
    "history_keeper",
)
TURN_COLUMNS = (
    "turn_id",
    "session_id",
    "status",
    "snapshot",
    "agent_digest",
    "config_digest",
    "request_id",
    "version",
    "first_sequence",
    "started_sequence",
    "last_sequence",
    "created_at",
    "started_at",
    "ended_at",
)
CALL_COLUMNS = (
    "call_id",
    "session_id",
    "turn_id",
    "name",
    "agent",
    "arguments",
    "scopes",
    "state",
    "attempt",
    "worker_id",
    "instance_id",
    "available_at",
    "opened_at",
    "may_have_run",
    "settled_attempt",
    "result_digest",
    "version",
    "holder",
    "lost_worker",
    "idempotency_key",
    "timeout_s",
    "deadline",
    "expires_at",
    "succeeded",
    "output_item_id",
    "run_path",
    "arguments_digest",
    "definition_digest",
    "decide_by",
)
GRANT_COLUMNS = (
    "session_id",
    "agent",
    "tool",
    "definition_digest",
    "approve",
    "message",
    "decided_by",
    "created_at",
)
EVENT_COLUMNS = ("sequence", "turn_id", "data")
ITEM_COLUMNS = (
    "item_id",
    "turn_id",
    "rank",
    "data",
    "json",
    "sequence",
    "anchor",
    "added",
    "withdrawn",
    "created_at",
)
INBOX_COLUMNS = ("turn_id", "source", "data", "n")
TIMER_COLUMNS = ("turn_id", "name", "at")
AGENT_COLUMNS = ("agent_id", "revision", "digest", "metadata", "created_at")


def texts(values: Sequence[str]) -> str:
    """Write a list of texts as JSON."""
    return json.dumps(values, separators=(",", ":"))


def pairs(values: Mapping[str, str]) -> str:
    """Write a map of texts as JSON, in its order."""
    return json.dumps(dict(values), separators=(",", ":"))


def usage_params(usage: Usage) -> dict[str, int]:
    """Bind the columns of a usage."""
    return {
        "usage_requests": usage.requests,
        "usage_input_tokens": usage.input_tokens,
        "usage_cached_input_tokens": usage.cached_input_tokens,
        "usage_output_tokens": usage.output_tokens,
        "usage_reasoning_tokens": usage.reasoning_tokens,
        "usage_total_tokens": usage.total_tokens,
    }


NO_USAGE = usage_params(Usage())


def defaults_params(row: SessionRow) -> dict[str, Any]:
    """Bind what an update of a session's defaults replaces."""
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "agent_revision": row.agent_revision,
        "agent_digest": row.agent_digest,
        "config_digest": row.config_digest,
        "scopes": texts(row.scopes),
        "metadata": pairs(row.metadata),
        "expires_after_s": row.expires_after_s,
    }


def new_session_params(row: SessionRow, at: float) -> dict[str, Any]:
    """Bind a session that is made now, before any event of it."""
    return {
        **defaults_params(row),
        "key": row.key or None,
        "status": row.status,
        "active_turn_id": row.active_turn_id,
        "last_sequence": 0,
        "created_at": at,
        "last_active_at": at,
        "version": 0,
        **usage_params(row.usage),
        "history_keeper": row.history_keeper,
    }


def session(row: Row) -> SessionRow:
    """Read a session."""
    return SessionRow(
        session_id=row[0],
        key=row[1] or "",
        status=SessionStatus(row[2]),
        agent_id=row[3],
        agent_revision=row[4],
        agent_digest=row[5],
        config_digest=row[6],
        scopes=tuple(json.loads(row[7])),
        metadata=json.loads(row[8]),
        active_turn_id=row[9],
        last_sequence=row[10],
        created_at=row[11],
        last_active_at=row[12],
        expires_after_s=row[13],
        version=row[14],
        usage=Usage(
            requests=row[15],
            input_tokens=row[16],
            cached_input_tokens=row[17],
            output_tokens=row[18],
            reasoning_tokens=row[19],
            total_tokens=row[20],
        ),
        history_keeper=row[21],
    )


def turn(row: Row) -> TurnRow:
    """Read a turn."""
    return TurnRow(
        turn_id=row[0],
        session_id=row[1],
        status=TurnStatus(row[2]),
        snapshot=row[3],
        agent_digest=row[4],
        config_digest=row[5],
        request_id=row[6],
        version=row[7],
        first_sequence=row[8],
        started_sequence=row[9],
        last_sequence=row[10],
        created_at=row[11],
        started_at=row[12],
        ended_at=row[13],
    )


def new_call_params(row: CallRow, at: float) -> dict[str, Any]:
    """Bind a call that is opened now."""
    return {
        "call_id": row.call_id,
        "session_id": row.session_id,
        "turn_id": row.turn_id,
        "name": row.name,
        "agent": row.agent,
        "arguments": row.arguments.encode(),
        "scopes": texts(row.scopes),
        "state": row.state,
        "attempt": row.attempt,
        "worker_id": row.worker_id,
        "instance_id": row.instance_id,
        "available_at": row.available_at,
        "opened_at": at,
        "may_have_run": row.may_have_run,
        "settled_attempt": row.settled_attempt,
        "result_digest": row.result_digest,
        "version": row.version,
        "holder": row.holder,
        "lost_worker": row.lost_worker,
        "idempotency_key": row.idempotency_key,
        "timeout_s": row.timeout_s,
        "deadline": row.deadline,
        "expires_at": row.expires_at,
        "succeeded": row.succeeded,
        "output_item_id": row.output_item_id,
        "run_path": texts(row.run_path) if row.run_path else "",
        "arguments_digest": row.arguments_digest,
        "definition_digest": row.definition_digest,
        "decide_by": row.decide_by,
    }


def call(row: Row) -> CallRow:
    """Read a call."""
    return CallRow(
        call_id=row[0],
        session_id=row[1],
        turn_id=row[2],
        name=row[3],
        agent=row[4],
        arguments=row[5].decode(),
        scopes=tuple(json.loads(row[6])),
        state=CallState(row[7]),
        attempt=row[8],
        worker_id=row[9],
        instance_id=row[10],
        available_at=row[11],
        opened_at=row[12],
        may_have_run=bool(row[13]),
        settled_attempt=row[14],
        result_digest=row[15],
        version=row[16],
        holder=row[17],
        lost_worker=LostWorker(row[18]) if row[18] is not None else None,
        idempotency_key=row[19],
        timeout_s=row[20],
        deadline=row[21],
        expires_at=row[22],
        succeeded=bool(row[23]),
        output_item_id=row[24],
        run_path=tuple(json.loads(row[25])) if row[25] else (),
        arguments_digest=row[26],
        definition_digest=row[27],
        decide_by=row[28],
    )


def grant_params(row: GrantRow, at: float) -> dict[str, Any]:
    """Bind a decision that is made now."""
    return {
        "session_id": row.session_id,
        "agent": row.agent,
        "tool": row.tool,
        "definition_digest": row.definition_digest,
        "approve": row.approve,
        "message": row.message.encode(),
        "decided_by": row.decided_by.encode(),
        "created_at": at,
    }


def grant(row: Row) -> GrantRow:
    """Read a decision for all later calls."""
    return GrantRow(
        session_id=row[0],
        agent=row[1],
        tool=row[2],
        definition_digest=row[3],
        approve=bool(row[4]),
        message=row[5].decode(),
        decided_by=row[6].decode(),
        created_at=row[7],
    )


def event(row: Row) -> EventRow:
    """Read an event."""
    return EventRow(sequence=row[0], turn_id=row[1], data=row[2])


def item(row: Row) -> ItemRow:
    """Read an item; it is in the history if it joined it and did not leave."""
    return ItemRow(
        item_id=row[0],
        turn_id=row[1],
        rank=row[2],
        data=row[3],
        json=row[4].decode(),
        sequence=row[5],
        anchor=row[6],
        added=row[7],
        withdrawn=row[8],
        created_at=row[9],
        in_history=row[7] > 0 and row[8] == 0,
    )


def inbox(row: Row) -> InboxRow:
    """Read an inbox row."""
    return InboxRow(turn_id=row[0], source=row[1], data=row[2], n=row[3])


def timer(row: Row) -> TimerRow:
    """Read a timer."""
    return TimerRow(turn_id=row[0], name=row[1], at=row[2])


def agent(row: Row) -> AgentRow:
    """Read an agent's revision."""
    return AgentRow(agent_id=row[0], revision=row[1], digest=row[2], metadata=json.loads(row[3]), created_at=row[4])


def request_params(row: RequestRow, at: float) -> dict[str, Any]:
    """Bind an answered request."""
    return {
        "rpc": row.key.rpc,
        "session_id": row.key.session_id,
        "request_id": row.key.request_id,
        "digest": row.digest,
        "answer": row.answer,
        "created_at": at,
    }
