"""Connections to the database file, and what SQLite's errors mean here."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Literal, get_args

from baton_server.ports.store import StoreUnavailable

Synchronous = Literal["FULL", "NORMAL"]
"""FULL: a commit survives the loss of power. NORMAL: it survives the process, not the power."""

BUSY_TIMEOUT_S = 5.0
"""Only outsiders (a backup, a shell) can hold the file; they get so long."""

CACHED_STATEMENTS = 256
"""Above the number of statements there are, so that none is prepared twice."""

CHECKPOINT_PAGES = 4000
"""Pages of the write-ahead log, of 4 KiB, after which it is copied into the file. A run writes about 100, most of them
again and again: the more of them there are, the fewer are copied each."""

WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""What the write-ahead log is cut back to after a burst."""


def connect_writer(path: Path, synchronous: Synchronous) -> sqlite3.Connection:
    """Open the connection that writes, in autocommit: transactions are begun by statements.

    Raises ValueError for a `synchronous` that is not known, sqlite3.Error if the file cannot be used.
    """
    if synchronous not in get_args(Synchronous):  # SQLite itself would ignore it silently
        raise ValueError(f"synchronous is {synchronous!r}; it must be one of {get_args(Synchronous)}")
    connection = _connect(path)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        connection.close()
        raise sqlite3.OperationalError(f"its file system does not bear a write-ahead log (mode {mode!r})")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA fullfsync = ON")  # macOS alone: a plain fsync stops at the drive's cache there
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads; each statement sees the newest commit."""
    connection = _connect(path)
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )


def unavailable(path: Path, error: BaseException) -> StoreUnavailable:
    """Say that the file cannot be read or written."""
    return StoreUnavailable(f"the store {path} cannot be used: {error}")
