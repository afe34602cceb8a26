"""Values by JSON Schema, arguments above all: what the message says, then defaults, then anything valid.

No schema is too odd: what is not understood gives an empty object or null, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baton_server.model.demo.offers import Offer
from baton_server.model.demo.words import numbers, remainder, stems, subjects

MAX_CALLS = 8
"""Calls of one function in one reply: one for each subject."""

MAX_DEPTH = 6
"""Of nested schemas; a schema may refer to itself."""

MAX_VALUES = 500
"""In the arguments of one call; a schema may refer to itself more than once."""

MAX_ASKED = 4000
"""Characters of a message that are looked at."""

NOTHING_SAID = "unknown"
"""A text that is needed where a message offers none."""

Json = Any  # values and schemas are whatever JSON holds
Schema = Mapping[str, Json]


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What a message offers for one call. Subjects and numbers are used up in order."""

    words: frozenset[str]
    subjects: list[str]
    numbers: list[float]
    rest: str
    chosen: set[str] = field(default_factory=set)
    values: int = 0

    def text(self) -> str:
        """Take the next subject or number as a text; empty: none is left."""
        if self.subjects:
            return self.subjects.pop(0)
        return f"{self.numbers.pop(0):g}" if self.numbers else ""


def arguments_for(offer: Offer, asked: str, besides: frozenset[str]) -> list[dict[str, Json]]:
    """Write the arguments of one or more calls: several where a message names more subjects than fit in one.

    `besides`: stems that are no subjects, the words of the agent's functions. An agent gets what follows its own words
    whole, so that it is not asked what the asking one was.
    """
    asked, own = asked[:MAX_ASKED], stems(offer.name)
    rest = remainder(asked, own)
    if offer.is_agent and not offer.parameters_json:
        return [{"input": rest or NOTHING_SAID}]
    root = _schema(offer.parameters_json)
    found, figures = subjects(asked, besides), numbers(asked)
    groups: list[tuple[list[str], list[float]]] = [(found, figures)]
    kinds = _kinds_needed(root)
    if kinds.count("text") == 1 and "array" not in kinds and found:
        groups = [([subject], figures) for subject in found[:MAX_CALLS]]
    elif kinds == ["number"] and figures:
        groups = [(found, [figure]) for figure in figures[:MAX_CALLS]]
    written: list[dict[str, Json]] = []
    for texts, values in groups:
        evidence = Evidence(words=stems(asked), subjects=list(texts), numbers=list(values), rest=rest)
        value = _object(root, root, evidence, 0)
        if value not in written:
            written.append(value)
    return written


def simplest(schema_json: str, text: str) -> dict[str, Json]:
    """Write an object that fits a schema, `text` wherever it wants one."""
    root = _schema(schema_json)
    return _object(_resolved(root, root), root, Evidence(words=frozenset(), subjects=[], numbers=[], rest=text), 0)


def _kinds_needed(root: Schema) -> list[str]:
    parts = {name: _resolved(part, root) for name, part in _mapping(root.get("properties")).items()}
    required = _required(root) or parts
    return [_kind(p) for name, p in parts.items() if name in required and not _is_nullable(p)]


def _schema(text: str) -> Schema:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _value(schema: Schema, root: Schema, evidence: Evidence, depth: int, *, needed: bool) -> Json:
    """Write a value; None: nothing fits, or nothing was said of what is not needed."""
    evidence.values += 1
    if depth > MAX_DEPTH or evidence.values > MAX_VALUES:
        return None
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return _choice(schema, evidence, needed)
    kind = _kind(schema)
    if "default" in schema and kind != "number":
        return schema["default"]
    match kind:
        case "object":
            return _object(schema, root, evidence, depth) if needed else None
        case "array":
            return _array(schema, root, evidence, depth, needed=needed)
        case "number":
            return _number(schema, evidence, needed)
        case "boolean":
            return False if needed else None
        case "text":
            return _text(schema, evidence, needed)
        case _:
            return None


def _object(schema: Schema, root: Schema, evidence: Evidence, depth: int) -> dict[str, Json]:
    properties = _mapping(schema.get("properties"))
    wanted = _required(schema)
    values: dict[str, Json] = {}
    for name in sorted(properties, key=lambda name: name not in wanted):  # what must be said takes first
        part = _resolved(properties[name], root)
        needed = name in wanted and not _is_nullable(part)
        value = _value(part, root, evidence, depth + 1, needed=needed)
        if _kind(part) == "boolean" and "default" not in part and stems(name) & evidence.words:
            value = True
        if value is not None or name in wanted:
            values[name] = value
    return {name: values[name] for name in properties if name in values}


