"""One event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from baton.server.connection import close_connections

T = TypeVar("T")

CLOSE_S = 2.0
"""How long closing may hold up the end of the process."""


class LoopThread:
    """An event loop in a daemon thread, begun at its first use. Its connections live on between calls."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a handler of signals may begin work too
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there, with the context variables of the caller, and wait for it.

        A caller that is interrupted cancels it, and waits until it has cleaned up, for CLOSE_S at most.
        """
        over = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_tell(over, work), self._running())
        try:
            return future.result()
        except BaseException:  # KeyboardInterrupt above all: what runs is of no use to anyone
            future.cancel()
            over.wait(CLOSE_S)
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine there and do not wait for it. To cancel the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def close(self) -> None:
        """Close its connections and stop it. A later `run` begins a new one."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        closing = asyncio.run_coroutine_threadsafe(close_connections(), loop)
        concurrent.futures.wait([closing], timeout=CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="baton", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; then end what still runs on it, and close it."""
    try:
        loop.run_forever()
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _tell(over: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        over.set()


background_loop = LoopThread()
"""The one of this process."""
