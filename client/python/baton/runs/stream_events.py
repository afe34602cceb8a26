"""What a streamed run tells, by the names of the Agents SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from baton.agents.agent import Agent
from baton.items.responses import text_of
from baton.items.run_items import RunItem
from baton.v1 import event_pb2, item_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseTextDeltaEvent:
    """More text of a message that the model is writing. `item_id` is Baton's."""

    delta: str
    item_id: str
    output_index: int
    content_index: int
    type: Literal["response.output_text.delta"] = "response.output_text.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseResetEvent:
    """Text of this round that was streamed so far is void: the model is asked again. No event of the Agents SDK."""

    round: int
    type: Literal["baton.response.reset"] = "baton.response.reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponsesStreamEvent:
    """A fragment, as it came. What matters of it comes again, whole, as a run item."""

    data: ResponseTextDeltaEvent | ResponseResetEvent
    type: Literal["raw_response_event"] = "raw_response_event"


ItemEventName = Literal[
    "message_output_created",
    "handoff_requested",
    "handoff_occured",
    "tool_called",
    "tool_search_called",
    "tool_search_output_created",
    "tool_output",
    "reasoning_item_created",
    "mcp_approval_requested",
    "mcp_list_tools",
]
"""The Agents SDK's names, its spelling included."""

ITEM_EVENTS: Mapping[str, ItemEventName] = {
    "message_output_item": "message_output_created",
    "handoff_call_item": "handoff_requested",
    "handoff_output_item": "handoff_occured",
    "tool_call_item": "tool_called",
    "tool_search_call_item": "tool_search_called",
    "tool_search_output_item": "tool_search_output_created",
    "tool_call_output_item": "tool_output",
    "reasoning_item": "reasoning_item_created",
    "mcp_approval_request_item": "mcp_approval_requested",
    "mcp_list_tools_item": "mcp_list_tools",
}
"""How each type of item is announced. An approval is not: a run that waits for one ends its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemStreamEvent:
    """The run has made an item."""

    name: ItemEventName
    item: RunItem
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpdatedStreamEvent:
    """An agent goes on: the first of the run, one that was handed over to, or that of a run that is resumed."""

    new_agent: Agent[Any]
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


StreamEvent = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent


def item_event(item: RunItem) -> RunItemStreamEvent | None:
    """Announce an item; None: it is not announced."""
    name = ITEM_EVENTS.get(item.type)
    return None if name is None else RunItemStreamEvent(name=name, item=item)


class Fragments:
    """Puts the text deltas of a run together, so that each piece of text is told once.

    A piece is placed by its item, its part and its offset in UTF-8 bytes. What a resumed stream repeats is cut
    away; what comes after a gap is dropped, since a reset is under way.
    """

    def __init__(self) -> None:
        self._round = 0
        self._attempt = 0
        self._texts: dict[tuple[str, int], bytes] = {}

    def delta(self, delta: event_pb2.Delta) -> Iterator[RawResponsesStreamEvent]:
        """Take a delta; yield what it adds."""
        if delta.WhichOneof("delta") != "output_text" or not self._enter(delta.round, delta.model_attempt):
            return
        text = delta.output_text.encode()
        yield from self._add(delta.item_id, delta.output_index, delta.part_index, delta.offset, text)

    def reset(self, reset: event_pb2.Reset) -> Iterator[RawResponsesStreamEvent]:
        """Take a reset; yield what is new in it, after a reset of our own where told text is void."""
        same = (reset.round, reset.model_attempt) == (self._round, self._attempt)
        if not same and not self._enter(reset.round, reset.model_attempt):
            return
        texts = {(item.item_id, 0): text_of(item).encode() for item in reset.items if item.HasField("message")}
        told = {key: text for key, text in self._texts.items() if text}
        if any(not texts.get(key, b"").startswith(text) for key, text in told.items()):
            self._texts.clear()
            yield RawResponsesStreamEvent(data=ResponseResetEvent(round=reset.round))
        for item in reset.items:
            if item.HasField("message"):
                yield from self._add(item.item_id, item.output_index, 0, 0, text_of(item).encode())

    def whole(self, item: item_pb2.Item, round_number: int) -> Iterator[RawResponsesStreamEvent]:
        """Take an item that is whole; yield what of its text was not told, after a reset where told text is void.

        Who was away while it was written sees no fragment of it: the server has none to give then.
        """
        if item.status == item_pb2.ITEM_STATUS_REJECTED or round_number < self._round:
            return
        self._enter(round_number, self._attempt if round_number == self._round else 0)
        said = enumerate(item.message.content) if item.HasField("message") else ()
        texts = {index: part.text.encode() for index, part in said if part.WhichOneof("part") == "text"}
        told = {index: text for (item_id, index), text in self._texts.items() if item_id == item.item_id}
        if any(not texts.get(index, b"").startswith(text) for index, text in told.items()):
            self._texts.clear()
            yield RawResponsesStreamEvent(data=ResponseResetEvent(round=round_number))
        for index, text in texts.items():
            yield from self._add(item.item_id, item.output_index, index, 0, text)

    def _enter(self, round_number: int, attempt: int) -> bool:
        """Go on to a later round or model attempt; tell whether this one counts."""
        if (round_number, attempt) < (self._round, self._attempt):
            return False
        if round_number > self._round:
            self._texts.clear()
        self._round, self._attempt = round_number, attempt
        return True

    def _add(
        self, item_id: str, output_index: int, part_index: int, offset: int, text: bytes
    ) -> Iterator[RawResponsesStreamEvent]:
        key = (item_id, part_index)
        known = self._texts.get(key, b"")
        new = text[len(known) - offset :] if offset <= len(known) else b""
        if not new:
            return
        self._texts[key] = known + new
        yield RawResponsesStreamEvent(
            data=ResponseTextDeltaEvent(
                delta=new.decode(errors="ignore"),
                item_id=item_id,
                output_index=output_index,
                content_index=part_index,
            )
        )
