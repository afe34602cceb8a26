"""Structured outputs: what schema a model is asked for, and the value inside what it answers. Pure.

A model's API wants an object at the root. Any other schema (a list, a number, a choice of types) travels wrapped,
as the one member `response` of an object, and its value is taken out of the reply again (agent.proto,
`OutputSchema.schema_json`). Texts are cut and joined, not written anew: numbers and the order of keys stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from baton_server.core.jsontext import JsonError, dump, members, parse

RESPONSE = "response"
"""The member that a wrapped value travels in."""

MAX_HOPS = 32
"""References in a row; a schema may refer to itself."""

_DEFINITIONS = ("$defs", "definitions")

_REFERENCE = re.compile(r'("\$ref"\s*:\s*)("#[^"\\]*")')
"""A reference inside the schema's own text. Within a JSON string its quotes would be escaped."""


def wrapped(schema_json: str) -> bool:
    """Tell whether a schema travels wrapped: its root is no object. Raises JsonError."""
    root = parse(schema_json)
    schema = root
    for _ in range(MAX_HOPS):
        if not isinstance(schema, dict):
            return True
        if schema.get("type") is not None or not isinstance(schema.get("$ref"), str):
            return schema.get("type") != "object"
        schema = _pointed(schema["$ref"], root)
    return True


def asked_schema(schema_json: str) -> str:
    """Write the schema that the model is sent. Raises JsonError.

    Definitions move to the new root, where an API looks for them; other references within the schema follow it.
    """
    if not wrapped(schema_json):
        return schema_json
    if not schema_json.strip().startswith("{"):  # true and false are schemas too
        return _wrapper(schema_json.strip(), "")
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    for name, value, text in members(schema_json):
        target = shared if name in _DEFINITIONS and isinstance(value, dict) else own
        target[name] = _REFERENCE.sub(_moved, text) if isinstance(value, dict | list) else text
    if isinstance(parse(schema_json).get("$ref"), str):
        own["$ref"] = _moved_pointer(own["$ref"])
    return _wrapper("{" + ",".join(_written(own)) + "}", "".join(f",{member}" for member in _written(shared)))


def wrap(value_json: str) -> str:
    """Write a value as a model answers it that was asked for a wrapped schema."""
    return f'{{"{RESPONSE}":{value_json}}}'


def unwrap(text: str) -> str:
    """Take the value out of a wrapped answer, as the text that it came as; other members are passed over.

    Raises JsonError where there is none.
    """
    found = {name: value_text for name, _, value_text in members(text)}
    if RESPONSE not in found:
        raise JsonError(f"no JSON object with a member {RESPONSE}")
    return found[RESPONSE]


def _wrapper(schema: str, definitions: str) -> str:
    return (
        f'{{"type":"object","properties":{{"{RESPONSE}":{schema}}},"required":["{RESPONSE}"],'
        f'"additionalProperties":false{definitions}}}'
    )


def _written(texts: Mapping[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        yield f"{dump(name)}:{text}"


def _moved(found: re.Match[str]) -> str:
    return found[1] + _moved_pointer(found[2])


def _moved_pointer(written: str) -> str:
    """Write a reference for the wrapped place. `written`: as JSON."""
    pointer = json.loads(written)
    rest = pointer.removeprefix("#")
    is_anchor = bool(rest) and not rest.startswith("/")
    if is_anchor or not pointer.startswith("#") or rest.split("/")[1:2] in ([name] for name in _DEFINITIONS):
        return written
    return dump(f"#/properties/{RESPONSE}{rest}")


def _pointed(pointer: str, root: Any) -> Any:
    value = root
    for step in pointer.removeprefix("#").split("/")[1:]:
        if not isinstance(value, dict):
            return None
        value = value.get(step.replace("~1", "/").replace("~0", "~"))
    return value if pointer.startswith("#") else None
