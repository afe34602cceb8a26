"""Whether a JSON Schema can be adhered to strictly: every object closed, every property required. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baton_server.core.jsontext import JsonError, parse

_ONE_SCHEMA = ("items", "contains", "not", "if", "then", "else", "additionalItems", "unevaluatedItems")
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_TYPED = ("type", "$ref", "$dynamicRef", "enum", "const", "anyOf", "oneOf", "allOf", "not")
"""A schema that says none of these lets any object in."""


def allows_strict(schema_json: str) -> bool:
    """Tell whether a model can be held to a schema, which its API refuses to try with any other. No JSON: no."""
    try:
        return is_strict(parse(schema_json))
    except JsonError:
        return False


def is_strict(schema: Any) -> bool:
    """Judge one schema, then those in it. `false` lets nothing in; `true` and `{}` let any object in."""
    if not isinstance(schema, dict):
        return schema is False
    if not any(key in schema for key in _TYPED) or not _is_closed(schema):
        return False
    return all(is_strict(inner) for inner in _inner(schema))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", ())
    is_object = "properties" in schema or kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    if not is_object:
        return True
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        schema.get("additionalProperties") is False
        and isinstance(properties, dict)
        and isinstance(required, list)
        and all(name in required for name in properties)
    )


def _inner(schema: Mapping[str, Any]) -> Iterable[Any]:
    for key in _ONE_SCHEMA:
        if key in schema:
            value = schema[key]
            yield from value if isinstance(value, list) else (value,)
    for key in _LISTED_SCHEMAS:
        yield from schema.get(key, ())
    for key in _NAMED_SCHEMAS:
        yield from schema.get(key, {}).values()
