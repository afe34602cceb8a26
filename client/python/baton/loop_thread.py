"""One event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from baton.connection import close_connections

T = TypeVar("T")

CLOSE_S = 2.0
"""How long closing may hold up the end of the process."""


class LoopThread:
    """An event loop in a daemon thread, begun at its first use. Its connections live on between calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

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

    def close(self) -> None:
        """Close its connections and stop it. A later `run` begins a new one."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None:
            return
        closing = asyncio.run_coroutine_threadsafe(close_connections(), loop)
        concurrent.futures.wait([closing], timeout=CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="baton", daemon=True).start()
                atexit.register(self.close)
            return self._loop


async def _tell(over: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        over.set()


background_loop = LoopThread()
"""The one of this process."""
