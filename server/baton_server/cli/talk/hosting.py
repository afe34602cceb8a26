"""Hosts functions in this process, for the turns of one command and no others."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass, fields, replace
from typing import Any, TextIO

from baton import FunctionTool, UserError, Worker
from baton.agents.tool_writing import tool_to_pb
from baton.server.connection import connection_for
from baton.v1 import agent_pb2, event_pb2, session_pb2
from baton_server.cli.calling import WrongUsage
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.loading import WrongTarget, load_tools
from baton_server.cli.terminal import fail

MAX_SCOPES = 8
"""Scopes of a turn (run_config.proto, RunConfig.scopes)."""

NOT_SERVED = (
    event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION,
    event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN,
)
"""States of calls that wait for people, whoever serves them."""

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

    def serves_all(self, actions: Sequence[event_pb2.RequiredAction]) -> bool:
        """Tell whether a turn waits for functions of this process alone, which were away for a moment."""
        return bool(actions) and all(one.state not in NOT_SERVED and one.name in self.names for one in actions)

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
        worker.add(_executed(tool))
    await connection_for().first_contact(worker.start(), lambda: worker.trouble)
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


def _executed(tool: FunctionTool) -> FunctionTool:
    """Leave out what a function says of how an agent has it, such as that it must be allowed: the agent says it."""
    said = set(tool.of_agents())
    unsaid: dict[str, Any] = {one.name: one.default for one in fields(tool) if one.name in said}
    return replace(tool, **unsaid)


def with_functions(agent: agent_pb2.Agent, tools: Sequence[FunctionTool]) -> agent_pb2.Agent:
    """Let an agent call functions that no agent of its graph has; one that lacks none is given back as it is.

    Raises WrongUsage for one that says how an agent has it, where an agent has it otherwise.
    """
    known = {tool.function.name for one in (agent, *agent.agents) for tool in one.tools}
    for tool in tools:
        said = tool.of_agents() if tool.name in known else ()
        if said:
            raise WrongUsage(
                f"{tool.name} says {', '.join(said)}, but {agent.name} has a function {tool.name} of its own, which "
                "does not; say it there, or leave the function out of the agent"
            )
    missing = [tool for tool in tools if tool.name not in known]
    if not missing:
        return agent
    made = agent_pb2.Agent()
    made.CopyFrom(agent)
    made.tools.extend(agent_pb2.Tool(function=tool_to_pb(tool)) for tool in missing)
    return made
