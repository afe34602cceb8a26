"""Filters that are data: what a list of items keeps. Pure; items are JSON texts of the Responses API, kept as they are.

An item that is shortened is written anew; every other one stays the very text that it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from baton_server.core.agents import InputFilter, KeepLast, RemoveAllTools, TrimOutputs
from baton_server.core.hooks.answers import members, required
from baton_server.core.hooks.packing import Stretch, pieces
from baton_server.core.jsontext import dump
from baton_server.core.tools import HookRef

OUTPUTS: Mapping[str, str] = {
    "function_call_output": "function_call",
    "computer_call_output": "computer_call",
    "local_shell_call_output": "local_shell_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "custom_tool_call_output": "custom_tool_call",
}
"""Types of outputs, and of the calls that they answer."""

_TOOL_ITEMS = frozenset(
    {
        *OUTPUTS,
        *OUTPUTS.values(),
        "reasoning",
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "tool_search_output",
    }
)
"""What `RemoveAllTools` leaves out: calls and outputs of tools, and the reasoning that leads to them."""

Texts = Sequence[str]

# What is within another text is escaped, so that these find an item's own members, or those of what is inside it.
_ROLE = re.compile(r'"role"\s*:\s*"')  # in a schema of parameters, of that name, it is no text
_CALL_ID = re.compile(r'"call_id"\s*:\s*"([^"]*)"')
_ID = re.compile(r'"id"\s*:\s*"([^"]*)"')
_IS_OUTPUT = re.compile(r'"type"\s*:\s*"[a-z_]+_output"')


def apply(chosen: InputFilter, texts: Texts) -> list[str]:
    """Apply a filter that is data. One that is a program is asked; it is none of these."""
    match chosen:
        case KeepLast(items=count):
            return without_orphans(texts[-count:])
        case TrimOutputs():
            return _trimmed(chosen, texts)
        case RemoveAllTools():
            return [text for text in texts if _type(text) not in _TOOL_ITEMS]
        case HookRef():
            raise TypeError("a program's filter is asked, not applied")


def kept_positions(chosen: Sequence[InputFilter], answers: Sequence[str | None], texts: Texts) -> list[int]:
    """List the positions of what a chain of filters keeps, shortened or not. `answers`: of those that are programs."""
    places: list[int | None] = list(range(len(texts)))
    current: list[str] = list(texts)
    for one, answer in zip(chosen, answers, strict=False):
        if not isinstance(one, HookRef):
            kept = apply(one, current)
            places = _followed(places, current, kept) if len(kept) != len(current) else places
            current = kept
            continue
        packed = required(members(answer), "input")[1] if answer else "[]"
        following: list[tuple[int | None, str]] = []
        for piece in pieces(packed):
            if isinstance(piece, Stretch):
                following.extend(list(zip(places, current, strict=True))[piece.first : piece.end])
            else:
                following.append((None, piece))
        places, current = [place for place, _ in following], [text for _, text in following]
    return sorted({place for place in places if place is not None})


def without_orphans(texts: Texts) -> list[str]:
    """Leave out outputs whose call is not there, which a model's API refuses."""
    calls = {(kind, call_id) for kind, call_id in map(_call, texts) if kind in OUTPUTS.values()}
    return [
        text for text, (kind, call_id) in _with_calls(texts) if kind not in OUTPUTS or (OUTPUTS[kind], call_id) in calls
    ]


def without_open_calls(texts: Texts) -> list[str]:
    """Leave out calls that have no output, which a model's API refuses."""
    answered = {(OUTPUTS[kind], call_id) for kind, call_id in map(_call, texts) if kind in OUTPUTS}
    return [
        text
        for text, (kind, call_id) in _with_calls(texts)
        if kind not in OUTPUTS.values() or (kind, call_id) in answered
    ]


def newest(texts: Texts, limit: int | None) -> list[str]:
    """Keep the newest items of a history, without what is torn apart by that. None: all."""
    if limit is None or len(texts) <= limit:
        return list(texts)
    return without_open_calls(without_orphans(texts[len(texts) - limit :]))


