"""What the tests of the client against a real server share."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.server import server

from baton import close_connections, set_default_address
from baton_server.main import Baton

PATIENCE_S = 30.0
"""How long a test waits for what must come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server with a scripted model, which is the client's default."""

    baton: Baton
    model: ScriptedModel

    def outputs(self, request: int = -1) -> list[Any]:
        """List the function outputs that a request to the model carried."""
        items = self.model.input_of(request)
        return [item["output"] for item in items if item.get("type") == "function_call_output"]


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Runs a server whose model answers with these replies."""

    @asynccontextmanager
    async def running(*replies: Reply, **settings: Any) -> AsyncIterator[Served]:
        model = ScriptedModel(replies)
        async with server(tmp_path, model, **settings) as baton, default(baton.address):
            yield Served(baton=baton, model=model)

    return running


@asynccontextmanager
async def default(address: str) -> AsyncIterator[None]:
    """Make a server the client's default; leave no connection behind."""
    set_default_address(address)
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    finally:
        set_default_address(None)
        await close_connections()


@asynccontextmanager
async def program(address: str, text: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program that uses the client in a process of its own; it is gone when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(text),
        env={**os.environ, "BATON_ADDRESS": address},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Wait for a program's end; return exit code, output and errors."""
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def line_of(process: asyncio.subprocess.Process) -> str:
    """Read the next line that a program prints."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return (await process.stdout.readline()).decode().strip()
