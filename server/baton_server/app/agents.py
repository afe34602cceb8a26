"""Kept agents: revisions of agents for reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baton_server.app.requests import Request, once
from baton_server.app.runtime import Runtime
from baton_server.core.agents import Agent
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.ports.store import AgentRow, Batch, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAgent:
    """One revision, and the agent that it holds."""

    row: AgentRow
    agent: Agent


class Agents:
    """The use cases of AgentService."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def create(self, request: Request, agent: Agent, metadata: Mapping[str, str]) -> KeptAgent:
        """Keep an agent as revision 1."""

        async def attempt() -> KeptAgent:
            return await self._write(request, self._runtime.ids.new("agent"), 1, agent, metadata)

        return await once(self._runtime, request, attempt, self._again)

    async def update(
        self,
        request: Request,
        agent_id: str,
        agent: Agent,
        metadata: Mapping[str, str],
        expected: int | None,
    ) -> KeptAgent:
        """Make a new revision. Raises Refused(AGENT_NOT_FOUND, REVISION_CONFLICT)."""

        async def attempt() -> KeptAgent:
            newest = await self._row(agent_id, None)
            if expected is not None and expected != newest.revision:
                raise refuse(
                    Reason.REVISION_CONFLICT,
                    f"The agent {agent_id} is at revision {newest.revision}, not {expected}. Read it again, "
                    "and update what you find.",
                    revision=str(newest.revision),
                )
            return await self._write(request, agent_id, newest.revision + 1, agent, metadata)

        return await once(self._runtime, request, attempt, self._again)

    async def delete(self, request: Request, agent_id: str) -> None:
        """Remove all revisions. Raises Refused(AGENT_NOT_FOUND)."""

        async def attempt() -> None:
            await self._row(agent_id, None)
            await self._runtime.store.commit(Batch(request=request.row(), agent_deleted=agent_id))

        async def again(_: Mapping[str, Any]) -> None:
            return None

        await once(self._runtime, request, attempt, again)

    async def get(self, agent_id: str, revision: int | None = None) -> KeptAgent:
        """Read a revision, None: the newest. Raises Refused(AGENT_NOT_FOUND)."""
        return await self._kept(await self._row(agent_id, revision))

    async def newest(self, page: Page) -> Sequence[KeptAgent]:
        """List the newest revision of every agent, newest agent first."""
        return [await self._kept(row) for row in await self._runtime.store.agents.newest(page)]

    async def revisions(self, agent_id: str, page: Page) -> Sequence[KeptAgent]:
        """List the revisions of an agent, newest first. Raises Refused(AGENT_NOT_FOUND)."""
        await self._row(agent_id, None)
        return [await self._kept(row) for row in await self._runtime.store.agents.revisions(agent_id, page)]

    async def _write(
        self, request: Request, agent_id: str, revision: int, agent: Agent, metadata: Mapping[str, str]
    ) -> KeptAgent:
        digest, data = self._runtime.codec.agent(agent)
        row = AgentRow(agent_id=agent_id, revision=revision, digest=digest, metadata=metadata)
        await self._runtime.store.commit(
            Batch(
                request=request.row(agent_id=agent_id, revision=revision),
                agent=row,
                documents={digest: data},
            )
        )
        return await self.get(agent_id, revision)

    async def _again(self, answer: Mapping[str, Any]) -> KeptAgent:
        return await self.get(answer["agent_id"], answer["revision"])

    async def _row(self, agent_id: str, revision: int | None) -> AgentRow:
        row = await self._runtime.store.agents.get(agent_id, revision)
        if row is None:
            raise agent_not_found(agent_id, revision)
        return row

    async def _kept(self, row: AgentRow) -> KeptAgent:
        return KeptAgent(row=row, agent=await self._runtime.agent(row.digest))


def agent_not_found(agent_id: str, revision: int | None) -> Refused:
    """Say that there is no such agent or revision."""
    if revision is None:
        return refuse(Reason.AGENT_NOT_FOUND, f"There is no agent {agent_id!r}.", agent_id=agent_id)
    return refuse(
        Reason.AGENT_NOT_FOUND,
        f"There is no revision {revision} of the agent {agent_id!r}.",
        agent_id=agent_id,
        revision=str(revision),
    )
