"""`baton demo`: the main job, shown step by step on a machine that has nothing.

A server and a worker run in processes of their own. The first turn calls two functions at once; in the middle of
the second one the server is killed and started again, and the turn ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
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
from baton_server.cli.demo.process import DemoFailed, DemoProcess
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.agent_file import read_agent_file
from baton_server.cli.terminal import fail

FIRST = "What is the weather in Kyoto, and what is the local time there?"
SECOND = "And what is the weather in Oslo, and the local time there?"

AGENT_FILE = Path(__file__).with_name("agent.yaml")
FUNCTIONS = "baton_server.cli.demo.worker"

TURN_S = 90.0
"""How long a turn may take, a real model included."""

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(Exception):
    """A signal asked for the end before it came."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number
        """The exit code by which shells know the signal."""


def demo(
    plain: Annotated[bool, typer.Option("--plain", help="No colours, one fact per line.")] = False,
) -> None:
    """Show the main job: a server, a worker, a turn that survives the server's death.

    With OPENAI_API_KEY in the environment it asks the real model, otherwise the built-in one.
    """
    _check_settings()
    raise typer.Exit(_run(Console(color_system=None if plain else "auto", highlight=False)))


def _check_settings() -> None:
    """Find out before anything runs what the server would find out, or the first turn."""
    # Imported here: reading settings takes time, which no other command should pay.
    from baton_server.config import WrongSettings, settings_of

    try:
        settings = settings_of({})
    except WrongSettings as error:
        fail(ExitCode.USAGE, *error.problems)
    if settings.openai_base_url and not settings.default_model:
        fail(
            ExitCode.USAGE,
            f"OPENAI_BASE_URL is {settings.openai_base_url!r} and no model is named; set OPENAI_DEFAULT_MODEL",
        )


def _run(console: Console) -> int:
    # The client tells of broken connections; here they are the point, and are shown as steps.
    logging.getLogger("baton").setLevel(logging.ERROR)
    show = _Show(console)
    try:
        asyncio.run(_demo(show))
    except (DemoFailed, BatonError) as error:
        show.line(f"demo: failed: {error}")
        return ExitCode.FAILED
    except _Interrupted as interrupted:
        show.line("demo: interrupted")
        return interrupted.code
    show.line("demo: ok")
    return ExitCode.DONE


async def _demo(show: _Show) -> None:
    with tempfile.TemporaryDirectory(prefix="baton-demo-") as folder:
        server = DemoProcess("server", _server_command(Path(folder)), show.lines_of("server"))
        worker = DemoProcess("worker", ["worker", FUNCTIONS, "--quiet"], show.lines_of("worker"))
        came = _obey_signals(show, server, worker)
        try:
            await _steps(show, server, worker)
        except asyncio.CancelledError:
            if not came:
                raise
            raise _Interrupted(came[0]) from None


async def _steps(show: _Show, server: DemoProcess, worker: DemoProcess) -> None:
    try:
        async with server.running("listening"), worker.running("attached"):
            agent, session = _agent(), SQLiteSession("demo")
            await _turn(show, agent, session, FIRST)
            await _turn(show, agent, session, SECOND, killed=server)
    finally:
        await close_connections()
    show.step("demo", "go on by yourself, each in a terminal of its own:")
    for command in (["serve"], ["worker", FUNCTIONS], ["chat", _near(AGENT_FILE)]):
        show.step("", shlex.join([*program(), *command]))


def _obey_signals(show: _Show, *processes: DemoProcess) -> list[int]:
    """Cancel the running task at a first signal, kill the processes at a second. Returns the signals that came."""
    loop, task, came = asyncio.get_running_loop(), asyncio.current_task(), list[int]()
    assert task is not None

    def act() -> None:
        if len(came) == 1:
            show.silence()
            task.cancel()
            return
        for process in processes:
            process.kill()

    def obey(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        with suppress(RuntimeError):  # the loop is closed: all has ended
            loop.call_soon_threadsafe(act)

    for number in _ENDING:
        signal.signal(number, obey)  # until the process ends: no traceback for one more Ctrl-C
    return came


def _agent() -> Agent[None]:
    written = read_agent_file(AGENT_FILE)
    tools = [RemoteFunction(tool.function.name) for tool in written.tools]
    return Agent(name=written.name, instructions=written.instructions, tools=tools)


def program() -> list[str]:
    """Say how this program is typed here: by its name where the shell finds this very one, else by the way to it."""
    own = Path(sys.executable).with_name("baton")
    found = shutil.which("baton")
    if found is not None and own.exists() and Path(found).samefile(own):
        return ["baton"]
    return [_near(own)] if own.exists() else [sys.executable, "-m", "baton_server"]


def _near(path: Path) -> str:
    """Write a path as seen from here, where it is below the working folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


async def _turn(
    show: _Show, agent: Agent[None], session: SQLiteSession, question: str, killed: DemoProcess | None = None
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
    finally:
        result.cancel()  # nothing, if it has ended
    if killed is not None:
        raise DemoFailed("the model wrote nothing, so the server was not killed in the middle of it")
    if not result.final_output:
        raise DemoFailed("the turn ended without an answer")
    show.step("answer", str(result.final_output))


async def _kill_and_restart(show: _Show, server: DemoProcess) -> None:
    show.step("demo", "killing the server with SIGKILL, in the middle of the answer")
    await server.end(signal.SIGKILL)
    show.step("demo", "starting it again on the same file; the turn goes on by itself")
    await server.start("listening")


def _server_command(folder: Path) -> list[str]:
    """Say how the server is started: on a port that is free now, and always the same one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    os.environ["BATON_ADDRESS"] = address
    set_default_address(address)
    flags = ["--address", address, "--store", str(folder / "baton.db")]
    return ["serve", *flags]


class _Show:
    """Prints who does what, a line each; the model's text as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._writing = False
        self._silent = False

    def silence(self) -> None:
        """Show no more steps: nobody wants to know how it is taken down."""
        self.again()
        self._silent = True

    def lines_of(self, who: str) -> Callable[[str], None]:
        """Print lines that a process prints."""
        return lambda line: self.step(who, line)

    def line(self, text: str) -> None:
        """Print how it ended, in a line of its own."""
        self.again()
        self._console.print(text, markup=False, soft_wrap=True)

    def step(self, who: str, what: str) -> None:
        """Print a line."""
        if self._silent:
            return
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
