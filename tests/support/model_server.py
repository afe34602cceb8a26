"""A model server in this process, for a test session: `from tests.support.model_server import model_server`.

It runs in a thread with a loop of its own, so that tests with loops of theirs share it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import pytest

from tests.modelserver import Recorded, Running, running
from tests.modelserver.scripts import Json

START_TIMEOUT_S = 30.0
WAIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelServer:
    """The running server, as tests use it. Safe to call from any loop or thread."""

    server: Running
    loop: asyncio.AbstractEventLoop

    @property
    def base_url(self) -> str:
        """Where a client of the API finds it."""
        return self.server.base_url

    @property
    def address(self) -> str:
        """Where its own paths are, /_scripts and the like."""
        return self.server.address

    def load(self, name: str, *steps: Json) -> str:
        """Load a script and return the model's name that plays it."""
        self.server.scripts.load(name, list(steps))
        return f"script:{name}"

    def requests(self, name: str) -> list[Recorded]:
        """List what was asked of a script so far."""
        script = self.server.scripts.find(name)
        return list(script.requests) if script else []

    def resume(self, name: str) -> None:
        """Let a script go on where it pauses."""
        script = self.server.scripts.find(name)
        assert script is not None, name
        self.loop.call_soon_threadsafe(script.resumed.set)

    async def wait_for(self, name: str, holds: Callable[[list[Recorded]], bool]) -> bool:
        """Wait until something holds of a script's requests; False: it did not within 10 s."""
        return await asyncio.to_thread(self.server.scripts.wait_for, name, holds, WAIT_TIMEOUT_S)


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """Run a model server on a free loopback port for the whole test session."""
    started: Future[ModelServer] = Future()
    stop = asyncio.Event()

    async def serve() -> None:
        async with running() as server:
            started.set_result(ModelServer(server=server, loop=asyncio.get_running_loop()))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="model-server", daemon=True)
    thread.start()
    server = started.result(START_TIMEOUT_S)
    yield server
    server.loop.call_soon_threadsafe(stop.set)
    thread.join(START_TIMEOUT_S)
