"""Says where what a runtime did in a scenario departs from what the reference did.

`expect` and `got` have one shape (see `scenario`). Wording is each implementation's own: where the reference composes a
sentence, `expect` holds {"$text": [PART, ...], "$not": [PART, ...]}, with which every text agrees that carries all of
the one and none of the other. Forms that mean the same to the Responses API are made one before they are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

SEEN_IN_RUN = (
    "outcome", "error", "guardrail", "final_output", "last_agent", "new_items", "usage", "interruptions", "stream",
)  # fmt: skip
"""What is compared of a run; its `message` is not."""

MAX_LINE = 600
"""Characters of one difference."""


def differences(expect: Json, got: Json, rpc: str = "run_streamed") -> list[str]:
    """List every point in which `got` departs from `expect`; nothing where they agree.

    `rpc`: "run", of which no stream is seen, or "run_streamed".
    """
    if rpc == "run_streamed" and not expect["streamed_alike"]:
        expect = expect["streamed"]
    if len(expect["runs"]) != len(got["runs"]):
        return [f"runs: want {len(expect['runs'])}, got {len(got['runs'])}"]
    return [line[:MAX_LINE] for line in _all(expect, got, rpc)]


def _all(expect: Json, got: Json, rpc: str) -> Iterator[str]:
    for index, (want_run, got_run) in enumerate(zip(expect["runs"], got["runs"], strict=True)):
        seen = [key for key in SEEN_IN_RUN if key != "stream" or rpc == "run_streamed"]
        want, found = ({key: run[key] for key in seen if key in run} for run in (want_run, got_run))
        yield from _dicts(_each_plain(want), _each_plain(found), f"runs[{index}]")
    yield from _differ(plain(expect["requests"]), plain(got["requests"]), "requests")
    if sorted(expect["functions_called"]) != sorted(got["functions_called"]):
        yield f"functions_called: want {expect['functions_called']}, got {got['functions_called']}"
    if "most_at_once" in expect and expect["most_at_once"] != got.get("most_at_once"):
        yield f"most_at_once: want {expect['most_at_once']}, got {got.get('most_at_once')}"


def plain(value: Any) -> Any:
    """Give one form to what the Responses API takes as the same thing."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict) or "$text" in value:
        return value
    made = {key: plain(each) for key, each in value.items() if each is not None}
    kind = made.get("type")
    if "role" in made and kind in (None, "message"):
        return {"role": made["role"], "content": _content(made.get("content"))}
    if kind in ("output_text", "input_text"):
        return {"type": kind, "text": made.get("text")}
    if kind in ("function_call", "function_call_output", "tool_search_call"):
        made = {key: each for key, each in made.items() if key not in ("id", "status")}
    if kind == "function" and isinstance(made.get("parameters"), dict):
        made["parameters"] = {k: v for k, v in made["parameters"].items() if k not in ("title", "description")}
    if isinstance(made.get("output"), str):  # white space in JSON is nobody's business
        made["output"] = _parsed(made["output"])
    if isinstance(made.get("tools"), list):
        made["tools"] = sorted(made["tools"], key=lambda tool: json.dumps([tool.get("type"), tool.get("name")]))
    return made


def _each_plain(run: Json) -> Json:
    """Keep a null that a run says, such as the final output of none, which `plain` would take out."""
    return {key: plain(value) for key, value in run.items()}


def _content(content: Any) -> Any:
    if isinstance(content, list) and len(content) == 1 and content[0].get("type") in ("input_text", "output_text"):
        return content[0]["text"]
    return content


def _parsed(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _differ(want: Any, got: Any, where: str) -> Iterator[str]:
    if isinstance(want, dict) and "$text" in want:
        yield from _wording(want, got, where)
    elif isinstance(want, dict) and isinstance(got, dict):
        yield from _dicts(want, got, where)
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            yield f"{where}: want {len(want)} entries, got {len(got)}: {want!r} / {got!r}"
        for index, (one, other) in enumerate(zip(want, got, strict=False)):
            yield from _differ(one, other, f"{where}[{index}]")
    elif type(want) is not type(got) or want != got:  # 1, 1.0 and true are three things
        yield f"{where}: want {want!r}, got {got!r}"


def _dicts(want: Json, got: Json, where: str) -> Iterator[str]:
    for key in sorted({*want, *got}):
        if key not in got:
            yield f"{where}.{key}: missing (want {want[key]!r})"
        elif key not in want:
            yield f"{where}.{key}: not expected (got {got[key]!r})"
        else:
            yield from _differ(want[key], got[key], f"{where}.{key}")


def _wording(want: Json, got: Any, where: str) -> Iterator[str]:
    carries, lacks = want["$text"], want.get("$not", [])
    text = got if isinstance(got, str) else json.dumps(got)
    missing = [part for part in carries if part not in text]
    unwanted = [part for part in lacks if part in text]
    if got in (None, "", [], {}) or missing or unwanted:
        yield f"{where}: want a text with {carries} and without {lacks}, got {got!r}"
