"""Finds what a person names on the command line: sessions by id or key, agents by id or name."""

from __future__ import annotations

from collections.abc import Sequence

from baton import Client, NotFoundError
from baton.v1 import agent_pb2, session_pb2
from baton_server.cli.calling import WrongUsage

SESSION_PREFIX, AGENT_PREFIX = "sess_", "agent_"


async def find_session(client: Client, name: str) -> session_pb2.Session:
    """Find a session by its id or its key. Raises NotFoundError, WrongUsage."""
    if not name:
        raise WrongUsage("SESSION is empty; give an id (sess_…) or a key")
    if name.startswith(SESSION_PREFIX):
        try:
            return await client.get_session(name)
        except NotFoundError:
            pass  # keys are chosen by applications: one may look like an id
    try:
        return await client.get_session(key=name)
    except NotFoundError:
        raise NotFoundError(f"no session has the id or the key {name!r}; see baton sessions list") from None


async def find_agent(client: Client, name: str) -> agent_pb2.AgentRevision:
    """Find a kept agent, at its newest revision, by its id or by a name that no other has.

    Raises NotFoundError, WrongUsage.
    """
    if not name:
        raise WrongUsage("AGENT is empty; give an id (agent_…) or a name")
    if name.startswith(AGENT_PREFIX):
        try:
            return await client.get_agent(name)
        except NotFoundError:
            pass  # as above
    found = await agents_named(client, name)
    if not found:
        raise NotFoundError(f"no kept agent has the id or the name {name!r}; see baton agents list")
    if len(found) > 1:
        raise WrongUsage(f"{len(found)} agents have the name {name!r}, say which: {ids_of(found)}")
    return found[0]


async def agents_named(client: Client, name: str) -> list[agent_pb2.AgentRevision]:
    """List the kept agents of a name, newest first."""
    return [kept async for kept in client.list_agents() if kept.agent.name == name]


def ids_of(agents: Sequence[agent_pb2.AgentRevision]) -> str:
    """List ids for a message."""
    return ", ".join(kept.agent_id for kept in agents)
