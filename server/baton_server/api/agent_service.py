"""AgentService: kept agents."""

from __future__ import annotations

from collections.abc import Sequence

from baton.v1 import agent_pb2
from baton_server.api.pages import page_of, token_after, wrong_token
from baton_server.api.reading import digest_fields
from baton_server.api.rpc import Context, Rpc, body_digest
from baton_server.app.agents import Agents, KeptAgent
from baton_server.app.requests import Request
from baton_server.ports.store import Page
from baton_server.wire import check
from baton_server.wire.agents import read_agent
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES, close_page
from baton_server.wire.views import write_agent_revision

Write = agent_pb2.CreateAgentRequest | agent_pb2.UpdateAgentRequest | agent_pb2.DeleteAgentRequest


class AgentService:
    """Keeps agents for reuse."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {
            "CreateAgent": Rpc(request=agent_pb2.CreateAgentRequest, unary=self.create),
            "GetAgent": Rpc(request=agent_pb2.GetAgentRequest, unary=self.get),
            "ListAgents": Rpc(request=agent_pb2.ListAgentsRequest, unary=self.list),
            "ListAgentRevisions": Rpc(request=agent_pb2.ListAgentRevisionsRequest, unary=self.list_revisions),
            "UpdateAgent": Rpc(request=agent_pb2.UpdateAgentRequest, unary=self.update),
            "DeleteAgent": Rpc(request=agent_pb2.DeleteAgentRequest, unary=self.delete),
        }

    async def create(self, request: agent_pb2.CreateAgentRequest, _: Context) -> agent_pb2.CreateAgentResponse:
        """Keep an agent as revision 1."""
        check.check_create_agent(request)
        kept = await self._agents.create(
            _request("CreateAgent", request), read_agent(request.agent), dict(request.metadata)
        )
        return agent_pb2.CreateAgentResponse(revision=_write(kept))

    async def get(self, request: agent_pb2.GetAgentRequest, _: Context) -> agent_pb2.GetAgentResponse:
        """Read one revision."""
        check.check_get_agent(request)
        revision = request.revision if request.HasField("revision") else None
        return agent_pb2.GetAgentResponse(revision=_write(await self._agents.get(request.agent_id, revision)))

    async def list(self, request: agent_pb2.ListAgentsRequest, _: Context) -> agent_pb2.ListAgentsResponse:
        """List the newest revision of every agent."""
        check.check_list_agents(request)
        page = page_of(request)
        kept = await self._agents.newest(Page(size=page.size + 1, after=page.after))
        revisions, left = _page(kept, page.size)
        after = revisions[-1].agent_id if left else ""
        return agent_pb2.ListAgentsResponse(revisions=revisions, next_page_token=token_after(request, after))

    async def list_revisions(
        self, request: agent_pb2.ListAgentRevisionsRequest, _: Context
    ) -> agent_pb2.ListAgentRevisionsResponse:
        """List the revisions of one agent."""
        check.check_list_agent_revisions(request)
        page = page_of(request)
        if page.after and not page.after.isdecimal():
            raise wrong_token(request.page_token)
        kept = await self._agents.revisions(request.agent_id, Page(size=page.size + 1, after=page.after))
        revisions, left = _page(kept, page.size)
        after = str(revisions[-1].revision) if left else ""
        return agent_pb2.ListAgentRevisionsResponse(revisions=revisions, next_page_token=token_after(request, after))

    async def update(self, request: agent_pb2.UpdateAgentRequest, _: Context) -> agent_pb2.UpdateAgentResponse:
        """Make a new revision."""
        check.check_update_agent(request)
        expected = request.expected_revision if request.HasField("expected_revision") else None
        kept = await self._agents.update(
            _request("UpdateAgent", request),
            request.agent_id,
            read_agent(request.agent),
            dict(request.metadata),
            expected,
        )
        return agent_pb2.UpdateAgentResponse(revision=_write(kept))

    async def delete(self, request: agent_pb2.DeleteAgentRequest, _: Context) -> agent_pb2.DeleteAgentResponse:
        """Remove all revisions."""
        check.check_delete_agent(request)
        await self._agents.delete(_request("DeleteAgent", request), request.agent_id)
        return agent_pb2.DeleteAgentResponse()


def _request(rpc: str, request: Write) -> Request:
    return Request(
        rpc=rpc,
        session_id="",
        request_id=request.request_id,
        digest=body_digest(request, digest_fields(request)),
    )


def _write(kept: KeptAgent) -> agent_pb2.AgentRevision:
    return write_agent_revision(kept.row, kept.agent)


def _page(kept: Sequence[KeptAgent], size: int) -> tuple[list[agent_pb2.AgentRevision], bool]:
    """Take what one answer holds; the flag tells whether there is more."""
    page = close_page((_write(one) for one in kept[:size]), DEFAULT_MESSAGE_BYTES)
    return page, len(kept) > len(page)
