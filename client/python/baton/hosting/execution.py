"""Executes code of the application: coroutines on the event loop, other functions in threads.

A coroutine can be stopped midway. A thread cannot: what waits for its place can be taken back, and what runs is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from baton.agents.tools import FunctionTool

STOP_S = 2.0
"""How long closing waits for functions that were cancelled and go on all the same."""


class Threads:
    """Threads for functions, made when the first one needs them."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> Executor:
        """Where functions are handed in."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
        return self._pool

    def close(self) -> None:
        """Begin no more. What runs goes on."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class Execution:
    """One execution, of a coroutine or in a thread."""

    __slots__ = ("_entered", "_thread")

    def __init__(self) -> None:
        self._entered = False
        self._thread: ThreadFuture[Any] | None = None

    @property
    def begun(self) -> bool:
        """The application's code was entered."""
        if self._thread is not None:
            return self._thread.running() or (self._thread.done() and not self._thread.cancelled())
        return self._entered

    @property
    def in_thread(self) -> bool:
        """It was handed to a thread."""
        return self._thread is not None

    def unstoppable(self) -> bool:
        """Tell whether a thread has it; if it only waits for one, take it back."""
        return self._thread is not None and not self._thread.cancel()

    def when_over(self, told: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Have `told` called on the event loop, which is this one, when its code has ended; at once, if it has."""
        if self._thread is None or self._thread.done():
            told()
            return

        def tell(_thread: ThreadFuture[Any]) -> None:
            with suppress(RuntimeError):  # the loop has ended before the function
                loop.call_soon_threadsafe(told)

        self._thread.add_done_callback(tell)

    async def of_coroutine(self, coroutine: Awaitable[Any]) -> Any:
        """Run a coroutine."""
        self._entered = True
        return await coroutine

    async def of_thread(self, thread: ThreadFuture[Any]) -> Any:
        """Wait for what a thread does."""
        self._thread = thread
        return await asyncio.wrap_future(thread)


@dataclass(slots=True)
class _Gate:
    tool: FunctionTool
    places: asyncio.Semaphore
    users: int = 0


class Gates:
    """Bounds how many calls of one function run at once: `FunctionTool.max_concurrency`.

    The server keeps to it as well; but not beyond a function in a thread that it gave up and that goes on.
    """

    def __init__(self) -> None:
        self._gates: dict[int, _Gate] = {}

    async def enter(self, tool: FunctionTool) -> None:
        """Wait for a place, first come, first served. Only of a function that is bounded."""
        assert tool.max_concurrency is not None
        gate = self._gates.setdefault(id(tool), _Gate(tool, asyncio.Semaphore(tool.max_concurrency)))
        gate.users += 1
        try:
            await gate.places.acquire()
        except BaseException:
            self._let_go(gate)
            raise

    def leave(self, tool: FunctionTool) -> None:
        """Give a place back."""
        gate = self._gates[id(tool)]
        gate.places.release()
        self._let_go(gate)

    def _let_go(self, gate: _Gate) -> None:
        gate.users -= 1
        if not gate.users:
            del self._gates[id(gate.tool)]
