"""What an agent has in a round: its tools and handoffs, without those that are switched off at the moment."""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.agents import Agent, Handoff
from baton_server.core.hooks import names
from baton_server.core.hooks.answers import read_flag
from baton_server.core.run import Run
from baton_server.core.tools import AgentTool, Enabled, FunctionTool, Tool

Named = FunctionTool | AgentTool | Handoff
"""What a model can mean by a name."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a round's request offers: tools and handoffs, each in order."""

    tools: tuple[Tool, ...]
    handoffs: tuple[Handoff, ...]


def find(turn_id: str, run: Run, agent: Agent, name: str) -> Named | None:
    """Find what the model means by a name: of several the last one, a handoff before all tools. None: nothing."""
    at = position(turn_id, run, agent, name)
    found = everything_of(agent)[at] if at >= 0 else None
    return found if isinstance(found, Named) else None


def position(turn_id: str, run: Run, agent: Agent, name: str) -> int:
    """Find where among all that an agent may have that stands which the model means by a name; -1: nowhere."""
    everything = everything_of(agent)
    for at in range(len(everything) - 1, -1, -1):
        one = everything[at]
        if isinstance(one, Named) and one.name == name and _is_there(turn_id, run, at, one):
            return at
    return -1


def offer(turn_id: str, run: Run, agent: Agent) -> Offer:
    """Say what the agent has in the round that comes. Of several of one name the last counts."""
    by_name: dict[str, Tool | Handoff] = {}
    for at, one in enumerate(everything_of(agent)):
        if _is_there(turn_id, run, at, one):
            name = one.name if isinstance(one, Named) else f"\n{at}"  # no name has a line break
            by_name.pop(name, None)
            by_name[name] = one
    if len(by_name) == len(agent.tools) + len(agent.handoffs):
        return Offer(agent.tools, agent.handoffs)
    left = by_name.values()
    tools = tuple(one for one in left if not isinstance(one, Handoff))
    return Offer(tools, tuple(one for one in left if isinstance(one, Handoff)))


def collision(agent: Agent) -> str:
    """Find a name that two tools of an agent have; empty: there is none."""
    seen: set[str] = set()
    for one in everything_of(agent):
        if isinstance(one, Named):
            if one.name in seen:
                return one.name
            seen.add(one.name)
    return ""


def everything_of(agent: Agent) -> tuple[Tool | Handoff, ...]:
    """List all that an agent may have, switched on or off, in the order in which questions about it are numbered."""
    return (*agent.tools, *agent.handoffs)


def enabled(one: Tool | Handoff) -> Enabled | None:
    """Say what decides whether something is there; None: it always is."""
    return one.enabled if isinstance(one, Named) else None


def enabled_id(turn_id: str, run: Run, position: int) -> str:
    """Name the question whether what stands at a position is there in the round that comes."""
    return names.round_id(turn_id, run.mark, "t", run.round, position)


def _is_there(turn_id: str, run: Run, position: int, one: Tool | Handoff) -> bool:
    said = enabled(one)
    if said is None or said.hook is None:
        return said is None or said.always
    answer = run.answer(enabled_id(turn_id, run, position))
    return answer is not None and bool(answer.answer_json) and read_flag("enabled", answer.answer_json)
