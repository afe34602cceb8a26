"""What a run makes, piece by piece, by the names of the Agents SDK; and the order in which it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from baton.agent import Agent
from baton.responses import RawItem, raw_item
from baton.v1 import item_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOutputItem:
    """A message of the model. `raw_item`: as the Responses API writes it."""

    agent: Agent[Any]
    raw_item: RawItem
    type: Literal["message_output_item"] = "message_output_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallItem:
    """The model asks for a function, or used a tool of its provider's. Ids are the model's own."""

    agent: Agent[Any]
    raw_item: RawItem
    type: Literal["tool_call_item"] = "tool_call_item"

    @property
    def tool_name(self) -> str | None:
        """Name of the function; None: a provider's tool."""
        return self.raw_item.get("name")

    @property
    def call_id(self) -> str | None:
        """The model's id of the call; None: a provider's tool without one."""
        return self.raw_item.get("call_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOutputItem:
    """What came of a function call, as the model is told: a text, or a list of content parts."""

    agent: Agent[Any]
    raw_item: RawItem
    output: Any
    type: Literal["tool_call_output_item"] = "tool_call_output_item"

    @property
    def call_id(self) -> str | None:
        """The model's id of the call."""
        return self.raw_item.get("call_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningItem:
    """What the model thought, as far as it shows it."""

    agent: Agent[Any]
    raw_item: RawItem
    type: Literal["reasoning_item"] = "reasoning_item"


RunItem = MessageOutputItem | ToolCallItem | ToolCallOutputItem | ReasoningItem


class ItemHelpers:
    """Reads texts out of items, as the Agents SDK's class of that name."""

    @classmethod
    def text_message_output(cls, message: MessageOutputItem) -> str:
        """Join the texts of one message."""
        parts = message.raw_item.get("content") or []
        return "".join(part["text"] for part in parts if part.get("type") == "output_text")

    @classmethod
    def text_message_outputs(cls, items: Iterable[RunItem]) -> str:
        """Join the texts of all messages among some items."""
        return "".join(cls.text_message_output(item) for item in items if isinstance(item, MessageOutputItem))


def run_item(item: item_pb2.Item, agent: Agent[Any], model_call_ids: Mapping[str, str]) -> RunItem | None:
    """Make the run item of an item that a turn made; None: it is of the log alone, or of a later version."""
    if item.status == item_pb2.ITEM_STATUS_REJECTED:
        return None
    raw = raw_item(item, model_call_ids)
    match item.WhichOneof("item"):
        case "message":
            return MessageOutputItem(agent=agent, raw_item=raw)
        case "reasoning":
            return ReasoningItem(agent=agent, raw_item=raw)
        case "function_call" | "hosted":
            return ToolCallItem(agent=agent, raw_item=raw)
        case "function_call_output":
            return ToolCallOutputItem(agent=agent, raw_item=raw, output=raw["output"])
        case _:
            return None


class RunItems:
    """Makes run items of a turn's items as the log has them, in the order in which users see them.

    The reply of a round comes at once. Its outputs come when all its calls are settled, in call order, whatever
    order they were settled in.
    """

    def __init__(self, agent: Agent[Any]) -> None:
        self._agent = agent
        self._model_call_ids: dict[str, str] = {}
        self._waiting: dict[str, item_pb2.Item | None] = {}

    def feed(self, item: item_pb2.Item) -> Iterator[RunItem]:
        """Take the next item of the log; yield what can be shown now. Input of the turn is passed over."""
        if not item.agent or item.status == item_pb2.ITEM_STATUS_REJECTED:
            return
        if item.HasField("function_call"):
            call = item.function_call
            self._model_call_ids[call.call_id] = call.model_call_id
            self._waiting[call.call_id] = None
        elif item.HasField("function_call_output") and item.function_call_output.call_id in self._waiting:
            self._waiting[item.function_call_output.call_id] = item
            if all(self._waiting.values()):
                yield from self.flush()
            return
        yield from self._made(item)

    def flush(self) -> Iterator[RunItem]:
        """Yield the outputs that are there, in call order; at the end of a turn there may be some left."""
        settled = [item for item in self._waiting.values() if item is not None]
        self._waiting.clear()
        for item in settled:
            yield from self._made(item)

    def _made(self, item: item_pb2.Item) -> Iterator[RunItem]:
        made = run_item(item, self._agent, self._model_call_ids)
        if made is not None:
            yield made
