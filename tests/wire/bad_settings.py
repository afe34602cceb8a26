"""Bad settings of models and bad options of runs, as data."""

from __future__ import annotations

from typing import Any

from tests.wire.bad_pieces import A_REFERENCE, FILTERS, GUARDRAILS, LIFECYCLE, LONG_WORDS, REFERENCES, under
from tests.wire.good_agents import Json
from tests.wire.good_requests import LONG_LABELS, LONG_NAME


def _deep(depth: int) -> Json:
    """Nest a rule so deep."""
    rule: Json = {"network_error": True}
    for _ in range(depth - 1):
        rule = {"any": {"rules": [rule]}}
    return rule


_RULES: list[tuple[Json, str]] = [
    ({}, "rule"),
    *(({arm: False}, arm) for arm in ("provider_suggested", "network_error", "retry_after")),
    ({"http_status": {}}, "http_status.codes"),
    ({"http_status": {"codes": [400] * 201}}, "http_status.codes"),
    *(({"http_status": {"codes": [429, bad]}}, "http_status.codes[1]") for bad in (0, 399, 600)),
    ({"any": {}}, "any.rules"),
    ({"all": {}}, "all.rules"),
    ({"any": {"rules": [{"network_error": True}] * 33}}, "any.rules"),
    ({"all": {"rules": [{"network_error": True}, {}]}}, "all.rules[1].rule"),
    *under("hook", REFERENCES),
    (_deep(5), "any.rules[0].any.rules[0].any.rules[0].any.rules[0]"),
]

_RETRIES: list[tuple[Json, str]] = [
    *(({"max_retries": bad}, "max_retries") for bad in (-1, 21)),
    *(({"initial_delay": bad}, "initial_delay") for bad in ("-1s", "3600.001s")),
    *(({"max_delay": bad}, "max_delay") for bad in ("-1s", "3600.001s")),
    *(({"multiplier": bad}, "multiplier") for bad in (0.9, 100.1, "NaN", "Infinity")),
    *under("rule", _RULES),
]

_HEADERS: list[tuple[Json, str]] = [
    *(({bad: "x"}, f"[{bad!r}]") for bad in ("Authorization", "AUTHORIZATION", "Host", "content-length", "Connection")),
    *(({bad: "x"}, f"[{bad!r}]") for bad in ("", "x y", "x:y", "x\r\ny", "é", "h" * 257)),
    *(({"x": bad}, "['x']") for bad in ("a\nb", "a\r", "é", " a", "a ", "\x7f", "v" * 4097)),
]

SETTINGS: list[tuple[Json, str]] = [
    *(({"temperature": bad}, "temperature") for bad in (-0.1, 2.1, "NaN")),
    *(({"top_p": bad}, "top_p") for bad in (-0.1, "Infinity")),
    *(({"frequency_penalty": bad}, "frequency_penalty") for bad in (-2.1, 2.1)),
    *(({"presence_penalty": bad}, "presence_penalty") for bad in (-2.1, 2.1)),
    ({"tool_choice": "get weather"}, "tool_choice"),
    ({"truncation": "some"}, "truncation"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"verbosity": "loud"}, "verbosity"),
    ({"metadata": LONG_LABELS}, "metadata"),
    ({"reasoning": {"effort": "a\0b"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "a\0b"}}, "reasoning.summary"),
    ({"prompt_cache_retention": "1h"}, "prompt_cache_retention"),
    ({"response_include": ["i"] * 65}, "response_include"),
    *(({"response_include": ["a", bad]}, "response_include[1]") for bad in ("", "i" * 257)),
    *(({"top_logprobs": bad}, "top_logprobs") for bad in (-1, 21)),
    ({"extra_query": {f"k{n}": "v" for n in range(65)}}, "extra_query"),
    ({"extra_query": {"": "v"}}, "extra_query['']"),
    ({"extra_query": {"k" * 257: "v"}}, f"extra_query[{'k' * 256!r}]"),
    ({"extra_query": {"k": "v" * 4097}}, "extra_query['k']"),
    *(({"extra_headers": bad}, f"extra_headers{path}") for bad, path in _HEADERS if "h" * 257 not in bad),
    ({"extra_headers": {"h" * 257: "v"}}, f"extra_headers[{'h' * 256!r}]"),
    *(({"extra_body_json": bad}, "extra_body_json") for bad in ("{", "[]", '{"stream":false}', '{"a":1,"input":[]}')),
    ({"extra_body_json": '{"model":"other"}'}, "extra_body_json"),
    *(({"extra_args_json": bad}, "extra_args_json") for bad in ("{", "[]", '"a"')),
    *(({"context_management_json": bad}, "context_management_json") for bad in ("[", "{}", "3")),
    *(({"prompt_cache_options_json": bad}, "prompt_cache_options_json") for bad in ("{", "[]")),
    *(({"timeout": bad}, "timeout") for bad in ("0s", "0.0005s", "-1s", "86400.001s")),
    *under("retry", _RETRIES),
]

