"""What an agent offers to call, as the demo model sees it: functions, agents and handoffs by their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from baton_server.core.agents import Handoff
from baton_server.core.tools import AgentTool, FunctionTool, Tool
from baton_server.model.demo.words import stems, telling

_OF_EVERY_AGENT = stems("agent assistant bot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One thing to call. `parameters_json` empty: one text, `input`, if it is an agent."""

    name: str
    description: str
    parameters_json: str
    is_agent: bool = False


def offers_of(tools: Sequence[Tool]) -> tuple[Offer, ...]:
    """List what may be called among tools. Hosted ones are not: nothing here runs them."""
    return tuple(_offer(tool) for tool in tools if isinstance(tool, FunctionTool | AgentTool))


def handoff_named(handoffs: Sequence[Handoff], asked: str) -> Handoff | None:
    """Find the first handoff whose agent a message names, by all words of its name that tell it from others."""
    words = stems(asked)
    for handoff in handoffs:
        own = telling(stems(handoff.agent)) - _OF_EVERY_AGENT
        if own and own <= words:
            return handoff
    return None


def handoff_offer(handoff: Handoff) -> Offer:
    """See a handoff as something to call."""
    return Offer(name=handoff.name, description=handoff.description, parameters_json=handoff.input_schema_json)


def _offer(tool: FunctionTool | AgentTool) -> Offer:
    return Offer(
        name=tool.name,
        description=tool.description,
        parameters_json=tool.parameters_json,
        is_agent=isinstance(tool, AgentTool),
    )
