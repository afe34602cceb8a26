"""Peers that misbehave, on either side, and those beside them who must not notice.

`Liar` is a server of which a test writes every byte, for the Python client; `Victim` a worker of the client that is
attached to it; `home` a worker and a run of the same process at a server that behaves. On the other side tests use
`Stage`; `beside` is a worker and a turn at the same server as the peer that misbehaves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import grpc

from baton import RunContext, Worker, close_connections
from baton.server.client import Client
from baton.server.connection import connection_for
from baton.transport.retry import Timing
from baton.v1 import agent_pb2, handler_pb2, runner_pb2
from tests.api.calling import kinds
from tests.client.scripted import Peer
from tests.support.scripted_model import ScriptedModel, calls, say
from tests.support.scripted_worker import acked
from tests.support.server import server
from tests.support.stage import Stage

PATIENCE_S = 10.0
"""How long a test waits for what must come."""

QUICKLY = Timing(max_delay_s=0.1)
"""How clients here reconnect."""

NOTICED = frozenset({"attempt_lost", "effect_unknown", "result_discarded", "turn_failed", "turn_cancelled"})
"""Events by which a session would notice that something was wrong."""

UNKNOWN_ARM = b"\xf2\x06\x00"
"""A frame of a later version: field 110, with nothing in it."""

T = TypeVar("T")


async def soon(wait: Awaitable[T]) -> T:
    """Wait for what must come soon."""
    return await asyncio.wait_for(wait, PATIENCE_S)


# -- a server that lies ------------------------------------------------------------------------------


class Lying(Peer):
    """Its end of one worker stream, on which bytes go as they are. `heartbeat_s`: what its Welcome asks for."""

    def __init__(self, context: Any, heartbeat_s: float) -> None:
        super().__init__(context)
        self._heartbeat_s = heartbeat_s

    async def send(self, **frame: Any) -> None:
        """Write a frame; the keyword is its arm. No keyword: a frame that says nothing."""
        made = handler_pb2.ConnectResponse(**frame)
        if made.HasField("welcome"):
            made.welcome.heartbeat_interval.FromTimedelta(timedelta(seconds=self._heartbeat_s))
        await self.send_bytes(made.SerializeToString())

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        await self._context.write(data)

    async def lives(self, call_id: str, arguments: str = "{}") -> None:
        """See that the worker still executes a call and sends its result on this stream."""
        await self.call("work", arguments, call_id=call_id)
        while (await self.settle()).call_id != call_id:
            pass  # what came of something else that the test did


class Liar:
    """A HandlerService on a port of this machine that does what the test says."""

    def __init__(self) -> None:
        self.heartbeat_s = 10.0
        self._streams: asyncio.Queue[Lying] = asyncio.Queue(100)
        self._server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self._connect,
            request_deserializer=handler_pb2.ConnectRequest.FromString,
            response_serializer=bytes,
        )
        rpcs = {"Connect": handler}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("baton.v1.HandlerService", rpcs)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def __aenter__(self) -> Liar:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _connect(self, _requests: Any, context: Any) -> None:
        peer = Lying(context, self.heartbeat_s)
        self._streams.put_nowait(peer)
        await peer.run()

    async def peer(self) -> Lying:
        """Wait for the next worker stream."""
        return await soon(self._streams.get())

    async def attached(self, **welcome: Any) -> Lying:
        """Wait for the next worker stream and welcome its worker."""
        peer = await self.peer()
        await peer.welcome(**{"resume_token": "the token", **welcome})
        return peer


class Victim:
    """A worker of the client with one function. `begun`: calls and attempts whose body began; `held_up`: none ends."""

    def __init__(self, address: str) -> None:
        connection_for(address, QUICKLY)  # the worker finds this one
        self.worker = Worker(address)
        self.begun: list[tuple[str, int]] = []
        self.cancelled: list[str] = []
        self.entered, self.leave, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.leave.set()

        @self.worker.function
        async def work(ctx: RunContext[None]) -> str:
            self.begun.append((ctx.call_id, ctx.attempt))
            self.entered.set()
            try:
                await self.leave.wait()
            except asyncio.CancelledError:
                self.cancelled.append(ctx.call_id)
                self.stopped.set()
                raise
            return f"worked {ctx.attempt}"

    async def attach(self, liar: Liar, **welcome: Any) -> Lying:
        """Attach it; returns the liar's end of the stream."""
        starting = asyncio.ensure_future(self.worker.start())
        peer = await liar.attached(**welcome)
        await soon(starting)
        return peer

    async def stop(self) -> None:
        """Take it away, however it stands."""
        self.leave.set()
        await self.worker.stop(0.0)


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[None]:
    """Run a worker and a run of this process, at a server that behaves: neither notices what happens in the block."""
    entered, leave, attempts = asyncio.Event(), asyncio.Event(), list[int]()
    lost = _Lost()
    async with server(folder, ScriptedModel([calls(("work", "{}")), say("Done.")])) as baton:
        worker = Worker(baton.address)

        @worker.function
        async def work(ctx: RunContext[None]) -> str:
            attempts.append(ctx.attempt)
            entered.set()
            await leave.wait()
            return "worked"

        async with worker, lost.watched(baton.address):
            running = asyncio.ensure_future(Client(baton.address).run(_request()))
            try:
                await soon(entered.wait())
                yield
            finally:
                leave.set()
            answer = await soon(running)
        await close_connections()
    assert (answer.turn.output, attempts, lost.told) == ("Done.", [1], [])


def _request() -> runner_pb2.RunRequest:
    tool = agent_pb2.Tool(function=agent_pb2.FunctionTool(name="work", parameters_json='{"type":"object"}'))
    return runner_pb2.RunRequest(agent=agent_pb2.Agent(name="clerk", tools=[tool]), text="begin")


class _Lost(logging.Handler):
    """Remembers what the client's log says of a server that it lost."""

    def __init__(self) -> None:
        super().__init__()
        self._address = ""
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Implement `logging.Handler`."""
        line = record.getMessage()
        if self._address in line and "lost" in line:
            self.told.append(line)

    @asynccontextmanager
    async def watched(self, address: str) -> AsyncIterator[None]:
        """Listen to the client's log while the block runs."""
        log = logging.getLogger("baton")
        level, self._address = log.level, address
        log.addHandler(self)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(self)
            log.setLevel(level)


# -- beside a worker that lies -----------------------------------------------------------------------


@asynccontextmanager
async def beside(stage: Stage) -> AsyncIterator[None]:
    """Run a worker and a turn in a scope of their own: neither notices what happens in the block."""
    worker = await stage.worker("f", scopes=["quiet"])
    turn = await stage.turn([("f", '{"n":1}')], [("f", '{"n":2}')], scopes=["quiet"])
    first = await acked(worker)
    yield
    await worker.finish(first)
    await worker.finish(await worker.expect("call"))
    events = await turn.completed()
    assert not NOTICED & set(kinds(events)), kinds(events)
    assert [output.attempt for output in await turn.outputs()] == [1, 1]
    told = set(worker.counts) - {"heartbeat", "protocol_error"}  # an error is how `acked` sees that nothing else came
    assert told == {"welcome", "call", "result_ack"}, f"the worker beside it was told {told}"
    await worker.nothing()
