"""A process that only hosts functions; and runs from programs without an event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.scripted import ScriptedServer, soon
from tests.client.turns import answer

import baton
from baton import Agent, RunContext, Runner, Worker, function_tool, trace
from baton.server.loop_thread import background_loop
from baton.v1 import error_pb2, handler_pb2, runner_pb2


def make_worker(**options: Any) -> Worker:
    """Make a worker with one function."""
    worker = Worker(**options)

    @worker.function
    def add(a: int, b: int = 1) -> int:
        """Add.

        Args:
            a: The first.
        """
        return a + b

    return worker


async def test_a_worker_declares_and_serves_its_functions(server: ScriptedServer) -> None:
    """Name, description and parameters, in its scopes, so that agents may name it without."""
    worker = make_worker(scopes=["svc"], max_concurrency=3)
    starting = asyncio.create_task(worker.start())
    peer = await server.attached()
    await soon(starting)

    (spec,) = peer.hello.handlers
    assert (spec.name, spec.description, list(peer.hello.scopes)) == ("add", "Add.", ["svc"])
    assert '"description":"The first."' in spec.parameters_json and peer.hello.credit.messages == 3
    await peer.call("add", {"a": 2, "b": 3})
    assert (await peer.settle()).output_json == "5"
    await peer.call("add", {"a": "x", "b": 3}, call_id="call_2")
    assert "a: " in (await peer.settle()).failure

    stopping = asyncio.create_task(worker.stop())
    with pytest.raises(EOFError):
        while True:
            await peer.next_frame()
    peer.end()
    await soon(stopping)


async def test_a_signal_drains_the_worker(server: ScriptedServer) -> None:
    """SIGTERM: what runs is finished, then `run` returns."""
    worker = Worker()
    entered, let_go = asyncio.Event(), asyncio.Event()

    @worker.function
    async def slow(ctx: RunContext[None]) -> str:
        entered.set()
        await let_go.wait()
        return ctx.idempotency_key

    running = asyncio.create_task(worker.run(handle_signals=True))
    peer = await server.attached()
    await peer.call("slow", idempotency_key="once")
    await soon(entered.wait())

    os.kill(os.getpid(), signal.SIGTERM)
    await peer.receive("drain")
    let_go.set()
    assert (await peer.settle()).output == "once"
    with pytest.raises(EOFError):
        while True:
            await peer.next_frame()
    peer.end()

    await soon(running)


async def test_a_refused_function_ends_the_worker(server: ScriptedServer) -> None:
    """Nobody notices a worker that serves nothing: `run` raises what the server said."""
    running = asyncio.create_task(make_worker().run())
    error = error_pb2.Error(reason=error_pb2.ERROR_REASON_HANDLER_CONFLICT, message="other parameters")
    await server.attached(handlers=[handler_pb2.HandlerVerdict(name="add", error=error)])

    with pytest.raises(baton.HandlerRefusedError, match="other parameters"):
        await soon(running)


async def test_a_function_that_is_refused_when_the_server_is_back_ends_the_worker(server: ScriptedServer) -> None:
    """Another worker may have come first with other parameters; that is no less an end than at the start."""
    running = asyncio.create_task(make_worker().run())
    (await server.attached()).end()
    error = error_pb2.Error(reason=error_pb2.ERROR_REASON_HANDLER_CONFLICT, message="other parameters")
    peer = await server.attached(handlers=[handler_pb2.HandlerVerdict(name="add", error=error)])
    with pytest.raises(EOFError):
        while True:
            await peer.next_frame()
    peer.end()

    with pytest.raises(baton.HandlerRefusedError, match="other parameters"):
        await soon(running)


async def test_stopping_tells_how_many_calls_were_given_up(server: ScriptedServer) -> None:
    """Whoever stops a worker can say so, or end the process by force."""
    worker = Worker()
    entered = asyncio.Event()

    @worker.function
    async def endless() -> None:
        entered.set()
        await asyncio.Event().wait()

    starting = asyncio.create_task(worker.start())
    peer = await server.attached()
    await soon(starting)
    await peer.call("endless")
    await soon(entered.wait())
    assert worker.held == 1
    peer.end()

    assert await soon(worker.stop(0.0)) == 1
    assert worker.held == 0


async def test_logs_tell_of_calls_but_not_of_what_they_hold(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Name, id, attempt, outcome and duration; arguments and results are private, and told at DEBUG alone."""
    caplog.set_level(logging.DEBUG, logger="baton")
    worker = make_worker()
    starting = asyncio.create_task(worker.start())
    peer = await server.attached()
    await soon(starting)
    await peer.call("add", {"a": 2011, "b": 3})
    await peer.settle()
    await peer.call("add", {"a": "x"}, call_id="call_2", attempt=2)
    await peer.settle()
    peer.end()
    await soon(worker.stop(0.0))

    told = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    text = re.sub(r"\d+ ms", "N ms", "\n".join(told))
    for line in (
        f"attached to {server.address}, serving add",
        "add begun (call_1, attempt 1)",
        "add answered after N ms (call_1, attempt 1)",
        "add failed after N ms (call_2, attempt 2)",
        f"detached from {server.address}",
    ):
        assert line in text
    assert "2011" not in text and "2014" not in text
    everything = "\n".join(record.getMessage() for record in caplog.records)
    assert '{"a": 2011, "b": 3}' in everything and ": 2014" in everything


