"""Checks JSON against a JSON Schema, as far as functions' schemas go: what `baton.testing` does in the server's place.

The server has a whole validator. This one knows what pydantic writes of types, and passes over other keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MOST_DEPTH = 100

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}

_OF_NUMBERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
    "multipleOf": lambda value, bound: value % bound == 0,
}
_OF_TEXTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minLength": lambda value, bound: len(value) >= bound,
    "maxLength": lambda value, bound: len(value) <= bound,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
}
_OF_LISTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minItems": lambda value, bound: len(value) >= bound,
    "maxItems": lambda value, bound: len(value) <= bound,
}
_OF_ALL: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, kinds: any(_TYPES[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds)),
    "enum": lambda value, known: value in known,
    "const": lambda value, constant: value == constant,
}


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """List what is wrong, each with its path and constraint; empty: nothing."""
    return list(_problems(schema, value, "$", schema, 0))


def _problems(schema: Any, value: Any, path: str, root: Mapping[str, Any], depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{path}: nothing is allowed here"
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return
    yield from _simple(schema, value, path)
    for part, inner, deeper in _parts(schema, value, path):
        yield from _problems(part, inner, deeper, root, depth + 1)
    for name in ("anyOf", "oneOf"):
        choices = schema.get(name)
        if choices and all(any(_problems(one, value, path, root, depth + 1)) for one in choices):
            yield f"{path}: fits none of the {len(choices)} forms that are allowed"
    for one in schema.get("allOf", ()):
        yield from _problems(one, value, path, root, depth + 1)
    if "$ref" in schema:
        yield from _problems(_referenced(root, schema["$ref"]), value, path, root, depth + 1)


def _simple(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    """Yield what is wrong with the value itself."""
    checks = dict(_OF_ALL)
    if _is_number(value):
        checks |= _OF_NUMBERS
    elif isinstance(value, str):
        checks |= _OF_TEXTS
    elif isinstance(value, list):
        checks |= _OF_LISTS
    for keyword, fits in checks.items():
        if keyword in schema and not fits(value, schema[keyword]):
            yield f"{path}: {keyword} must be {schema[keyword]!r}"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name!r} is missing"


def _parts(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    """Yield what is inside, each with the schema that it has to fit and its path."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name, inner in value.items():
            yield known.get(name, schema.get("additionalProperties", True)), inner, f"{path}.{name}"
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        for index, inner in enumerate(value):
            part = first[index] if index < len(first) else schema.get("items", True)
            yield part, inner, f"{path}[{index}]"


def _referenced(root: Mapping[str, Any], reference: str) -> Any:
    found: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
