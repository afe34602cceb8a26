"""Folding a conversation at a handoff: what was said so far as numbered lines between two markers. Pure.

What the receiver must see as it is (messages of this round, items of hosted tools) stays between the folded stretches.
An earlier fold that comes again is taken apart and folded anew, so that folds do not nest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from baton_server.core.jsontext import dump

START_MARKER = "<CONVERSATION HISTORY>"
END_MARKER = "</CONVERSATION HISTORY>"
PREAMBLE = "For context, here is the conversation so far between the user and the previous agent:"
NOTHING = "(no previous turns recorded)"

_FOLDED = frozenset({"function_call", "function_call_output", "reasoning"})
_LINE = re.compile(r"^\d+\. ", re.MULTILINE)


def fold(
    past: Sequence[str], pre: Sequence[str], new: Sequence[str], *, start_marker: str = "", end_marker: str = ""
) -> list[str]:
    """Fold a conversation. `past`: history and input; `pre`: made before this round; `new`: made in this round."""
    start, end = start_marker or START_MARKER, end_marker or END_MARKER
    sorted_out = [
        *((value, text, True) for text in past for value in (json.loads(text),)),
        *((value, text, _is_folded(value, assistant=True)) for text in pre for value in (json.loads(text),)),
        *((value, text, _is_folded(value, assistant=False)) for text in new for value in (json.loads(text),)),
    ]
    made: list[str] = []
    lines: list[str] = []
    folded_any = False
    for value, text, folded in sorted_out:
        if folded:
            lines.extend(_unfolded(value, start, end) or [_line(value)])
            continue
        if lines or not folded_any:
            made.append(_message(lines, start, end))
            folded_any, lines = True, []
        made.append(text)
    if lines or not folded_any:
        made.append(_message(lines, start, end))
    return made


def _is_folded(value: dict[str, Any], *, assistant: bool) -> bool:
    return str(value.get("type")) in _FOLDED or (assistant and value.get("role") == "assistant")


def _message(lines: Sequence[str], start: str, end: str) -> str:
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)] or [NOTHING]
    return dump({"role": "assistant", "content": "\n".join((PREAMBLE, start, *numbered, end))})


def _line(value: dict[str, Any]) -> str:
    role, content = value.get("role"), _plain(value.get("content"))
    if role is not None and content is not None and "\n" not in content:
        name = value.get("name")
        return f"{role} ({name}): {content}" if name else f"{role}: {content}"
    return json.dumps({key: inner for key, inner in value.items() if key != "provider_data"}, ensure_ascii=False)


def _plain(content: Any) -> str | None:
    return content if isinstance(content, str) else None


def _unfolded(value: dict[str, Any], start: str, end: str) -> list[str]:
    """Take an earlier fold apart into its lines; empty: it is none."""
    content = value.get("content")
    if value.get("role") != "assistant" or not isinstance(content, str):
        return []
    head, tail = f"{PREAMBLE}\n{start}\n", f"\n{end}"
    if not content.startswith(head) or not content.endswith(tail):
        return []
    inner = content[len(head) : -len(tail)]
    if inner == NOTHING:
        return []
    return [line.removesuffix("\n") for line in _LINE.split(inner) if line]
