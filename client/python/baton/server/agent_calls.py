"""The calls of AgentService: agents that the server keeps for reuse."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from baton.agents.agent import Agent, agent_to_pb
from baton.own_words import in_own_words
from baton.server.connection import Connection, connection_for
from baton.server.paging import pages
from baton.v1 import agent_pb2

AnyAgent = Agent[Any] | agent_pb2.Agent
"""An agent as a program writes it, or as the contract does."""


class AgentCalls:
    """Keeps agents. A part of `Client`, whose docstring says what holds for all calls."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address

    @property
    def _connection(self) -> Connection:
        return connection_for(self._address)

    async def create_agent(
        self, agent: AnyAgent, *, metadata: Mapping[str, str] | None = None
    ) -> agent_pb2.AgentRevision:
        """Keep an agent as revision 1. Names need not be unique: each call makes another agent."""
        request = agent_pb2.CreateAgentRequest(
            request_id=uuid.uuid4().hex, agent=written_agent(agent), metadata=metadata
        )
        with words_of(agent):
            answer = await self._connection.unary(self._connection.agents.CreateAgent, request)
        return answer.revision

    async def get_agent(self, agent_id: str, revision: int | None = None) -> agent_pb2.AgentRevision:
        """Read a kept agent. `revision` None: the newest."""
        request = agent_pb2.GetAgentRequest(agent_id=agent_id, revision=revision)
        answer = await self._connection.unary(self._connection.agents.GetAgent, request)
        return answer.revision

    async def list_agents(self) -> AsyncIterator[agent_pb2.AgentRevision]:
        """List the newest revision of every kept agent, newest agent first, page by page."""
        async for page in pages(self._connection, self._connection.agents.ListAgents, agent_pb2.ListAgentsRequest()):
            for revision in page.revisions:
                yield revision

    async def list_agent_revisions(self, agent_id: str) -> AsyncIterator[agent_pb2.AgentRevision]:
        """List the revisions of a kept agent, newest first, page by page."""
        request = agent_pb2.ListAgentRevisionsRequest(agent_id=agent_id)
        async for page in pages(self._connection, self._connection.agents.ListAgentRevisions, request):
            for revision in page.revisions:
                yield revision

    async def update_agent(
        self,
        agent_id: str,
        agent: AnyAgent,
        *,
        expected_revision: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> agent_pb2.AgentRevision:
        """Make a new revision, which replaces agent and labels whole; who pinned an older one keeps it.

        `expected_revision`: the one that the new one was made from; if it is not the newest any more, a StateError
        of the reason REVISION_CONFLICT is raised. None: whatever is the newest. `metadata` None: no labels.
        """
        request = agent_pb2.UpdateAgentRequest(
            request_id=uuid.uuid4().hex,
            agent_id=agent_id,
            agent=written_agent(agent),
            expected_revision=expected_revision,
            metadata=metadata,
        )
        with words_of(agent):
            answer = await self._connection.unary(self._connection.agents.UpdateAgent, request)
        return answer.revision

    async def delete_agent(self, agent_id: str) -> None:
        """Remove a kept agent with all its revisions; who pinned one keeps it."""
        request = agent_pb2.DeleteAgentRequest(request_id=uuid.uuid4().hex, agent_id=agent_id)
        await self._connection.unary(self._connection.agents.DeleteAgent, request)


def words_of(agent: object) -> AbstractContextManager[None]:
    """Say what is wrong with a request that brings an agent as whoever wrote that: of `baton.v1` as that says it."""
    if not isinstance(agent, Agent):
        return nullcontext()
    made = agent_to_pb(agent)
    return in_own_words([made.name, *(other.name for other in made.agents)])


def written_agent(agent: AnyAgent) -> agent_pb2.Agent:
    """Write an agent as the contract does."""
    return agent if isinstance(agent, agent_pb2.Agent) else agent_to_pb(agent)
