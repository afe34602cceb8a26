"""Bad agents and run configurations, as data, for every request that carries one."""

from __future__ import annotations

from typing import Any

from tests.wire.good_requests import LONG_ID, LONG_LABELS, LONG_NAME, OPEN, Bad, Json, at, but, expires, labels


def _function(**fields: Any) -> Json:
    return {"tools": [{"function": {"name": "f", **fields}}]}


TIMEOUTS = ("0s", "0.0005s", "-1s", "86400.001s")
HOOK_TIMEOUTS = ("0s", "0.0005s", "-1s", "600.001s")
POINTERS: list[tuple[Json, str]] = [
    ({"idempotency_fields": [f"/f{number}" for number in range(17)]}, "idempotency_fields"),
    *(({"idempotency_fields": ["/order/id", bad]}, "idempotency_fields[1]")
      for bad in ("", "order", "#/order", "/or~der", "/order~2id", "/order~")),
]  # fmt: skip

_BAD_EXECUTIONS: list[tuple[Json, str]] = [
    *(({"timeout": bad}, "timeout") for bad in TIMEOUTS),
    *(({"expires": bad}, "expires") for bad in ("0.999s", "-1s", "2592000.001s")),
    ({"lost_worker": 9}, "lost_worker"),
    *(({"max_attempts": bad}, "max_attempts") for bad in (0, -1, 101)),
    *POINTERS,
]

_BAD_TIMEOUT_ACTIONS: list[tuple[Json, str]] = [
    ({}, "action"),
    ({"text": ""}, "text"),
    ({"text": "x" * 4097}, "text"),
    ({"text": "a\0b"}, "text"),
    ({"fail_turn": False}, "fail_turn"),
]

_BAD_REFERENCES: list[tuple[Json, str]] = [
    *(({"name": bad}, "name") for bad in ("", "no pii", "n" * 65)),
    *(({"name": "check", "timeout": bad}, "timeout") for bad in HOOK_TIMEOUTS),
]

_CHECK: Json = {"name": "no_pii", "hook": {"name": "check"}}

_BAD_GUARDRAILS: list[tuple[list[Json], str]] = [
    ([{**_CHECK, "name": f"g{number}"} for number in range(33)], ""),
    ([{**_CHECK, "name": ""}], "[0].name"),
    ([{**_CHECK, "name": "n" * 129}], "[0].name"),
    ([{**_CHECK, "name": "a\0b"}], "[0].name"),
    ([_CHECK, {**_CHECK, "blocking": True}], "[1].name"),
    ([{"name": "no_pii"}], "[0].check"),
    *(([_CHECK, {"name": "other", "hook": bad}], f"[1].hook.{path}") for bad, path in _BAD_REFERENCES),
]


_BAD_AGENTS: list[tuple[Json, tuple[str, ...]]] = [
    ({"name": ""}, ("name",)),
    ({"name": "n" * 129}, ("name",)),
    ({"name": "a\0b"}, ("name",)),
    ({"instructions": "a\0b"}, ("instructions",)),
    ({"instructions": "x" * (3 * 1024 * 1024)}, ("",)),
    ({"model": "a\0b"}, ("model",)),
    ({"tools": [{}]}, ("tools[0].tool",)),
    ({"tools": [{"function": {"name": f"f{n}"}} for n in range(513)]}, ("tools",)),
    (_function(name=""), ("tools[0].function.name",)),
    (_function(name="get weather"), ("tools[0].function.name",)),
    (_function(name="f" * 65), ("tools[0].function.name",)),
    (_function(description="a\0b"), ("tools[0].function.description",)),
    ({"tools": [{"function": {"name": "f"}}] * 2}, ("tools[1].function.name",)),
    (_function(parameters_json="{"), ("tools[0].function.parameters_json",)),
    (_function(parameters_json="[]"), ("tools[0].function.parameters_json",)),
    (_function(parameters_json="true"), ("tools[0].function.parameters_json",)),
    (_function(parameters_json='{"type":"string"}'), ("tools[0].function.parameters_json",)),
    (_function(parameters_json='{"type":"object","required":3}'), ("tools[0].function.parameters_json",)),
    (
        _function(parameters_json='{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}'),
        ("tools[0].function.parameters_json",),
    ),
    (
        _function(parameters_json='{"type":"object","default":' + "[" * 200 + "]" * 200 + "}"),
        ("tools[0].function.parameters_json",),
    ),
    (_function(parameters_json=OPEN, strict=True), ("tools[0].function.strict",)),
    (_function(handler_version="v" * 65), ("tools[0].function.handler_version",)),
    (_function(handler_version="a\0b"), ("tools[0].function.handler_version",)),
    *((_function(execution=bad), (f"tools[0].function.execution.{path}",)) for bad, path in _BAD_EXECUTIONS),
    *((_function(on_timeout=bad), (f"tools[0].function.on_timeout.{path}",)) for bad, path in _BAD_TIMEOUT_ACTIONS),
    *(({"input_guardrails": bad}, (f"input_guardrails{path}",)) for bad, path in _BAD_GUARDRAILS),
    ({"model_settings": {"tool_choice": "get_wether"}}, ("model_settings.tool_choice",)),
]

