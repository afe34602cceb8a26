"""Statements of reads. A list has a first page and next ones, whose start is a row that was seen before."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, Table, and_, exists, func, or_, select, tuple_

from baton_server.core.events import TurnStatus
from baton_server.ports.store import CallState
from baton_server.store.sql import rows, schema
from baton_server.store.sql.dialect import Dialect
from baton_server.store.sql.statements.words import TENANT, constant, keyed, number, own, param


class Queries:
    """Reads as text, by aggregate."""

    def __init__(self, dialect: Dialect) -> None:
        self.sessions = _Sessions(dialect)
        self.turns = _Turns(dialect)
        self.events = _Events(dialect)
        self.items = _Items(dialect)
        self.calls = _Calls(dialect)
        self.agents = _Agents(dialect)
        self.rest = _Rest(dialect)


def _all(table: Table, columns: Sequence[str]) -> Select[tuple[object, ...]]:
    return select(*(table.c[name] for name in columns))


def _ignoring(filter_param: str, empty: str, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Apply a condition unless its parameter is empty, so that one text serves with and without a filter."""
    return or_(param(filter_param) == constant(empty), condition)


class _Sessions:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.sessions
        columns = table.c
        rows_of = _all(table, rows.SESSION_COLUMNS)
        self.get = dialect.compile(rows_of.where(keyed(table, "session_id")))
        self.by_key = dialect.compile(rows_of.where(keyed(table, "key")))
        statuses = dialect.elements(param("statuses"))
        newest = (
            rows_of.where(
                own(table),
                _ignoring("statuses", "[]", columns.status.in_(select(statuses.c.value))),
                _ignoring("metadata", "{}", dialect.includes(columns.metadata, param("metadata"))),
            )
            .order_by(columns.session_id.desc())
            .limit(param("size"))
        )
        self.newest = dialect.compile(newest)
        self.newest_after = dialect.compile(newest.where(columns.session_id < param("after")))
        turns = schema.turns
        busy = select(turns.c.turn_id).where(
            own(turns), turns.c.session_id == columns.session_id, turns.c.ended_at.is_(None)
        )
        earliest = columns.created_at + columns.expires_after_s
        self.expired = dialect.compile(
            select(columns.session_id)
            .where(
                own(table),
                earliest <= param("now"),
                columns.last_active_at + columns.expires_after_s <= param("now"),
                ~busy.correlate(table).exists(),
            )
            .order_by(earliest, columns.session_id)
            .limit(param("limit"))
        )
        grants = schema.grants
        self.grants = dialect.compile(
            _all(grants, rows.GRANT_COLUMNS).where(keyed(grants, "session_id")).order_by(grants.c.agent, grants.c.tool)
        )


class _Turns:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.turns
        columns = table.c
        rows_of = _all(table, rows.TURN_COLUMNS)
        self.get = dialect.compile(rows_of.where(keyed(table, "turn_id")))
        newest = rows_of.where(keyed(table, "session_id")).order_by(columns.turn_id.desc()).limit(param("size"))
        self.newest = dialect.compile(newest)
        self.newest_after = dialect.compile(newest.where(columns.turn_id < param("after")))
        not_ended = columns.ended_at.is_(None)
        self.queued = dialect.compile(
            rows_of.where(
                keyed(table, "session_id"), not_ended, columns.status == constant(TurnStatus.QUEUED)
            ).order_by(columns.turn_id)
        )
        sessions = schema.sessions
        self.unfinished = dialect.compile(
            select(sessions.c.active_turn_id)
            .where(own(sessions), sessions.c.active_turn_id != constant(""))
            .order_by(sessions.c.active_turn_id)
        )


class _Events:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.events
        columns = table.c
        after = (
            _all(table, rows.EVENT_COLUMNS)
            .where(keyed(table, "session_id"), columns.sequence > param("after"))
            .order_by(columns.sequence)
            .limit(param("limit"))
        )
        self.after = dialect.compile(after)
        self.after_of_turn = dialect.compile(after.where(columns.turn_id == param("turn_id")))
        # By the span of the turn, which spares the log an index of its own by turn.
        turns = schema.turns
        self.of_turn = dialect.compile(
            select(*(columns[name] for name in rows.EVENT_COLUMNS))
            .select_from(turns)
            .join(
                table,
                and_(
                    own(table),
                    columns.session_id == turns.c.session_id,
                    columns.sequence.between(turns.c.first_sequence, turns.c.last_sequence),
                    columns.turn_id == turns.c.turn_id,
                ),
            )
            .where(keyed(turns, "turn_id"))
            .order_by(columns.sequence)
        )


