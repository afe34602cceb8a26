"""A server in this process with a model that tests write, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.api.calling import Client, client_of
from tests.api.sending import DECLARED, Noted, NotingClient
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.server import server
from tests.support.stage import empty_stage, stage

from baton_server.main import Baton
from baton_server.ports.model import ModelRequest

__all__ = ["empty_stage", "stage"]

Serve = Callable[..., Awaitable["Served"]]


class Served:
    """A running server, its client and its model."""

    def __init__(self, baton: Baton, client: Client, model: ScriptedModel) -> None:
        self.baton, self.client, self.model = baton, client, model


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Start servers: `await serve(reply, reply, …, **settings)`; all of a test share one store file."""
    stack = AsyncExitStack()

    async def start(*script: Reply | Callable[[ModelRequest], Reply], **settings: Any) -> Served:
        await stack.aclose()  # a file is of one server at a time: a second start is a restart
        given: Any = script[0] if len(script) == 1 and callable(script[0]) else script
        model = ScriptedModel(given)
        baton = await stack.enter_async_context(server(tmp_path, model, **settings))
        client = await stack.enter_async_context(client_of(baton))
        return Served(baton, client, model)

    yield start
    await stack.aclose()


@pytest.fixture
async def noting(serve: Serve, request: pytest.FixtureRequest) -> AsyncIterator[Serve]:
    """Serve a script to a client that notes what it sends; at the end the test has sent what it declared."""
    noted = Noted()

    async def start(*script: Reply | Callable[[ModelRequest], Reply], **settings: Any) -> Served:
        served = await serve(*script, **settings)
        served.client = NotingClient(served.client, noted)
        return served

    yield start
    assert DECLARED[request.function.__name__] - noted.fields == set(), "declared, but not sent"
