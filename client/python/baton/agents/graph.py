"""The graph of agents that one agent starts: itself, whom it hands over to, whom it has as tools, and theirs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from baton.agents.agent_tool import AgentTool
from baton.errors import UserError

if TYPE_CHECKING:
    from baton.agents.agent import Agent

MOST_AGENTS = 128
"""Of one graph (agent.proto, Agent.agents)."""


def reachable(agent: Agent[Any]) -> dict[str, Agent[Any]]:
    """List the agents of a graph by name, the one that starts first. Raises UserError for two of one name."""
    found: dict[str, Agent[Any]] = {agent.name: agent}
    waiting = deque([agent])
    while waiting:
        for one in _next(waiting.popleft()):
            known = found.get(one.name)
            if known is None:
                found[one.name] = one
                waiting.append(one)
            elif known is not one:
                raise UserError(
                    f"two agents are named {one.name!r}: within a run a name says which agent it is; rename one of them"
                )
    if len(found) > MOST_AGENTS:
        raise UserError(f"a run has at most {MOST_AGENTS} agents, not {len(found)}")
    return found


def _next(agent: Agent[Any]) -> list[Agent[Any]]:
    used = [tool.agent for tool in agent.tools if isinstance(tool, AgentTool)]
    return [way.agent for way in agent.ways_out()] + used
