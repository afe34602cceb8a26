"""What hooks are called, what they are asked and what their answers mean. Pure; records nothing.

Payloads and answers are JSON objects as text (PROTOCOL.md §6). An answer of the wrong shape is an AnswerError; a
field that is not known here is passed over.

A filter's answer is kept packed: items that it left as they were are `{"$kept": [from, to]}`, so that the log does
not grow with the square of the session, and go back to the model byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from baton_server.core import ids, jsontext
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.items import ContentPart, TextPart
from baton_server.core.jsontext import JsonError

KEPT = "$kept"


class AnswerError(ValueError):
    """An answer does not have the shape of its kind. `path` says where, from `$`."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class Effect(StrEnum):
    """What a check says about an attempt that is lost."""

    NONE = "none"
    TOOK_EFFECT = "took_effect"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a guardrail says. `info_json` empty: it told nothing about its reasons."""

    tripped: bool
    info_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check says. `output` None: it took effect, but what came of it is not known; or it did not."""

    effect: Effect
    output: tuple[ContentPart, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """What a model request carries: instructions (None: none) and the JSON texts of its items."""

    instructions: str | None
    items: tuple[str, ...]


# -- names -----------------------------------------------------------------------------------------


def guardrail_id(turn_id: str, first_number: int, index: int) -> str:
    """Name the hook of guardrail `index` for the input that begins with item `first_number`."""
    return ids.hook_id(turn_id, f"g{first_number:x}.{index}")


def filter_id(turn_id: str, round_number: int, index: int) -> str:
    """Name the hook of filter `index` for a round's request."""
    return ids.hook_id(turn_id, f"f{round_number:x}.{index}")


def check_id(turn_id: str, call_id: str, attempt: int) -> str:
    """Name the hook that checks what an attempt did."""
    return ids.hook_id(turn_id, f"e{ids.number_of(call_id):x}.{attempt}")


# -- questions -------------------------------------------------------------------------------------


def guardrail_question(items: Sequence[str]) -> str:
    """Ask whether an input may be worked on. `items`: the JSON texts of what the model is to see."""
    return f'{{"input":[{",".join(items)}]}}'


def filter_question(given: ModelInput) -> str:
    """Ask what a request is to carry."""
    return f'{{"instructions":{jsontext.dump(given.instructions)},"input":[{",".join(given.items)}]}}'


def check_question(*, key: str, call_id: str, tool: str, arguments: str, attempt: int) -> str:
    """Ask whether an attempt took effect."""
    return jsontext.dump(
        {"idempotency_key": key, "call_id": call_id, "tool": tool, "arguments_json": arguments, "attempt": attempt}
    )


# -- answers ---------------------------------------------------------------------------------------


def read_verdict(answer_json: str) -> Verdict:
    """Read what a guardrail says: `{"tripped": true, "info": …}`. Raises AnswerError."""
    members = _members(answer_json)
    tripped = _required(members, "tripped")[0]
    if not isinstance(tripped, bool):
        raise AnswerError("$.tripped", "must be true or false")
    info = members.get("info")
    return Verdict(tripped=tripped, info_json="" if info is None or info[0] is None else info[1])


def read_checked(answer_json: str) -> Checked:
    """Read what a check says: `{"effect": "took_effect", "output": …}`. Raises AnswerError.

    An output that is a text is that text; any other value is its JSON.
    """
    members = _members(answer_json)
    effect, output = _required(members, "effect")[0], members.get("output")
    if effect not in set(Effect):
        raise AnswerError("$.effect", f"must be one of {', '.join(Effect)}")
    if output is None or output[0] is None or effect != Effect.TOOK_EFFECT:
        return Checked(effect=Effect(effect))
    # A parsed text is told from a number by its quotes: shapes are parsed with numbers as texts.
    text = output[0] if output[1].startswith('"') else output[1]
    return Checked(effect=Effect.TOOK_EFFECT, output=(TextPart(text=text),))


def pack(asked: Sequence[str], answer_json: str) -> str:
    """Write a filter's answer for the log: what it kept by position, what is new as it came. Raises AnswerError."""
    members = _members(answer_json)
    places: dict[str, list[int]] = {}
    for place, text in enumerate(asked):
        places.setdefault(_canonical(text), []).append(place)
    packed: list[str] = []
    run: list[int] = []
    for position, (value, text) in enumerate(_elements(members)):
        if not isinstance(value, dict) or KEPT in value:
            raise AnswerError(f"$.input[{position}]", "must be a Responses API item")
        candidates = places.get(_canonical(text), [])
        following = run[1] if run else -1
        if following in candidates:
            run[1] += 1
            continue
        _flush(packed, run)
        run = [candidates[0], candidates[0] + 1] if candidates else []
        if not candidates:
            packed.append(text)
    _flush(packed, run)
    instructions = members.get("instructions")
    said = "" if instructions is None else f'"instructions":{_instructions(instructions)},'
    return f'{{{said}"input":[{",".join(packed)}]}}'


def unpack(given: ModelInput, packed_json: str) -> ModelInput:
    """Apply a packed answer to what was asked."""
    members = _members(packed_json)
    items: list[str] = []
    for value, text in _elements(members):
        if KEPT in value:
            first, end = (int(bound) for bound in value[KEPT])
            items.extend(given.items[first:end])
        else:
            items.append(text)
    said = members.get("instructions")
    return ModelInput(instructions=given.instructions if said is None else said[0], items=tuple(items))


def nonsense(kind: HookKind, name: str, error: AnswerError) -> Failure:
    """Say that an answer has not the shape of its kind."""
    return Failure(
        reason=Reason.HOOK_ANSWER_INVALID,
        message=f"The hook {name!r} ({kind}) gave an answer that cannot be used: at {error.path}: {error.problem}.",
        metadata={"kind": kind.value, "name": name, "path": error.path},
    )


def _members(text: str) -> Mapping[str, tuple[Any, str]]:
    try:
        return {key: (value, inner) for key, value, inner in jsontext.members(text)}
    except JsonError as error:
        raise AnswerError("$", f"it is {error}") from None


def _required(members: Mapping[str, tuple[Any, str]], name: str) -> tuple[Any, str]:
    if name not in members:
        raise AnswerError(f"$.{name}", "is missing")
    return members[name]


def _elements(members: Mapping[str, tuple[Any, str]]) -> list[tuple[Any, str]]:
    value, text = _required(members, "input")
    if not isinstance(value, list):
        raise AnswerError("$.input", "must be a list of Responses API items")
    return list(jsontext.elements(text))


def _instructions(said: tuple[Any, str]) -> str:
    value, text = said
    if value is not None and not (isinstance(value, str) and text.startswith('"')):
        raise AnswerError("$.instructions", "must be a text or null")
    return text


def _canonical(text: str) -> str:
    """Write an item in one way, numbers as they came: a client may have written it anew."""
    return json.dumps(json.loads(text, parse_int=_number, parse_float=_number), sort_keys=True, separators=(",", ":"))


def _number(text: str) -> dict[str, str]:
    return {"$number": text}


def _flush(packed: list[str], run: list[int]) -> None:
    if run:
        packed.append(f'{{"{KEPT}":[{run[0]},{run[1]}]}}')
