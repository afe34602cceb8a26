"""Bad agents, as data, for every request that carries one; and the rows of requests that carry options of a run."""

from __future__ import annotations

from typing import Any

from tests.wire.bad_pieces import (
    A_REFERENCE,
    APPROVALS,
    ENABLED,
    FAILURE_TEXTS,
    FILTERS,
    GUARDRAILS,
    LIFECYCLE,
    REFERENCES,
    TOOL_GUARDRAILS,
    under,
)
from tests.wire.bad_settings import CONFIGS, SETTINGS, some
from tests.wire.good_agents import OPEN, Json
from tests.wire.good_requests import LONG_ID, LONG_NAME, Bad, at, but, expires, labels

LONG_AGENT = "Long" * 18
"""A good name of an agent, of which none of a tool can be made."""

TIMEOUTS = ("0s", "0.0005s", "-1s", "86400.001s")
POINTERS: list[tuple[Json, str]] = [
    ({"idempotency_fields": [f"/f{number}" for number in range(17)]}, "idempotency_fields"),
    *(({"idempotency_fields": ["/order/id", bad]}, "idempotency_fields[1]")
      for bad in ("", "order", "#/order", "/or~der", "/order~2id", "/order~")),
]  # fmt: skip

SCHEMAS = (
    "{",
    "[]",
    "true",
    '{"type":"object","required":3}',
    '{"type":"object","properties":{"a":{"$ref":"https://example.com/a"}}}',
    '{"type":"object","default":' + "[" * 200 + "]" * 200 + "}",
)
"""No schemas of anything."""

_EXECUTIONS: list[tuple[Json, str]] = [
    *(({"timeout": bad}, "timeout") for bad in TIMEOUTS),
    *(({"expires": bad}, "expires") for bad in ("0.999s", "-1s", "2592000.001s")),
    ({"lost_worker": 9}, "lost_worker"),
    *(({"max_attempts": bad}, "max_attempts") for bad in (0, -1, 101)),
    *POINTERS,
]

_FUNCTIONS: list[tuple[Json, str]] = [
    *(({"name": bad}, "name") for bad in ("", "get weather", "f" * 65)),
    ({"description": "a\0b"}, "description"),
    *(({"parameters_json": bad}, "parameters_json") for bad in (*SCHEMAS, '{"type":"string"}')),
    ({"parameters_json": OPEN, "strict": True}, "strict"),
    ({"defer_loading": True}, "defer_loading"),
    *under("needs_approval", APPROVALS),
    *under("enabled", ENABLED),
    *under("execution", _EXECUTIONS),
    *(({"input_guardrails": bad}, f"input_guardrails{path}") for bad, path in TOOL_GUARDRAILS),
    *(({"output_guardrails": bad}, f"output_guardrails{path}") for bad, path in TOOL_GUARDRAILS[:2]),
    *under("on_crash", FAILURE_TEXTS),
    *under("on_timeout", FAILURE_TEXTS),
    *under("custom_data", REFERENCES),
    ({"handler_version": "v" * 65}, "handler_version"),
    ({"handler_version": "a\0b"}, "handler_version"),
]

_AGENT_TOOLS: list[tuple[Json, str]] = [
    ({"agent": ""}, "agent"),
    ({"agent": "n" * 129}, "agent"),
    ({"agent": LONG_AGENT}, "tool_name"),
    *(({"tool_name": bad}, "tool_name") for bad in ("say it", "t" * 65)),
    ({"description": "a\0b"}, "description"),
    *(({"parameters_json": bad}, "parameters_json") for bad in ("{", '{"type":"string"}')),
    *under("input_builder", A_REFERENCE),
    *under("output_extractor", A_REFERENCE),
    *(({"max_turns": bad}, "max_turns") for bad in (-1, 1_000_001)),
    *under("needs_approval", APPROVALS[:1]),
    *under("enabled", ENABLED[:1]),
    *under("on_crash", FAILURE_TEXTS[:1]),
]

