"""Who answers: an agent in a file, a kept one, the session's own; with the functions of this process besides."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baton import Client, FunctionTool, NotFoundError
from baton.v1 import agent_pb2, runner_pb2, session_pb2
from baton_server.cli.exits import ExitCode
from baton_server.cli.given.agent_file import WrongAgentFile, read_agent_file
from baton_server.cli.given.completing import AGENT_FILES
from baton_server.cli.given.naming import find_agent
from baton_server.cli.talk.hosting import with_functions
from baton_server.cli.terminal import fail

AGENT_HELP = "A file (YAML or JSON), or the id or name of a kept agent."


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the command line says of the agent. `inline`: from a file; `name`: of a kept one; neither: nothing."""

    inline: agent_pb2.Agent | None = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Who answers. `agent`: as it is known here, None: nobody; `ref`: of a kept one; `own`: it is the session's."""

    agent: agent_pb2.Agent | None = None
    ref: agent_pb2.AgentRef | None = None
    own: bool = False

    @property
    def source(self) -> agent_pb2.Agent | agent_pb2.AgentRef | None:
        """Say it as a request does: by reference where there is one, not at all where the session says it."""
        return None if self.own else self.ref or self.agent

    def with_functions(self, tools: Sequence[FunctionTool]) -> Chosen:
        """Add functions that the agent lacks; then it is no kept one any more, but a relative of it."""
        if self.agent is None:
            return self
        made = with_functions(self.agent, tools)
        return self if made is self.agent else Chosen(agent=made)


def given_agent(word: str | None) -> Given:
    """Read what stands for the agent. Ends the command where it is a file that cannot be read."""
    if not word:
        return Given()
    path = Path(word)
    if path.suffix == ".py":
        fail(
            ExitCode.USAGE,
            f"{word} is a Python program; run it by python {word}. Here an agent is a file (YAML or JSON) or a kept "
            "one, and --host adds the functions of a module",
        )
    if not (path.is_file() or word.endswith(AGENT_FILES) or os.sep in word):
        return Given(name=word)
    try:
        return Given(inline=read_agent_file(path))
    except WrongAgentFile as error:
        fail(ExitCode.USAGE, *error.args)


async def choose_agent(client: Client, given: Given, session: session_pb2.Session | None) -> Chosen:
    """Find who answers. Raises NotFoundError for a kept agent that is not there."""
    if given.inline is not None:
        return Chosen(agent=given.inline)
    if given.name:
        try:
            revision = await find_agent(client, given.name)
        except NotFoundError as error:
            raise NotFoundError(f"there is no file {given.name}, and {error}") from None
        return Chosen(agent=revision.agent, ref=agent_pb2.AgentRef(agent_id=revision.agent_id))
    if session is not None and session.HasField("agent"):
        return Chosen(agent=session.agent.agent, own=True)
    return Chosen()


def request_for(chosen: Chosen, session: session_pb2.Session | None, text: str) -> runner_pb2.RunRequest:
    """Write the request of a run, with an id under which it can be sent again."""
    request = runner_pb2.RunRequest(request_id=uuid.uuid4().hex, text=text)
    if session is not None:
        request.session_id = session.session_id
    match chosen.source:
        case agent_pb2.AgentRef() as ref:
            request.agent_ref.CopyFrom(ref)
        case agent_pb2.Agent() as agent:
            request.agent.CopyFrom(agent)
        case None:
            pass
    return request
