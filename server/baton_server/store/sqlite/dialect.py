"""What SQLite says in its own way."""

from __future__ import annotations

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    FromClause,
    Insert,
    Table,
    bindparam,
    exists,
    func,
    not_,
    select,
)
from sqlalchemy.dialects import sqlite

from baton_server.store.sql.schema import RowNumber
from baton_server.store.sql.statements.words import TENANT


class SQLiteDialect:
    """Statements for the standard library's `sqlite3`: parameters as `:name`."""

    def __init__(self) -> None:
        self._dialect = sqlite.dialect(paramstyle="named")

    def compile(self, statement: ClauseElement) -> str:
        """Write a statement as text."""
        compiled = statement.compile(dialect=self._dialect)
        text = str(compiled)
        # SQLAlchemy binds some constants by itself, such as the 0 of OFFSET; ours have no value yet.
        for name, value in compiled.params.items():
            if value is not None:
                text = text.replace(f":{name}", str(int(value)))
        return text

    def insert(self, table: Table, *, skip_existing: bool = False) -> Insert:
        """Build an insert of all columns but counted ones."""
        given: dict[str, BindParameter[object]] = {
            column.name: bindparam(column.name)
            for column in table.c
            if column.name != "tenant" and column.type is not RowNumber
        }
        statement = sqlite.insert(table).values({"tenant": TENANT, **given}).inline()
        return statement.on_conflict_do_nothing() if skip_existing else statement

    def elements(self, json_array: ColumnElement[str]) -> FromClause:
        """Build a row source by json_each."""
        return func.json_each(json_array).table_valued("value")

    def includes(self, json_object: ColumnElement[str], wanted: ColumnElement[str]) -> ColumnElement[bool]:
        """Build a test that no wanted pair is missing."""
        want = func.json_each(wanted).table_valued("key", "value", name="wanted")
        have = func.json_each(json_object).table_valued("key", "value", name="have")
        found = exists(select(have.c.key).where(have.c.key == want.c.key, have.c.value == want.c.value).correlate(want))
        return not_(exists(select(want.c.key).where(not_(found))))
