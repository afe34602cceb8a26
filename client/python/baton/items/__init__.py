"""What runs are made of, as users see it: items, outputs, replies, usage. The Agents SDK has its items here too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.items.item_helpers import ItemHelpers
from baton.items.model_response import ModelResponse
from baton.items.responses import TResponseInputItem
from baton.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPListToolsItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    ToolSearchCallItem,
    ToolSearchOutputItem,
)

__all__ = [
    "HandoffCallItem",
    "HandoffOutputItem",
    "ItemHelpers",
    "MCPApprovalRequestItem",
    "MCPListToolsItem",
    "MessageOutputItem",
    "ModelResponse",
    "ReasoningItem",
    "RunItem",
    "TResponseInputItem",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallOutputItem",
    "ToolSearchCallItem",
    "ToolSearchOutputItem",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
