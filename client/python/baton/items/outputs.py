"""What a function gave, as the contract carries it: a text, JSON, content parts, a failure, a crash."""

from __future__ import annotations

import mimetypes
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pydantic_core

from baton.errors import FunctionError
from baton.v1 import handler_pb2, item_pb2

MAX_RESULT_BYTES = 4_194_304
"""Payload of a result: its text in UTF-8, or the sum of its parts' texts and URLs (handler.proto, Result)."""

MAX_CRASH_BYTES, MAX_CRASH_TYPE = 16 * 1024, 256
"""Of Crash.text, whose end says most; and of Crash.type, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputText:
    """A text part of a function's output."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputImage:
    """A picture: exactly one of `image_url` (https or data) and `file_id`. `detail`: "low", "high", "auto"."""

    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputFileContent:
    """A file: exactly one of `file_data` (base64, or a data URL), `file_url` and `file_id`."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


OutputPart = ToolOutputText | ToolOutputImage | ToolOutputFileContent

_BY_TYPE: Mapping[str, type[OutputPart]] = {
    "text": ToolOutputText,
    "image": ToolOutputImage,
    "file": ToolOutputFileContent,
}


def result_of(value: Any) -> handler_pb2.Result:
    """Write what a function returned, without the call's ids. See `function_tool` for what becomes of what.

    Raises TypeError or ValueError for a value that has no JSON form, or a part without a source.
    """
    if value is None:
        return handler_pb2.Result(output="")
    if isinstance(value, str):
        return handler_pb2.Result(output=_unicode(value.value if isinstance(value, Enum) else value))
    parts = _parts(value)
    if parts is not None:
        return handler_pb2.Result(output_parts=item_pb2.ContentParts(parts=map(_part_to_pb, parts)))
    try:
        text = pydantic_core.to_json(value, inf_nan_mode="strings")
    except pydantic_core.PydanticSerializationError as error:
        raise TypeError(f"a result of type {type(value).__name__} has no JSON form: {error}") from error
    return handler_pb2.Result(output_json=text.decode())


def result_of_error(error: BaseException) -> handler_pb2.Result:
    """Write what a function raised: its own words for the model, or a crash that is recorded alone."""
    if isinstance(error, FunctionError):
        return handler_pb2.Result(failure=_unicode(str(error) or "The function failed."))
    text = "".join(traceback.format_exception(error)).encode("utf-8", "replace")
    end = text[-MAX_CRASH_BYTES:].decode("utf-8", "ignore")
    return handler_pb2.Result(crash=handler_pb2.Crash(type=type(error).__name__[:MAX_CRASH_TYPE], text=end))


def within_limit(result: handler_pb2.Result, limit: int = MAX_RESULT_BYTES) -> handler_pb2.Result:
    """Return the result, or words for the model in its place if its payload is above the limit in bytes."""
    size = payload_bytes(result)
    if size <= limit:
        return result
    return handler_pb2.Result(
        call_id=result.call_id,
        attempt=result.attempt,
        failure=f"The function's result was too large to be delivered: {size} bytes, at most {limit}. "
        "Ask for less of it.",
    )


def payload_bytes(result: handler_pb2.Result) -> int:
    """Measure a result as the server does."""
    match result.WhichOneof("outcome"):
        case "output":
            return len(result.output.encode())
        case "output_json":
            return len(result.output_json.encode())
        case "failure":
            return len(result.failure.encode())
        case "output_parts":
            return sum(
                len((part.text or part.image.url or part.file.url).encode()) for part in result.output_parts.parts
            )
        case _:
            return 0


def _parts(value: Any) -> list[OutputPart] | None:
    """Read a part, or a list of nothing but parts; None: it is data."""
    if isinstance(value, list | tuple):
        read = [_read_part(one) for one in value]
        found = [one for one in read if one is not None]
        return found if found and len(found) == len(read) else None
    one = _read_part(value)
    return None if one is None else [one]


def _read_part(value: Any) -> OutputPart | None:
    """Read a part, also as the dictionary by which the Agents SDK knows it."""
    if isinstance(value, OutputPart):
        return value
    named = value.get("type") if isinstance(value, dict) else None
    kind = _BY_TYPE.get(named) if isinstance(named, str) else None
    if kind is None or not set(value) - {"type"} or not set(value) - {"type"} <= set(kind.__slots__):
        return None
    return kind(**{key: field for key, field in value.items() if key != "type"})


def _part_to_pb(part: OutputPart) -> item_pb2.ContentPart:
    match part:
        case ToolOutputText(text=text):
            return item_pb2.ContentPart(text=_unicode(text))
        case ToolOutputImage(image_url=url, file_id=file_id, detail=detail):
            _one_of(part, url, file_id)
            image = item_pb2.ImagePart(detail=detail or "")
            _set_source(image, url, file_id)
            return item_pb2.ContentPart(image=image)
        case ToolOutputFileContent(file_data=data, file_url=url, file_id=file_id, filename=filename):
            _one_of(part, data, url, file_id)
            where = url if data is None else _data_url(data, filename)
            file = item_pb2.FilePart(filename=filename or "")
            _set_source(file, where, file_id)
            return item_pb2.ContentPart(file=file)


def _set_source(part: item_pb2.ImagePart | item_pb2.FilePart, url: str | None, file_id: str | None) -> None:
    if url is not None:
        part.url = url
    elif file_id is not None:
        part.file_id = file_id


def _one_of(part: OutputPart, *sources: str | None) -> None:
    if sum(source is not None for source in sources) != 1:
        raise ValueError(f"{type(part).__name__} needs exactly one source; this one has {part!r}"[:500])


def _data_url(data: str, filename: str | None) -> str:
    """Make a data URL of plain base64; the contract knows no other way to carry a file by value."""
    if data.startswith("data:"):
        return data
    kind = mimetypes.guess_type(filename or "")[0] or "application/octet-stream"
    return f"data:{kind};base64,{data}"


def _unicode(text: str) -> str:
    """Replace lone surrogates, which Python's texts may hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
