"""Workers for these tests: of the client, at a stage's server, and by hand behind a proxy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.faults.proxy import Proxy
from tests.support.scripted_worker import PATIENCE_S, ScriptedWorker
from tests.support.stage import Stage, eventually

from baton import FunctionTool, RunContext, Worker, close_connections, function_tool
from baton.context.call_context import Cancellation
from baton.server.connection import connection_for
from baton.transport.retry import Timing
from baton_server.app.calls.leases import LeaseState

AT_ONCE = Timing(uniform=lambda _low, high: min(high, 0.01))
"""How clients here reconnect: tests do not wait for chance."""

T = TypeVar("T")


async def soon(wait: Awaitable[T]) -> T:
    """Wait for what must come soon."""
    return await asyncio.wait_for(wait, PATIENCE_S)


class Course:
    """A function of the client, `tool`, of which a test says when it ends. `begun`: attempts that were, in order."""

    def __init__(self, name: str = "f") -> None:
        self.begun: list[tuple[str, int]] = []
        self.entered = asyncio.Event()
        self.go = asyncio.Event()

        @function_tool(name_override=name, strict_mode=False)
        async def run(context: RunContext[None]) -> str:
            self.begun.append((context.call_id, context.attempt))
            context.progress("begun")  # which acks the call at once, whatever the client's own clock says
            self.entered.set()
            await self.go.wait()
            return "done"

        self.tool = run

    async def runs(self, stage: Stage) -> None:
        """Wait until it has been entered, and the server knows."""
        await soon(self.entered.wait())
        await acked(stage, self.begun[-1][0])


class Stuck:
    """A function of the client in a thread that heeds nothing. `leave`: ends it. `told`: to stop, by the server."""

    def __init__(self, name: str = "f") -> None:
        self.leave = threading.Event()
        self.told = Cancellation()
        self._begun: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        @function_tool(name_override=name, strict_mode=False)
        def stuck(context: RunContext[None]) -> str:
            context.progress("begun")
            self.told = context.cancelled
            loop.call_soon_threadsafe(self._begun.put_nowait, context.call_id)
            assert self.leave.wait(30)
            return "late"

        self.tool = stuck

    async def runs(self, stage: Stage) -> str:
        """Wait until it has been entered, and the server knows; returns the call."""
        call_id = await soon(self._begun.get())
        await acked(stage, call_id)
        return call_id


async def acked(stage: Stage, call_id: str) -> None:
    """Wait until the server knows that a call has arrived."""
    await eventually(lambda: stage.lease(call_id).state is LeaseState.HELD)


@asynccontextmanager
async def hosting(address: str, *tools: FunctionTool, **options: Any) -> AsyncIterator[Worker]:
    """Attach a worker of the client; when the block ends it is gone, whatever it holds."""
    connection_for(address, AT_ONCE)
    worker = Worker(address, **options)
    for tool in tools:
        worker.add(tool)
    await soon(worker.start())
    try:
        yield worker
    finally:
        await worker.stop(0)
        await close_connections()


@asynccontextmanager
async def behind_a_proxy(stage: Stage, *names: str, **hello: Any) -> AsyncIterator[tuple[Proxy, ScriptedWorker]]:
    """Attach a worker by hand through a proxy."""
    async with Proxy(stage.baton.address) as proxy:
        worker = ScriptedWorker(proxy.address)
        try:
            await worker.hello(*names, **hello)
            yield proxy, worker
        finally:
            await worker.close()
