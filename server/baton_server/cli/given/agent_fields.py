"""Holds what a file says of an agent against the fields of the contract: what is wrong, where, and what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message_factory import GetMessageClass

Steps = tuple[str | int, ...]

SHOWN = 60
"""Characters of a value that are shown."""

_WORDS: Mapping[int, str] = {
    FieldDescriptor.TYPE_STRING: "a text",
    FieldDescriptor.TYPE_BOOL: "true or false",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_INT32: "a whole number",
    FieldDescriptor.TYPE_INT64: "a whole number",
}
_OF_TYPES: Mapping[str, str] = {"google.protobuf.Duration": 'a duration such as "5s"'}
"""Messages that are written as one value, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong in a file. `path`: keys and positions that lead there."""

    path: Steps
    problem: str

    @property
    def where(self) -> str:
        """Say the path as the contract's errors do: `tools[0].function.name`."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return "".join(parts).removeprefix(".")


def faults(written: Mapping[str, Any], message: Descriptor, path: Steps = ()) -> Iterator[Fault]:
    """Find what does not fit a message, in the order of the file."""
    fields = {name: field for field in message.fields for name in (field.name, field.json_name)}
    said: dict[str, str] = {}
    for key, value in written.items():
        field = fields.get(key)
        if field is None:
            yield Fault(path=(*path, key), problem=_unknown(key, [one.name for one in message.fields]))
            continue
        oneof = field.containing_oneof
        if oneof is not None and said.setdefault(oneof.name, key) != key:
            yield Fault(path=(*path, key), problem=f"excludes {said[oneof.name]!r}, which stands there too")
        elif value is not None:
            yield from _of_field(field, value, (*path, key))


def _of_field(field: FieldDescriptor, value: Any, path: Steps) -> Iterator[Fault]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            yield Fault(path=path, problem=f"must be a mapping, not {_shown(value)}")
            return
        for key, inner in value.items():
            yield from _of_value(field.message_type.fields_by_name["value"], inner, (*path, key))
    elif not field.is_repeated:
        yield from _of_value(field, value, path)
    elif not isinstance(value, list):
        yield Fault(path=path, problem=f"must be a list, not {_shown(value)}")
    else:
        for index, inner in enumerate(value):
            yield from _of_value(field, inner, (*path, index))


def _of_value(field: FieldDescriptor, value: Any, path: Steps) -> Iterator[Fault]:
    kind = field.message_type
    if kind is not None and kind.full_name not in _OF_TYPES:
        if isinstance(value, Mapping):
            yield from faults(value, kind, path)
        else:
            names = ", ".join(one.name for one in kind.fields)
            yield Fault(path=path, problem=f"must be a mapping of {names or 'nothing'}, not {_shown(value)}")
    elif not _fits(field, value):
        yield Fault(path=path, problem=f"must be {_words(field)}, not {_shown(value)}")


def _fits(field: FieldDescriptor, value: Any) -> bool:
    """Ask protobuf itself."""
    try:
        made = GetMessageClass(field.containing_type)()  # type: ignore[arg-type]  # None of extensions alone
        ParseDict({field.name: [value] if field.is_repeated else value}, made)
    except (ParseError, TypeError, ValueError):
        return False
    return True


def _words(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return _OF_TYPES[field.message_type.full_name]
    if field.enum_type is not None:
        return f"one of {', '.join(value.name for value in field.enum_type.values[1:])}"
    return _WORDS.get(field.type, "of another kind")


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
    return f"is no field; {hint}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
