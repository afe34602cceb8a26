"""The tables. The one place that names columns; migrations/ brings a database here step by step.

Every table, and every key, begins with `tenant`. There are no foreign keys: the statements of a commit keep
what they would check, at less cost. Texts that a model or a user wrote are kept as bytes, since SQL's text
types refuse some of them (NUL on PostgreSQL).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
    literal_column,
)

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_key",
        "uq": "%(table_name)s_unique_%(column_0_N_name)s",
        "ix": "%(table_name)s_by_%(column_0_N_name)s",
    }
)

TENANT_DEFAULT = "default"
"""The tenant of every row, until tenants come from authentication."""

RowNumber = BigInteger().with_variant(Integer, "sqlite")
"""A key that the database counts up; SQLite counts only a plain INTEGER."""


def _tenant() -> Column[str]:
    return Column("tenant", Text, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _added_text(name: str) -> Column[str]:
    """Name a text that a later version added: rows that were there before have it empty."""
    return Column(name, Text, server_default="", nullable=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


sessions = Table(
    "sessions",
    metadata,
    _tenant(),
    _text("session_id"),
    Column("key", Text, nullable=True),  # NULL: none, since NULLs do not meet in a unique constraint
    _text("status"),
    _text("agent_id"),
    _whole("agent_revision"),
    _text("agent_digest"),
    _text("config_digest"),
    _text("scopes"),  # JSON array
    _text("metadata"),  # JSON object of strings
    _text("active_turn_id"),
    _whole("last_sequence"),
    _whole("usage_requests"),
    _whole("usage_input_tokens"),
    _whole("usage_cached_input_tokens"),
    _whole("usage_output_tokens"),
    _whole("usage_reasoning_tokens"),
    _whole("usage_total_tokens"),
    _time("created_at"),
    _time("last_active_at"),
    _time("expires_after_s", nullable=True),
    _whole("version"),
    _added_text("history_keeper"),
    PrimaryKeyConstraint("tenant", "session_id"),
    UniqueConstraint("tenant", "key"),
)
# On what a session was born with, which no commit moves; expiry is counted from its last event.
Index(
    "sessions_by_earliest_expiry",
    sessions.c.tenant,
    literal_column("(created_at + expires_after_s)"),
)
_active: ColumnElement[bool] = literal_column("active_turn_id <> ''")
Index(
    "sessions_active",
    sessions.c.tenant,
    sessions.c.active_turn_id,
    sqlite_where=_active,
    postgresql_where=_active,
)

turns = Table(
    "turns",
    metadata,
    _tenant(),
    _text("turn_id"),
    _text("session_id"),
    _text("status"),
    _bytes("snapshot"),
    _text("agent_digest"),
    _text("config_digest"),
    _text("request_id"),
    _whole("version"),
    _whole("first_sequence"),
    _whole("started_sequence"),
    _whole("last_sequence"),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("ended_at", nullable=True),
    _whole("inbox_last"),  # n of the newest inbox row ever; numbers are not used twice
    PrimaryKeyConstraint("tenant", "turn_id"),
    Index(None, "tenant", "session_id", "turn_id"),
)
_not_ended = turns.c.ended_at.is_(None)
Index(
    "turns_not_ended",
    turns.c.tenant,
    turns.c.session_id,
    turns.c.turn_id,
    sqlite_where=_not_ended,
    postgresql_where=_not_ended,
)

events = Table(
    "events",
    metadata,
    _tenant(),
    _text("session_id"),
    _whole("sequence"),
    _text("turn_id"),
    _bytes("data"),
    PrimaryKeyConstraint("tenant", "session_id", "sequence"),
)

items = Table(
    "items",
    metadata,
    _tenant(),
    _text("item_id"),
    _text("session_id"),
    _text("turn_id"),
    _whole("anchor"),
    _whole("rank"),
    _bytes("data"),
    _bytes("json"),
    _whole("sequence"),
    _whole("added"),
    _whole("withdrawn"),
    _time("created_at"),
    PrimaryKeyConstraint("tenant", "item_id"),
    Index(None, "tenant", "session_id", "anchor", "rank", "item_id"),
)

calls = Table(
    "calls",
    metadata,
    Column("number", RowNumber, nullable=False),
    _tenant(),
    _text("call_id"),
    _text("session_id"),
    _text("turn_id"),
    _text("name"),
    _text("agent"),
    _bytes("arguments"),
    _text("scopes"),  # JSON array
    _text("state"),
    _whole("attempt"),
    _text("worker_id"),
    _text("instance_id"),
    _time("available_at"),
    _time("opened_at"),
    Column("may_have_run", Boolean, nullable=False),
    _whole("settled_attempt"),
    _text("result_digest"),
    _added_text("version"),
    _added_text("holder"),
    Column("lost_worker", Text, nullable=True),
    _added_text("idempotency_key"),
    _time("timeout_s", nullable=True),
    _time("deadline", nullable=True),
    _time("expires_at", nullable=True),
    Column("succeeded", Boolean, server_default=false(), nullable=False),
    _added_text("output_item_id"),
    _added_text("run_path"),  # JSON array; empty: no calls, as in nearly every row
    _added_text("arguments_digest"),
    _added_text("definition_digest"),
    _time("decide_by", nullable=True),
    PrimaryKeyConstraint("number"),  # counted by the database, hence without the tenant
    UniqueConstraint("tenant", "call_id"),
    Index(None, "tenant", "session_id", "number"),
)
_open: ColumnElement[bool] = literal_column("state <> 'settled'")
Index("calls_open", calls.c.tenant, calls.c.number, sqlite_where=_open, postgresql_where=_open)
# Only calls with a key have an entry, and only opening and deleting one touches it: nothing else moves its columns.
_keyed: ColumnElement[bool] = literal_column("idempotency_key <> ''")
Index(
    "calls_keyed",
    calls.c.tenant,
    calls.c.session_id,
    calls.c.idempotency_key,
    calls.c.number,
    sqlite_where=_keyed,
    postgresql_where=_keyed,
)

grants = Table(
    "grants",
    metadata,
    _tenant(),
    _text("session_id"),
    _text("agent"),
    _text("tool"),
    _text("definition_digest"),
    Column("approve", Boolean, nullable=False),
    _bytes("message"),
    _bytes("decided_by"),
    _time("created_at"),
    PrimaryKeyConstraint("tenant", "session_id", "agent", "tool"),
)

inbox = Table(
    "inbox",
    metadata,
    _tenant(),
    _text("turn_id"),
    _whole("n"),
    _text("source"),
    _bytes("data"),
    PrimaryKeyConstraint("tenant", "turn_id", "n"),
    UniqueConstraint("tenant", "turn_id", "source"),
)

timers = Table(
    "timers",
    metadata,
    _tenant(),
    _text("turn_id"),
    _text("name"),
    _time("at"),
    PrimaryKeyConstraint("tenant", "turn_id", "name"),
)

agents = Table(
    "agents",
    metadata,
    _tenant(),
    _text("agent_id"),
    _whole("revision"),
    _text("digest"),
    _text("metadata"),  # JSON object of strings
    _time("created_at"),
    PrimaryKeyConstraint("tenant", "agent_id", "revision"),
)

documents = Table(
    "documents",
    metadata,
    _tenant(),
    _text("digest"),
    _bytes("data"),
    PrimaryKeyConstraint("tenant", "digest"),
)

contents = Table(
    "contents",
    metadata,
    _tenant(),
    _text("session_id"),
    _text("digest"),
    _bytes("data"),
    PrimaryKeyConstraint("tenant", "session_id", "digest"),
)

requests = Table(
    "requests",
    metadata,
    _tenant(),
    _text("session_id"),
    _text("rpc"),
    _text("request_id"),
    _text("digest"),
    _bytes("answer"),
    _time("created_at"),
    PrimaryKeyConstraint("tenant", "session_id", "rpc", "request_id"),
    Index(None, "tenant", "created_at"),
)

health = Table(
    "health",
    metadata,
    _tenant(),
    _time("checked_at"),
    PrimaryKeyConstraint("tenant"),
)
