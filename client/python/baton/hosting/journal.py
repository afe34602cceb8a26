"""A worker's memory over its own restarts: a SQLite file with what the server must still be told.

In it stand the resume token, by which a new process takes the former one's place at the server; results, from before
they are sent until they are acked; and which calls had begun, from before that: for the server takes what a resuming
worker does not name for not begun. So a call that began and has no result is named too, and given back as one that may
have run.

A thread of its own writes, all that has gathered in one transaction, safe from a power cut. One process has the file,
by SQLite's own lock; a text beside it says which.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from google.protobuf.message import DecodeError

from baton.errors import JournalError
from baton.v1 import handler_pb2

APPLICATION_ID = 0x6261746A
"""What tells a journal from other SQLite files: "batj"."""

VERSION = 1

WAL_BYTES = 4 * 1024 * 1024
"""What is left of the write-ahead log when it has been longer: one result has up to 4 MiB."""

_SCHEMA = """
    CREATE TABLE life (one INTEGER PRIMARY KEY CHECK (one = 1), instance_id TEXT NOT NULL, resume_token TEXT NOT NULL);
    CREATE TABLE attempts (
        call_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, name TEXT NOT NULL, result BLOB
    ) WITHOUT ROWID;
"""

_TOKEN = "UPDATE life SET resume_token = ?"
_BEGUN = "INSERT OR REPLACE INTO attempts (call_id, attempt, name, result) VALUES (?, ?, ?, NULL)"
_FINISHED = "INSERT OR REPLACE INTO attempts (call_id, attempt, name, result) VALUES (?, ?, ?, ?)"
_FORGOTTEN = "DELETE FROM attempts WHERE call_id = ? AND attempt = ?"

Told = asyncio.Future[JournalError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An attempt of a former process. `result` None: it had begun, and was lost with the process."""

    call_id: str
    attempt: int
    name: str
    result: handler_pb2.Result | None


@dataclass(frozen=True, slots=True)
class _Write:
    statement: str
    values: tuple[object, ...]
    told: Told


