"""JSON Schema: whether arguments fit, whether a schema can be used, and whether it is strict.

Implements `ports.rules.SchemaRules` with jsonschema-rs. Compiled schemas are kept in a bounded cache; a
reference that would have to be fetched is refused, since an answer must depend on the arguments alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jsonschema_rs import ValidationError, Validator, validator_for

from baton_server.core import jsontext
from baton_server.core.jsontext import JsonError
from baton_server.wire.keys import idempotency_key
from baton_server.wire.texts import cut

_COMPILED = 512
"""Schemas kept compiled: a deployment's functions, several times over."""

_CACHED_CHARACTERS = 32_768
"""Longer schemas are not kept: they would make the cache's memory a matter of who calls."""

_WORDS_BYTES = 512

_ONE_SCHEMA = ("items", "contains", "not", "if", "then", "else", "additionalItems", "unevaluatedItems")
_LISTED_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_TYPED = ("type", "$ref", "$dynamicRef", "enum", "const", "anyOf", "oneOf", "allOf", "not")
"""A schema that says none of these lets any object in."""


class JsonRules:
    """Implements `ports.rules.SchemaRules`."""

    def violation(self, schema_json: str, value_json: str) -> str | None:
        """Check a JSON value against a JSON Schema: None if it fits, else the path and the constraint."""
        try:
            validator = _compile(schema_json)
        except ValueError as error:
            return f"the function's own schema cannot be used: {_words(error)}"
        try:
            validator.validate(_parse(value_json))
        except ValidationError as error:
            return f"at {_path(error.instance_path)}: {_words(error)} ({_constraint(error)})"
        except ValueError as error:
            return f"the value cannot be checked: it is {_words(error)}"
        return None

    def strict_allows(self, schema_json: str) -> bool:
        """Tell whether a schema can be adhered to strictly: every object closed, every property required."""
        return strict_allows(schema_json)

    def idempotency_key(self, session_id: str, name: str, pointers: tuple[str, ...], arguments: str) -> str:
        """Make the key of a call from the fields of its arguments that JSON Pointers name; empty: one is missing."""
        return idempotency_key(session_id, name, pointers, arguments)


def schema_problem(text: str) -> str | None:
    """Say why a text is no JSON Schema of an object; None: it is one."""
    return _kept_problem(text) if len(text) <= _CACHED_CHARACTERS else _problem(text)


def strict_allows(schema_json: str) -> bool:
    """Tell whether a schema allows strict adherence: every object closed, every property required."""
    return _kept_strict(schema_json) if len(schema_json) <= _CACHED_CHARACTERS else _strict(schema_json)


def _problem(text: str) -> str | None:
    try:
        schema = _parse(text)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            return 'must be a JSON Schema with "type": "object"'
        _compile(text)
    except JsonError as error:
        return f"is {error}"
    except ValidationError as error:
        where = _path(error.instance_path)
        return f"is no valid JSON Schema: at {where}: {_words(error)}"
    except ValueError as error:
        return f"cannot be used as a JSON Schema: {_words(error)}"
    return None


def _strict(schema_json: str) -> bool:
    try:
        return _is_strict(_parse(schema_json))
    except ValueError:
        return False


def _is_strict(schema: Any) -> bool:
    """Judge one schema, then those in it. `false` lets nothing in; `true` and `{}` let any object in."""
    if not isinstance(schema, dict):
        return schema is False
    if not any(key in schema for key in _TYPED) or not _is_closed(schema):
        return False
    return all(_is_strict(inner) for inner in _inner(schema))


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


def _parse(text: str) -> Any:
    """Read a JSON text, its numbers exactly. Raises ValueError: JsonError, or a number without end."""
    jsontext.parse(text)
    return json.loads(text, parse_float=Decimal)


def _compile(schema_json: str) -> Validator:
    """Compile a schema. Raises ValueError: JsonError, ValidationError, or what nests too deeply."""
    if len(schema_json) <= _CACHED_CHARACTERS:
        return _kept_validator(schema_json)
    return _validator(schema_json)


def _validator(schema_json: str) -> Validator:
    return validator_for(schema_json, offline=True)


_kept_validator = lru_cache(maxsize=_COMPILED)(_validator)
_kept_problem = lru_cache(maxsize=_COMPILED)(_problem)
_kept_strict = lru_cache(maxsize=_COMPILED)(_strict)


def _path(steps: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _words(error: Exception) -> str:
    text = error.message if isinstance(error, ValidationError) else str(error)
    return cut(text, _WORDS_BYTES)


def _constraint(error: ValidationError) -> str:
    return "/".join(str(step) for step in error.schema_path) or "schema"
