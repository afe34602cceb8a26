"""The result of a call as a person gives it: a text, JSON, a file, a failure; each also from standard input.

What is wrong with it is found out here, before the server is asked. Raises WrongUsage, TooLargeError.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from baton import TooLargeError
from baton.items.outputs import MAX_RESULT_BYTES
from baton.v1 import session_pb2
from baton_server.cli.calling import WrongUsage
from baton_server.core import jsontext

STDIN = "-"
"""In place of a text or a path: read it from standard input."""

_LIMIT = f"at most {MAX_RESULT_BYTES:,} are taken; shorten it, the call stays open"


def read_result(given: Mapping[str, str | None]) -> session_pb2.ToolResult:
    """Read the one result that was given, without the ids of its call.

    `given`: by the names of the options, `output`, `output_json`, `output_file` and `error`; None: not given.
    """
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        told = f"{len(named)} results are given" if named else "no result is given"
        raise WrongUsage(f"{told}; give exactly one of {', '.join(map(_flag, given))}")
    ((name, value),) = named
    text = _text(_flag(name), value, is_path=name == "output_file")
    match name:
        case "output_json":
            return session_pb2.ToolResult(output_json=_json(text))
        case "error":
            return session_pb2.ToolResult(error=text)
        case _:
            return session_pb2.ToolResult(output=text)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _text(flag: str, value: str, *, is_path: bool) -> str:
    if value == STDIN:
        return _decoded("standard input", _read(sys.stdin.buffer))
    if not is_path:
        data = value.encode(errors="surrogateescape")
        _check_size(flag, len(data))
        return _decoded(flag, data)
    path = Path(value)
    try:
        with path.open("rb") as file:
            _check_size(value, path.stat().st_size)
            return _decoded(value, _read(file))
    except OSError as wrong:
        raise WrongUsage(f"{value} cannot be read: {wrong.strerror}") from None


def _read(source: BinaryIO) -> bytes:
    """Read all, but never much more than can be sent: the source may have no end."""
    data = source.read(MAX_RESULT_BYTES + 1)
    if len(data) > MAX_RESULT_BYTES:
        raise TooLargeError(f"the result has more than {MAX_RESULT_BYTES:,} bytes, {_LIMIT}")
    return data


def _check_size(name: str, size: int) -> None:
    if size > MAX_RESULT_BYTES:
        raise TooLargeError(f"{name} has {size:,} bytes, {_LIMIT}")


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as wrong:
        raise WrongUsage(f"{name} is no UTF-8 text: {wrong.reason} at byte {wrong.start}") from None


def _json(text: str) -> str:
    try:
        jsontext.parse(text)
    except jsontext.JsonError as wrong:
        raise WrongUsage(f"--output-json is {wrong}; a text goes into --output") from None
    return text
