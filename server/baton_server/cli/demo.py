"""`baton demo`: the main job, shown step by step on a machine that has nothing.

A server and a worker run in processes of their own. The first turn calls two functions at once; in the middle of
the second one the server is killed and started again, and the turn ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from baton import (
    Agent,
    BatonError,
    RawResponsesStreamEvent,
    RemoteFunction,
    ResponseTextDeltaEvent,
    RunItemStreamEvent,
    Runner,
    SQLiteSession,
    ToolCallItem,
    ToolCallOutputItem,
    close_connections,
    set_default_address,
)

FIRST = "What is the weather in Kyoto, and what is the local time there?"
SECOND = "And what is the weather in Oslo, and the local time there?"

START_S = 30.0
"""How long a process may take to say that it is ready."""

TURN_S = 90.0
"""How long a turn may take, a real model included."""


class DemoFailed(Exception):
    """The demo did not come to its end; the message says where."""


def demo(
    plain: Annotated[bool, typer.Option("--plain", help="No colours, one fact per line.")] = False,
) -> None:
    """Show the main job: a server, a worker, a turn that survives the server's death.

    With OPENAI_API_KEY in the environment it asks the real model, otherwise the built-in one.
    """
    raise typer.Exit(_run(Console(no_color=plain, highlight=False)))


def _run(console: Console) -> int:
    # The client tells of broken connections; here they are the point, and are shown as steps.
    logging.getLogger("baton").setLevel(logging.ERROR)
    try:
        asyncio.run(_demo(console))
    except (DemoFailed, BatonError) as error:
        console.print(f"demo: failed: {error}")
        return 1
    console.print("demo: ok")
    return 0


async def _demo(console: Console) -> None:
    with tempfile.TemporaryDirectory(prefix="baton-demo-") as folder:
        show = _Show(console)
        server = _Process(show, "server", _server_command(Path(folder)))
        async with server.running("listening"), _worker(show):
            agent: Agent[None] = Agent(
                name="Guide",
                instructions="Answer in one or two sentences. Call all functions that you need at once.",
                tools=[RemoteFunction("get_weather"), RemoteFunction("get_local_time")],
            )
            session = SQLiteSession("demo")
            await _turn(show, agent, session, FIRST)
            await _turn(show, agent, session, SECOND, killed=server)
            await close_connections()


async def _turn(
    show: _Show, agent: Agent[None], session: SQLiteSession, question: str, killed: _Process | None = None
) -> None:
    """Run one turn and show what happens. `killed`: the server to be killed when the first text comes."""
    show.step("you", question)
    result = Runner.run_streamed(agent, question, session=session)
    try:
        async with asyncio.timeout(TURN_S):
            async for event in result.stream_events():
                if isinstance(event, RunItemStreamEvent):
                    show.item(event)
                elif isinstance(event, RawResponsesStreamEvent) and isinstance(event.data, ResponseTextDeltaEvent):
                    show.text(event.data.delta)
                    if killed is not None:
                        server, killed = killed, None
                        await _kill_and_restart(show, server)
                elif isinstance(event, RawResponsesStreamEvent):
                    show.again()
    except TimeoutError:
        raise DemoFailed(f"the turn did not end within {TURN_S:g} s") from None
    if killed is not None:
        raise DemoFailed("the model wrote nothing, so the server was not killed in the middle of it")
    if not result.final_output:
        raise DemoFailed("the turn ended without an answer")
    show.step("answer", str(result.final_output))


async def _kill_and_restart(show: _Show, server: _Process) -> None:
    show.step("demo", "killing the server with SIGKILL, in the middle of the answer")
    await server.end(signal.SIGKILL)
    show.step("demo", "starting it again on the same file; the turn goes on by itself")
    await server.start("listening")


@asynccontextmanager
async def _worker(show: _Show) -> AsyncIterator[None]:
    worker = _Process(show, "worker", [sys.executable, "-m", "baton_server.cli.demo_worker"])
    async with worker.running("attached"):
        yield


def _server_command(folder: Path) -> list[str]:
    """Say how the server is started: on a port that is free now, and always the same one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    os.environ["BATON_ADDRESS"] = address
    set_default_address(address)
    flags = ["--address", address, "--store", str(folder / "baton.db")]
    return [sys.executable, "-m", "baton_server", "serve", *flags]


class _Process:
    """A process whose lines are shown as they come."""

    def __init__(self, show: _Show, name: str, command: list[str]) -> None:
        self._show, self._name, self._command = show, name, command
        self._process: asyncio.subprocess.Process | None = None
        self._relaying: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self, ready: str) -> AsyncIterator[None]:
        """Start it, wait for a line with `ready`, and end it with the block."""
        await self.start(ready)
        try:
            yield
        finally:
            await self.end(signal.SIGTERM)

    async def start(self, ready: str) -> None:
        """Start it, and wait until it is ready. Raises DemoFailed."""
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
        seen = asyncio.Event()
        self._relaying = asyncio.ensure_future(self._relay(self._process, ready, seen))
        waiting = asyncio.ensure_future(seen.wait())
        await asyncio.wait({waiting, self._relaying}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not seen.is_set():
            raise DemoFailed(f"the {self._name} did not start")

    async def end(self, number: int) -> None:
        """Send a signal, and wait until it is gone."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        await process.wait()
        if self._relaying is not None:
            await self._relaying

    async def _relay(self, process: asyncio.subprocess.Process, ready: str, seen: asyncio.Event) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self._show.step(self._name, line.decode().rstrip().removeprefix("baton: "))
            if ready in line.decode():
                seen.set()


class _Show:
    """Prints who does what, a line each; the model's text as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._writing = False

    def step(self, who: str, what: str) -> None:
        """Print a line."""
        self.again()
        self._console.print(f"[bold]{who:>8}[/bold]  ", end="")
        self._console.print(what, markup=False, soft_wrap=True)

    def again(self) -> None:
        """Begin the model's text anew: the one so far is void."""
        if self._writing:
            self._console.print()
            self._writing = False

    def text(self, piece: str) -> None:
        """Print a piece of the model's text, behind the one before."""
        if not self._writing:
            self._console.print(f"[bold]{'model':>8}[/bold]  ", end="")
            self._writing = True
        self._console.print(piece, end="", markup=False, soft_wrap=True)

    def item(self, event: RunItemStreamEvent) -> None:
        """Print a call or its result."""
        item = event.item
        if isinstance(item, ToolCallItem):
            self.step("model", f"calls {item.raw_item.get('name')}({item.raw_item.get('arguments')})")
        elif isinstance(item, ToolCallOutputItem):
            self.step("result", str(item.output))
