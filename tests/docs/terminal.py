"""Terminals of a reader: programs behind a pseudo terminal, whose keys are pressed and whose lines are read."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SIZE = (50, 100)
"""Lines and columns."""

DEADLINE_S = 60
"""How long a program may take to its end, or to a line that it is to print."""

END_S = 10
"""How long a program that is asked to end may take, before it is killed."""

KEYS: Mapping[str, str] = {"^C": "\x03", "^D": "\x04", "^\\": "\x1c"}
"""Keys by what a terminal shows for them."""

STOPPING: Mapping[str, int] = {"\x03": 128 + signal.SIGINT, "\x1c": 128 + signal.SIGQUIT}
"""Keys that stop a program, and the exit code of one that does not see to it."""

_LOCAL_MODES = 3
"""Where termios keeps them."""

# The program gets the terminal as its own, so that Ctrl-C reaches it, and nobody else.
_IN_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"

_UNSEEN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0e-\x1f]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")
_SPACE_AT_END = re.compile(r"[ \t\r]+(?=\n)")


class Terminal:
    """A command in a terminal of its own. What it prints is kept, and read once."""

    def __init__(self, command: str) -> None:
        self.command = command
        self._raw = bytearray()
        self._read = 0
        self._changed = asyncio.Event()
        self._over = False
        self._stopped_by: set[int] = set()
        self._master = -1
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Start the command with bash."""
        self._master, slave = os.openpty()
        termios.tcsetwinsize(slave, SIZE)
        modes = termios.tcgetattr(slave)
        modes[_LOCAL_MODES] &= ~termios.ECHOCTL  # else it would write ^C where a key is pressed
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        arguments = [sys.executable, "-ISc", _IN_TERMINAL, "bash", "-c", self.command]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *arguments, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave
            )
        finally:
            os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._receive)

    @property
    def was_read(self) -> bool:
        """Tell whether it has printed what it was to print, so far."""
        return self._read > 0

    @property
    def screen(self) -> str:
        """What it printed since the last match, as a reader sees it."""
        text = self._raw.decode(errors="replace").replace("\r\n", "\n")
        for unseen in (_UNSEEN, _OVERWRITTEN, _SPACE_AT_END):
            text = unseen.sub("", text)
        return text[self._read :]

    async def expect(self, pattern: re.Pattern[str]) -> bool:
        """Wait until the pattern fits what it prints next, and take that as read; False: it never does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                while not (found := pattern.match(self.screen)):
                    if self._over:
                        return False
                    self._changed.clear()
                    await self._changed.wait()
                self._read += found.end()
                return True
        return False

    def press(self, text: str) -> None:
        """Type."""
        if text in STOPPING:
            self._stopped_by.add(STOPPING[text])
        os.write(self._master, text.encode())

    def may_exit(self, expected: int) -> bool:
        """Tell whether it ended as expected, or as a key that stops programs makes them end."""
        assert self.code is not None
        code = self.code if self.code >= 0 else 128 - self.code
        return code in {expected, *self._stopped_by}

    async def ended(self) -> bool:
        """Wait until it has ended by itself; False: it goes on and on."""
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await self._process.wait()
                while not self._over:
                    self._changed.clear()
                    await self._changed.wait()
                return True
        return False

    @property
    def code(self) -> int | None:
        """Exit code; None: it runs. Negative: the signal that ended it."""
        assert self._process is not None
        return self._process.returncode

    async def close(self) -> None:
        """End it, if it runs, and what it has started in its terminal."""
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.returncode is None:
                self._signal(number)
                with suppress(TimeoutError):
                    async with asyncio.timeout(END_S):
                        await self._process.wait()
        if not self._over:
            self._finish()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:  # it has no group of its own yet, or is gone
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _receive(self) -> None:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux says so when nobody has the other end any more
            data = b""
        self._raw += data
        if not data:
            self._finish()
        self._changed.set()

    def _finish(self) -> None:
        self._over = True
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
