"""The thread that writes. It takes all the work that waits and commits it at once, since a commit's cost is
its flush to disk.

Where one piece of work fails, the group is undone and done again, now with a savepoint for each: the one that fails
is rolled back to it and leaves nothing behind, and the others go on. So work may be run twice, and does nothing but
write. Nobody is answered before the commit; if the commit fails, everybody is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog

from baton_server.store.sqlite.connect import unavailable

log = structlog.get_logger(__name__)

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

MAX_WAITING = 1024
"""Work that may wait for the thread; more waits in its callers."""

MAX_GROUP = 256
"""Work in one transaction: bounds what the first of a group waits for the last."""


@dataclass(slots=True)
class _Job:
    """`outcome`: the result, or the exception to raise, once `done`."""

    work: Work[Any]  # each job has its own result type; `run` gives it back to the caller
    future: asyncio.Future[Any]
    outcome: object = None
    failed: bool = False


class Writer:
    """Runs work on the writing connection, in order. Belongs to the loop that made it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._slots = asyncio.Semaphore(MAX_WAITING)
        self._ended = asyncio.Event()
        self._file = _identity(path)
        self._thread = threading.Thread(target=self._run, name=f"baton-store {path.name}", daemon=True)
        self._thread.start()

    async def run(self, work: Work[Result]) -> Result:
        """Run work in a transaction; what it wrote is durable when this returns, or all undone.

        Raises what the work raised; StoreUnavailable if nothing can be written. A caller who is cancelled does
        not know what became of it.
        """
        await self._slots.acquire()
        job = _Job(work, self._loop.create_future())
        self._jobs.put(job)
        result: Result = await job.future
        return result

    async def close(self) -> None:
        """Finish the work that waits, and close the connection."""
        self._jobs.put(None)
        await self._ended.wait()
        self._thread.join()

    # -- on the loop ----------------------------------------------------------------------------

    def _answer(self, group: Sequence[_Job]) -> None:
        for job in group:
            self._slots.release()
            if job.future.done():
                continue  # cancelled: nobody waits for it
            if job.failed:
                assert isinstance(job.outcome, BaseException)
                job.future.set_exception(job.outcome)
            else:
                job.future.set_result(job.outcome)

    # -- on the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                group, last = self._with_waiting(job)
                self._commit(group)
                self._post(self._answer, group)
                if last:
                    break
        finally:
            self._connection.close()
            self._post(self._ended.set)

    def _with_waiting(self, job: _Job) -> tuple[list[_Job], bool]:
        """Take what waits behind a job; tells whether it is the last group."""
        group = [job]
        while len(group) < MAX_GROUP:
            try:
                following = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
            if following is None:
                return group, True
            group.append(following)
        return group, False

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            log.warning("store_abandoned", path=str(self._path), reason="its event loop was closed first")

    def _commit(self, group: Sequence[_Job]) -> None:
        try:
            if _identity(self._path) != self._file:
                raise sqlite3.OperationalError("the file was removed or replaced while it was open")
            self._connection.execute("BEGIN IMMEDIATE")
            if not all(self._done(job) for job in group):
                self._connection.execute("ROLLBACK")
                self._connection.execute("BEGIN IMMEDIATE")
                for job in group:
                    self._attempt(job)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._give_up(group, error)

    def _attempt(self, job: _Job) -> None:
        """Run one job in its savepoint. Raises as `_done`."""
        self._connection.execute("SAVEPOINT job")
        if not self._done(job):
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _done(self, job: _Job) -> bool:
        """Run one job; False: it failed. Raises sqlite3.Error if that ended the whole transaction."""
        job.failed = False
        try:
            job.outcome = job.work(self._connection)
        except Exception as error:  # the boundary of foreign work: who asked for it is told
            if not self._connection.in_transaction:
                raise sqlite3.OperationalError(str(error)) from error
            job.outcome, job.failed = self._translated(error), True
        return not job.failed

    def _translated(self, error: Exception) -> Exception:
        match error:
            case sqlite3.IntegrityError():
                return ValueError(f"the batch repeats a row that is there already: {error}")
            case sqlite3.Error():
                return unavailable(self._path, error)
            case _:
                return error

    def _give_up(self, group: Sequence[_Job], error: Exception) -> None:
        log.error("store_commit_failed", path=str(self._path), jobs=len(group), error=str(error))
        for job in group:
            job.outcome, job.failed = unavailable(self._path, error), True
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # then the next BEGIN fails, and tells whoever comes next
                self._connection.execute("ROLLBACK")


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell one file from another of the same name; None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
