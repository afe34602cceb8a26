"""Applies a batch: guards and writes, in the one order that makes both right.

It runs inside a transaction, or a savepoint, of whoever calls it; when it raises, they roll back. So a guard
may be the row count of a write, and sees what stands before it in the batch. The session's row is written
before anything that depends on it: a database with row locks queues the commits of a session there, and their
sequences have no gap.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.ports.store import Batch, Committed, Stamp
from baton_server.store.checks import check
from baton_server.store.sql.applying.calls import write_calls
from baton_server.store.sql.applying.inbox import write_inbox
from baton_server.store.sql.applying.log import append
from baton_server.store.sql.applying.rest import write_rest
from baton_server.store.sql.applying.session import advance_session, answer_once, delete_session
from baton_server.store.sql.applying.step import Step
from baton_server.store.sql.applying.turns import advance_turns
from baton_server.store.sql.executor import Executor
from baton_server.store.sql.statements import Writes

__all__ = ["Applier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applier:
    """Writes batches with one dialect's statements."""

    sql: Writes
    stamp: Stamp

    def apply(self, db: Executor, batch: Batch, at: float) -> Committed:
        """Check and write a batch. Raises Conflict, Duplicate, ValueError for a batch that contradicts itself."""
        check(batch)
        step = Step(db=db, sql=self.sql, batch=batch, at=at)
        answer_once(step)
        if batch.session_deleted:
            delete_session(step)
        elif batch.session_id:
            advance_session(step)
            advance_turns(step)
            append(step, self.stamp)
        write_calls(step)
        write_inbox(step)
        write_rest(step)
        return step.committed()
