"""Words for people: what a session holds, fit for a terminal. Whatever is returned here is safe unless it says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from baton.v1 import error_pb2, event_pb2, item_pb2
from baton_server.cli.show.texts import LINE, counted, one_line, safe, shortened


class Enum(Protocol):
    """A generated enum of the contract."""

    def Name(self, number: Any) -> str:  # noqa: N802  (protobuf's own name; each enum has a number type of its own)
        """Give a number's name. Raises ValueError for one of a later version."""


class Called(Protocol):
    """A function call, as an item or as a required action."""

    @property
    def name(self) -> str:
        """Name of the function."""

    @property
    def arguments_json(self) -> str:
        """The model's argument text."""

    @property
    def arguments_omitted(self) -> item_pb2.Omitted:
        """Stands for arguments that are too large to travel in place."""


def word(kind: Enum, value: int) -> str:
    """Name an enum's value as the contract does, without its prefix; a number that is not known stays one."""
    try:
        return kind.Name(value).removeprefix(kind.Name(0).removesuffix("UNSPECIFIED"))
    except ValueError:
        return str(value)


def call_words(call: Called, most: int = LINE) -> str:
    """Write a call as one would in code: `get_weather({"city": "Kyoto"})`."""
    return f"{one_line(call.name)}({arguments_words(call, most)})"


def arguments_words(call: Called, most: int = LINE) -> str:
    """Write a call's arguments on one line."""
    if call.arguments_omitted.omitted_bytes:
        return bytes_words(call.arguments_omitted.omitted_bytes)
    return one_line(call.arguments_json, most)


def bytes_words(size: int) -> str:
    """Say how much was left out."""
    return f"[{size:,} bytes]"


def parts_text(parts: Iterable[item_pb2.ContentPart]) -> str:
    """Write the parts of a message or of a result as text; what is none is named in brackets. Not safe yet."""
    return "\n".join(_part_text(part) for part in parts)


def _part_text(part: item_pb2.ContentPart) -> str:
    match part.WhichOneof("part"):
        case "text":
            return part.text
        case "refusal":
            return f"[refusal] {part.refusal}"
        case "omitted_text":
            return bytes_words(part.omitted_text.omitted_bytes)
        case "image":
            return f"[image {_source(part.image)}]"
        case "file":
            return f"[file {part.file.filename or _source(part.file)}]"
        case "other_json":
            return f"[{one_line(part.other_json)}]"
        case _:
            return "[a part that this version does not know]"


def _source(part: item_pb2.ImagePart | item_pb2.FilePart) -> str:
    match part.WhichOneof("source"):
        case "url" if part.url.startswith("data:"):
            return f"{part.url.partition(',')[0]}, {len(part.url):,} characters"
        case "url":
            return part.url
        case "file_id":
            return part.file_id
        case "omitted_url":
            return f"{part.omitted_url.omitted_bytes:,} bytes"
        case _:
            return "from nowhere"


def error_words(error: error_pb2.Error) -> str:
    """Write an error: its reason, and what happened, on one line."""
    reason = word(error_pb2.ErrorReason, error.reason)
    return f"{reason}: {one_line(error.message, 1000)}" if error.message else reason


def usage_words(usage: item_pb2.Usage) -> str:
    """Write what was used: `2 requests, 1,234 tokens (1,200 in, 34 out)`."""
    tokens = f"{usage.total_tokens:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out)"
    return f"{counted(usage.requests, 'request')}, {tokens}"


def state_word(action: event_pb2.RequiredAction) -> str:
    """Name the state of an open call: `UNSERVED`."""
    return word(event_pb2.RequiredActionState, action.state)


__all__ = [
    "LINE",
    "arguments_words",
    "bytes_words",
    "call_words",
    "error_words",
    "one_line",
    "parts_text",
    "safe",
    "shortened",
    "state_word",
    "usage_words",
    "word",
]
