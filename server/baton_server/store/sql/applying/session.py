"""The request that a batch answers, and the row of its session."""

from __future__ import annotations

from typing import Any

from baton_server.ports.store import Conflict, ConflictKind, Duplicate, RequestRow, SessionWrite
from baton_server.store.sql import rows
from baton_server.store.sql.applying.step import Step

_NO_WRITE = SessionWrite()


def answer_once(step: Step) -> None:
    """Keep the answer, or raise Duplicate before any other guard is asked."""
    request = step.batch.request
    if request is None:
        return
    given = rows.request_params(request, step.at)
    if step.db.execute(step.sql.requests.insert, given).rowcount == 0:
        found = step.db.execute(step.sql.requests.find, given).fetchone()
        assert found is not None, "the insert met this very row"
        raise Duplicate(RequestRow(key=request.key, digest=found[0], answer=found[1], created_at=found[2]))


def delete_session(step: Step) -> None:
    """Remove all of a session but the answer to the request that removes it."""
    batch = step.batch
    own = {"session_id": batch.session_id}
    if step.db.execute(step.sql.sessions.versions, own).fetchone() is None:
        raise Conflict(ConflictKind.GONE, f"there is no session {batch.session_id!r}")
    busy = step.db.execute(step.sql.sessions.busy, own).fetchone()
    if busy is not None:
        raise Conflict(ConflictKind.BUSY, f"the turn {busy[0]!r} has not ended")
    key = batch.request.key if batch.request is not None else None
    kept = {"rpc": key.rpc if key else "", "request_id": key.request_id if key else ""}
    step.db.execute(step.sql.requests.forget_session, own | kept)
    for statement in step.sql.sessions.delete:
        step.db.execute(statement, own)


def advance_session(step: Step) -> None:
    """Write the session's row, which gives the batch its sequences."""
    batch, sql = step.batch, step.sql.sessions
    write = batch.session or _NO_WRITE
    if write.new is not None and not _insert_session(step, write):
        raise Conflict(ConflictKind.KEY, f"the key {write.new.key!r} or the id {batch.session_id!r} is taken")
    own = {"session_id": batch.session_id}
    if write is _NO_WRITE and not batch.events:
        found = step.db.execute(sql.versions, own).fetchone()
    else:
        statement = sql.advance if write.active_turn_id is None else sql.activate
        found = step.db.execute(statement, _session_params(step, write)).fetchone()
    if found is None:
        raise Conflict(ConflictKind.GONE, f"there is no session {batch.session_id!r}")
    step.session_version, step.last_sequence = found
    before = step.session_version - write.bump
    if write.expected_version is not None and before != write.expected_version:
        raise Conflict(
            ConflictKind.VERSION,
            f"the session {batch.session_id!r} has version {before}, not {write.expected_version}",
        )
    if write.replace is not None:
        step.db.execute(sql.replace, rows.defaults_params(write.replace) | own)


def _insert_session(step: Step, write: SessionWrite) -> bool:
    assert write.new is not None
    given = rows.new_session_params(write.new, step.at)
    return step.db.execute(step.sql.sessions.insert, given).rowcount == 1


def _session_params(step: Step, write: SessionWrite) -> dict[str, Any]:
    usage = rows.NO_USAGE if write.add_usage is None else rows.usage_params(write.add_usage)
    return {
        "session_id": step.batch.session_id,
        "bump": int(write.bump),
        "events": len(step.batch.events),
        "active_at": step.at if step.batch.events else None,
        "status": write.status,
        "active_turn_id": write.active_turn_id,
        "history_keeper": write.history_keeper,
        **usage,
    }
