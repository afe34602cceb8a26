"""The SQLite store: opening and closing it, and what it does with a commit and a read."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from baton_server.ports.store import Batch, Committed, Stamp, StoreUnavailable
from baton_server.store.clock import StoreClock
from baton_server.store.migrations.migrate import SchemaUnknown, migrate
from baton_server.store.sql.applying import Applier
from baton_server.store.sql.reads import (
    SqlAgents,
    SqlCalls,
    SqlDocuments,
    SqlEvents,
    SqlInbox,
    SqlItems,
    SqlRequests,
    SqlSessions,
    SqlTimers,
    SqlTurns,
)
from baton_server.store.sql.rows import Params, Row
from baton_server.store.sql.statements import Queries, Writes
from baton_server.store.sqlite.connect import Synchronous, connect_writer, unavailable
from baton_server.store.sqlite.dialect import SQLiteDialect
from baton_server.store.sqlite.engine import open_engine
from baton_server.store.sqlite.lock import FileLock
from baton_server.store.sqlite.readers import Readers
from baton_server.store.sqlite.writer import Writer

Result = TypeVar("Result")


async def open_sqlite(
    path: str | Path,
    *,
    stamp: Stamp,
    synchronous: Synchronous = "FULL",
    holder: Mapping[str, str],
    clock: Callable[[], float] = time.time,
) -> SQLiteStore:
    """Open the store in a file, made if there is none, and bring its schema up to date.

    `holder`: what this process says of itself to the next one that tries. `clock`: the wall clock. Raises
    StoreHeld if another store has the file, StoreUnavailable if it cannot be used or is from a newer Baton.
    """
    file, lock, connection = await asyncio.to_thread(_open, Path(path), synchronous, holder)
    return SQLiteStore(file, lock, connection, stamp=stamp, clock=clock)


def _open(path: Path, synchronous: Synchronous, holder: Mapping[str, str]) -> tuple[Path, FileLock, sqlite3.Connection]:
    file = path.absolute()  # the process may change its directory later
    try:
        lock = FileLock.take(file, holder)
    except OSError as error:
        raise unavailable(file, error) from error
    try:
        with open_engine(file) as engine:
            migrate(engine)
        return file, lock, connect_writer(file, synchronous)
    except (sqlite3.Error, SQLAlchemyError, SchemaUnknown) as error:
        lock.release()
        said = error.orig if isinstance(error, DBAPIError) else None  # without the statement and a link
        raise unavailable(file, said or error) from error
    except BaseException:
        lock.release()
        raise


class SQLiteStore:
    """A store in one file, of one process and one event loop. Made by `open_sqlite`."""

    def __init__(
        self,
        path: Path,
        lock: FileLock,
        connection: sqlite3.Connection,
        *,
        stamp: Stamp,
        clock: Callable[[], float],
    ) -> None:
        self._path, self._lock = path, lock
        self._clock = StoreClock(clock)
        self._writes, self._queries = _statements()
        self._applier = Applier(sql=self._writes, stamp=stamp)
        self._writer = Writer(connection, path)
        self._readers = Readers(path)
        self._asked = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed: asyncio.Future[None] | None = None
        self.sessions = SqlSessions(self._ask, self._queries)
        self.turns = SqlTurns(self._ask, self._queries)
        self.events = SqlEvents(self._ask, self._queries)
        self.items = SqlItems(self._ask, self._queries)
        self.calls = SqlCalls(self._ask, self._queries)
        self.agents = SqlAgents(self._ask, self._queries)
        self.documents = SqlDocuments(self._ask, self._queries)
        self.inbox = SqlInbox(self._ask, self._queries)
        self.requests = SqlRequests(self._ask, self._queries)
        self.timers = SqlTimers(self._ask, self._queries)

    async def commit(self, batch: Batch) -> Committed:
        """Check the guards and write the batch, durably. Raises Conflict, Duplicate, StoreUnavailable.

        ValueError: the batch contradicts itself, or repeats a row that is there already.
        """

        def work(connection: sqlite3.Connection) -> Committed:
            return self._applier.apply(connection, batch, self._clock.now())

        return await self._counted(self._writer.run(work))

    async def forget(self, before: float, limit: int) -> int:
        """Remove up to `limit` answered requests from before a time, oldest first. Returns how many."""
        sql = self._writes.requests

        def work(connection: sqlite3.Connection) -> int:
            found = connection.execute(sql.oldest, {"before": before, "limit": limit}).fetchall()
            keys = [{"session_id": row[0], "rpc": row[1], "request_id": row[2]} for row in found]
            connection.executemany(sql.forget, keys)
            return len(keys)

        return await self._counted(self._writer.run(work))

    async def healthy(self) -> bool:
        """Tell whether the store can be read and written now, by doing both."""
        sql = self._writes.rest

        def work(connection: sqlite3.Connection) -> None:
            given = {"checked_at": self._clock.now()}
            if connection.execute(sql.mark_health, given).rowcount == 0:
                connection.execute(sql.first_health, given)

        try:
            await self._counted(self._writer.run(work))
            return len(await self._ask(self._queries.rest.health, {})) == 1
        except StoreUnavailable:
            return False

    async def close(self) -> None:
        """Finish what was asked for and let go of files. Later calls raise StoreUnavailable."""
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        try:
            await self._idle.wait()
            await self._readers.close()
            await self._writer.close()
            self._lock.release()
        finally:
            self._closed.set_result(None)

    async def _ask(self, sql: str, params: Params, max_bytes: int | None = None) -> Sequence[Row]:
        return await self._counted(self._readers.rows(sql, params, max_bytes))

    async def _counted(self, asked: Coroutine[Any, Any, Result]) -> Result:
        """Await what was asked for, so that `close` waits for it. Raises StoreUnavailable once closed."""
        if self._closed is not None:
            asked.close()
            raise StoreUnavailable(f"the store {self._path} was closed")
        self._asked += 1
        self._idle.clear()
        try:
            return await asked
        finally:
            self._asked -= 1
            if not self._asked:
                self._idle.set()


@cache
def _statements() -> tuple[Writes, Queries]:
    """Compile the statements, once in a process: it takes 20 ms."""
    dialect = SQLiteDialect()
    return Writes(dialect), Queries(dialect)
