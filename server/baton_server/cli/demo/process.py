"""The processes of `baton demo`: their lines are shown as they come, and none outlives the demo."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

START_S = 30.0
"""How long a process may take to say that it is ready."""

END_S = 3.0
"""How long it may take to end when it is asked to; then it is killed."""


class DemoFailed(Exception):
    """The demo did not come to its end; the message says where."""


class DemoProcess:
    """A `baton` command in a process of its own. `shown` gets each line that it prints.

    In a process group of its own: Ctrl-C in a terminal goes to a whole group, and would end it in the middle of what
    it does, where the demo is to end it.
    """

    def __init__(self, name: str, command: Sequence[str], shown: Callable[[str], None]) -> None:
        self._name, self._shown = name, shown
        # -P: a module of the working folder must not stand in for one of ours.
        self._command = [sys.executable, "-P", "-m", "baton_server", *command]
        self._process: asyncio.subprocess.Process | None = None
        self._relaying: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self, ready: str) -> AsyncIterator[None]:
        """Start it, wait for a line with `ready`, and end it with the block."""
        try:
            await self.start(ready)
            yield
        finally:
            await self.end(signal.SIGTERM)

    async def start(self, ready: str) -> None:
        """Start it, and wait until it is ready. Raises DemoFailed."""
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0
        )
        seen = asyncio.Event()
        self._relaying = asyncio.create_task(self._relay(process, ready, seen))
        waiting = asyncio.create_task(seen.wait())
        try:
            await asyncio.wait({waiting, self._relaying}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not seen.is_set():
            raise DemoFailed(f"the {self._name} did not start")

    async def end(self, number: int) -> None:
        """Send a signal, and wait until it is gone; force it where that takes too long."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            async with asyncio.timeout(END_S):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()
        if self._relaying is not None:
            await self._relaying

    def kill(self) -> None:
        """End it by force, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _relay(self, process: asyncio.subprocess.Process, ready: str, seen: asyncio.Event) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self._shown(line.decode(errors="replace").rstrip().removeprefix("baton: "))
            if ready in line.decode(errors="replace"):
                seen.set()
