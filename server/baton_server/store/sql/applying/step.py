"""One batch on its way into the tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from baton_server.ports.store import Batch, Committed, EventRow
from baton_server.store.sql.executor import Executor
from baton_server.store.sql.statements import Writes


@dataclass(slots=True, kw_only=True)
class Step:
    """What a batch is written with, and what it has given so far.

    `turn_versions`, `anchors`, `inbox_last`: of the turns in it, by turn_id; an anchor is where the turn's items stand
    in a history, `inbox_last` the number of the last row that its inbox ever had, 0: it had none.
    """

    db: Executor
    sql: Writes
    batch: Batch
    at: float
    session_version: int = 0
    last_sequence: int = 0
    turn_versions: dict[str, int] = field(default_factory=dict)
    anchors: dict[str, int] = field(default_factory=dict)
    inbox_last: dict[str, int] = field(default_factory=dict)
    events: tuple[EventRow, ...] = ()
    inbox_left: int = 0

    @property
    def first_sequence(self) -> int:
        """The sequence of the batch's first event, once the session's row was written."""
        return self.last_sequence - len(self.batch.events) + 1

    def committed(self) -> Committed:
        """Say what the batch gave."""
        turn = self.batch.turn
        return Committed(
            at=self.at,
            events=self.events,
            turn_version=self.turn_versions[turn.row.turn_id] if turn is not None else 0,
            session_version=self.session_version,
            last_sequence=self.last_sequence,
            inbox_left=self.inbox_left,
        )
