"""Threads that read, each on a connection of its own. WAL lets them read while the writer commits."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from baton_server.store.sql.rows import Params, Row
from baton_server.store.sqlite.connect import connect_reader, unavailable

READERS = 2
"""Reads hold the interpreter most of their time: more threads would only take turns."""

MAX_WAITING = 256
"""Reads that may wait for a thread; more wait in their callers."""


class Readers:
    """Runs queries outside the event loop. Belongs to the loop that made it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(MAX_WAITING)
        self._mine = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix=f"baton-read {path.name}")

    async def rows(self, sql: str, params: Params, max_bytes: int | None = None) -> list[Row]:
        """Read rows. `max_bytes` bounds the sum of their last columns after the first row; None: all rows.

        Raises StoreUnavailable.
        """
        async with self._slots:
            return await self._loop.run_in_executor(self._pool, self._read, sql, params, max_bytes)

    async def close(self) -> None:
        """Finish the reads that wait, and close the connections."""
        await asyncio.to_thread(self._pool.shutdown)
        for connection in self._connections:
            connection.close()

    def _read(self, sql: str, params: Params, max_bytes: int | None) -> list[Row]:
        try:
            cursor = self._connection().execute(sql, params)
            return cursor.fetchall() if max_bytes is None else _bounded(cursor, max_bytes)
        except sqlite3.Error as error:
            raise unavailable(self._path, error) from error

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = connect_reader(self._path)
            self._connections.append(connection)
        return connection


def _bounded(cursor: sqlite3.Cursor, max_bytes: int) -> list[Row]:
    found: list[Row] = []
    size = 0
    for row in cursor:
        size += len(row[-1])
        if found and size > max_bytes:
            break
        found.append(row)
    return found
