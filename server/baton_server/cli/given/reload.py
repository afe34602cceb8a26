"""Keeps one process of a command running, and starts it anew whenever a Python file changes.

The parent imports nothing of the user's, so that no mistake of theirs ends it. The child reads a pipe that only the
parent can close, and dies with it: also after a SIGKILL no child is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import typer
from watchfiles import PythonFilter, awatch
from watchfiles.main import FileChange

from baton.server.worker import DRAIN_S
from baton_server.cli.exits import ExitCode
from baton_server.cli.show.texts import safe
from baton_server.cli.terminal import fail

RELOAD_S = 10.0
"""How long a child may finish what runs before the next one starts; a person waits for it."""

STOP_S = DRAIN_S + 5.0
"""How long it may take at the end: its own drain, and what comes behind it."""

NAMED = 3
"""Changed files that are named."""


class _CannotWatch(Exception):
    """The operating system does not tell of changes; the message says why."""


def supervise(command: Sequence[str], folder: Path, parent_variable: str) -> ExitCode:
    """Run `baton COMMAND`, again after each change of a .py file below the working folder or `folder`.

    Until SIGTERM or Ctrl-C, which end the child in good order. `parent_variable`: tells the child the descriptor of
    a pipe that it has to read.
    """
    folders = {Path.cwd(), folder}
    outer = [one for one in folders if not any(one != other and one.is_relative_to(other) for other in folders)]
    try:
        return asyncio.run(_Supervisor(command, outer, parent_variable).run())
    except _CannotWatch as error:
        fail(
            ExitCode.FAILED,
            f"{', '.join(map(str, outer))} cannot be watched: {error}; WATCHFILES_FORCE_POLLING=1 looks by itself",
        )


class _Supervisor:
    """One child at a time. Between a child that ended by itself and the next change there is none."""

    def __init__(self, command: Sequence[str], folders: Sequence[Path], parent_variable: str) -> None:
        # -P: a module of the working folder must not stand in for one of ours. -B: a cached module is known by the
        # second of its change, and two changes may fall into one.
        self._command = [sys.executable, "-P", "-B", "-m", "baton_server", *command]
        self._folders = folders
        self._theirs, self._ours = os.pipe()
        self._environment = {**os.environ, parent_variable: str(self._theirs)}
        self._child: asyncio.subprocess.Process | None = None
        self._asked = asyncio.Event()
        self._interrupts = 0

    async def run(self) -> ExitCode:
        """Supervise until a signal asks for the end. Raises _CannotWatch."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._obey, number)
        changes = awatch(*self._folders, watch_filter=PythonFilter())
        change = asyncio.create_task(_next(changes))
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.sleep(0)  # now the files are watched, and the child cannot be older than what is seen
            while not self._asked.is_set():
                change = await self._serve(changes, change, asked)
            return await self._end(STOP_S)
        finally:
            asked.cancel()
            change.cancel()
            await asyncio.gather(asked, change, return_exceptions=True)

    async def _serve(
        self,
        changes: AsyncIterator[set[FileChange]],
        change: asyncio.Task[set[FileChange]],
        asked: asyncio.Task[bool],
    ) -> asyncio.Task[set[FileChange]]:
        """Serve with one child until the next change, or until the end. Returns what waits for the change after."""
        await self._start()
        assert self._child is not None
        ended = asyncio.create_task(self._child.wait())
        await asyncio.wait({change, asked, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not asked.done() and not change.done():
            _say("waiting for a .py file to change")
            await asyncio.wait({change, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return change
        _say(f"{_names(change.result())} changed; starting again")
        following = asyncio.create_task(_next(changes))
        await self._end(RELOAD_S)
        await ended
        return following

    async def _start(self) -> None:
        self._child = await asyncio.create_subprocess_exec(
            *self._command, pass_fds=(self._theirs,), env=self._environment
        )

    async def _end(self, grace_s: float) -> ExitCode:
        """End the child in good order, or, after so long, by force. Returns how it went."""
        child = self._child
        if child is None or child.returncode is not None:
            return ExitCode.DONE
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                code = await child.wait()
        except TimeoutError:
            _say(f"the worker did not end within {grace_s:g} s and is killed")
            child.kill()
            code = await child.wait()
        return ExitCode.DONE if code in (0, -signal.SIGTERM) else ExitCode.FAILED

    def _obey(self, number: int) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            if self._child is not None and self._child.returncode is None:
                with suppress(ProcessLookupError):
                    self._child.kill()
            os._exit(ExitCode.INTERRUPTED)
        self._asked.set()


async def _next(changes: AsyncIterator[set[FileChange]]) -> set[FileChange]:
    try:
        return await anext(changes)
    except (OSError, RuntimeError) as error:
        raise _CannotWatch(str(error)) from error


def _names(changes: set[FileChange]) -> str:
    """Name the files that changed, as seen from here."""
    here = Path.cwd()
    paths = sorted({Path(path) for _change, path in changes})
    names = [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths]
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return " and ".join([", ".join(names[:NAMED]), *more])


def _say(text: str) -> None:
    typer.echo(f"baton: {safe(text)}", err=True)