_HOSTED: tuple[str, ...] = (
    "",
    "{",
    "[]",
    "{}",
    '{"type":3}',
    '{"type":""}',
    *(
        f'{{"type":"{bad}"}}'
        for bad in (
            *("computer", "computer_use_preview", "shell", "local_shell", "apply_patch", "custom"),
            *("function", "tool_search", "mcp"),
        )
    ),
    '{"type":"mcp","require_approval":"always"}',
)

_HANDOFFS: list[tuple[Json, str]] = [
    ({"agent": ""}, "agent"),
    ({"agent": "n" * 129}, "agent"),
    ({"agent": LONG_AGENT}, "tool_name"),
    *(({"tool_name": bad}, "tool_name") for bad in ("to billing", "t" * 65)),
    ({"tool_description": "a\0b"}, "tool_description"),
    *(({"input_schema_json": bad}, "input_schema_json") for bad in ("{", '{"type":"string"}')),
    *under("on_handoff", A_REFERENCE),
    *(({"input_filters": bad}, f"input_filters{path}") for bad, path in FILTERS[:3]),
    *under("enabled", ENABLED[:1]),
]

_OUTPUTS: list[tuple[Json, str]] = [
    *(({"name": bad, "schema_json": '{"type":"string"}'}, "name") for bad in ("final output", "n" * 65)),
    ({}, "schema_json"),
    *(({"schema_json": bad}, "schema_json") for bad in SCHEMAS),
    ({"schema_json": OPEN}, "strict"),
    ({"schema_json": OPEN, "strict": True}, "strict"),
]

_BEHAVIORS: list[tuple[Json, str]] = [
    ({}, "behavior"),
    ({"stop_on_first_tool": False}, "stop_on_first_tool"),
    ({"stop_at_tools": {}}, "stop_at_tools.names"),
    ({"stop_at_tools": {"names": ["f"] * 513}}, "stop_at_tools.names"),
    *(({"stop_at_tools": {"names": ["f", bad]}}, "stop_at_tools.names[1]") for bad in ("", "f" * 129)),
    *under("hook", REFERENCES),
]


def _tool(kind: str, bad: Json, **good: Any) -> Json:
    return {"tools": [{kind: {**good, **bad}}], "agents": [{"name": "Other"}, {"name": LONG_AGENT}]}


_AGENTS: list[tuple[Json, str]] = [
    *(({"name": bad}, "name") for bad in ("", "n" * 129, "a\0b")),
    ({"instructions": "a\0b"}, "instructions"),
    ({"instructions": "x" * (3 * 1024 * 1024)}, ""),
    *under("instructions_hook", REFERENCES),
    ({"model": "a\0b"}, "model"),
    *under("model_settings", SETTINGS),
    ({"model_settings": {"tool_choice": "get_wether"}}, "model_settings.tool_choice"),
    ({"tools": [{}]}, "tools[0].tool"),
    ({"tools": [{"function": {"name": f"f{n}"}} for n in range(513)]}, "tools"),
    *((_tool("function", bad, name="f"), f"tools[0].function.{path}") for bad, path in _FUNCTIONS),
    *((_tool("agent", bad, agent="Other"), f"tools[0].agent.{path}") for bad, path in _AGENT_TOOLS),
    *((_tool("hosted", {"tool_json": bad}), "tools[0].hosted.tool_json") for bad in _HOSTED),
    ({"tools": [{"tool_search": {}}, {"tool_search": {}}]}, "tools[1].tool_search"),
    *(
        ({"handoffs": [{"agent": "Helper", **bad}], "agents": [{"name": LONG_AGENT}]}, f"handoffs[0].{path}")
        for bad, path in _HANDOFFS
    ),
    ({"handoffs": [{"agent": "Helper"}] * 129}, "handoffs"),
    ({"handoff_description": "a\0b"}, "handoff_description"),
    *under("output_schema", _OUTPUTS),
    *(({"input_guardrails": bad}, f"input_guardrails{path}") for bad, path in GUARDRAILS),
    *(({"output_guardrails": bad}, f"output_guardrails{path}") for bad, path in GUARDRAILS[:2]),
    ({"output_guardrails": [{"name": "a", "hook": {"name": "h"}, "blocking": True}]}, "output_guardrails[0].blocking"),
    *under("tool_use_behavior", _BEHAVIORS),
    *(({"lifecycle_hooks": bad}, f"lifecycle_hooks{path}") for bad, path in LIFECYCLE),
    ({"agents": [{"name": f"a{n}"} for n in range(128)]}, "agents"),
    ({"agents": [{"name": "Other"}, {}]}, "agents[1].name"),
    *(
        ({"agents": [{"name": "Other"}, {"name": "Third", "tools": [{"function": {"name": "f", **bad}}]}]},
         f"agents[1].tools[0].function.{path}")
        for bad, path in under("needs_approval", APPROVALS[:3])
    ),
]  # fmt: skip

