"""Group commits and nothing more: a thread that writes all blobs that wait in one transaction, FULL."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from pathlib import Path


class Flusher:
    """Commits blobs. Belongs to the loop that made it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._thread.start()

    async def commit(self, data: bytes) -> None:
        """Put a blob on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((data, done))
        await done

    def close(self) -> None:
        """Finish what waits."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE blobs (n INTEGER PRIMARY KEY, data BLOB NOT NULL)")
        while (first := self._waiting.get()) is not None:
            group = [first]
            while not self._waiting.empty() and (more := self._waiting.get()) is not None:
                group.append(more)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO blobs (data) VALUES (?)", [(data,) for data, _ in group])
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_answer, [done for _, done in group])
        connection.close()


def _answer(group: list[asyncio.Future[None]]) -> None:
    for done in group:
        if not done.done():
            done.set_result(None)