def _array(schema: Schema, root: Schema, evidence: Evidence, depth: int, *, needed: bool) -> Json:
    part = _resolved(schema.get("items"), root)
    least, most = _count(schema.get("minItems"), 0), _count(schema.get("maxItems"), MAX_CALLS)
    values: list[Json] = []
    while len(values) < min(most, MAX_CALLS):
        needs_more = len(values) < least or (needed and not values)
        if not needs_more and not _offers(part, evidence):
            break
        value = _value(part, root, evidence, depth + 1, needed=needs_more)
        if value is None and not needs_more:
            break
        values.append(value)
    return values if values or needed else None


def _offers(schema: Schema, evidence: Evidence) -> bool:
    if "enum" in schema:
        return True  # `_choice` says None once every mentioned value is taken
    return bool(evidence.numbers if _kind(schema) == "number" else evidence.subjects)


def _choice(schema: Schema, evidence: Evidence, needed: bool) -> Json:
    values = schema["enum"]
    for value in values:
        said = stems(str(value))
        if said and said <= evidence.words and str(value) not in evidence.chosen:
            evidence.chosen.add(str(value))
            evidence.subjects = [s for s in evidence.subjects if stems(s) != said]
            return value
    if "default" in schema:
        return schema["default"]
    return values[0] if needed else None


def _number(schema: Schema, evidence: Evidence, needed: bool) -> float | int | None:
    if evidence.numbers:
        value = evidence.numbers.pop(0)
    elif "default" in schema:
        default: float | int | None = schema["default"]
        return default
    elif needed:
        value = 1.0
    else:
        return None
    for key, least in (("minimum", max), ("maximum", min)):
        if isinstance(schema.get(key), int | float):
            value = least(value, schema[key])
    return round(value) if "integer" in _types(schema) or value == round(value) else value


def _text(schema: Schema, evidence: Evidence, needed: bool) -> str | None:
    text = evidence.text()
    if not text:
        if not needed:
            return None
        examples = schema.get("examples")
        example = examples[0] if isinstance(examples, list) and examples else NOTHING_SAID
        text = evidence.rest or str(example)
    text = text.ljust(_count(schema.get("minLength"), 0), "x")
    return text[: _count(schema.get("maxLength"), len(text))]


def _resolved(schema: Json, root: Schema, depth: int = 0) -> Schema:
    """Follow references, put `allOf` together and take the first branch of a choice that is not null."""
    found = _mapping(schema)
    if depth > MAX_DEPTH:
        return {}
    if isinstance(found.get("$ref"), str):
        return _resolved({**_pointed(found["$ref"], root), **_without(found, "$ref")}, root, depth + 1)
    for key in ("anyOf", "oneOf"):
        branches = found.get(key)
        if isinstance(branches, list):
            resolved = [_resolved(branch, root, depth + 1) for branch in branches]
            first = next((b for b in resolved if _types(b) != {"null"}), {})
            nullable = any(_types(b) == {"null"} for b in resolved)
            kept = {**first, **_without(found, key)}
            return {**kept, "nullable": True} if nullable else kept
    if isinstance(found.get("allOf"), list):
        merged: dict[str, Json] = {}
        for branch in found["allOf"]:
            merged |= _resolved(branch, root, depth + 1)
        return {**merged, **_without(found, "allOf")}
    return found


def _pointed(pointer: str, root: Schema) -> Schema:
    value: Json = root
    for step in pointer.removeprefix("#").strip("/").split("/"):
        value = _mapping(value).get(step.replace("~1", "/").replace("~0", "~")) if step else value
    return _mapping(value)


def _kind(schema: Schema) -> str:
    """Tell what a schema asks for. An enum or a constant is no free text."""
    if "enum" in schema or "const" in schema:
        return "choice"
    types = _types(schema)
    for name, kind in _KINDS:
        if name in types:
            return kind
    return "object" if "properties" in schema else "text" if not types else "null"


_KINDS = (
    ("object", "object"),
    ("array", "array"),
    ("string", "text"),
    ("integer", "number"),
    ("number", "number"),
    ("boolean", "boolean"),
)


def _types(schema: Schema) -> set[str]:
    types = schema.get("type")
    return {t for t in (types if isinstance(types, list) else [types]) if isinstance(t, str)}


def _required(schema: Schema) -> set[str]:
    names = schema.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _is_nullable(schema: Schema) -> bool:
    return "null" in _types(schema) or schema.get("nullable") is True


def _without(schema: Schema, key: str) -> dict[str, Json]:
    return {name: value for name, value in schema.items() if name != key}


def _mapping(value: Json) -> Schema:
    return value if isinstance(value, Mapping) else {}


def _count(value: Json, default: int) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1024 else default