GRAPHS: list[tuple[Json, dict[str, str]]] = [
    (
        {"agents": [{"name": "A"}, {"name": "B"}, {"name": "A"}]},
        {"agent": "A", "problem": "two agents of one name"},
    ),
    ({"agents": [{"name": "Helper"}]}, {"agent": "Helper", "problem": "two agents of one name"}),
    (
        {"agents": [{"name": "A", "agents": [{"name": "B"}]}]},
        {"agent": "A", "problem": "agents on an agent that does not start"},
    ),
    (
        {"handoffs": [{"agent": "Billing"}]},
        {"agent": "Helper", "handoff": "Billing", "problem": "no such agent"},
    ),
    (
        {"agents": [{"name": "A", "tools": [{"agent": {"agent": "B"}}]}]},
        {"agent": "A", "tool": "B", "problem": "no such agent"},
    ),
    (
        {"tools": [{"agent": {"agent": "Helper"}}]},
        {"agent": "Helper", "tool": "Helper", "problem": "an agent tool that contains itself"},
    ),
    (
        {
            "tools": [{"agent": {"agent": "A"}}],
            "agents": [
                {"name": "A", "tools": [{"function": {"name": "f"}}, {"agent": {"agent": "B"}}]},
                {"name": "B", "tools": [{"agent": {"agent": "A"}}]},
            ],
        },
        {"agent": "B", "tool": "A", "problem": "an agent tool that contains itself"},
    ),
]
"""Graphs that do not hold together, each with what is told of it. Their agent is called Helper."""

_REFS: list[tuple[Json, str]] = [
    ({}, "agent_id"),
    ({"agent_id": LONG_ID}, "agent_id"),
    ({"agent_id": "agent_1", "revision": 0}, "revision"),
]


def agents(rpc: str) -> list[Bad]:
    """Give a request bad agents: CreateAgent all of them, the others some."""
    rows = _AGENTS if rpc == "AgentService/CreateAgent" else some(_AGENTS)
    graphs = GRAPHS if rpc == "AgentService/CreateAgent" else GRAPHS[:1]
    return [
        *(but(rpc, at("agent", path), agent={"name": "Helper", **bad}) for bad, path in rows),
        *(but(rpc, agent={"name": "Helper", **bad}, reason="AGENT_GRAPH_INVALID") for bad, _ in graphs),
    ]


def refs(rpc: str) -> list[Bad]:
    """Name a kept agent wrongly."""
    return [but(rpc, f"agent_ref.{path}", agent=None, agent_ref=bad) for bad, path in _REFS]


def configs(rpc: str) -> list[Bad]:
    """Give a request bad options of a run: CreateSession all of them, the others some."""
    rows = CONFIGS if rpc == "SessionService/CreateSession" else some(CONFIGS)
    return [but(rpc, at("run_config", path), run_config=bad) for bad, path in rows]


def session_defaults(rpc: str) -> list[Bad]:
    """What CreateSession and UpdateSession share."""
    mask = {"update_mask": "agent,runConfig,scopes,metadata,expiresAfter"} if "Update" in rpc else {}
    rows = [
        *agents(rpc), *refs(rpc), *configs(rpc), *labels(rpc), *expires(rpc),
        but(rpc, "scopes", scopes=["s"] * 9),
        but(rpc, "scopes[1]", scopes=["s", LONG_NAME]),
        but(rpc, "scopes[0]", scopes=["a\0b"]),
    ]  # fmt: skip
    return [Bad(rpc=rpc, request={**row.request, **mask}, paths=row.paths, reason=row.reason) for row in rows]
