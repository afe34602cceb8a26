"""What a call needs of a worker stream in production form: versions, resume tokens, keys, clocks, its output.

Columns are added in place, with defaults: no row is rewritten, however many calls there are.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen the calls."""
    for column in (
        _text("version"),
        _text("holder"),
        sa.Column("lost_worker", sa.Text(), nullable=True),
        _text("idempotency_key"),
        _time("timeout_s"),
        _time("deadline"),
        _time("expires_at"),
        sa.Column("succeeded", sa.Boolean(), server_default=sa.false(), nullable=False),
        _text("output_item_id"),
    ):
        op.add_column("calls", column)
    op.create_index(
        "calls_keyed",
        "calls",
        ["tenant", "session_id", "idempotency_key", "number"],
        sqlite_where=sa.text("idempotency_key <> ''"),
        postgresql_where=sa.text("idempotency_key <> ''"),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), server_default="", nullable=False)


def _time(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=True)
