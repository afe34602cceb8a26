"""One batch on a copy of the tables. What raises here leaves the tables themselves as they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from baton_server.core.events import TERMINAL
from baton_server.ports.store import (
    Batch,
    Committed,
    Conflict,
    ConflictKind,
    Duplicate,
    EventRow,
    ItemRow,
    SessionRow,
    Stamp,
    TurnRow,
    TurnWrite,
)
from baton_server.store.checks import check, spans, turn_writes
from baton_server.store.memory.calls import write_calls
from baton_server.store.memory.tables import Tables

Key = TypeVar("Key")
Value = TypeVar("Value")


def commit(tables: Tables, batch: Batch, at: float, stamp: Stamp) -> tuple[Tables, Committed]:
    """Check and write a batch at a time; returns the tables after it. Raises Conflict, Duplicate, ValueError."""
    check(batch)
    after = tables.copy()
    _answer_once(after, batch, at)
    session: SessionRow | None = None
    events: tuple[EventRow, ...] = ()
    if batch.session_deleted:
        _delete_session(after, batch)
    elif batch.session_id:
        session = _advance_session(after, batch, at)
        first = session.last_sequence - len(batch.events) + 1
        _advance_turns(after, batch, first, at)
        events = _append(after, batch, first, at, stamp)
    write_calls(after.calls, batch, at)
    _write_inbox(after, batch)
    _write_rest(after, batch, at)
    turn = batch.turn.row.turn_id if batch.turn is not None else ""
    return after, Committed(
        at=at,
        events=events,
        turn_version=after.turns[turn].version if turn else 0,
        session_version=session.version if session is not None else 0,
        last_sequence=session.last_sequence if session is not None else 0,
        inbox_left=len(after.inbox_of(turn)) if turn else 0,
    )


# -- requests and the session --------------------------------------------------------------------


def _answer_once(tables: Tables, batch: Batch, at: float) -> None:
    """The request is asked first: an answer that was given is given again, however things stand now."""
    request = batch.request
    if request is None:
        return
    if request.key in tables.requests:
        raise Duplicate(tables.requests[request.key])
    tables.requests[request.key] = replace(request, created_at=at)


def _delete_session(tables: Tables, batch: Batch) -> None:
    gone = batch.session_id
    if gone not in tables.sessions:
        raise Conflict(ConflictKind.GONE, f"there is no session {gone!r}")
    busy = tables.under_way(gone)
    if busy:
        raise Conflict(ConflictKind.BUSY, f"the turn {busy[0].turn_id!r} has not ended")
    turns = {row.turn_id for row in tables.turns_of(gone)}
    items = {row.item_id for row in tables.items_of(gone)}
    kept = batch.request.key if batch.request is not None else None
    tables.sessions.pop(gone)
    tables.events.pop(gone, None)
    _drop(tables.inbox, (key for key in tables.inbox if key[0] in turns))
    _drop(tables.inbox_last, turns)
    _drop(tables.timers, (key for key in tables.timers if key[0] in turns))
    _drop(tables.turns, turns)
    _drop(tables.items, items)
    _drop(tables.sessions_of_items, items)
    _drop(tables.calls, (row.call_id for row in tables.calls.values() if row.session_id == gone))
    _drop(tables.contents, (key for key in tables.contents if key[0] == gone))
    _drop(tables.grants, (key for key in tables.grants if key[0] == gone))
    _drop(tables.requests, (key for key in tables.requests if key.session_id == gone and key != kept))


def _drop(table: dict[Key, Value], keys: Iterable[Key]) -> None:
    for key in list(keys):
        table.pop(key, None)


def _advance_session(tables: Tables, batch: Batch, at: float) -> SessionRow:
    write = batch.session
    if write is not None and write.new is not None:
        _insert_session(tables, write.new, at)
    row = tables.sessions.get(batch.session_id)
    if row is None:
        raise Conflict(ConflictKind.GONE, f"there is no session {batch.session_id!r}")
    if batch.events:
        row = replace(row, last_sequence=row.last_sequence + len(batch.events), last_active_at=at)
    if write is not None:
        if write.expected_version is not None and row.version != write.expected_version:
            raise Conflict(ConflictKind.VERSION, f"the session has version {row.version}")
        row = replace(
            row,
            version=row.version + write.bump,
            status=row.status if write.status is None else write.status,
            active_turn_id=row.active_turn_id if write.active_turn_id is None else write.active_turn_id,
            usage=row.usage if write.add_usage is None else row.usage + write.add_usage,
            history_keeper=row.history_keeper if write.history_keeper is None else write.history_keeper,
        )
        if write.replace is not None:
            row = _with_defaults(row, write.replace)
    tables.sessions[row.session_id] = row
    return row


def _insert_session(tables: Tables, new: SessionRow, at: float) -> None:
    keys = {row.key for row in tables.sessions.values() if row.key}
    if new.session_id in tables.sessions or new.key in keys:
        raise Conflict(ConflictKind.KEY, f"the key {new.key!r} or the id {new.session_id!r} is taken")
    tables.sessions[new.session_id] = replace(new, version=0, last_sequence=0, created_at=at, last_active_at=at)


def _with_defaults(row: SessionRow, given: SessionRow) -> SessionRow:
    return replace(
        row,
        agent_id=given.agent_id,
        agent_revision=given.agent_revision,
        agent_digest=given.agent_digest,
        config_digest=given.config_digest,
        scopes=given.scopes,
        metadata=given.metadata,
        expires_after_s=given.expires_after_s,
    )


# -- turns, events, items ------------------------------------------------------------------------


def _advance_turns(tables: Tables, batch: Batch, first: int, at: float) -> None:
    found = spans(batch.events, first)
    for write in turn_writes(batch):
        row = _written(tables, write, at)
        start, last = found.pop(row.turn_id, (0, 0))
        row = _with_sequences(row, start, last)
        if write.starts:
            row = replace(
                row,
                started_sequence=row.started_sequence or start,
                started_at=at if row.started_at is None else row.started_at,
            )
            _anchor(tables, row)
        tables.turns[row.turn_id] = row
    for turn_id, (start, last) in found.items():
        known = tables.turns.get(turn_id)
        if known is None or known.session_id != batch.session_id:
            raise ValueError(f"an event is of the turn {turn_id!r}, which the session does not have")
        tables.turns[turn_id] = _with_sequences(known, start, last)


def _written(tables: Tables, write: TurnWrite, at: float) -> TurnRow:
    new = write.row
    old = tables.turns.get(new.turn_id)
    ended_at = at if write.ends else None
    if write.expected_version is None:
        if old is not None:
            raise Conflict(ConflictKind.VERSION, f"there is a turn {new.turn_id!r} already")
        return replace(
            new,
            version=1,
            first_sequence=0,
            started_sequence=0,
            last_sequence=0,
            created_at=at,
            started_at=None,
            ended_at=ended_at,
        )
    if old is None or old.version != write.expected_version:
        raise Conflict(ConflictKind.VERSION, f"the turn {new.turn_id!r} has not version {write.expected_version}")
    if old.status in TERMINAL:
        raise Conflict(ConflictKind.ENDED, f"the turn {new.turn_id!r} has ended and is not written again")
    return replace(old, version=old.version + 1, status=new.status, snapshot=new.snapshot, ended_at=ended_at)


def _with_sequences(row: TurnRow, start: int, last: int) -> TurnRow:
    return replace(row, first_sequence=row.first_sequence or start, last_sequence=last or row.last_sequence)


def _anchor(tables: Tables, turn: TurnRow) -> None:
    """Put items that came before their turn started where the turn now stands."""
    for row in tables.items_of(turn.session_id):
        if row.turn_id == turn.turn_id and not row.anchor:
            tables.items[row.item_id] = replace(row, anchor=turn.started_sequence)


def _append(tables: Tables, batch: Batch, first: int, at: float, stamp: Stamp) -> tuple[EventRow, ...]:
    rows = tuple(
        EventRow(
            sequence=sequence,
            turn_id=event.turn_id,
            data=stamp(event.data, batch.session_id, sequence, at),
        )
        for sequence, event in enumerate(batch.events, first)
    )
    tables.events[batch.session_id] = tables.events.get(batch.session_id, ()) + rows
    for sequence, event in enumerate(batch.events, first):
        if event.item is not None:
            _insert_item(tables, event.item, batch.session_id, sequence, at)
    for item_id in batch.withdrawn:
        row = tables.items.get(item_id)
        if row is not None and row.in_history and tables.sessions_of_items[item_id] == batch.session_id:
            tables.items[item_id] = replace(row, withdrawn=max(first, row.added), in_history=False)
    return rows


def _insert_item(tables: Tables, item: ItemRow, session_id: str, sequence: int, at: float) -> None:
    if item.item_id in tables.items:
        raise ValueError(f"there is an item {item.item_id!r} already")
    anchor = tables.turns[item.turn_id].started_sequence if item.turn_id else sequence
    tables.items[item.item_id] = replace(
        item,
        sequence=sequence,
        anchor=anchor,
        added=sequence if item.in_history else 0,
        withdrawn=0,
        created_at=at,
    )
    tables.sessions_of_items[item.item_id] = session_id


# -- the inbox and the rest ----------------------------------------------------------------------


def _write_inbox(tables: Tables, batch: Batch) -> None:
    for key in batch.inbox_consumed:
        if tables.inbox.pop(key, None) is None:
            raise Conflict(ConflictKind.INBOX, f"the turn {key[0]!r} was fed its inbox row {key[1]} before")
    for row in batch.inbox_added:
        turn = tables.turns.get(row.turn_id)
        if turn is None or turn.status in TERMINAL:
            raise Conflict(ConflictKind.ENDED, f"the turn {row.turn_id!r} has ended, or never was")
        n = tables.inbox_last[row.turn_id] = tables.inbox_last.get(row.turn_id, 0) + 1
        if row.source not in {other.source for other in tables.inbox_of(row.turn_id)}:
            tables.inbox[row.turn_id, n] = replace(row, n=n)
    for write in turn_writes(batch):
        left = tables.inbox_of(write.row.turn_id)
        if left and write.ends:
            raise Conflict(ConflictKind.INBOX, f"the turn was not fed {len(left)} rows of its inbox")


def _write_rest(tables: Tables, batch: Batch, at: float) -> None:
    tables.documents = {**batch.documents, **tables.documents}
    contents = {(batch.session_id, digest): data for digest, data in batch.contents.items()}
    tables.contents = {**contents, **tables.contents}
    for grant in batch.grants:
        tables.grants[grant.session_id, grant.agent, grant.tool] = replace(grant, created_at=at)
    _drop(tables.timers, batch.timers_cleared)
    tables.timers.update({(timer.turn_id, timer.name): timer for timer in batch.timers_set})
    agent = batch.agent
    if agent is not None:
        newest = max((revision for own, revision in tables.agents if own == agent.agent_id), default=0)
        if not newest and agent.revision != 1:
            raise Conflict(ConflictKind.GONE, f"there is no agent {agent.agent_id!r}")
        if newest != agent.revision - 1:
            raise Conflict(ConflictKind.VERSION, f"the agent {agent.agent_id!r} has revision {newest}")
        tables.agents[agent.agent_id, agent.revision] = replace(agent, created_at=at)
    if batch.agent_deleted:
        revisions = [key for key in tables.agents if key[0] == batch.agent_deleted]
        if not revisions:
            raise Conflict(ConflictKind.GONE, f"there is no agent {batch.agent_deleted!r}")
        _drop(tables.agents, revisions)
