"""JSON texts: what passes for one, on every machine and at every depth of the stack alike.

The standard parser takes NaN, gives up at a depth that hangs on who calls it, and makes Infinity of 1e400.
Here NaN and what is nested too deeply are refused, and a text that is carried on is never written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 100
"""Arrays and objects inside one another. As in protobuf's JSON; below serde's 127, which schemas meet."""

_SPACE = re.compile(r"[ \t\n\r]*")


class JsonError(ValueError):
    """A text is no JSON, or not one that is taken here. Its words go behind "it is"."""


def parse(text: str) -> Any:
    """Parse a text for its shape: numbers come as text, however long or large. Raises JsonError."""
    value, end = _decoded(_SHAPES, text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise JsonError(f"no JSON (more behind its end at char {end})")
    return value


def canonical(text: str) -> Any:
    """Parse a text so that equal values are equal: numbers become tuples of what they say. Raises JsonError.

    Whole numbers up to 2^53 are the same with and without a fraction; beyond it digits count, so the text stays.
    """
    parse(text)
    return json.loads(text, parse_int=_canonical_number, parse_float=_canonical_number)


def elements(text: str) -> Iterator[tuple[Any, str]]:
    """Take a JSON array apart: each element with the very text that it came as. Raises JsonError."""
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise JsonError("no JSON array")
    at = _skip(text, at + 1)
    more = text[at : at + 1] != "]"
    while more:
        value, end = _decoded(_VALUES, text, at)
        yield value, text[at:end]
        at = _skip(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _skip(text, at + 1)
    if text[at : at + 1] != "]" or _skip(text, at + 1) != len(text):
        raise JsonError(f"no JSON array (, or ] expected at char {at})")


def members(text: str) -> Iterator[tuple[str, Any, str]]:
    """Take a JSON object apart: each member's name and value (for its shape), with the text of the value as it came.

    Of a name that comes twice both are given. Raises JsonError.
    """
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise JsonError("no JSON object")
    at = _skip(text, at + 1)
    more = text[at : at + 1] != "}"
    while more:
        name, end = _decoded(_SHAPES, text, at)
        at = _skip(text, end)
        if text[end - 1] != '"' or text[at : at + 1] != ":":
            raise JsonError(f"no JSON object (a name and : expected at char {at})")
        at = _skip(text, at + 1)
        value, end = _decoded(_SHAPES, text, at)
        yield name, value, text[at:end]
        at = _skip(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _skip(text, at + 1)
    if text[at : at + 1] != "}" or _skip(text, at + 1) != len(text):
        raise JsonError(f"no JSON object (, or }} expected at char {at})")


def dump(value: Any) -> str:
    """Write JSON compactly, key order kept; text that is no valid Unicode stays escaped. Raises JsonError."""
    try:
        text = _PLAIN.encode(value)
        text = text if is_unicode(text) else _ESCAPED.encode(value)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:
        raise JsonError(f"nothing that JSON can say ({error})") from None
    _check_depth(value, text, 0, len(text))
    return text


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: JSON can say lone surrogates, UTF-8 cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(decoder: json.JSONDecoder, text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = decoder.raw_decode(text, start)
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except ValueError as error:
        raise JsonError(f"no JSON ({error})") from None
    _check_depth(value, text, start, end)
    return value, end


def _check_depth(value: Any, text: str, start: int, end: int) -> None:
    # Counting brackets is cheap, and rules out the walk for nearly every text.
    if text.count("[", start, end) + text.count("{", start, end) <= MAX_DEPTH:
        return
    level, depth = _containers([value]), 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise JsonError(f"nested too deeply, at most {MAX_DEPTH} levels")
        level = [inner for outer in level for inner in _containers(_children(outer))]


def _children(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _containers(values: list[Any]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _canonical_number(text: str) -> tuple[str, str]:
    value = float(text)
    return ("number", str(int(value)) if abs(value) < 2**53 and value.is_integer() else text)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not in JSON")


_PLAIN = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))

_VALUES = json.JSONDecoder(parse_constant=_no_constant)
_SHAPES = json.JSONDecoder(parse_constant=_no_constant, parse_int=str, parse_float=str)
