"""The schema: what migrations make is what the tables say, and no statement walks through a table."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint
from tests.contract.store.builders import stamp

from baton_server.store.sql.schema import metadata
from baton_server.store.sql.statements import Queries, Writes
from baton_server.store.sqlite import open_sqlite
from baton_server.store.sqlite.dialect import SQLiteDialect
from baton_server.store.sqlite.engine import open_engine

WHOLE = {
    "sessions.newest": "a page in the order of the key: it ends where the page is full",
    "calls.open_everywhere": "a page in the order of an index of open calls",
    "agents.newest": "a page in the order of the key",
    "turns.unfinished": "by an index of active turns; once in a process",
    "rest.timers": "all timers is what is asked for",
    "rest.health": "one row",
    "rest.mark_health": "one row",
}
"""Statements that are bounded by the tenant alone, and why they may."""


class AnyValue(dict[str, object]):
    """Binds whatever a statement asks for."""

    def __missing__(self, name: str) -> object:
        return "[]"


def definitions(path: Path) -> dict[str, str]:
    """Read what a database says of its tables and indexes, without quotes and line breaks."""
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: re.sub(r"[\s\"]+", " ", sql) for name, sql in found if name != "alembic_version"}


async def migrated(path: Path) -> Path:
    """Make a database as a new installation has it."""
    await (await open_sqlite(path, stamp=stamp, holder={})).close()
    return path


async def test_migrated_schema_equals_the_tables(tmp_path: Path) -> None:
    """Whoever changes the tables writes a migration, and the reverse."""
    made = tmp_path / "made.db"
    with open_engine(made) as engine:
        metadata.create_all(engine)

    assert definitions(await migrated(tmp_path / "migrated.db")) == definitions(made)


async def test_every_table_and_key_begins_with_the_tenant() -> None:
    """But for the number of a call, which the database counts."""
    for table in metadata.sorted_tables:
        assert "tenant" in table.c, table.name
        keys = [key for key in table.constraints if isinstance(key, PrimaryKeyConstraint | UniqueConstraint)]
        for key in (*keys, *table.indexes):
            names = [column.name for column in key.columns]
            assert names == ["number"] or names[0] == "tenant", (table.name, names)


async def test_rows_bear_the_default_tenant(tmp_path: Path) -> None:
    """Until tenants come from authentication."""
    path = tmp_path / "baton.db"
    store = await open_sqlite(path, stamp=stamp, holder={})
    assert await store.healthy()
    await store.close()

    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT tenant FROM health").fetchall()
    connection.close()
    assert found == [("default",)]


def statements(group: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """List all statements of a group, with their names."""
    for name, value in vars(group).items():
        match value:
            case str():
                yield f"{prefix}{name}", value
            case tuple():
                yield from ((f"{prefix}{name}", statement) for statement in value)
            case _:
                yield from statements(value, f"{name}.")


async def test_no_statement_walks_through_a_table(tmp_path: Path) -> None:
    """What a statement costs does not grow with what others have stored."""
    dialect = SQLiteDialect()
    connection = sqlite3.connect(await migrated(tmp_path / "baton.db"))
    walks = {
        name
        for name, sql in (*statements(Writes(dialect)), *statements(Queries(dialect)))
        for *_, plan in connection.execute(f"EXPLAIN QUERY PLAN {sql}", AnyValue())
        if plan.endswith("(tenant=?)") or (plan.startswith("SCAN") and "VIRTUAL TABLE" not in plan)
    }
    connection.close()

    assert walks == set(WHOLE)


@pytest.mark.parametrize(
    "name", ["calls_open", "calls_keyed", "turns_not_ended", "sessions_active", "sessions_by_earliest_expiry"]
)
async def test_unusual_indexes_are_used(tmp_path: Path, name: str) -> None:
    """An index whose condition or expression no statement repeats word for word would only cost."""
    dialect = SQLiteDialect()
    connection = sqlite3.connect(await migrated(tmp_path / "baton.db"))
    plans = [
        plan
        for _, sql in (*statements(Writes(dialect)), *statements(Queries(dialect)))
        for *_, plan in connection.execute(f"EXPLAIN QUERY PLAN {sql}", AnyValue())
    ]
    connection.close()

    assert any(name in plan for plan in plans)
