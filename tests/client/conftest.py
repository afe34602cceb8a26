"""What the client's tests share: a scripted server, a clock, and an end to all connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.client.scripted import FakeClock, ScriptedServer
from tests.client.work import Work

from baton import close_connections, set_default_address


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A server that does what the test says; it is the default one."""
    made = ScriptedServer()
    await made.start()
    set_default_address(made.address)
    yield made
    set_default_address(None)
    await close_connections()
    await made.stop()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
async def worker(server: ScriptedServer, clock: FakeClock) -> AsyncIterator[Work]:
    """A worker that is not attached yet."""
    work = Work(server, clock)
    yield work
    await work.attachment.close()
    await work.connection.close()
