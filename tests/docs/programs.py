"""Runs printed programs in processes of their own, and waits for what they must come to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

BIN = Path(sys.executable).parent
DEADLINE_S = 60


def environment(**given: str) -> dict[str, str]:
    """Make an environment that says nothing of Baton or a model but what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))}
    return kept | given


async def run(*command: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Run a program to its end; return exit code, output and errors."""
    async with started(*command, folder=folder, **variables) as process, asyncio.timeout(DEADLINE_S):
        output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def started(*command: str, folder: Path, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program; it is gone when the block ends."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment(**variables),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def terminated(process: asyncio.subprocess.Process) -> tuple[int, str]:
    """End a program as a service manager does; return exit code and errors."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(DEADLINE_S):
        _output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, errors.decode()