def without_repeats(texts: Texts) -> list[str]:
    """Keep one of each item that stands there several times: the latest value, a call where it stood first.

    Messages are never the same; calls and outputs are by call id, others by their id.
    """
    return _latest(texts) if _may_repeat(texts) else list(texts)


def _may_repeat(texts: Texts) -> bool:
    """Tell whether an item may stand there several times, without parsing them: every request asks."""
    seen: set[tuple[str, bool]] = set()
    for text in texts:
        if _ROLE.search(text) is not None:
            continue
        found = _CALL_ID.search(text) or _ID.search(text)
        key = (found[1], _IS_OUTPUT.search(text) is not None) if found else None
        if key in seen:
            return True
        if key is not None:
            seen.add(key)
    return False


def _latest(texts: Texts) -> list[str]:
    places: dict[tuple[str, str], int] = {}
    kept: list[str | None] = []
    for text in texts:
        key, stays = _identity(text)
        at = None if key is None else places.get(key)
        if at is not None and stays:
            kept[at] = text
            continue
        if at is not None:
            kept[at] = None
        if key is not None:
            places[key] = len(kept)
        kept.append(text)
    return [text for text in kept if text is not None]


def without_ids(texts: Texts) -> list[str]:
    """Take the ids from reasoning items; everything else in them stays."""
    return [without_id(text) if '"reasoning"' in text else text for text in texts]


def without_id(text: str) -> str:
    """Take the id from an item, if it is a reasoning item."""
    value = json.loads(text)
    if value.get("type") != "reasoning" or "id" not in value:
        return text
    return dump({key: inner for key, inner in value.items() if key != "id"})


def _with_calls(texts: Texts) -> list[tuple[str, tuple[str, str]]]:
    return [(text, _call(text)) for text in texts]


def _call(text: str) -> tuple[str, str]:
    value = json.loads(text)
    return str(value.get("type", "")), str(value.get("call_id", ""))


def _type(text: str) -> str:
    return _call(text)[0]


def _identity(text: str) -> tuple[tuple[str, str] | None, bool]:
    """Tell which item a text is, None: one of its own; and whether it keeps its first place."""
    value = json.loads(text)
    kind = str(value.get("type", ""))
    if "role" in value or kind == "message":
        return None, False
    stays = kind in OUTPUTS.values() or kind in ("reasoning", "mcp_approval_request")
    if value.get("call_id"):
        return (kind, str(value["call_id"])), stays
    if value.get("id") and value["id"] != "__fake_id__":
        return (kind, str(value["id"])), stays
    return None, False


def _followed(places: list[int | None], before: list[str], after: list[str]) -> list[int | None]:
    """Follow positions through a filter that only leaves out, and keeps the order."""
    made: list[int | None] = []
    at = 0
    for text in after:
        while before[at] != text:
            at += 1
        made.append(places[at])
        at += 1
    return made


def _trimmed(rule: TrimOutputs, texts: Texts) -> list[str]:
    values = [json.loads(text) for text in texts]
    calls = [value for value in values if value.get("type") == "function_call"]
    named = {str(value.get("call_id")): value.get("name", "") for value in calls}  # a program may have made it a list
    users = [at for at, value in enumerate(values) if value.get("role") == "user"]
    whole_from = users[-rule.recent_messages] if 0 < rule.recent_messages <= len(users) else 0
    if rule.recent_messages == 0:
        whole_from = len(texts)
    return [
        _shortened(rule, named, value, text) if at < whole_from else text
        for at, (value, text) in enumerate(zip(values, texts, strict=True))
    ]


def _shortened(rule: TrimOutputs, named: Mapping[Any, str], value: dict[str, Any], text: str) -> str:
    if value.get("type") != "function_call_output":
        return text
    tool, output = named.get(str(value.get("call_id")), ""), value.get("output")
    if rule.functions and tool not in rule.functions:
        return text
    shown = output if isinstance(output, str) else dump(output)
    if len(shown) <= rule.max_chars:
        return text
    preview = shown[: rule.preview_chars]
    words = f"[Trimmed: the output of {tool or 'a function'} had {len(shown)} characters; it began:]\n{preview}…"
    return dump({**value, "output": words}) if len(words) < len(shown) else text
