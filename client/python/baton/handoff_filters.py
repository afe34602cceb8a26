"""Filters of what the receiver of a handoff sees, ready to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from baton.agents.handoff_data import HandoffInputData

_OF_MESSAGES = frozenset({"message_output_item"})
"""Types of run items that are no tool's."""

_TOOL_TYPES = frozenset(
    f"{tool}_{part}"
    for tool in ("function", "computer", "local_shell", "shell", "apply_patch", "custom_tool")
    for part in ("call", "call_output")
) | {
    "reasoning",
    "file_search_call",
    "web_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "tool_search_call",
    "tool_search_output",
}
"""Types of Responses API items that belong to tools, and the reasoning that leads to them."""


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """Leave out every call and output of a tool, and every handoff.

    Given as a filter itself, it is data: the server does it, and asks nobody.
    """
    data = handoff_input_data
    history = data.input_history
    return data.clone(
        input_history=history if isinstance(history, str) else _kept(history),
        pre_handoff_items=_messages(data.pre_handoff_items),
        new_items=_messages(data.new_items),
        input_items=None if data.input_items is None else _messages(data.input_items),
    )


def _kept(items: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(item for item in items if item.get("type") not in _TOOL_TYPES)


def _messages(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(item for item in items if getattr(item, "type", "message_output_item") in _OF_MESSAGES)