_BAD_SETTINGS: list[tuple[Json, str]] = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "NaN"}, "temperature"),
    ({"top_p": -0.1}, "top_p"),
    ({"top_p": "Infinity"}, "top_p"),
    ({"tool_choice": "get weather"}, "tool_choice"),
    ({"truncation": "some"}, "truncation"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"verbosity": "loud"}, "verbosity"),
    ({"metadata": LONG_LABELS}, "metadata"),
    ({"reasoning": {"effort": "a\0b"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "a\0b"}}, "reasoning.summary"),
]

_BAD_CONFIGS: list[tuple[Json, str]] = [
    ({"max_turns": -1}, "max_turns"),
    ({"max_turns": 1_000_001}, "max_turns"),
    ({"max_turns": 1, "unlimited_turns": True}, "unlimited_turns"),
    ({"model": "a\0b"}, "model"),
    ({"tracing": {"workflow_name": LONG_NAME}}, "tracing.workflow_name"),
    ({"tracing": {"group_id": LONG_NAME}}, "tracing.group_id"),
    ({"tracing": {"metadata": LONG_LABELS}}, "tracing.metadata"),
    ({"unserved_grace": "-1s"}, "unserved_grace"),
    ({"unserved_grace": "600.001s"}, "unserved_grace"),
    ({"scopes": ["s"] * 9}, "scopes"),
    ({"scopes": [""]}, "scopes[0]"),
    ({"scopes": ["s", LONG_NAME]}, "scopes[1]"),
    ({"scopes": ["a\0b"]}, "scopes[0]"),
    *(({"input_guardrails": bad}, f"input_guardrails{path}") for bad, path in _BAD_GUARDRAILS),
    ({"model_input_filters": [{"hook": {"name": "trim"}}] * 9}, "model_input_filters"),
    ({"model_input_filters": [{}]}, "model_input_filters[0].filter"),
    *(
        ({"model_input_filters": [{"hook": bad}]}, f"model_input_filters[0].hook.{path}")
        for bad, path in _BAD_REFERENCES
    ),
    ({"lifecycle_hooks": [{"hook": {"name": "audit"}}] * 9}, "lifecycle_hooks"),
    ({"lifecycle_hooks": [{"moments": ["LIFECYCLE_MOMENT_AGENT_START"]}]}, "lifecycle_hooks[0].hook"),
    *(({"lifecycle_hooks": [{"hook": bad}]}, f"lifecycle_hooks[0].hook.{path}") for bad, path in _BAD_REFERENCES),
    *(
        (
            {"lifecycle_hooks": [{"hook": {"name": "audit"}, "moments": ["LIFECYCLE_MOMENT_MODEL_END", bad]}]},
            "lifecycle_hooks[0].moments[1]",
        )
        for bad in (0, 7)
    ),
    *(({"model_settings": bad}, f"model_settings.{path}") for bad, path in _BAD_SETTINGS),
]

_BAD_REFS: list[tuple[Json, str]] = [
    ({}, "agent_id"),
    ({"agent_id": LONG_ID}, "agent_id"),
    ({"agent_id": "agent_1", "revision": 0}, "revision"),
]


def agents(rpc: str) -> list[Bad]:
    """Give a request each of the bad agents."""
    settings = [({"model_settings": bad}, (f"model_settings.{path}",)) for bad, path in _BAD_SETTINGS]
    return [
        but(rpc, *(at("agent", path) for path in paths), agent={"name": "Helper", **bad})
        for bad, paths in (*_BAD_AGENTS, *settings)
    ]


def refs(rpc: str) -> list[Bad]:
    """Name a kept agent wrongly."""
    return [but(rpc, f"agent_ref.{path}", agent=None, agent_ref=bad) for bad, path in _BAD_REFS]


def configs(rpc: str) -> list[Bad]:
    """Give a request each of the bad run configurations."""
    return [but(rpc, f"run_config.{path}", run_config=bad) for bad, path in _BAD_CONFIGS]


def session_defaults(rpc: str) -> list[Bad]:
    """What CreateSession and UpdateSession share."""
    mask = {"update_mask": "agent,runConfig,scopes,metadata,expiresAfter"} if "Update" in rpc else {}
    rows = [
        *agents(rpc), *refs(rpc), *configs(rpc), *labels(rpc), *expires(rpc),
        but(rpc, "scopes", scopes=["s"] * 9),
        but(rpc, "scopes[1]", scopes=["s", LONG_NAME]),
        but(rpc, "scopes[0]", scopes=["a\0b"]),
    ]  # fmt: skip
    return [Bad(rpc=rpc, request={**row.request, **mask}, paths=row.paths) for row in rows]
