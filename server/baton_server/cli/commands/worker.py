"""`baton worker`: hosts functions and hooks of a module until it is told to stop, and says what becomes of calls."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from types import FrameType
from typing import Annotated, NoReturn

import typer

from baton import AgentsException, JournalError, Worker, close_connections
from baton.hosting.attachment import MAX_CONCURRENCY
from baton.server.worker import MAX_SCOPES
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.loading import WrongTarget, folder_of, load
from baton_server.cli.options import Address
from baton_server.cli.show.texts import one_line, safe
from baton_server.cli.terminal import fail

EXAMPLES = """Examples:

baton worker functions.py

baton worker shop.orders:worker --scope shop --concurrency 8

baton worker functions.py:get_weather --reload
"""
"""For --help."""

PARENT_VARIABLE = "BATON_WORKER_PARENT"
"""Names the end of a pipe that closes when the parent, `--reload`, is gone. Between the two processes alone."""

ORPHAN_S = 10.0
"""How long a worker whose parent is gone may take to finish what runs."""

EXIT_S = 2.0
"""How long the process waits at its end for functions that were given up; a thread cannot be stopped."""

SHOWN = 2000
"""Characters of a line about a call that are shown; results may have megabytes."""


def worker(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="MODULE or FILE.py: all its tools. MODULE:NAME or FILE.py:NAME: a Worker, a tool, a plain function.",
            show_default=False,
        ),
    ],
    address: Address = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help=f"Serve only runs that look into this scope; up to {MAX_SCOPES} times.",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="CALLS", min=1, max=10_000, help=f"Calls at a time. [{MAX_CONCURRENCY}]", show_default=False
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a .py file below the working folder changes.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing about calls.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show arguments and results, which may be private.")
    ] = False,
) -> None:
    """Host functions and hooks until Ctrl-C or SIGTERM, which finish the calls that run.

    A second Ctrl-C leaves at once. A server that is not there is waited for.

    A Worker keeps its scopes, concurrency and server unless flags differ.
    Modules are found from the working folder.
    """
    if scope and len(scope) > MAX_SCOPES:
        fail(ExitCode.USAGE, f"{len(scope)} scopes are too many; a worker has at most {MAX_SCOPES}")
    if quiet and verbose:
        fail(ExitCode.USAGE, "--quiet and --verbose contradict one another; leave one out")
    source = context.get_parameter_source("address")
    given = address if source is not None and source.name == "COMMANDLINE" else None
    try:
        if reload:
            _supervise(target, _flags(given, scope or (), concurrency, quiet, verbose))
        _end_with_parent()
        _report(quiet, verbose)
        code = asyncio.run(_host(_made(target, given, scope, concurrency)))
    except WrongTarget as error:
        fail(ExitCode.USAGE, str(error))
    except KeyboardInterrupt:
        fail(ExitCode.INTERRUPTED)
    raise typer.Exit(code)


def _supervise(target: str, flags: Sequence[str]) -> NoReturn:
    # Imported here: what watches files is of no use to any other command.
    from baton_server.cli.given.reload import supervise

    raise typer.Exit(supervise(["worker", *flags, "--", target], folder_of(target), PARENT_VARIABLE))


def _flags(
    address: str | None, scopes: Sequence[str], concurrency: int | None, quiet: bool, verbose: bool
) -> list[str]:
    """Write the options again, for a process that does the same without --reload."""
    given = {"--address": address, "--concurrency": concurrency}
    flags = [f"{name}={value}" for name, value in given.items() if value is not None]
    return [*flags, *(f"--scope={scope}" for scope in scopes), *["-q"] * quiet, *["-v"] * verbose]


def _made(target: str, address: str | None, scopes: Sequence[str] | None, concurrency: int | None) -> Worker:
    """Make the worker that hosts a target. What is None or empty is as the target's own Worker has it."""
    loaded = load(target)
    made = (loaded.worker or Worker()).copy(address=address, scopes=scopes, max_concurrency=concurrency)
    for tool in loaded.tools:
        if tool not in made.tools:
            made.add(tool)
    return made


# --- hosting ------------------------------------------------------------------------------------------------


async def _host(hosted: Worker) -> ExitCode:
    """Host until a signal comes or the server refuses. The log has told what was refused, and why."""
    asked = asyncio.Event()
    _obey_signals(asyncio.get_running_loop(), asked.set)
    running = asyncio.create_task(hosted.run())
    waiting = asyncio.create_task(asked.wait())
    code = ExitCode.DONE
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not running.done():
        _say(f"stopping; {_calls(hosted.held)} finished first" if hosted.held else "stopping")
        if await hosted.stop():
            code = ExitCode.FAILED
    try:
        await running
    except JournalError as error:
        code = ExitCode.FAILED
        typer.echo(f"baton: {error}", err=True)
    except AgentsException:
        code = code if asked.is_set() else ExitCode.FAILED
    finally:
        waiting.cancel()
        await close_connections()
    _leave_in_time(code)
    return code


def _calls(count: int) -> str:
    return "1 call is" if count == 1 else f"{count} calls are"


def _obey_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Stop at the first signal, leave at a second Ctrl-C, from now until the process ends.

    Python's own handlers, not the loop's: a function that blocks the loop must not keep anybody here.
    """
    interrupts = 0

    def obey(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            os.write(2, b"baton: left at once; calls that ran are given to another worker\n")
            os._exit(ExitCode.INTERRUPTED)
        with suppress(RuntimeError):  # the loop is closed: it stops already
            loop.call_soon_threadsafe(stop)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, obey)


def _end_with_parent() -> None:
    """Stop as by SIGTERM when the parent is gone, however it went; nothing if there is none to watch."""
    end = os.environ.pop(PARENT_VARIABLE, None)
    if end is None:
        return
    os.set_inheritable(int(end), False)

    def watch() -> None:
        os.read(int(end), 1)
        os.kill(os.getpid(), signal.SIGTERM)
        _leave_in_time(ExitCode.FAILED, ORPHAN_S)

    threading.Thread(target=watch, daemon=True, name="baton-parent").start()


def _leave_in_time(code: ExitCode, within_s: float = EXIT_S) -> None:
    """End the process with a code if it has not ended by itself by then: a function in a thread may go on for ever."""
    timer = threading.Timer(within_s, os._exit, (code,))
    timer.daemon = True
    timer.start()


# --- saying what happens ------------------------------------------------------------------------------------


class _Reporter(logging.Handler):
    """Prints what the client library logs: how the worker does, and, with the time of day, what calls do."""

    def emit(self, record: logging.LogRecord) -> None:
        text = one_line(record.getMessage(), SHOWN)
        if record.name.endswith(".calls"):
            text = f"{datetime.fromtimestamp(record.created):%H:%M:%S} {text}"
        else:
            text = f"baton: {text}"
        if record.exc_info:
            text += f"\n{safe(logging.Formatter().formatException(record.exc_info))}"
        with suppress(OSError):  # nobody reads any more: no reason to stop serving
            typer.echo(text, err=record.levelno >= logging.WARNING)


def _report(quiet: bool, verbose: bool) -> None:
    """Show what the worker logs; what functions print comes out line by line beside it."""
    log = logging.getLogger("baton")
    log.addHandler(_Reporter())
    log.propagate = False  # a module that sets up logging of its own would tell all of it twice
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    if quiet:
        logging.getLogger("baton.worker.calls").setLevel(logging.WARNING)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)


def _say(text: str) -> None:
    with suppress(OSError):
        typer.echo(f"baton: {text}")
