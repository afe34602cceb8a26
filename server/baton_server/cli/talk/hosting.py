"""Hosts functions in this process, for the turns of one command and no others."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TextIO

from baton import FunctionTool, UserError, Worker
from baton.connection import connection_for
from baton.tools import tool_to_pb
from baton.v1 import agent_pb2, session_pb2
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.loading import WrongTarget, load_tools
from baton_server.cli.terminal import fail

MAX_SCOPES = 8
"""Scopes of a turn (run_config.proto, RunConfig.scopes)."""

DRAIN_S = 2.0
"""How long functions may run on when the command ends. Nobody waits for what they give any more."""


def functions_of(targets: Sequence[str]) -> list[FunctionTool]:
    """Load the functions that `--host` names. Ends the command where that cannot be done."""
    found: dict[str, FunctionTool] = {}
    for target in targets:
        try:
            tools = load_tools(target)
        except WrongTarget as error:
            fail(ExitCode.USAGE, str(error))
        for tool in tools:
            if found.setdefault(tool.name, tool) is not tool:
                fail(ExitCode.USAGE, f"--host gives two functions named {tool.name!r}; leave one out")
    return list(found.values())


def scopes_of(session: session_pb2.Session | None) -> tuple[str, ...]:
    """Say where a session's turns look for functions by themselves."""
    if session is None:
        return ()
    return tuple(session.run_config.scopes or session.scopes)


def scope_for(session: session_pb2.Session | None) -> str:
    """Name the scope of a command's own functions.

    It is the session's own, so that a command that comes later serves what an earlier one left open. None: one
    that nobody else knows.
    """
    return f"baton-cli-{session.session_id if session is not None else uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """What a command hosts. `scopes`: in which its turns look; empty where it hosts nothing: the session says it."""

    scopes: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    worker: Worker | None = None

    async def attached(self) -> None:
        """Wait until the functions are served, or are again. Raises what ended that for good."""
        if self.worker is not None:
            await self.worker.wait_attached()


@asynccontextmanager
async def hosted(tools: Sequence[FunctionTool], session: session_pb2.Session | None) -> AsyncIterator[Hosting]:
    """Serve functions as long as the block runs.

    Raises what `Worker.start` raises, and BatonConnectionError where no server answers.
    """
    if not tools:
        yield Hosting()
        return
    others = scopes_of(session)
    if len(others) >= MAX_SCOPES:
        raise UserError(f"the session has {len(others)} scopes, which is the most; --host would need one more")
    scope = scope_for(session)
    worker = Worker(scopes=(scope,))
    for tool in tools:
        worker.add(tool)
    await connection_for().first_contact(worker.start())
    try:
        scopes = (scope, *(other for other in others if other != scope))
        yield Hosting(scopes=scopes, names=frozenset(tool.name for tool in tools), worker=worker)
    finally:
        await worker.stop(DRAIN_S)


@contextmanager
def results_apart(live: bool) -> Iterator[TextIO]:
    """Give the standard output for results, and keep off it what functions of this process print.

    Unless somebody looks on (`live`), a program reads it: then they print to standard error.
    """
    results = sys.stdout
    with redirect_stdout(results if live else sys.stderr):
        yield results


def with_functions(agent: agent_pb2.Agent, tools: Sequence[FunctionTool]) -> agent_pb2.Agent:
    """Let an agent call functions that it does not have; one that has them all is given back as it is."""
    known = {tool.function.name for tool in agent.tools}
    missing = [tool for tool in tools if tool.name not in known]
    if not missing:
        return agent
    made = agent_pb2.Agent()
    made.CopyFrom(agent)
    made.tools.extend(agent_pb2.Tool(function=tool_to_pb(tool)) for tool in missing)
    return made
