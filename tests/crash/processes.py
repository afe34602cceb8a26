"""A server that dies and is started again, on one port and one file."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.crash.doomed_server import Moment
from tests.support.server import free_port

TIMEOUT_S = 30.0


class DoomedServer:
    """A server that can be killed and started again. `starts`: seconds from each start until it listened."""

    def __init__(self, store: Path, **settings: str) -> None:
        self.store, self.address = store, f"127.0.0.1:{free_port()}"
        self.starts: list[float] = []
        self._listens = asyncio.Condition()
        self._environment = environment(address=self.address, store=str(store), **settings)
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._code = 0
        self._pid = 0

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.crash.doomed_server",
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            self._reading = asyncio.ensure_future(self._read())
        began = time.monotonic()
        self._ended.clear()
        self._pid = int((await self._ask("start")).removeprefix("listening "))
        async with self._listens:
            self.starts.append(time.monotonic() - began)
            self._listens.notify_all()

    async def arm(self, moment: Moment, number: int) -> None:
        """Have it die at a commit."""
        assert await self._ask(f"arm {moment} {number}") == "armed"

    async def spare(self) -> int:
        """Have it live; returns the commits since it was armed, 0 if it died of one."""
        answer = await self._ask("spare")
        return int(answer.removeprefix("spared ")) if answer else 0

    def kill(self) -> None:
        """End it with SIGKILL, in the middle of whatever it does."""
        with suppress(ProcessLookupError):  # it has just died of itself
            if not self._ended.is_set():
                os.kill(self._pid, signal.SIGKILL)

    async def started(self, times: int) -> None:
        """Wait until it was started so many times, and listens."""
        async with asyncio.timeout(TIMEOUT_S), self._listens:
            await self._listens.wait_for(lambda: len(self.starts) >= times)

    async def nurse(self) -> None:
        """Start it again whenever it has died, until cancelled."""
        while True:
            await self._ended.wait()
            assert self._code == -signal.SIGKILL, f"it ended with {self._code}"
            await self.start()

    async def stop(self) -> None:
        """End it, and the process that forks it."""
        if self._process is None or self._reading is None:
            return
        self.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(TIMEOUT_S):
            await self._process.wait()
            await self._reading

    async def _ask(self, line: str) -> str:
        """Write a line and wait for the answer; empty: the server ended first."""
        assert self._process is not None and self._process.stdin is not None
        async with self._asking, asyncio.timeout(TIMEOUT_S):
            self._answer = asyncio.get_running_loop().create_future()
            self._process.stdin.write(f"{line}\n".encode())
            return await self._answer

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while read := await self._process.stdout.readline():
            line = read.decode().strip()
            if line.startswith("ended "):
                self._code = int(line.removeprefix("ended "))
                self._ended.set()
                line = ""
            if not self._answer.done():
                self._answer.set_result(line)


def environment(**settings: str) -> dict[str, str]:
    """Make a server's environment: this one without its settings, and those given, as `store="…"`.

    A setting in capitals keeps its name.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))}
    named = {name if name.isupper() else f"BATON_{name.upper()}": value for name, value in settings.items()}
    return {**kept, **named}


def model_at(base_url: str) -> Mapping[str, str]:
    """Name the settings with which a server asks a model server."""
    return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": base_url}


@asynccontextmanager
async def nursed(process: DoomedServer) -> AsyncIterator[None]:
    """Start a server, and start it again whenever it dies, until the block ends."""
    await process.start()
    nurse = asyncio.ensure_future(process.nurse())
    try:
        yield
    finally:
        nurse.cancel()
        with suppress(asyncio.CancelledError):
            await nurse
        await process.stop()
