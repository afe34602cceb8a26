"""Statements of a commit. The order in which they run is `apply`'s matter."""

from __future__ import annotations

from sqlalchemy import (
    ColumnElement,
    Delete,
    and_,
    case,
    delete,
    func,
    not_,
    null,
    or_,
    select,
    update,
)

from baton_server.ports.store import CallState
from baton_server.store.sql import schema
from baton_server.store.sql.dialect import Dialect
from baton_server.store.sql.rows import DEFAULTS_COLUMNS
from baton_server.store.sql.statements.words import constant, keyed, number, own, param


class Writes:
    """Guards and writes as text."""

    def __init__(self, dialect: Dialect) -> None:
        self.requests = _Requests(dialect)
        self.sessions = _Sessions(dialect)
        self.turns = _Turns(dialect)
        self.log = _Log(dialect)
        self.calls = _Calls(dialect)
        self.inbox = _Inbox(dialect)
        self.rest = _Rest(dialect)


class _Requests:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.requests
        columns = table.c
        self.insert = dialect.compile(dialect.insert(table, skip_existing=True))
        self.find = dialect.compile(
            select(columns.digest, columns.answer, columns.created_at).where(
                keyed(table, "rpc", "session_id", "request_id")
            )
        )
        oldest = (
            select(columns.session_id, columns.rpc, columns.request_id)
            .where(own(table), columns.created_at < param("before"))
            .order_by(columns.created_at, columns.session_id, columns.rpc, columns.request_id)
            .limit(param("limit"))
        )
        self.oldest = dialect.compile(oldest)
        self.forget = dialect.compile(delete(table).where(keyed(table, "session_id", "rpc", "request_id")))
        self.forget_session = dialect.compile(
            delete(table).where(
                keyed(table, "session_id"),
                not_(and_(columns.rpc == param("rpc"), columns.request_id == param("request_id"))),
            )
        )


class _Sessions:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.sessions
        columns = table.c
        self.insert = dialect.compile(dialect.insert(table, skip_existing=True))
        self.versions = dialect.compile(
            select(columns.version, columns.last_sequence).where(keyed(table, "session_id"))
        )
        usage = {column.name: column + param(column.name) for column in columns if column.name.startswith("usage_")}
        advance = (
            update(table)
            .where(keyed(table, "session_id"))
            .values(
                version=columns.version + param("bump"),
                last_sequence=columns.last_sequence + param("events"),
                last_active_at=func.coalesce(param("active_at"), columns.last_active_at),
                status=func.coalesce(param("status"), columns.status),
                history_keeper=func.coalesce(param("history_keeper"), columns.history_keeper),
                **usage,
            )
            .returning(columns.version, columns.last_sequence)
        )
        # A column that is set at all has its indexes written: most commits leave this one alone.
        self.advance = dialect.compile(advance)
        self.activate = dialect.compile(advance.values(active_turn_id=param("active_turn_id")))
        self.replace = dialect.compile(
            update(table).where(keyed(table, "session_id")).values({name: param(name) for name in DEFAULTS_COLUMNS})
        )
        turns = schema.turns
        self.busy = dialect.compile(
            select(turns.c.turn_id).where(keyed(turns, "session_id"), turns.c.ended_at.is_(None)).limit(number(1))
        )
        self.delete = tuple(dialect.compile(statement) for statement in _deletes())


def _deletes() -> list[Delete]:
    """Build what removes a session: the rows found by its turns first, the turns after them."""
    of_turns = select(schema.turns.c.turn_id).where(keyed(schema.turns, "session_id"))
    by_turn = (schema.inbox, schema.timers)
    by_session = (
        schema.events,
        schema.items,
        schema.calls,
        schema.contents,
        schema.grants,
        schema.turns,
        schema.sessions,
    )
    return [
        *(delete(table).where(own(table), table.c.turn_id.in_(of_turns)) for table in by_turn),
        *(delete(table).where(keyed(table, "session_id")) for table in by_session),
    ]


