"""A worker of which a test steers the functions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.client.scripted import FakeClock, Peer, ScriptedServer, soon

from baton import RunContext, function_tool
from baton.agents.tools import FunctionTool
from baton.hosting.attachment import Attachment, Options
from baton.hosting.held import Handler
from baton.server.connection import Connection
from baton.v1 import handler_pb2


class Work:
    """An attachment with three functions whose course the test steers."""

    def __init__(
        self,
        server: ScriptedServer,
        clock: FakeClock,
        ack_after_s: float = 3600.0,
        max_concurrency: int = 2,
        **options: Any,
    ) -> None:
        self.connection = Connection(server.address, clock.timing)
        self.begun: list[tuple[str, int]] = []
        self.let_go = asyncio.Event()
        self.entered = asyncio.Event()
        self.over = asyncio.Event()
        self.stopped = threading.Event()
        self.seen = threading.Event()
        self.value: Any = "done"
        self.tools: dict[str, FunctionTool] = {
            tool.name: tool for tool in (self._quick(), self._slow(), self._threaded())
        }
        self.attachment = Attachment(
            self.connection.door,
            self.find,
            options=Options(scopes=("scope-1",), max_concurrency=max_concurrency, ack_after_s=ack_after_s, **options),
            timing=clock.timing,
        )

    def find(self, call: handler_pb2.Call) -> Handler | None:
        tool = self.tools.get(call.name)
        return Handler(tool) if tool else None

    async def begin(self, server: ScriptedServer, **welcome: Any) -> Peer:
        """Attach with all functions."""
        registered = asyncio.create_task(
            self.attachment.register([handler_pb2.HandlerSpec(name=name) for name in self.tools])
        )
        self.attachment.start()
        peer = await server.attached(**welcome)
        await soon(registered)
        return peer

    def _quick(self) -> FunctionTool:
        @function_tool
        async def quick(ctx: RunContext[None]) -> Any:
            self.begun.append((ctx.call_id, ctx.attempt))
            return self.value

        return quick

    def _slow(self) -> FunctionTool:
        @function_tool
        async def slow(ctx: RunContext[None]) -> str:
            self.begun.append((ctx.call_id, ctx.attempt))
            self.entered.set()
            await self.let_go.wait()
            self.over.set()
            return f"attempt {ctx.attempt}"

        return slow

    def _threaded(self) -> FunctionTool:
        loop = asyncio.get_running_loop()

        @function_tool
        def threaded(ctx: RunContext[None]) -> str:
            self.begun.append((ctx.call_id, ctx.attempt))
            loop.call_soon_threadsafe(self.entered.set)
            if ctx.cancelled.wait(5):
                self.seen.set()
            return "late"

        return threaded


def verdict(call_id: str, said: handler_pb2.HeldVerdict.ValueType) -> handler_pb2.AttemptVerdict:
    """Say what is to become of a first attempt."""
    return handler_pb2.AttemptVerdict(call_id=call_id, attempt=1, verdict=said)


def one_at_a_time(worker: Work) -> None:
    """Give a worker a function that runs once at a time, until it is let go."""

    @function_tool(max_concurrency=1)
    async def alone(ctx: RunContext[None]) -> str:
        worker.begun.append((ctx.call_id, ctx.attempt))
        worker.entered.set()
        await worker.let_go.wait()
        return "alone"

    worker.tools["alone"] = alone


async def ended(worker: Work) -> None:
    """End a worker that a test made itself."""
    await worker.attachment.close()
    await worker.connection.close()