async def test_mistakes_in_a_worker_are_named(server: ScriptedServer) -> None:
    """Before anything is sent."""
    with pytest.raises(RuntimeError, match="no functions"):
        await Worker().start()
    with pytest.raises(TypeError, match="scopes"):
        Worker(scopes="svc")
    with pytest.raises(ValueError, match="at most 8 scopes"):
        Worker(scopes=list("abcdefghi"))
    with pytest.raises(ValueError, match="max_concurrency"):
        Worker(max_concurrency=0)
    worker = make_worker()
    with pytest.raises(ValueError, match="'add'"):
        worker.add(function_tool(name_override="add")(lambda: None))


async def test_a_worker_is_a_context(server: ScriptedServer) -> None:
    """Entered: it serves. Left: it has drained."""
    worker = make_worker()

    async def inside() -> None:
        async with worker:
            assert server.handlers.peers.empty()

    running = asyncio.create_task(inside())
    peer = await server.attached()
    with pytest.raises(EOFError):
        while True:
            await peer.next_frame()
    peer.end()

    await soon(running)


# --- without an event loop ----------------------------------------------------------------------------------


class ServerThread:
    """A scripted server in a thread, for code that has no event loop: one function call per run."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.streams = 0

    def __enter__(self) -> ServerThread:
        self.thread.start()
        self.do(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    async def _start(self) -> None:
        self.server = ScriptedServer()
        self.server.runner.on_run = self._run
        await self.server.start()
        self._attaching = asyncio.create_task(self._attach())

    async def _stop(self) -> None:
        self._attaching.cancel()
        await self.server.stop()

    async def _attach(self) -> None:
        self.peer = await self.server.attached()
        self.streams += 1

    async def _run(self, request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        await self.peer.call("where", scope=request.run_config.scopes[1], call_id=request.request_id)
        result = await self.peer.settle()
        return answer(text=f"{result.output} {request.run_config.tracing.workflow_name}")


@pytest.fixture
def threaded() -> Iterator[ServerThread]:
    """A server for code without an event loop."""
    with ServerThread() as made:
        baton.set_default_address(made.server.address)
        yield made
        baton.set_default_address(None)
        background_loop.close()


def test_run_sync_twice_shares_one_connection(threaded: ServerThread) -> None:
    """Between the calls the worker stream lives on; the caller's trace is seen."""

    @function_tool
    async def where() -> str:
        return threading.current_thread().name

    agent = Agent(name="Assistant", tools=[where])

    with trace("Twice"):
        outputs = [Runner.run_sync(agent, "Hi").final_output for _ in range(2)]

    assert outputs == ["baton Twice", "baton Twice"]
    assert threaded.streams == 1


async def test_run_sync_is_refused_inside_an_event_loop() -> None:
    """It would block the loop that it needs."""
    with pytest.raises(RuntimeError, match=r"await Runner\.run"):
        Runner.run_sync(Agent(name="Assistant"), "Hi")
