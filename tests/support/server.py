"""Servers for tests: one in this process, for most; one in a process of its own, to be killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from baton_server.config import Settings
from baton_server.main import Baton, open_store, running
from baton_server.ports.clock import Clock
from baton_server.ports.model import Model
from baton_server.ports.store import Store

QUICK: Mapping[str, Any] = {"demo_delay_s": 0.0, "drain_s": 0.2}
"""Settings that make tests quick; clocks stay as they are unless a test says otherwise."""

FIXED_PORTS = range(15_000, 32_000)
"""Ports that a test may choose; outgoing connections are given higher ones."""


@asynccontextmanager
async def server(
    folder: Path,
    model: Model | None = None,
    clock: Clock | None = None,
    around_store: Callable[[Store], Store] | None = None,
    **settings: Any,
) -> AsyncIterator[Baton]:
    """Run a server in this process on a free port, its store in a folder.

    `model`, `clock`: in place of the demo model and of the system's clock. `around_store`: puts something around
    the store, for example to count.
    """
    given = Settings(**{**QUICK, "address": "127.0.0.1:0", "store": folder / "baton.db", **settings})
    store = await open_store(given)
    async with running(given, model, around_store(store) if around_store else store, clock) as baton:
        yield baton


@asynccontextmanager
async def channel(baton: Baton) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel with gRPC's own default limits."""
    async with grpc.aio.insecure_channel(baton.address) as opened:
        yield opened


def free_port() -> int:
    """Find a port that nobody listens on, below those that the system gives to outgoing connections.

    So it is free again after a server has died: a client that reconnects could otherwise be given it as its own.
    """
    for port in random.sample(FIXED_PORTS, k=100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"none of 100 ports between {FIXED_PORTS.start} and {FIXED_PORTS.stop} is free")


class ServerProcess:
    """A server in a process of its own, always on the same port and file, to be killed and started again."""

    def __init__(self, store: Path, environment: Mapping[str, str] | None = None) -> None:
        self.store, self.address = store, f"127.0.0.1:{free_port()}"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))},
            "BATON_DEMO_DELAY_S": "0",
            **(environment or {}),
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start, and wait until it listens; returns the line that it printed."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "baton_server",
            "serve",
            "--address",
            self.address,
            "--store",
            str(self.store),
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            line = (await self._process.stdout.readline()).decode()
        assert "listening" in line, f"the server did not start: {line!r}"
        return line

    async def kill(self) -> None:
        """End it with SIGKILL, in the middle of whatever it does."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        return await self._end(signal.SIGTERM)

    async def _end(self, number: int) -> int:
        process = self._process
        assert process is not None
        if process.returncode is None:
            process.send_signal(number)
        async with asyncio.timeout(30):
            return await process.wait()

    async def __aenter__(self) -> ServerProcess:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            await self.kill()