_HISTORIES: list[tuple[Json, str]] = [
    ({"session": {"limit": -1}}, "session.limit"),
    *(({"conversation": bad}, "conversation.id") for bad in ({}, {"id": LONG_NAME}, {"id": "a\0b"})),
    ({"response": {}}, "response.auto"),
    ({"response": {"previous_id": LONG_NAME}}, "response.previous_id"),
    ({"stored": {}}, "stored.store"),
    *under("stored", under("store", REFERENCES)),
    ({"stored": {"store": {"name": "mine"}, "limit": -1}}, "stored.limit"),
]

_HANDLERS: list[tuple[Json, str]] = [
    ({}, "handler"),
    ({"include_in_history": True}, "handler"),
    *under("hook", REFERENCES),
    ({"hook": {"name": "h"}, "include_in_history": False}, "include_in_history"),
    ({"output": "a\0b"}, "output"),
    *(({"output_json": bad}, "output_json") for bad in ("", "{", "NaN")),
]

_TRACINGS: list[tuple[Json, str]] = [
    ({"workflow_name": LONG_NAME}, "workflow_name"),
    *(
        ({"trace_id": bad}, "trace_id")
        for bad in ("t", f"trace_{'0' * 32}", f"trace_{'1' * 31}", f"trace_{'g' * 32}", "1" * 32)
    ),
    ({"group_id": LONG_NAME}, "group_id"),
    ({"metadata": LONG_LABELS}, "metadata"),
]

ROUNDS: list[tuple[Json, str]] = [
    ({"max_turns": -1}, "max_turns"),
    ({"max_turns": 1_000_001}, "max_turns"),
    ({"max_turns": 1, "unlimited_turns": True}, "unlimited_turns"),
]


def _listed(field: str, rows: list[tuple[list[Json], str]]) -> list[tuple[Json, str]]:
    return [({field: bad}, f"{field}{path}") for bad, path in rows]


CONFIGS: list[tuple[Json, str]] = [
    *ROUNDS,
    ({"handoff_history": {"start_marker": "x" * 256}, "model": "m" * 1024 * 1024}, ""),
    ({"model": "a\0b"}, "model"),
    ({"model_provider": "p" * 129}, "model_provider"),
    *under("model_settings", SETTINGS),
    *under("history", _HISTORIES),
    *under("session_input", REFERENCES),
    *_listed("input_guardrails", GUARDRAILS),
    *_listed("output_guardrails", GUARDRAILS[:2]),
    ({"output_guardrails": [{"name": "a", "hook": {"name": "h"}, "blocking": True}]}, "output_guardrails[0].blocking"),
    *_listed("handoff_input_filters", FILTERS[:2]),
    *under("handoff_history", under("mapper", A_REFERENCE)),
    ({"handoff_history": {"start_marker": "<" * 257}}, "handoff_history.start_marker"),
    ({"handoff_history": {"end_marker": ">" * 257}}, "handoff_history.end_marker"),
    *_listed("model_input_filters", FILTERS),
    ({"reasoning_item_ids": 9}, "reasoning_item_ids"),
    *(
        ({"tool_execution": {"max_function_concurrency": bad}}, "tool_execution.max_function_concurrency")
        for bad in (0, -1)
    ),
    ({"tool_not_found": 9}, "tool_not_found"),
    ({"tool_name_collision": 9}, "tool_name_collision"),
    *under("tool_error_texts", under("hook", A_REFERENCE)),
    *(
        ({"tool_error_texts": {name: LONG_WORDS}}, f"tool_error_texts.{name}")
        for name in ("approval_rejected", "tool_not_found", "tool_exception")
    ),
    *(({"blocked_output_text": bad}, "blocked_output_text.text") for bad in ({"text": ""}, {"text": LONG_WORDS})),
    ({"blocked_output_text": {}}, "blocked_output_text.text_source"),
    *under("blocked_output_text", under("hook", A_REFERENCE)),
    *under("error_handlers", under("max_turns", _HANDLERS)),
    *under("error_handlers", under("model_refusal", _HANDLERS[:1])),
    *under("error_handlers", under("invalid_final_output", _HANDLERS[:1])),
    *under("tracing", _TRACINGS),
    ({"unserved_grace": "-1s"}, "unserved_grace"),
    ({"unserved_grace": "600.001s"}, "unserved_grace"),
    ({"scopes": ["s"] * 9}, "scopes"),
    ({"scopes": [""]}, "scopes[0]"),
    ({"scopes": ["s", LONG_NAME]}, "scopes[1]"),
    ({"scopes": ["a\0b"]}, "scopes[0]"),
    *_listed("lifecycle_hooks", LIFECYCLE),
    ({"start_agent": "n" * 129}, "start_agent"),
]


def some(rows: list[Any]) -> list[Any]:
    """Take every tenth row, for requests whose field is judged by the code that another request has all rows of."""
    return rows[::10]
