"""Reads texts out of items and makes inputs of them, as the Agents SDK's class of that name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baton.items.outputs import result_of
from baton.items.responses import RawItem, raw_item
from baton.items.run_items import MessageOutputItem, RunItem
from baton.v1 import item_pb2


class ItemHelpers:
    """Functions without a state. A message is a `MessageOutputItem`, or its `raw_item` where they say so."""

    @classmethod
    def text_message_output(cls, message: MessageOutputItem) -> str:
        """Join the texts of one message."""
        return cls.extract_text(message.raw_item) or ""

    @classmethod
    def text_message_outputs(cls, items: Iterable[RunItem]) -> str:
        """Join the texts of all messages among some items."""
        return "".join(cls.text_message_output(item) for item in items if isinstance(item, MessageOutputItem))

    @classmethod
    def extract_text(cls, message: Mapping[str, Any]) -> str | None:
        """Join the texts of a raw message; None: it has none."""
        found = [part["text"] for part in _parts(message) if part.get("type") == "output_text"]
        return "".join(found) if found else None

    @classmethod
    def extract_last_text(cls, message: Mapping[str, Any]) -> str | None:
        """Take the last part of a raw message, if it is a text; None: it is not."""
        last = next(iter(reversed(_parts(message))), None)
        return last["text"] if last is not None and last.get("type") == "output_text" else None

    @classmethod
    def extract_last_content(cls, message: Mapping[str, Any]) -> str:
        """Take the last part of a raw message, a text or the words of a refusal. Empty: it is no message."""
        last: Mapping[str, Any] = next(iter(reversed(_parts(message))), {})
        found: str = last.get("text") or last.get("refusal") or ""
        return found

    @classmethod
    def input_to_new_input_list(cls, input: str | Sequence[Any]) -> list[Any]:
        """Write an input as a list of items, which may be changed without the input's changing."""
        return [{"content": input, "role": "user"}] if isinstance(input, str) else copy.deepcopy(list(input))

    @classmethod
    def tool_call_output_item(cls, tool_call: Mapping[str, Any], output: Any) -> RawItem:
        """Make the output item of a raw call, of what a function returned."""
        result = result_of(output)
        text = item_pb2.ContentPart(text=result.output or result.output_json)
        told = item_pb2.FunctionCallOutput(
            call_id=tool_call["call_id"], output=list(result.output_parts.parts) or [text]
        )
        return raw_item(item_pb2.Item(function_call_output=told))


def _parts(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = message.get("content") or () if message.get("type") == "message" else ()
    return found
