"""What was fed to turns, and what reached them."""

from __future__ import annotations

from baton_server.ports.store import Conflict, ConflictKind, TurnWrite
from baton_server.store.checks import turn_writes
from baton_server.store.sql.applying.step import Step


def write_inbox(step: Step) -> None:
    """Take what was fed, admit what is new, and see what that leaves of the turns in the batch."""
    sql = step.sql.inbox
    for turn_id, n in step.batch.inbox_consumed:
        if step.db.execute(sql.consume, {"turn_id": turn_id, "n": n}).rowcount == 0:
            raise Conflict(ConflictKind.INBOX, f"the turn {turn_id!r} was fed its inbox row {n} before")
    for row in step.batch.inbox_added:
        admitted = step.db.execute(sql.admit, {"turn_id": row.turn_id}).fetchone()
        if admitted is None:
            raise Conflict(ConflictKind.ENDED, f"the turn {row.turn_id!r} has ended, or never was")
        step.inbox_last[row.turn_id] = admitted[0]
        given = {"turn_id": row.turn_id, "n": admitted[0], "source": row.source, "data": row.data}
        step.db.execute(sql.insert, given)
    for write in turn_writes(step.batch):
        _check_inbox(step, write)


def _check_inbox(step: Step, write: TurnWrite) -> None:
    turn_id = write.row.turn_id
    if not step.inbox_last[turn_id]:
        return
    counted = step.db.execute(step.sql.inbox.left, {"turn_id": turn_id}).fetchone()
    left = counted[0] if counted is not None else 0
    if left and write.ends:
        raise Conflict(ConflictKind.INBOX, f"the turn {turn_id!r} was not fed {left} rows of its inbox")
    if write is step.batch.turn:
        step.inbox_left = left
