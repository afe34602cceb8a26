"""What the demo model reads out of items: what the user asks, and what was called for it so far."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = Any  # whatever an item's text holds: it comes from callers and from other models


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call that was made. `output` None: not answered."""

    name: str
    arguments: str
    output: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The turn as far as it can be told: everything since the last message of an assistant.

    `asked`: the text of the last user message, empty: none.
    """

    asked: str
    made: tuple[Made, ...]


def read_conversation(items: Sequence[str]) -> Conversation:
    """Read the turn from the JSON texts of items. What does not read is passed over."""
    turn = list(_turn_backwards(items))
    outputs = {
        item.get("call_id"): _text(item.get("output"))
        for item in turn
        if item.get("type") == "function_call_output" and isinstance(item.get("call_id"), str)
    }
    made = [
        Made(
            name=str(item.get("name")),
            arguments=str(item.get("arguments")),
            output=outputs.get(item.get("call_id")) if isinstance(item.get("call_id"), str) else None,
        )
        for item in reversed(turn)
        if item.get("type") == "function_call"
    ]
    asked = next((_text(item.get("content")) for item in turn if item.get("role") == "user"), "")
    return Conversation(asked=asked, made=tuple(made))


def _turn_backwards(items: Sequence[str]) -> Iterator[dict[str, Json]]:
    for text in reversed(items):
        try:
            item = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if not isinstance(item, dict):
            continue
        if item.get("role") == "assistant":
            return
        yield item


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return " ".join(_part(part) for part in value if isinstance(part, dict))


def _part(part: dict[str, Json]) -> str:
    text = part.get("text")
    if isinstance(text, str):
        return text
    return f"[{str(part.get('type', 'part')).removeprefix('input_')}]"
