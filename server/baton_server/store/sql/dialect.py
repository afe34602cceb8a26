"""What statements need of a dialect. Each database implements it in one module of its own."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import ClauseElement, ColumnElement, FromClause, Insert, Table


class Dialect(Protocol):
    """Writes statements in the words of one database."""

    def compile(self, statement: ClauseElement) -> str:
        """Write a statement as text with named parameters, in the paramstyle of the driver."""
        ...

    def insert(self, table: Table, *, skip_existing: bool = False) -> Insert:
        """Build an insert of all columns but counted ones, each bound by its name.

        `skip_existing`: a row whose key is taken is passed over.
        """
        ...

    def elements(self, json_array: ColumnElement[str]) -> FromClause:
        """Build a row source of the texts in a JSON array; its column is `value`."""
        ...

    def includes(self, json_object: ColumnElement[str], wanted: ColumnElement[str]) -> ColumnElement[bool]:
        """Build a test that a JSON object of texts has every pair of another."""
        ...
