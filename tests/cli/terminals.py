"""Commands in processes of their own: on a terminal, or with pipes that a test reads as they fill."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.cli.commands import PATIENCE_S

_PASTE_MARKS = re.compile(r"\x1b\[\?2004(h|l\r?)")
"""What a prompt says to a terminal besides, and nobody sees."""


AGAIN_S = 1.0
"""How long a key that is pressed has before it is pressed again."""


class Running:
    """A command that runs. `screen`: what came on its terminal, or on both of its pipes, so far."""

    def __init__(self, process: asyncio.subprocess.Process, keyboard: int | None) -> None:
        self.process = process
        self.screen = ""
        self._keyboard = keyboard
        self._more = asyncio.Condition()
        self._over = False

    async def sees(self, *texts: str) -> str:
        """Wait until all of these texts have come; returns the screen."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), self._more:
                await self._more.wait_for(lambda: self._over or all(text in self.screen for text in texts))
        assert all(text in self.screen for text in texts), self.screen
        return self.screen

    def types(self, text: str) -> None:
        """Type on its terminal."""
        assert self._keyboard is not None
        os.write(self._keyboard, text.encode())

    async def presses(self, key: str, text: str) -> str:
        """Press a key until its effect is seen; returns the screen.

        Readline hears of no signal that comes right before it waits for a key, which a person can hardly manage.
        """
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.screen:
                self.types(key)
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S), self._more:
                        await self._more.wait_for(lambda: text in self.screen)
        return self.screen

    async def ends(self, code: int = 0) -> str:
        """Wait for its end, which must be of this exit code; returns all that came."""
        async with asyncio.timeout(PATIENCE_S):
            found = await self.process.wait()
            async with self._more:
                await self._more.wait_for(lambda: self._over)
        assert found == code, (found, self.screen)
        assert "Traceback" not in self.screen
        return self.screen

    async def show(self, data: bytes) -> None:
        """Take what came; nothing: no more will come."""
        async with self._more:
            self._over = self._over or not data
            self.screen = _PASTE_MARKS.sub("", self.screen + data.decode(errors="replace"))
            self._more.notify_all()


@asynccontextmanager
async def on_terminal(*arguments: str, address: str, output: Path | None = None) -> AsyncIterator[Running]:
    """Run a command on a terminal of 80 columns; it is gone when the block ends.

    `output`: a file that standard output goes into, as behind `>`.
    """
    ours, theirs = pty.openpty()
    results = theirs if output is None else os.open(output, os.O_WRONLY | os.O_CREAT)
    process = await asyncio.create_subprocess_exec(
        *_with_ctrl_c(_command(arguments)),
        env=_environment(address),
        stdin=theirs,
        stdout=results,
        stderr=theirs,
        start_new_session=True,
    )
    for end in {theirs, results}:
        os.close(end)
    running = Running(process, ours)
    reading = asyncio.create_task(_read(ours, running))
    try:
        yield running
    finally:
        await _gone(process)
        await reading
        os.close(ours)


@asynccontextmanager
async def on_pipes(
    *arguments: str, address: str, folder: Path | None = None, **environment: str
) -> AsyncIterator[Running]:
    """Run a command whose output and errors are read from one pipe; it is gone when the block ends.

    `folder`: where it runs. `environment`: more of it.
    """
    process = await asyncio.create_subprocess_exec(
        *_command(arguments),
        cwd=folder,
        env={**_environment(address), **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    running = Running(process, None)

    async def read() -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(65_536):
            await running.show(data)
        await running.show(b"")

    reading = asyncio.create_task(read())
    try:
        yield running
    finally:
        await _gone(process)
        await reading


async def into_closed_pipe(*arguments: str, address: str) -> str:
    """Run a command whose output nobody reads, as behind `| head -1`; returns its errors."""
    ours, theirs = os.pipe()
    os.close(ours)
    process = await asyncio.create_subprocess_exec(
        *_command(arguments), env=_environment(address), stdout=theirs, stderr=asyncio.subprocess.PIPE
    )
    os.close(theirs)
    async with asyncio.timeout(PATIENCE_S):
        _, errors = await process.communicate()
    return errors.decode()


def _with_ctrl_c(command: list[str]) -> list[str]:
    """Run a command so that its standard input is the terminal that turns Ctrl-C into a signal.

    It is done in the new process, by a program in front: forking this one to do it would upset gRPC.
    """
    front = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-I", "-S", "-c", front, *command]


async def _read(fd: int, running: Running) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    os.set_blocking(fd, False)
    loop.add_reader(fd, ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            try:
                data = os.read(fd, 65_536)
            except BlockingIOError:
                continue
            except OSError:  # the other end is closed: so Linux says it of a terminal
                return
            await running.show(data)
    finally:
        loop.remove_reader(fd)
        await running.show(b"")


async def _gone(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "baton_server", *arguments]


def _environment(address: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))}
    return {**kept, "BATON_ADDRESS": address, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1", "TZ": "UTC"}