class _Turns:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.turns
        columns = table.c
        self.insert = dialect.compile(dialect.insert(table, skip_existing=True))
        advance = (
            update(table)
            .where(keyed(table, "turn_id"), columns.version == param("expected"), columns.ended_at.is_(None))
            .values(
                version=columns.version + number(1),
                status=param("status"),
                snapshot=param("snapshot"),
                first_sequence=_unless_set(columns.first_sequence, "first_sequence"),
                started_sequence=_unless_set(columns.started_sequence, "started_sequence"),
                last_sequence=_if_given(columns.last_sequence, "last_sequence"),
                started_at=func.coalesce(columns.started_at, param("started_at")),
            )
            .returning(columns.version, columns.started_sequence, columns.inbox_last)
        )
        # Apart, since a column that is set at all has its indexes written.
        self.advance = dialect.compile(advance)
        self.end = dialect.compile(advance.values(ended_at=param("ended_at")))
        self.version = dialect.compile(select(columns.version).where(keyed(table, "turn_id")))
        self.touch = dialect.compile(
            update(table)
            .where(keyed(table, "turn_id", "session_id"))
            .values(
                first_sequence=_unless_set(columns.first_sequence, "first_sequence"),
                last_sequence=param("last_sequence"),
            )
            .returning(columns.started_sequence)
        )


def _unless_set(column: ColumnElement[int], name: str) -> ColumnElement[int]:
    return case((column == number(0), param(name)), else_=column)


def _if_given(column: ColumnElement[int], name: str) -> ColumnElement[int]:
    return func.coalesce(func.nullif(param(name), number(0)), column)


class _Log:
    """Events and items."""

    def __init__(self, dialect: Dialect) -> None:
        items = schema.items
        self.insert_event = dialect.compile(dialect.insert(schema.events))
        self.insert_item = dialect.compile(dialect.insert(items))
        self.withdraw = dialect.compile(
            update(items)
            .where(
                keyed(items, "item_id", "session_id"),
                items.c.added > number(0),
                items.c.withdrawn == number(0),
            )
            .values(withdrawn=case((items.c.added > param("sequence"), items.c.added), else_=param("sequence")))
        )
        self.anchor = dialect.compile(
            update(items)
            .where(keyed(items, "session_id", "turn_id"), items.c.anchor == number(0))
            .values(anchor=param("started"))
        )


_QUEUED, _LEASED = constant(CallState.QUEUED), constant(CallState.LEASED)
_HELD, _AWAITING_DECISION = constant(CallState.HELD), constant(CallState.AWAITING_DECISION)
_CHECKED, _EFFECT_UNKNOWN = constant(CallState.CHECKED), constant(CallState.EFFECT_UNKNOWN)
_SETTLED = constant(CallState.SETTLED)
_HELD_BY_NOBODY = {"worker_id": constant(""), "instance_id": constant(""), "holder": constant("")}


