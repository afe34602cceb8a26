"""Commands against a server in this process, as a test types them; and what such a test needs around them.

    async with House.opened(tmp_path, calls(("get_time", "{}"))) as house:
        waiting = await house.waiting("get_time")
        ran = await house.baton("answer", waiting.session_id, "get_time", "--output", "18:00")

A command runs in a thread, with an event loop of its own, where nobody types: standard input is what the test gives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.server import server
from typer.testing import CliRunner

from baton import Agent, Client, RemoteFunction, close_connections, set_default_address
from baton.v1 import event_pb2, session_pb2
from baton_server.cli.app import app
from baton_server.main import Baton

PATIENCE_S = 30.0
"""How long a test waits for what must come."""

ANY_OBJECT = {"type": "object"}
"""Parameters that let any arguments pass."""

NOBODY = "127.0.0.1:1"
"""An address at which nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its results."""
        return self.out.splitlines()


async def baton(*arguments: str, given: str | bytes = "", code: int = 0, **environment: str) -> Ran:
    """Run a command to its end, which must be of this exit code. `given`: standard input."""
    ran = await asyncio.to_thread(_run, arguments, given, environment)
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    return ran


def _run(arguments: tuple[str, ...], given: str | bytes, environment: dict[str, str]) -> Ran:
    variables = {"COLUMNS": "80", "TERM": "dumb", "BATON_ADDRESS": "", **environment}
    with _undone():
        result = CliRunner().invoke(app, list(arguments), input=given, env=variables)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(code=result.exit_code, out=result.stdout, err=result.stderr)


@contextmanager
def _undone() -> Iterator[None]:
    """Undo what a command changes in its process, which is this one here."""
    logger = logging.getLogger("baton")
    level = logger.level
    try:
        yield
    finally:
        logger.setLevel(level)
        set_default_address(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A session whose turn waits for calls."""

    session_id: str
    turn_id: str
    calls: tuple[str, ...]

    @property
    def call(self) -> str:
        """The one call."""
        (call,) = self.calls
        return call


class House:
    """A server with a scripted model, a client of it, and its commands."""

    def __init__(self, server_: Baton, model: ScriptedModel) -> None:
        self.server, self.model = server_, model
        self.client = Client(server_.address)

    @staticmethod
    @asynccontextmanager
    async def opened(folder: Path, *replies: Reply, **settings: Any) -> AsyncIterator[House]:
        """Run a house whose model gives these replies."""
        model = ScriptedModel(replies)
        async with server(folder, model, **settings) as running:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    yield House(running, model)
            finally:
                await close_connections()

    async def baton(self, *arguments: str, given: str | bytes = "", code: int = 0) -> Ran:
        """Run a command that finds this server in its environment."""
        return await baton(*arguments, given=given, code=code, BATON_ADDRESS=self.server.address)

    async def session(self, *names: str, **given: Any) -> session_pb2.Session:
        """Make a session whose agent has functions of these names, which take anything."""
        tools = [RemoteFunction(name, params_json_schema=ANY_OBJECT) for name in names]
        return await self.client.create_session(agent=Agent(name="Assistant", tools=tools), **given)

    async def waiting(self, *names: str, text: str = "Go.", **given: Any) -> Waiting:
        """Start a turn in a new session, and wait until calls of it are open. `given`: of the session."""
        session = await self.session(*names, **given)
        turn_id = (await self.client.submit(session.session_id, text)).turn_id
        await self.until(session.session_id, "session_requires_action")
        opened = (await self.client.get_session(session.session_id)).required_actions
        return Waiting(session_id=session.session_id, turn_id=turn_id, calls=tuple(action.call_id for action in opened))

    async def until(self, session_id: str, arm: str) -> list[event_pb2.Event]:
        """Wait for an event of a session; returns all up to it."""
        found: list[event_pb2.Event] = []
        async for part in self.client.watch(session_id, follow_until=session_pb2.FOLLOW_FOREVER):
            if part.HasField("event"):
                found.append(part.event)
                if part.event.WhichOneof("event") == arm:
                    return found
        raise AssertionError(f"the watch ended; there was no {arm}")