class Journal:
    """An open journal. Belongs to the event loop that writes to it.

    Each write tells an error, or None, when it is on disk; writes come there in order.
    """

    def __init__(self, file: Path, database: sqlite3.Connection) -> None:
        self._file, self._database = file, database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="baton-journal")
        self._lock = threading.Lock()
        self._waiting: list[_Write] = []
        self._writing = False
        self.instance_id: str
        self.resume_token: str
        self.instance_id, self.resume_token = database.execute("SELECT instance_id, resume_token FROM life").fetchone()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a journal, or make it. Raises JournalError where the file is damaged, no journal, or another's."""
        file = Path(path)
        try:
            database = sqlite3.connect(file, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise JournalError(f"the journal {str(file)!r} cannot be opened: {error}") from error
        try:
            _take(database, file)
            _prepare(database, file)
            return cls(file, database)
        except (sqlite3.Error, TypeError) as error:  # TypeError: the one row of `life` is not there
            database.close()
            raise _damaged(file, error) from error
        except BaseException:
            database.close()
            raise

    def remembered(self) -> list[Remembered]:
        """Read what the former process left, before anything is written. Raises JournalError for what is damaged."""
        try:
            rows = self._database.execute("SELECT call_id, attempt, name, result FROM attempts").fetchall()
            return [_remembered(*row) for row in rows]
        except (sqlite3.Error, DecodeError) as error:
            raise _damaged(self._file, error) from error

    def token(self, resume_token: str) -> Told:
        """Keep the token by which the worker resumes."""
        self.resume_token = resume_token
        return self._write(_TOKEN, resume_token)

    def begun(self, call: handler_pb2.Call) -> Told:
        """Keep that an attempt begins."""
        return self._write(_BEGUN, call.call_id, call.attempt, call.name)

    def finished(self, result: handler_pb2.Result, name: str) -> Told:
        """Keep the result of an attempt."""
        return self._write(_FINISHED, result.call_id, result.attempt, name, result.SerializeToString())

    def forget(self, call_id: str, attempt: int) -> Told:
        """Forget an attempt: the server knows of its end."""
        return self._write(_FORGOTTEN, call_id, attempt)

    async def close(self) -> None:
        """Write what waits, and let go of the file."""
        await asyncio.to_thread(self._thread.shutdown)
        self._database.close()

    # -- writing ---------------------------------------------------------------------------------

    def _write(self, statement: str, *values: object) -> Told:
        loop = asyncio.get_running_loop()
        write = _Write(statement, values, loop.create_future())
        with self._lock:
            self._waiting.append(write)
            begin, self._writing = not self._writing, True
        if begin:
            self._thread.submit(self._write_all, loop)
        return write.told

    def _write_all(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write, in the thread, until nothing waits."""
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._writing = False
                    return
            error = self._commit(batch)
            with suppress(RuntimeError):  # the loop has ended; nobody waits any more
                loop.call_soon_threadsafe(_tell, batch, error)

    def _commit(self, batch: list[_Write]) -> JournalError | None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            for write in batch:
                self._database.execute(write.statement, write.values)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            return JournalError(f"the journal {str(self._file)!r} cannot be written: {error}")
        return None


def _tell(batch: list[_Write], error: JournalError | None) -> None:
    for write in batch:
        if not write.told.done():
            write.told.set_result(error)


def _take(database: sqlite3.Connection, file: Path) -> None:
    """Take a file for this process, and say so beside it. Raises JournalError, naming who has it, or sqlite3.Error."""
    beside = file.with_name(f"{file.name}.holder")
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        database.execute("BEGIN EXCLUSIVE")
        database.execute("COMMIT")  # the lock stays until the file is closed
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise JournalError(f"the journal {str(file)!r} cannot be used: {error}") from error
        raise JournalError(
            f"the journal {str(file)!r} is in use by {_read(beside)}; stop that one, or give this worker its own file"
        ) from None
    try:
        beside.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except OSError as error:
        raise JournalError(f"the journal {str(file)!r} cannot be used: {error}") from error


def _read(beside: Path) -> str:
    try:
        return beside.read_text(encoding="utf-8", errors="replace")[:512] or "another process"
    except OSError:
        return "another process"


def _prepare(database: sqlite3.Connection, file: Path) -> None:
    """Check a file from end to end, and make its tables if it is new. Raises JournalError, sqlite3.Error."""
    found = _pragma(database, "quick_check")
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    known, version = _pragma(database, "application_id"), _pragma(database, "user_version")
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if known != APPLICATION_ID and tables:
        raise JournalError(f"{str(file)!r} is a database, but no journal of a worker; name another file")
    if known == APPLICATION_ID and version != VERSION:
        raise JournalError(
            f"the journal {str(file)!r} is of version {version}, this library writes version {VERSION}; use the "
            "library that wrote it, or name another file"
        )
    _pragma(database, "journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    if known != APPLICATION_ID:
        instance_id = f"python-{uuid.uuid4().hex}"
        database.executescript(
            f"BEGIN IMMEDIATE; {_SCHEMA} INSERT INTO life VALUES (1, '{instance_id}', ''); "
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
        )


def _pragma(database: sqlite3.Connection, pragma: str) -> Any:
    return database.execute(f"PRAGMA {pragma}").fetchone()[0]


def _remembered(call_id: str, attempt: int, name: str, result: bytes | None) -> Remembered:
    read = None if result is None else handler_pb2.Result.FromString(result)
    return Remembered(call_id=call_id, attempt=attempt, name=name, result=read)


def _damaged(file: Path, error: BaseException) -> JournalError:
    return JournalError(
        f"the journal {str(file)!r} is damaged ({error}). Results in it cannot be told to the server; move it away to "
        "start without: calls that it knew of are then lost as with any worker"
    )
