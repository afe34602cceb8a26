"""What statements run on: the part of a Python database connection that a commit needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from baton_server.store.sql.rows import Params, Row


class Cursor(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it wrote."""
        ...

    def fetchone(self) -> Row | None:
        """Read the next row; None: there is none."""
        ...

    def fetchall(self) -> Sequence[Row]:
        """Read the rows that are left."""
        ...


class Executor(Protocol):
    """Runs statements in a transaction that its owner begins and ends."""

    def execute(self, sql: str, parameters: Params, /) -> Cursor:
        """Run a statement."""
        ...

    def executemany(self, sql: str, parameters: Sequence[Params], /) -> Cursor:
        """Run a statement that gives no rows, once for each of the parameters."""
        ...
