"""A SQLAlchemy engine on the file, for migrations alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool


@contextmanager
def open_engine(path: Path) -> Iterator[Engine]:
    """Open an engine whose transactions hold schema changes too: a migration is whole or not at all."""
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    event.listen(engine, "connect", _leave_transactions_to_us)
    event.listen(engine, "begin", _begin)
    try:
        yield engine
    finally:
        engine.dispose()


def _leave_transactions_to_us(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
