"""What a run makes, piece by piece, by the names of the Agents SDK."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from baton.items.responses import RawItem, raw_item
from baton.v1 import event_pb2, item_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemBase:
    """What all of them have. `raw_item`: as the Responses API writes it, under the model's own ids.

    `item_id`: Baton's; empty: of an approval, which is no item of the log.
    """

    agent: Agent[Any]
    raw_item: RawItem
    item_id: str = ""

    @property
    def call_id(self) -> str | None:
        """The model's id of the call that it is about; None: it is about none, or of a provider's tool without one."""
        return self.raw_item.get("call_id")

    def to_input_item(self) -> dict[str, Any]:
        """Write it as input of another run."""
        return copy.deepcopy(dict(self.raw_item))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOutputItem(RunItemBase):
    """A message of the model."""

    type: Literal["message_output_item"] = "message_output_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningItem(RunItemBase):
    """What the model thought, as far as it shows it."""

    type: Literal["reasoning_item"] = "reasoning_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallItem(RunItemBase):
    """The model asks for a function, or used a tool of its provider's."""

    type: Literal["tool_call_item"] = "tool_call_item"

    @property
    def tool_name(self) -> str | None:
        """Name of the function; None: a provider's tool."""
        return self.raw_item.get("name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutputItem(RunItemBase):
    """What came of a call, as the model is told: `output` is a text, or a list of content parts.

    `custom_data`: what the function's extractor made beside it, never shown to the model; None: nothing.
    """

    output: Any
    custom_data: dict[str, Any] | None = None
    type: Literal["tool_call_output_item"] = "tool_call_output_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffCallItem(RunItemBase):
    """The model hands over to another agent, by calling a tool."""

    type: Literal["handoff_call_item"] = "handoff_call_item"

    @property
    def tool_name(self) -> str | None:
        """Name of the tool."""
        return self.raw_item.get("name")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffOutputItem(RunItemBase):
    """The handover has happened."""

    source_agent: Agent[Any]
    target_agent: Agent[Any]
    type: Literal["handoff_output_item"] = "handoff_output_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchCallItem(RunItemBase):
    """The model searches for functions whose loading is deferred."""

    type: Literal["tool_search_call_item"] = "tool_search_call_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearchOutputItem(RunItemBase):
    """What such a search found."""

    type: Literal["tool_search_output_item"] = "tool_search_output_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPListToolsItem(RunItemBase):
    """The tools of an MCP server, as the provider listed them."""

    type: Literal["mcp_list_tools_item"] = "mcp_list_tools_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPApprovalRequestItem(RunItemBase):
    """The provider asks whether it may call a tool of an MCP server."""

    type: Literal["mcp_approval_request_item"] = "mcp_approval_request_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolApprovalItem(RunItemBase):
    """A call waits for a person. Decide by `RunState.approve` or `RunState.reject`.

    `raw_item`: the call. `required_action`: the same as the server tells it, with Baton's ids, what a decision is
    bound to, and until when one can be made.
    """

    required_action: event_pb2.RequiredAction = field(repr=False)  # a page of fields, most of which raw_item shows
    type: Literal["tool_approval_item"] = "tool_approval_item"

    @property
    def tool_name(self) -> str:
        """Name of the function."""
        return self.required_action.name

    name = tool_name

    @property
    def arguments(self) -> str:
        """The model's argument text."""
        text: str = self.raw_item.get("arguments", "")
        return text

    def to_input_item(self) -> dict[str, Any]:
        """Raise TypeError: an approval is no input of a model."""
        raise TypeError(f"the approval of {self.tool_name} is no input item; leave it out")


RunItem = (
    MessageOutputItem
    | ReasoningItem
    | ToolCallItem
    | ToolCallOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | ToolSearchCallItem
    | ToolSearchOutputItem
    | MCPListToolsItem
    | MCPApprovalRequestItem
    | ToolApprovalItem
)

HostedItem = ToolCallItem | ToolSearchCallItem | ToolSearchOutputItem | MCPListToolsItem | MCPApprovalRequestItem

_HOSTED_CLASSES: Mapping[str, type[HostedItem]] = {
    "tool_search_call": ToolSearchCallItem,
    "tool_search_output": ToolSearchOutputItem,
    "mcp_list_tools": MCPListToolsItem,
    "mcp_approval_request": MCPApprovalRequestItem,
}
"""Classes of what a provider's tools leave behind; all others are a ToolCallItem."""


@dataclass(slots=True, kw_only=True)
class Names:
    """By which names items of the wire know things. `agents`: of the run's graph; `start`: stands for unknown ones."""

    start: Agent[Any]
    agents: Mapping[str, Agent[Any]] = field(default_factory=dict)
    model_call_ids: dict[str, str] = field(default_factory=dict)

    def agent(self, name: str) -> Agent[Any]:
        """Find an agent."""
        return self.agents.get(name, self.start)


def hosted_class(kind: str) -> type[HostedItem]:
    """Say of which class an item of a provider's tool is. `kind`: its `type` in the Responses API."""
    return _HOSTED_CLASSES.get(kind, ToolCallItem)


def run_item(item: item_pb2.Item, names: Names) -> RunItem | None:
    """Make the run item of an item that a turn made; None: it is of the log alone, or of a later version."""
    if item.status == item_pb2.ITEM_STATUS_REJECTED:
        return None
    agent, raw, item_id = names.agent(item.agent), raw_item(item, names.model_call_ids), item.item_id
    match item.WhichOneof("item"):
        case "message":
            return MessageOutputItem(agent=agent, raw_item=raw, item_id=item_id)
        case "reasoning":
            return ReasoningItem(agent=agent, raw_item=raw, item_id=item_id)
        case "function_call":
            return ToolCallItem(agent=agent, raw_item=raw, item_id=item_id)
        case "hosted":
            return hosted_class(item.hosted.type)(agent=agent, raw_item=raw, item_id=item_id)
        case "function_call_output":
            text = item.function_call_output.custom_data_json
            data = json.loads(text) if text else None
            return ToolCallOutputItem(
                agent=agent, raw_item=raw, item_id=item_id, output=raw["output"], custom_data=data
            )
        case "handoff_call":
            return HandoffCallItem(agent=agent, raw_item=raw, item_id=item_id)
        case "handoff_output":
            return _handoff_output(item, names, raw)
        case _:
            return None


def approval_item(action: event_pb2.RequiredAction, names: Names, call: RawItem | None = None) -> ToolApprovalItem:
    """Make the item of a call that waits for a decision. `call` None: its item is not at hand."""
    raw = call or RawItem(
        type="function_call",
        call_id=names.model_call_ids.get(action.call_id, action.call_id),
        name=action.name,
        arguments=action.arguments_json,
        status="completed",
    )
    return ToolApprovalItem(agent=names.agent(action.agent), raw_item=raw, required_action=action)


def _handoff_output(item: item_pb2.Item, names: Names, raw: RawItem) -> RunItem:
    """Make what a handoff gave: of one that was ignored an ordinary output."""
    handoff, agent = item.handoff_output, names.agent(item.agent)
    if not handoff.to_agent:
        return ToolCallOutputItem(agent=agent, raw_item=raw, item_id=item.item_id, output=handoff.output)
    return HandoffOutputItem(
        agent=agent,
        raw_item=raw,
        item_id=item.item_id,
        source_agent=names.agent(handoff.from_agent),
        target_agent=names.agent(handoff.to_agent),
    )
