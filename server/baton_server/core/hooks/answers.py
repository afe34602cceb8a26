"""Answers by kind. Each function reads a JSON text; one of the wrong shape is an AnswerError that says where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from baton_server.core import jsontext
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.items import ContentPart, TextPart
from baton_server.core.jsontext import JsonError
from baton_server.core.responses import ItemError, read_parts

Members = Mapping[str, tuple[Any, str]]
"""Members of an answer: value (for its shape) and text, by name."""


MAX_CUSTOM_DATA = 65_536
"""Characters of what an application keeps beside an output: it travels with the item, whole."""


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


class ToolVerdict(StrEnum):
    """What a tool guardrail says."""

    ALLOW = "allow"
    REJECT = "reject"
    TRIP = "trip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a guardrail says. `info_json` empty: it told nothing about its reasons."""

    tripped: bool
    info_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolJudged:
    """What a tool guardrail says. `message`: of REJECT, what the model is told."""

    verdict: ToolVerdict
    message: str = ""
    info_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check says. `output` None: it took effect, but what came of it is not known; or it did not."""

    effect: Effect
    output: tuple[ContentPart, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsUsed:
    """What is to follow from a round's functions. `output_json`: of a final one, any JSON."""

    final: bool
    output_json: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """What stands in for an error. `output_json` empty: nothing, the error stands."""

    output_json: str = ""
    include_in_history: bool = True


def read_judged(answer_json: str) -> Judged:
    """Read what a guardrail says: `{"tripped": true, "info": …}`. Raises AnswerError."""
    answer = members(answer_json)
    return Judged(tripped=_flag(answer, "tripped"), info_json=_info(answer))


def read_tool_judged(answer_json: str) -> ToolJudged:
    """Read what a tool guardrail says: `{"verdict": "reject", "message": …, "info": …}`. Raises AnswerError."""
    answer = members(answer_json)
    verdict = required(answer, "verdict")[0]
    if verdict not in set(ToolVerdict):
        raise AnswerError("$.verdict", f"must be one of {', '.join(ToolVerdict)}")
    message = _text_or_null(answer, "message") or ""
    if verdict == ToolVerdict.REJECT and not message:
        raise AnswerError("$.message", "must say what the model is told")
    return ToolJudged(verdict=ToolVerdict(verdict), message=message, info_json=_info(answer))


def read_checked(answer_json: str) -> Checked:
    """Read what a check says: `{"effect": "took_effect", "output": …}`. Raises AnswerError.

    An output that is a text is that text; any other value is its JSON.
    """
    answer = members(answer_json)
    effect, output = required(answer, "effect")[0], answer.get("output")
    if effect not in set(Effect):
        raise AnswerError("$.effect", f"must be one of {', '.join(Effect)}")
    if output is None or output[0] is None or effect != Effect.TOOK_EFFECT:
        return Checked(effect=Effect(effect))
    return Checked(effect=Effect.TOOK_EFFECT, output=(value_part(output),))


def read_flag(name: str, answer_json: str) -> bool:
    """Read one truth: `{"enabled": true}`. Raises AnswerError."""
    return _flag(members(answer_json), name)


def read_text(name: str, answer_json: str) -> str | None:
    """Read one text or null: `{"message": "…"}`; a member that is not there is null. Raises AnswerError."""
    return _text_or_null(members(answer_json), name)


def read_object(answer_json: str) -> None:
    """Read an answer that says nothing but that it was done. Raises AnswerError."""
    members(answer_json)


def read_tools_used(answer_json: str) -> ToolsUsed:
    """Read what follows from functions: `{"final": true, "output": …}`. Raises AnswerError."""
    answer = members(answer_json)
    final = _flag(answer, "final")
    return ToolsUsed(final=final, output_json=answer.get("output", (None, "null"))[1] if final else "")


def read_handled(answer_json: str) -> Handled:
    """Read what stands in for an error: `{"output": …, "include_in_history": true}`. Raises AnswerError."""
    answer = members(answer_json)
    output = answer.get("output")
    if output is None or output[0] is None:
        return Handled()
    include = _flag(answer, "include_in_history") if "include_in_history" in answer else True
    return Handled(output_json=output[1], include_in_history=include)


def read_custom_data(answer_json: str) -> str:
    """Read what an application keeps: `{"custom_data": {…}}`; empty: nothing. Raises AnswerError."""
    data = members(answer_json).get("custom_data")
    if data is None or data[0] is None:
        return ""
    if not isinstance(data[0], dict):
        raise AnswerError("$.custom_data", "must be an object or null")
    if len(data[1]) > MAX_CUSTOM_DATA:
        raise AnswerError("$.custom_data", f"has {len(data[1])} characters, more than {MAX_CUSTOM_DATA}")
    return data[1]


def read_output(answer_json: str) -> tuple[ContentPart, ...]:
    """Read what the model is told: `{"output": text or parts}`. Raises AnswerError."""
    value, text = required(members(answer_json), "output")
    if isinstance(value, str) and text.startswith('"'):
        return (TextPart(text=value),)
    if not isinstance(value, list):
        raise AnswerError("$.output", "must be a text or a list of parts")
    try:
        return read_parts(value, "$.output")
    except ItemError as error:
        raise AnswerError(error.path or "$.output", error.problem) from None


def nonsense(kind: HookKind, name: str, error: AnswerError) -> Failure:
    """Say that an answer has not the shape of its kind."""
    return Failure(
        reason=Reason.HOOK_ANSWER_INVALID,
        message=f"The hook {name!r} ({kind}) gave an answer that cannot be used: at {error.path}: {error.problem}.",
        metadata={"kind": kind.value, "name": name, "path": error.path},
    )


def members(text: str) -> Members:
    """Take an answer apart. Raises AnswerError."""
    try:
        return {key: (value, inner) for key, value, inner in jsontext.members(text)}
    except JsonError as error:
        raise AnswerError("$", f"it is {error}") from None


def required(answer: Members, name: str) -> tuple[Any, str]:
    """Find a member. Raises AnswerError."""
    if name not in answer:
        raise AnswerError(f"$.{name}", "is missing")
    return answer[name]


def value_part(said: tuple[Any, str]) -> TextPart:
    """Make the part of a function's output: a text, or any other value, which says that it is one."""
    return TextPart(text=plain(said), is_json=not said[1].startswith('"'))


def plain(said: tuple[Any, str]) -> str:
    """Write a value as a model is told it: a text as it is, anything else as its JSON."""
    value, text = said
    # A parsed text is told from a number by its quotes: shapes are parsed with numbers as texts.
    return str(value) if text.startswith('"') else text


def _flag(answer: Members, name: str) -> bool:
    value = required(answer, name)[0]
    if not isinstance(value, bool):
        raise AnswerError(f"$.{name}", "must be true or false")
    return value


def _text_or_null(answer: Members, name: str) -> str | None:
    value, text = answer.get(name, (None, "null"))
    if value is None:
        return None
    if not isinstance(value, str) or not text.startswith('"'):
        raise AnswerError(f"$.{name}", "must be a text or null")
    return value


def _info(answer: Members) -> str:
    info = answer.get("info")
    return "" if info is None or info[0] is None else info[1]