class _Items:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.items
        columns = table.c
        place = (columns.anchor, columns.rank, columns.item_id)
        in_history = and_(columns.added > number(0), columns.withdrawn == number(0))
        self.history = dialect.compile(
            select(columns.json)
            .where(
                keyed(table, "session_id"),
                columns.added > number(0),
                columns.added < param("before"),
                or_(columns.withdrawn == number(0), columns.withdrawn >= param("before")),
                func.length(columns.json) > number(0),
            )
            .order_by(*place)
        )
        turns = schema.turns
        self.texts = dialect.compile(
            select(columns.item_id, columns.json)
            .select_from(turns)
            .join(
                table,
                and_(
                    own(table),
                    columns.session_id == turns.c.session_id,
                    columns.anchor == turns.c.started_sequence,
                    columns.turn_id == turns.c.turn_id,
                ),
            )
            .where(keyed(turns, "turn_id"))
        )
        wanted = dialect.elements(param("item_ids"))
        # Whoever asks compares the session: in the condition, it would make the planner walk through all of it.
        self.by_ids = dialect.compile(
            _all(table, (*rows.ITEM_COLUMNS, "session_id")).where(
                own(table), columns.item_id.in_(select(wanted.c.value))
            )
        )
        listed = (
            _all(table, rows.ITEM_COLUMNS)
            .where(
                keyed(table, "session_id"),
                _ignoring("turn_id", "", columns.turn_id == param("turn_id")),
                or_(param("history_only") == number(0), in_history),
            )
            .limit(param("size"))
        )
        seen = table.alias("seen")
        last = (
            select(seen.c.anchor, seen.c.rank, seen.c.item_id)
            .where(seen.c.tenant == TENANT, seen.c.item_id == param("after"))
            .scalar_subquery()
        )
        oldest_first = listed.order_by(*place)
        newest_first = listed.order_by(*(column.desc() for column in place))
        self.page = dialect.compile(oldest_first)
        self.page_after = dialect.compile(oldest_first.where(tuple_(*place) > last))
        self.newest = dialect.compile(newest_first)
        self.newest_after = dialect.compile(newest_first.where(tuple_(*place) < last))


class _Calls:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.calls
        columns = table.c
        rows_of = _all(table, rows.CALL_COLUMNS)
        open_ = columns.state != constant(CallState.SETTLED)
        self.get = dialect.compile(rows_of.where(keyed(table, "call_id")))
        self.open_in = dialect.compile(rows_of.where(keyed(table, "session_id"), open_).order_by(columns.number))
        names = dialect.elements(param("names"))
        wanted = dialect.elements(param("scopes"))
        scopes = dialect.elements(columns.scopes).alias("own_scopes")
        in_scope = exists(select(scopes.c.value).where(scopes.c.value.in_(select(wanted.c.value))).correlate(table))
        everywhere = (
            rows_of.where(
                own(table),
                open_,
                _ignoring("names", "[]", columns.name.in_(select(names.c.value))),
                _ignoring("scopes", "[]", in_scope),
            )
            .order_by(columns.number)
            .limit(param("size"))
        )
        seen = table.alias("seen")
        last = select(seen.c.number).where(seen.c.tenant == TENANT, seen.c.call_id == param("after"))
        self.open_everywhere = dialect.compile(everywhere)
        self.open_everywhere_after = dialect.compile(everywhere.where(columns.number > last.scalar_subquery()))
        self.succeeded = dialect.compile(
            rows_of.where(
                keyed(table, "session_id", "idempotency_key"),
                columns.idempotency_key != constant(""),  # the condition of the index, word for word
                columns.succeeded,
                columns.output_item_id != constant(""),
            )
            .order_by(columns.number.desc())
            .limit(number(1))
        )


class _Agents:
    def __init__(self, dialect: Dialect) -> None:
        table = schema.agents
        columns = table.c
        rows_of = _all(table, rows.AGENT_COLUMNS)
        revisions = rows_of.where(keyed(table, "agent_id")).order_by(columns.revision.desc())
        self.revision = dialect.compile(rows_of.where(keyed(table, "agent_id", "revision")))
        self.get = dialect.compile(revisions.limit(number(1)))
        self.revisions = dialect.compile(revisions.limit(param("size")))
        self.revisions_after = dialect.compile(revisions.where(columns.revision < param("after")).limit(param("size")))
        others = table.alias("others")
        latest = (
            select(func.max(others.c.revision))
            .where(others.c.tenant == columns.tenant, others.c.agent_id == columns.agent_id)
            .correlate(table)
            .scalar_subquery()
        )
        newest = (
            rows_of.where(own(table), columns.revision == latest).order_by(columns.agent_id.desc()).limit(param("size"))
        )
        self.newest = dialect.compile(newest)
        self.newest_after = dialect.compile(newest.where(columns.agent_id < param("after")))


class _Rest:
    """Documents, contents, inbox, requests, timers."""

    def __init__(self, dialect: Dialect) -> None:
        documents, contents, requests = schema.documents, schema.contents, schema.requests
        self.document = dialect.compile(select(documents.c.data).where(keyed(documents, "digest")))
        self.content = dialect.compile(select(contents.c.data).where(keyed(contents, "session_id", "digest")))
        inbox = schema.inbox
        behind = keyed(inbox, "turn_id"), inbox.c.n > param("after")
        self.inbox = dialect.compile(_all(inbox, rows.INBOX_COLUMNS).where(*behind).order_by(inbox.c.n))
        size = func.coalesce(func.sum(func.length(inbox.c.data)), number(0))
        self.inbox_waiting = dialect.compile(select(func.count(), size).where(keyed(inbox, "turn_id")))
        self.request = dialect.compile(
            select(requests.c.digest, requests.c.answer, requests.c.created_at).where(
                keyed(requests, "rpc", "session_id", "request_id")
            )
        )
        timers = schema.timers
        self.timers = dialect.compile(
            _all(timers, rows.TIMER_COLUMNS).where(own(timers)).order_by(timers.c.at, timers.c.turn_id, timers.c.name)
        )
        self.health = dialect.compile(select(schema.health.c.checked_at).where(own(schema.health)))
