"""Terminals of a reader who types a page's commands: a bash each, which keeps what the commands leave in it."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

DEADLINE_S = 30
"""How long a command may take to its end, or to what it is to print."""

END_S = 10
"""How long what runs in a terminal may take to its end once it is asked to, before it is killed."""

_END = re.compile(r"\x1e(\d+)\n")


class Silent(AssertionError):
    """A terminal did not come to what was waited for; the message holds what it shows."""


class Shell:
    """One terminal. Its output, errors included, is read once, in order."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._unread = ""
        self._running = ""

    async def start(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Open it in a folder."""
        self._process = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc"),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._reading = asyncio.ensure_future(self._read())

    @property
    def running(self) -> str:
        """The command whose end has not been waited for; empty: none."""
        return self._running

    def begin(self, command: str) -> None:
        """Type a command. The shell takes it when the one before has ended, so that one must have been waited for."""
        assert not self._running
        assert self._process is not None
        assert self._process.stdin is not None
        # Without input of its own: a command that reads would take the next lines, which are not meant for it.
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\036%d\\n' $?\n".encode())
        self._running = command

    async def ended(self) -> tuple[str, int]:
        """Wait until the command has ended; return what it printed and has not been read, and its exit code."""
        found = await self._until(_END)
        printed = self._unread[: found.start()]
        self._unread, self._running = self._unread[found.end() :], ""
        return printed, int(found[1])

    async def shows(self, pattern: re.Pattern[str]) -> None:
        """Wait until the pattern fits what is printed next, and take that as read. Raises Silent if it never does."""
        found = await self._until(re.compile(rf"\A(?:{pattern.pattern})"), over=_END)
        self._unread = self._unread[found.end() :]

    async def close(self) -> None:
        """End it, and all that runs in it."""
        process = self._process
        if process is None:
            return
        assert self._reading is not None
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            # The output ends with the last process that has it.
            await asyncio.wait([self._reading], timeout=END_S)
        await process.wait()
        self._reading.cancel()

    async def _until(self, pattern: re.Pattern[str], over: re.Pattern[str] | None = None) -> re.Match[str]:
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not (found := pattern.search(self._unread)):
                    assert self._reading is not None
                    if self._reading.done() or (over and over.search(self._unread)):
                        raise Silent(f"{self._running!r} has ended; the terminal shows\n{self._unread}")
                    self._changed.clear()
                    await self._changed.wait()
                return found
        except TimeoutError:
            problem = f"{self._running!r} did not come to it within {DEADLINE_S} s"
            raise Silent(f"{problem}; the terminal shows\n{self._unread}") from None

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            while data := await self._process.stdout.read(65_536):
                self._unread += decoder.decode(data)
                self._changed.set()
        finally:
            self._changed.set()
