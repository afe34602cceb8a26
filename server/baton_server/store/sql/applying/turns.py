"""The rows of turns."""

from __future__ import annotations

from typing import Any

from baton_server.ports.store import Conflict, ConflictKind, TurnWrite
from baton_server.store.checks import spans, turn_writes
from baton_server.store.sql.applying.step import Step


def advance_turns(step: Step) -> None:
    """Write the rows of turns that the batch names, and of those whose events it merely appends."""
    found = spans(step.batch.events, step.first_sequence)
    for write in turn_writes(step.batch):
        _advance_turn(step, write, *found.pop(write.row.turn_id, (0, 0)))
    for turn_id, (start, last) in found.items():
        given = {
            "turn_id": turn_id,
            "session_id": step.batch.session_id,
            "first_sequence": start,
            "last_sequence": last,
        }
        touched = step.db.execute(step.sql.turns.touch, given).fetchone()
        if touched is None:
            raise ValueError(f"an event is of the turn {turn_id!r}, which the session does not have")
        step.anchors[turn_id] = touched[0]


def _advance_turn(step: Step, write: TurnWrite, first: int, last: int) -> None:
    row = write.row
    given: dict[str, Any] = {
        "turn_id": row.turn_id,
        "status": row.status,
        "snapshot": row.snapshot,
        "first_sequence": first,
        "started_sequence": first if write.starts else 0,
        "last_sequence": last,
        "started_at": step.at if write.starts else None,
        "ended_at": step.at if write.ends else None,
    }
    if write.expected_version is None:
        _insert_turn(step, write, given)
        return
    statement = step.sql.turns.end if write.ends else step.sql.turns.advance
    found = step.db.execute(statement, given | {"expected": write.expected_version}).fetchone()
    if found is None:
        raise _refusal(step, row.turn_id, write.expected_version)
    step.turn_versions[row.turn_id], step.anchors[row.turn_id], step.inbox_last[row.turn_id] = found
    if write.starts:
        given = {"session_id": row.session_id, "turn_id": row.turn_id, "started": found[1]}
        step.db.execute(step.sql.log.anchor, given)


def _refusal(step: Step, turn_id: str, expected: int) -> Conflict:
    """Find out why a turn could not be written."""
    found = step.db.execute(step.sql.turns.version, {"turn_id": turn_id}).fetchone()
    if found is not None and found[0] == expected:
        return Conflict(ConflictKind.ENDED, f"the turn {turn_id!r} has ended and is not written again")
    return Conflict(ConflictKind.VERSION, f"the turn {turn_id!r} has not version {expected}")


def _insert_turn(step: Step, write: TurnWrite, given: dict[str, Any]) -> None:
    row = write.row
    given |= {
        "session_id": row.session_id,
        "agent_digest": row.agent_digest,
        "config_digest": row.config_digest,
        "request_id": row.request_id,
        "version": 1,
        "created_at": step.at,
        "inbox_last": 0,
    }
    if step.db.execute(step.sql.turns.insert, given).rowcount == 0:
        raise Conflict(ConflictKind.VERSION, f"there is a turn {row.turn_id!r} already")
    step.turn_versions[row.turn_id], step.inbox_last[row.turn_id] = 1, 0
    step.anchors[row.turn_id] = given["started_sequence"]
