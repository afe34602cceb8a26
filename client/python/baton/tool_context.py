"""The context of a call, where the Agents SDK has it: `from agents.tool_context import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.context.call_context import ToolContext

__all__ = ["ToolContext"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
