"""Run items of raw ones, as hooks are told them. Which item is a handoff follows from the names of the tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from baton.items.responses import RawItem
from baton.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolCallItem,
    ToolCallOutputItem,
    hosted_class,
)

if TYPE_CHECKING:
    from baton.agents.agent import Agent


def run_items_of(
    raw_items: Iterable[Mapping[str, Any]], agent: Agent[Any], handoffs: Mapping[str, Agent[Any]]
) -> list[RunItem]:
    """Make run items. `agent`: whose they are. `handoffs`: who receives, by the tool's name.

    Messages of users stay messages: what hooks are told was made by the run, but for input that joined it.
    """
    receivers: dict[str, Agent[Any]] = {}
    return [_run_item(RawItem(raw), agent, handoffs, receivers) for raw in raw_items]


def _run_item(
    raw: RawItem, agent: Agent[Any], handoffs: Mapping[str, Agent[Any]], receivers: dict[str, Agent[Any]]
) -> RunItem:
    kind, call_id = raw.get("type", "message"), str(raw.get("call_id", ""))
    match kind:
        case "message":
            return MessageOutputItem(agent=agent, raw_item=raw)
        case "reasoning":
            return ReasoningItem(agent=agent, raw_item=raw)
        case "function_call" if raw.get("name") in handoffs:
            receivers[call_id] = handoffs[str(raw.get("name"))]
            return HandoffCallItem(agent=agent, raw_item=raw)
        case "function_call_output" if call_id in receivers:
            return HandoffOutputItem(agent=agent, raw_item=raw, source_agent=agent, target_agent=receivers[call_id])
        case "function_call_output":
            return ToolCallOutputItem(agent=agent, raw_item=raw, output=raw.get("output"))
        case "function_call":
            return ToolCallItem(agent=agent, raw_item=raw)
        case _:
            return hosted_class(str(kind))(agent=agent, raw_item=raw)
