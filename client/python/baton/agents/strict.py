"""Makes a JSON Schema strict: every object closed, every property required. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from baton.errors import UserError

Json = dict[str, Any]

MAX_DEPTH = 100
"""Deeper schemas are refused, as by the Agents SDK."""

_MANY = ("anyOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")


def strict_schema(schema: Mapping[str, Any]) -> Json:
    """Return the strict form of a function's schema; the one given stays as it is.

    Defaults stay, to tell the model; defaults of null go. Raises UserError where a schema has no strict form: an
    object that takes any property, a root that is no plain object, nesting deeper than MAX_DEPTH.
    """
    if not schema:
        return {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    root = dict(schema)
    made: Json = _strict(root, root, "schema", 0)
    if made.get("type") != "object" or "anyOf" in made:
        raise UserError("schema has no strict form: its root must be a plain object; set strict_mode=False")
    return made


def _strict(node: Any, root: Json, path: str, depth: int) -> Any:
    if not isinstance(node, Mapping):
        return node
    if depth > MAX_DEPTH:
        raise UserError(f"{path} is nested deeper than {MAX_DEPTH}")
    made = _resolved(dict(node), root, path, depth)
    if "oneOf" in made:  # strict mode knows anyOf alone
        made["anyOf"] = [*made.get("anyOf", ()), *made.pop("oneOf")]
    _close(made, path)
    for key in _NAMED:
        if isinstance(made.get(key), Mapping):
            made[key] = {name: _strict(value, root, f"{path}.{name}", depth + 1) for name, value in made[key].items()}
    for key in _MANY:
        if isinstance(made.get(key), list):
            made[key] = [
                _strict(value, root, f"{path}.{key}[{index}]", depth + 1) for index, value in enumerate(made[key])
            ]
    if "items" in made:
        made["items"] = _strict(made["items"], root, f"{path}.items", depth + 1)
    if len(made.get("allOf") or ()) == 1:
        made |= made.pop("allOf")[0]
    if "default" in made and made["default"] is None:
        del made["default"]
    return made


def _close(node: Json, path: str) -> None:
    """Close an object and require all that it has."""
    if node.get("type") != "object":
        return
    if node.get("additionalProperties", False) is not False:
        raise UserError(
            f"{path} has no strict form: it takes properties of any name (a dict, or **kwargs). "
            "Name its fields in a class, or set strict_mode=False"
        )
    node["additionalProperties"] = False
    node["properties"] = node.get("properties") or {}
    node["required"] = list(node["properties"])


def _resolved(node: Json, root: Json, path: str, depth: int) -> Json:
    """Put a referenced schema in place of a reference that has anything beside it."""
    reference = node.get("$ref")
    if reference is None or len(node) == 1:
        return node
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise UserError(f"{path} refers to {reference!r}; only references inside the schema (#/…) are known")
    found: Any = root
    for key in reference[2:].split("/"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise UserError(f"{path} refers to {reference!r}, which the schema does not have")
    del node["$ref"]
    merged = {**found, **node}
    if depth > MAX_DEPTH:
        raise UserError(f"{path} is nested deeper than {MAX_DEPTH}")
    return _resolved(merged, root, path, depth + 1)
