"""A good graph of agents and good options of a run, which between them say everything, each value at a bound."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

CLOSED = '{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}'
OPEN = '{"type":"object","properties":{"city":{"type":"string"}}}'

REF: Json = {"name": "check", "timeout": "0.001s"}

SETTINGS: Json = {
    "temperature": 0.5, "top_p": 1, "frequency_penalty": -2, "presence_penalty": 2, "tool_choice": "get_weather",
    "parallel_tool_calls": False, "truncation": "auto", "max_tokens": 100,
    "reasoning": {"effort": "low", "summary": "auto"}, "verbosity": "low", "metadata": {"team": "a"}, "store": False,
    "prompt_cache_retention": "24h", "include_usage": False, "response_include": ["reasoning.encrypted_content"],
    "top_logprobs": 20, "extra_query": {"api-version": "1"}, "extra_body_json": '{"service_tier":"flex"}',
    "extra_headers": {"x-Team_1": "a b\tc", "empty": ""}, "extra_args_json": "{}",
    "context_management_json": '[{"type":"compaction"}]', "prompt_cache_options_json": '{"a":1}',
    "preserve_raw_usage": False, "timeout": "86400s",
    "retry": {
        "max_retries": 20, "initial_delay": "0s", "max_delay": "3600s", "multiplier": 1, "jitter": False,
        "rule": {"any": {"rules": [
            {"provider_suggested": True}, {"network_error": True}, {"retry_after": True}, {"hook": {"name": "again"}},
            {"all": {"rules": [{"any": {"rules": [{"http_status": {"codes": [400, 599]}}]}}]}},
        ]}},
    },
}  # fmt: skip

TOOL_GUARDRAILS: list[Json] = [
    {"name": "asks", "hook": {"name": "check", "timeout": "600s"}},
    {"name": "denies", "deny": {"terms": ["drop", "x" * 256], "case_sensitive": True}, "message": "m" * 4096},
    {"name": "allows", "allow": {"terms": ["select"]}},
]

TOOLS: list[Json] = [
    {"function": {
        "name": "get_weather", "description": "Weather.", "parameters_json": CLOSED, "strict": True,
        "defer_loading": True, "needs_approval": {"always": True, "expires": "1s"}, "enabled": {"always": False},
        "handler_version": "v" * 64, "input_guardrails": TOOL_GUARDRAILS, "output_guardrails": TOOL_GUARDRAILS,
        "on_crash": {"text": "It failed."}, "on_timeout": {"fail_turn": True}, "custom_data": REF, "execution": {
            "timeout": "0.001s", "expires": "1s", "lost_worker": "LOST_WORKER_ASK", "max_attempts": 1,
            "idempotency_fields": ["/order/id", "/", "/a~1b~0c/0", *(f"/f{n}" for n in range(13))],
        },
    }},
    {"function": {
        "name": "get_time", "parameters_json": OPEN, "strict": False, "on_timeout": {"text": "x" * 4096},
        "on_crash": {"hook": REF}, "needs_approval": {"hook": REF, "expires": "2592000s"}, "enabled": {"hook": REF},
        "execution": {"timeout": "86400s", "expires": "2592000s", "max_attempts": 100},
    }},
    {"function": {"name": "served_elsewhere", "needs_approval": {"always": False, "expires": "60s"}}},
    {"function": {"name": "served_elsewhere"}},
    {"agent": {
        "agent": "Translator", "tool_name": "translate", "description": "Translates.", "parameters_json": OPEN,
        "input_builder": REF, "output_extractor": REF, "max_turns": 1, "needs_approval": {"always": True},
        "enabled": {"hook": REF}, "on_crash": {"fail_turn": True},
    }},
    {"agent": {"agent": "Translator"}},
    {"hosted": {"tool_json": '{"type":"web_search","filters":{}}'}},
    {"hosted": {"tool_json": '{"type":"mcp","server_label":"docs","require_approval":"never"}'}},
    {"tool_search": {}},
]  # fmt: skip

FILTERS: list[Json] = [
    {"hook": REF}, {"keep_last": {"items": 1}}, {"remove_all_tools": {}},
    {"trim_outputs": {"recent_messages": 0, "max_chars": 1, "preview_chars": 0, "functions": ["a.b", "f" * 128]}},
]  # fmt: skip

GUARDRAILS: list[Json] = [
    {"name": "no pii", "hook": REF},
    {"name": "no prices", "deny": {"terms": ["€"] * 256}},
    {"name": "politeness", "allow": {"terms": ["please"], "case_sensitive": True}},
]

LIFECYCLE: list[Json] = [
    *[{"hook": {"name": "audit"}}] * 7,
    {"hook": {"name": "audit"}, "awaited": True, "moments": [
        "LIFECYCLE_MOMENT_AGENT_START", "LIFECYCLE_MOMENT_FUNCTION_END", "LIFECYCLE_MOMENT_HANDOFF",
    ]},
]  # fmt: skip

AGENT: Json = {
    "name": "Helper",
    "instructions": "Help.",
    "model": "demo",
    "model_settings": SETTINGS,
    "tools": TOOLS,
    "handoffs": [
        {
            "agent": "Billing", "tool_name": "to_billing", "tool_description": "Bills.", "input_schema_json": OPEN,
            "on_handoff": REF, "input_filters": FILTERS * 2, "nest_history": False, "enabled": {"always": False},
        },
        {"agent": "Billing"},
    ],
    "handoff_description": "Answers.",
    "output_schema": {"name": "weather", "schema_json": '{"type":"array","items":{"type":"string"}}', "strict": False},
    "input_guardrails": [
        {"name": "first", "hook": REF, "blocking": True},
        *({"name": f"{n}" * 64, "hook": {"name": "check", "timeout": "600s"}} for n in range(10, 41)),
    ],
    "output_guardrails": GUARDRAILS,
    "tool_use_behavior": {"stop_at_tools": {"names": ["get_time", "ns.get_weather"]}},
    "keep_tool_choice": True,
    "lifecycle_hooks": LIFECYCLE,
    "agents": [
        {
            "name": "Billing", "instructions_hook": REF, "handoffs": [{"agent": "Helper"}, {"agent": "Billing"}],
            "tools": [{"agent": {"agent": "Translator"}}], "tool_use_behavior": {"stop_on_first_tool": True},
            "output_schema": {"schema_json": CLOSED}, "model_settings": {"tool_choice": "transfer_to_helper"},
        },
        {
            "name": "Translator", "tool_use_behavior": {"hook": REF}, "model_settings": {"tool_choice": "web_search"},
            "tools": [{"hosted": {"tool_json": '{"type":"web_search"}'}}],
        },
        {"name": "n" * 128, "handoffs": [{"agent": "Helper", "tool_name": "t" * 64}]},
    ],
}  # fmt: skip
"""A graph whose handoffs lead round in circles, and whose agent tools do not."""

RUN_CONFIG: Json = {
    "max_turns": 0,
    "model": "openai/gpt",
    "model_provider": "openai",
    "model_settings": {"temperature": 2, "tool_choice": "whichever"},
    "history": {"caller": {}},
    "session_input": REF,
    "input_guardrails": [{"name": "no pii", "hook": {"name": "check"}, "blocking": True}],
    "output_guardrails": GUARDRAILS,
    "handoff_input_filters": FILTERS,
    "nest_handoff_history": True,
    "handoff_history": {"mapper": REF, "start_marker": "<" * 256, "end_marker": ">"},
    "model_input_filters": [{"hook": {"name": "trim"}}] * 8,
    "reasoning_item_ids": "REASONING_ITEM_IDS_OMIT",
    "tool_execution": {"max_function_concurrency": 1, "guardrails_before_approval": True},
    "tool_not_found": "TOOL_NOT_FOUND_TELL_MODEL",
    "tool_name_collision": "TOOL_NAME_COLLISION_FAIL_TURN",
    "tool_error_texts": {
        "hook": REF, "approval_rejected": "r" * 4096, "tool_not_found": "There is none.", "tool_exception": "It broke.",
    },
    "blocked_output_text": {"text": "Held back."},
    "error_handlers": {
        "max_turns": {"output": "", "include_in_history": False},
        "model_refusal": {"hook": REF},
        "invalid_final_output": {"output_json": "null"},
    },
    "tracing": {
        "disabled": True, "include_sensitive_data": False, "workflow_name": "w", "trace_id": f"trace_{'0aF9' * 8}",
        "group_id": "g", "metadata": {"k": "v"}, "include_turn_spans": False,
    },
    "unserved_grace": "600s",
    "scopes": ["svc-7"],
    "lifecycle_hooks": LIFECYCLE,
    "start_agent": "Billing",
}  # fmt: skip

HISTORIES: tuple[Json, ...] = (
    {"session": {}},
    {"session": {"limit": 1}},
    {"caller": {}},
    {"conversation": {"id": "conv_1"}},
    {"response": {"previous_id": "resp_1"}},
    {"response": {"auto": True}},
    {"response": {"previous_id": "resp_1", "auto": True}},
    {"stored": {"store": REF, "limit": 1}},
    {"stored": {"store": REF}},
)
"""All that a model can remember by."""
