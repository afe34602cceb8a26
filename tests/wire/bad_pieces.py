"""Bad pieces of definitions, as data: what agents, functions and options of a run share. Each with the path in it."""

from __future__ import annotations

from tests.wire.good_agents import Json

HOOK_TIMEOUTS = ("0s", "0.0005s", "-1s", "600.001s")
LONG_WORDS = "x" * 4097

_CHECK: Json = {"name": "no_pii", "hook": {"name": "check"}}


def under(field: str, rows: list[tuple[Json, str]], **beside: object) -> list[tuple[Json, str]]:
    """Put each bad piece into a field, beside what is good."""
    return [({**beside, field: bad}, f"{field}.{path}") for bad, path in rows]


def first_of(field: str, rows: list[tuple[Json, str]]) -> list[tuple[Json, str]]:
    """Put each bad piece into a list, as its first element."""
    return [({field: [bad]}, f"{field}[0].{path}") for bad, path in rows]


REFERENCES: list[tuple[Json, str]] = [
    *(({"name": bad}, "name") for bad in ("", "no pii", "n" * 65)),
    *(({"name": "check", "timeout": bad}, "timeout") for bad in HOOK_TIMEOUTS),
]
"""References to hooks."""

A_REFERENCE: list[tuple[Json, str]] = REFERENCES[:1]
"""One of them, for fields that are judged by the same code as another."""

TERMS: list[tuple[Json, str]] = [
    ({}, "terms"),
    ({"terms": ["t"] * 257}, "terms"),
    ({"terms": ["a", ""]}, "terms[1]"),
    ({"terms": ["a", "t" * 257]}, "terms[1]"),
    ({"terms": ["a\0b"]}, "terms[0]"),
]

_CHECKS: list[tuple[Json, str]] = [
    ({}, "check"),
    *under("hook", REFERENCES),
    *under("deny", TERMS),
    *under("allow", TERMS[:1]),
]

_NAMES: list[tuple[list[Json], str]] = [
    ([{**_CHECK, "name": f"g{number}"} for number in range(33)], ""),
    ([{**_CHECK, "name": ""}], "[0].name"),
    ([{**_CHECK, "name": "n" * 129}], "[0].name"),
    ([{**_CHECK, "name": "a\0b"}], "[0].name"),
    ([_CHECK, _CHECK], "[1].name"),
]

GUARDRAILS: list[tuple[list[Json], str]] = [
    *_NAMES,
    ([_CHECK, {**_CHECK, "blocking": True}], "[1].name"),
    *(([_CHECK, {"name": "other", **bad}], f"[1].{path}") for bad, path in _CHECKS),
]
"""Of inputs and of final outputs."""

TOOL_GUARDRAILS: list[tuple[list[Json], str]] = [
    *_NAMES,
    *(([{"name": "other", **bad}], f"[0].{path}") for bad, path in _CHECKS),
    ([{**_CHECK, "message": "no"}], "[0].message"),
    ([{"name": "no", "deny": {"terms": ["a"]}, "message": LONG_WORDS}], "[0].message"),
    ([{"name": "no", "deny": {"terms": ["a"]}, "message": "a\0b"}], "[0].message"),
]

APPROVALS: list[tuple[Json, str]] = [
    ({}, "rule"),
    ({"expires": "60s"}, "rule"),
    *under("hook", REFERENCES),
    *(({"always": True, "expires": bad}, "expires") for bad in ("0.999s", "-1s", "2592000.001s")),
]

ENABLED: list[tuple[Json, str]] = [({}, "rule"), *under("hook", REFERENCES)]

FAILURE_TEXTS: list[tuple[Json, str]] = [
    ({}, "text_source"),
    ({"text": ""}, "text"),
    ({"text": LONG_WORDS}, "text"),
    ({"text": "a\0b"}, "text"),
    *under("hook", REFERENCES),
    ({"fail_turn": False}, "fail_turn"),
]

FILTERS: list[tuple[list[Json], str]] = [
    ([{"hook": {"name": "trim"}}] * 9, ""),
    ([{}], "[0].filter"),
    *(([{"remove_all_tools": {}}, {"hook": bad}], f"[1].hook.{path}") for bad, path in REFERENCES),
    *(([{"keep_last": bad}], "[0].keep_last.items") for bad in ({}, {"items": -1})),
    *(
        ([{"trim_outputs": bad}], f"[0].trim_outputs.{path}")
        for bad, path in [
            ({"recent_messages": -1}, "recent_messages"),
            ({"max_chars": 0}, "max_chars"),
            ({"preview_chars": -1}, "preview_chars"),
            ({"functions": ["f"] * 513}, "functions"),
            ({"functions": [""]}, "functions[0]"),
            ({"functions": ["a", "f" * 129]}, "functions[1]"),
        ]
    ),
]

LIFECYCLE: list[tuple[list[Json], str]] = [
    ([{"hook": {"name": "audit"}}] * 9, ""),
    ([{"moments": ["LIFECYCLE_MOMENT_AGENT_START"]}], "[0].hook"),
    *(([{"hook": bad}], f"[0].hook.{path}") for bad, path in REFERENCES),
    *(
        ([{"hook": {"name": "audit"}, "moments": ["LIFECYCLE_MOMENT_MODEL_END", bad]}], "[0].moments[1]")
        for bad in (0, 8)
    ),
]
