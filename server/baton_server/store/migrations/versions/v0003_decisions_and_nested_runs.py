"""What the whole Runner keeps: decisions about calls, calls of nested runs, and who keeps a session's history.

Calls gain columns in place, with defaults, as before. Of sessions, those with a turn in their history are rewritten:
there the session itself is what kept it, since nothing else could yet.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen calls and sessions, and make the grants."""
    for column in (
        _added_text("run_path"),
        _added_text("arguments_digest"),
        _added_text("definition_digest"),
        sa.Column("decide_by", sa.Double(), nullable=True),
    ):
        op.add_column("calls", column)
    op.add_column("sessions", _added_text("history_keeper"))
    op.execute(
        "UPDATE sessions SET history_keeper = 'SESSION' WHERE EXISTS (SELECT 1 FROM items"
        " WHERE items.tenant = sessions.tenant AND items.session_id = sessions.session_id"
        " AND items.turn_id <> '' AND items.added > 0)"
    )
    op.create_table(
        "grants",
        _text("tenant"),
        _text("session_id"),
        _text("agent"),
        _text("tool"),
        _text("definition_digest"),
        sa.Column("approve", sa.Boolean(), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.Column("decided_by", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "session_id", "agent", "tool", name=op.f("grants_key")),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _added_text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default="", nullable=False)
