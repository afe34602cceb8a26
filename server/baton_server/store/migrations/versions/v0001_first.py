"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _sessions()
    _turns()
    _events()
    _items()
    _calls()
    _inbox()
    _timers()
    _agents()
    _documents()
    _contents()
    _requests()
    _health()


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _time(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _sessions() -> None:
    op.create_table(
        "sessions",
        _text("tenant"),
        _text("session_id"),
        sa.Column("key", sa.Text(), nullable=True),
        _text("status"),
        _text("agent_id"),
        _whole("agent_revision"),
        _text("agent_digest"),
        _text("config_digest"),
        _text("scopes"),
        _text("metadata"),
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
        sa.PrimaryKeyConstraint("tenant", "session_id", name=op.f("sessions_key")),
        sa.UniqueConstraint("tenant", "key", name=op.f("sessions_unique_tenant_key")),
    )
    op.create_index("sessions_by_earliest_expiry", "sessions", ["tenant", sa.text("(created_at + expires_after_s)")])
    op.create_index(
        "sessions_active",
        "sessions",
        ["tenant", "active_turn_id"],
        sqlite_where=sa.text("active_turn_id <> ''"),
        postgresql_where=sa.text("active_turn_id <> ''"),
    )


def _turns() -> None:
    op.create_table(
        "turns",
        _text("tenant"),
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
        _whole("inbox_last"),
        sa.PrimaryKeyConstraint("tenant", "turn_id", name=op.f("turns_key")),
    )
    op.create_index(op.f("turns_by_tenant_session_id_turn_id"), "turns", ["tenant", "session_id", "turn_id"])
    op.create_index(
        "turns_not_ended",
        "turns",
        ["tenant", "session_id", "turn_id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _events() -> None:
    op.create_table(
        "events",
        _text("tenant"),
        _text("session_id"),
        _whole("sequence"),
        _text("turn_id"),
        _bytes("data"),
        sa.PrimaryKeyConstraint("tenant", "session_id", "sequence", name=op.f("events_key")),
    )


def _items() -> None:
    op.create_table(
        "items",
        _text("tenant"),
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
        sa.PrimaryKeyConstraint("tenant", "item_id", name=op.f("items_key")),
    )
    op.create_index(
        op.f("items_by_tenant_session_id_anchor_rank_item_id"),
        "items",
        ["tenant", "session_id", "anchor", "rank", "item_id"],
    )


def _calls() -> None:
    op.create_table(
        "calls",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        _text("tenant"),
        _text("call_id"),
        _text("session_id"),
        _text("turn_id"),
        _text("name"),
        _text("agent"),
        _bytes("arguments"),
        _text("scopes"),
        _text("state"),
        _whole("attempt"),
        _text("worker_id"),
        _text("instance_id"),
        _time("available_at"),
        _time("opened_at"),
        sa.Column("may_have_run", sa.Boolean(), nullable=False),
        _whole("settled_attempt"),
        _text("result_digest"),
        sa.PrimaryKeyConstraint("number", name=op.f("calls_key")),
        sa.UniqueConstraint("tenant", "call_id", name=op.f("calls_unique_tenant_call_id")),
    )
    op.create_index(op.f("calls_by_tenant_session_id_number"), "calls", ["tenant", "session_id", "number"])
    op.create_index(
        "calls_open",
        "calls",
        ["tenant", "number"],
        sqlite_where=sa.text("state <> 'settled'"),
        postgresql_where=sa.text("state <> 'settled'"),
    )


def _inbox() -> None:
    op.create_table(
        "inbox",
        _text("tenant"),
        _text("turn_id"),
        _whole("n"),
        _text("source"),
        _bytes("data"),
        sa.PrimaryKeyConstraint("tenant", "turn_id", "n", name=op.f("inbox_key")),
        sa.UniqueConstraint("tenant", "turn_id", "source", name=op.f("inbox_unique_tenant_turn_id_source")),
    )


def _timers() -> None:
    op.create_table(
        "timers",
        _text("tenant"),
        _text("turn_id"),
        _text("name"),
        _time("at"),
        sa.PrimaryKeyConstraint("tenant", "turn_id", "name", name=op.f("timers_key")),
    )


def _agents() -> None:
    op.create_table(
        "agents",
        _text("tenant"),
        _text("agent_id"),
        _whole("revision"),
        _text("digest"),
        _text("metadata"),
        _time("created_at"),
        sa.PrimaryKeyConstraint("tenant", "agent_id", "revision", name=op.f("agents_key")),
    )


def _documents() -> None:
    op.create_table(
        "documents",
        _text("tenant"),
        _text("digest"),
        _bytes("data"),
        sa.PrimaryKeyConstraint("tenant", "digest", name=op.f("documents_key")),
    )


def _contents() -> None:
    op.create_table(
        "contents",
        _text("tenant"),
        _text("session_id"),
        _text("digest"),
        _bytes("data"),
        sa.PrimaryKeyConstraint("tenant", "session_id", "digest", name=op.f("contents_key")),
    )


def _requests() -> None:
    op.create_table(
        "requests",
        _text("tenant"),
        _text("session_id"),
        _text("rpc"),
        _text("request_id"),
        _text("digest"),
        _bytes("answer"),
        _time("created_at"),
        sa.PrimaryKeyConstraint("tenant", "session_id", "rpc", "request_id", name=op.f("requests_key")),
    )
    op.create_index(op.f("requests_by_tenant_created_at"), "requests", ["tenant", "created_at"])


def _health() -> None:
    op.create_table(
        "health",
        _text("tenant"),
        _time("checked_at"),
        sa.PrimaryKeyConstraint("tenant", name=op.f("health_key")),
    )
