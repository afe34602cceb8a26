"""Tools that run at the model's provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from baton.errors import UserError
from baton.options import options
from baton.v1 import agent_pb2


@options
@dataclass(frozen=True)
class HostedTool:
    """A tool that runs at the model's provider, such as web search.

    `tool`: as the model's API writes it: `HostedTool({"type": "web_search"})`. It is passed on unread.
    """

    tool: Mapping[str, Any]

    def __post_init__(self) -> None:
        given: object = self.tool
        if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
            raise UserError(f'a HostedTool is a dict with a "type", as the model\'s API writes it, not {self.tool!r}')
        try:
            json.dumps(self.tool, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"the HostedTool {self.tool['type']!r} has no JSON form: {error}") from error

    @property
    def name(self) -> str:
        """Say its type."""
        kind: str = self.tool["type"]
        return kind

    def to_pb(self) -> agent_pb2.HostedTool:
        """Write `baton.v1.HostedTool`."""
        return agent_pb2.HostedTool(tool_json=json.dumps(self.tool, ensure_ascii=False, separators=(",", ":")))


@options
@dataclass(frozen=True)
class ToolSearchTool:
    """Lets the model find the functions of its agent whose loading is deferred: `function_tool(defer_loading=True)`.

    The search is the model's API's own. At most one per agent.
    """

    @property
    def name(self) -> str:
        """Say its type."""
        return "tool_search"
