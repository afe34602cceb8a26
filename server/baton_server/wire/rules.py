"""JSON Schema: whether arguments fit, whether a schema can be used, and whether it is strict.

Implements `ports.rules.SchemaRules` with jsonschema-rs. Compiled schemas are kept in a bounded cache; a
reference that would have to be fetched is refused, since an answer must depend on the arguments alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from jsonschema_rs import ValidationError, Validator, validator_for

from baton_server.core import jsontext
from baton_server.core.jsontext import JsonError
from baton_server.core.strictness import is_strict
from baton_server.core.tools import AgentTool, FunctionTool
from baton_server.wire.digests import definition_digest, text_digest
from baton_server.wire.keys import idempotency_key
from baton_server.wire.texts import cut

_COMPILED = 512
"""Schemas kept compiled: a deployment's functions, several times over."""

_CACHED_CHARACTERS = 32_768
"""Longer schemas are not kept: they would make the cache's memory a matter of who calls."""

_WORDS_BYTES = 512


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

    def digest(self, text: str) -> str:
        """Digest a JSON text so that equal values have equal digests; 64 hex digits. Of what is no JSON, its bytes."""
        return text_digest(text)

    def definition_digest(self, tool: FunctionTool | AgentTool) -> str:
        """Digest the definition of a function or an agent tool; 64 hex digits."""
        return definition_digest(tool)


def schema_problem(text: str) -> str | None:
    """Say why a text is no JSON Schema of an object; None: it is one."""
    return _kept_problem(text, True) if len(text) <= _CACHED_CHARACTERS else _problem(text, True)


def output_schema_problem(text: str) -> str | None:
    """Say why a text is no JSON Schema of a final output, which may be of any type; None: it is one."""
    return _kept_problem(text, False) if len(text) <= _CACHED_CHARACTERS else _problem(text, False)


def strict_allows(schema_json: str) -> bool:
    """Tell whether a schema allows strict adherence: every object closed, every property required."""
    return _kept_strict(schema_json) if len(schema_json) <= _CACHED_CHARACTERS else _strict(schema_json)


def _problem(text: str, of_object: bool) -> str | None:
    try:
        schema = _parse(text)
        is_schema = isinstance(schema, dict)
        if of_object and not (is_schema and schema.get("type") == "object"):
            return 'must be a JSON Schema with "type": "object"'
        if not is_schema:
            return "must be a JSON Schema, a JSON object"
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
        return is_strict(_parse(schema_json))
    except ValueError:
        return False


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
