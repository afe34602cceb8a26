"""Processes that are measured: started, read for their CPU, stopped."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
"""Where `bench` and `tests` are importable from."""

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0


class BenchFailed(Exception):
    """A measurement could not be made; its text says why."""


class Child:
    """A process that says in its first line of output that it is ready. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, line: str) -> None:
        self._process, self.line = process, line

    @classmethod
    async def start(cls, module: str, arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> Child:
        """Run a module and wait for its first line. `settings`: environment besides ours. Raises BenchFailed."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            cwd=REPOSITORY,
            env={**own, **(settings or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        child = cls(process, "")
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                child.line = (await process.stdout.readline()).decode().strip()
        except TimeoutError:
            await child.stop()
        if not child.line:
            raise BenchFailed(f"{module} did not start; it exited with {await process.wait()}")
        return child

    def cpu_s(self) -> float:
        """Read the CPU that the process has used, user and system, all of its threads, in seconds."""
        return cpu_s(self._process.pid)

    async def stop(self) -> None:
        """End the process: SIGTERM, and SIGKILL if that does not do."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def cpu_s(pid: int) -> float:
    """Read the CPU that a process has used, in seconds. Raises BenchFailed where the kernel does not tell."""
    if not sys.platform.startswith("linux"):
        raise BenchFailed(f"the CPU of another process cannot be read on {sys.platform}; bench needs Linux")
    try:
        # What clock_getcpuclockid(3) makes of a process id: exact, where /proc counts in hundredths.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError as error:
        raise BenchFailed(f"the process {pid} has ended while it was measured ({error})") from error