class _Calls:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.calls
        columns = table.c
        self.insert = dialect.compile(dialect.insert(table))
        self.standing = dialect.compile(select(columns.state, columns.attempt).where(keyed(table, "call_id")))
        self.time_out_at = dialect.compile(
            update(table)
            .where(keyed(table, "call_id"), columns.state != _SETTLED, columns.deadline.is_(None))
            .values(deadline=param("at"))
        )
        self._settle(dialect)
        self._deliver(dialect)

    def _settle(self, dialect: Dialect) -> None:
        table = schema.calls
        columns = table.c
        self.settle = dialect.compile(
            update(table)
            .where(keyed(table, "call_id"), columns.state != _SETTLED)
            .values(
                state=_SETTLED,
                instance_id=case((columns.worker_id == param("worker_id"), columns.instance_id), else_=constant("")),
                worker_id=param("worker_id"),
                holder=constant(""),
                settled_attempt=param("attempt"),
                result_digest=param("digest"),
                succeeded=param("succeeded"),
                output_item_id=param("output_item_id"),
                decide_by=null(),
            )
        )
        self.record = dialect.compile(
            update(table)
            .where(keyed(table, "call_id"), columns.state == _SETTLED, columns.output_item_id == constant(""))
            .values(succeeded=param("succeeded"), output_item_id=param("output_item_id"))
        )

    def _deliver(self, dialect: Dialect) -> None:
        table = schema.calls
        columns = table.c
        kept_back = columns.state.in_([_HELD, _AWAITING_DECISION])
        move = (
            update(table)
            .where(keyed(table, "call_id"), kept_back)
            .values(state=param("state"), decide_by=param("decide_by"))
        )
        self.move = dialect.compile(move)
        self.ask = dialect.compile(
            move.values(
                arguments_digest=param("arguments_digest"),
                definition_digest=param("definition_digest"),
            )
        )
        self.park = dialect.compile(
            update(table)
            .where(keyed(table, "call_id", "attempt"), columns.state.in_([_LEASED, _CHECKED]))
            .values(_HELD_BY_NOBODY | {"state": param("state")})
        )
        self.requeue = dialect.compile(
            update(table)
            .where(keyed(table, "call_id", "attempt"), columns.state.in_([_LEASED, _CHECKED, _EFFECT_UNKNOWN]))
            .values(
                _HELD_BY_NOBODY
                | {
                    "state": _QUEUED,
                    "available_at": param("available_at"),
                    "may_have_run": or_(columns.may_have_run, param("may_have_run")),
                }
            )
        )
        self.lease = dialect.compile(
            update(table)
            .where(
                keyed(table, "call_id"),
                columns.state == _QUEUED,
                columns.attempt == param("attempt") - number(1),
            )
            .values(
                state=_LEASED,
                attempt=param("attempt"),
                worker_id=param("worker_id"),
                instance_id=param("instance_id"),
                holder=param("holder"),
                lost_worker=func.coalesce(columns.lost_worker, param("lost_worker")),
            )
        )


class _Inbox:
    def __init__(self, dialect: Dialect) -> None:
        turns, table = schema.turns, schema.inbox
        # Locks the turn's row: whoever ends the turn waits, or has been waited for.
        self.admit = dialect.compile(
            update(turns)
            .where(keyed(turns, "turn_id"), turns.c.ended_at.is_(None))
            .values(inbox_last=turns.c.inbox_last + number(1))
            .returning(turns.c.inbox_last)
        )
        self.insert = dialect.compile(dialect.insert(table, skip_existing=True))
        self.consume = dialect.compile(delete(table).where(keyed(table, "turn_id", "n")))
        self.left = dialect.compile(select(func.count()).select_from(table).where(keyed(table, "turn_id")))


class _Rest:
    """Documents, contents, grants, timers, agents and the mark that a health check leaves."""

    def __init__(self, dialect: Dialect) -> None:
        agents = schema.agents
        self.insert_document = dialect.compile(dialect.insert(schema.documents, skip_existing=True))
        self.insert_content = dialect.compile(dialect.insert(schema.contents, skip_existing=True))
        grants = schema.grants
        self.clear_grant = dialect.compile(delete(grants).where(keyed(grants, "session_id", "agent", "tool")))
        self.insert_grant = dialect.compile(dialect.insert(grants))
        self.clear_timer = dialect.compile(delete(schema.timers).where(keyed(schema.timers, "turn_id", "name")))
        self.insert_timer = dialect.compile(dialect.insert(schema.timers))
        self.newest_revision = dialect.compile(
            select(func.coalesce(func.max(agents.c.revision), number(0))).where(keyed(agents, "agent_id"))
        )
        self.insert_agent = dialect.compile(dialect.insert(agents, skip_existing=True))
        self.delete_agent = dialect.compile(delete(agents).where(keyed(agents, "agent_id")))
        self.mark_health = dialect.compile(
            update(schema.health).where(own(schema.health)).values(checked_at=param("checked_at"))
        )
        self.first_health = dialect.compile(dialect.insert(schema.health, skip_existing=True))


__all__ = ["Writes"]
