"""Where each kind of hook is asked, and what follows when it gives no answer that can be used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.api.calling import WEATHER
from tests.support.scripted_model import Reply, calls, fail, say

from baton.v1 import agent_pb2, event_pb2
from baton_server.core.errors import Reason

KYOTO = ("get_weather", '{"city":"Kyoto"}')
HOOK: dict[str, Any] = {"name": "asked", "timeout": {"seconds": 5}}
"""The hook of every case."""

FAULTS: Mapping[str, str] = {
    "unserved": "HOOK_UNSERVED",
    "late": "HOOK_TIMEOUT",
    "raised": "HOOK_RAISED",
    "nonsense": "HOOK_ANSWER_INVALID",
}
"""Ways to give no answer, and the reason with which a turn fails over each."""

NONSENSE = json.dumps(
    {
        **dict.fromkeys(("tripped", "verdict", "enabled", "needs_approval", "final", "retry", "include_in_history"), 7),
        **dict.fromkeys(("instructions", "input", "message", "items", "custom_data", "output"), 7),
        **dict.fromkeys(("input_history", "pre_handoff_items", "new_items"), 7),
    }
)
"""An answer that has every member of every kind, and none of the right shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCase:
    """A turn in which one hook is asked. `crashes`: its function does.

    What follows: the turn fails over each fault, but for those in `defaults`, where it ends with what they say: a
    reason, "completed" or "waiting". `told`: then, what the model was told of the call; None: that says nothing.
    """

    kind: str
    agent: Mapping[str, Any] = field(default_factory=dict)
    run_config: Mapping[str, Any] = field(default_factory=dict)
    replies: Sequence[Reply] = (say("Done."),)
    crashes: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)
    told: str | None = None

    @property
    def number(self) -> event_pb2.HandlerKind.ValueType:
        """Its kind, as the contract has it."""
        return event_pb2.HandlerKind.Value(f"HANDLER_KIND_{self.kind}")

    def follows(self, fault: str) -> str:
        """Say how the turn ends."""
        return self.defaults.get(fault, FAULTS[fault])


def function(**fields: Any) -> dict[str, Any]:
    """Give an agent one function."""
    return {"tools": [{"function": {"name": "get_weather", "parameters_json": WEATHER, **fields}}]}


def way(**fields: Any) -> dict[str, Any]:
    """Give an agent one handoff."""
    return {"handoffs": [{"agent": "Other", **fields}], "agents": [{"name": "Other"}]}


def nested(**fields: Any) -> dict[str, Any]:
    """Give an agent another one as a tool."""
    return {"tools": [{"agent": {"agent": "Other", **fields}}], "agents": [{"name": "Other"}]}


def each(follows: str, *faults: str) -> dict[str, str]:
    """Say what follows from some faults, or from all."""
    return dict.fromkeys(faults or FAULTS, follows)


NAMED = {"name": "guard", "hook": HOOK}
CALLED = (calls(KYOTO), say("Done."))
HANDED_OVER = (calls(("transfer_to_other", "{}")), say("Done."))
ASKED_OTHER = (calls(("other", '{"input":"x"}')), say("Within."), say("Done."))
FAILED_TEXT = "The function failed before it gave a result. You may try again or go on without it."

CASES = (
    HookCase(kind="INPUT_GUARDRAIL", agent={"input_guardrails": [{**NAMED, "blocking": True}]}),
    HookCase(kind="OUTPUT_GUARDRAIL", agent={"output_guardrails": [NAMED]}),
    HookCase(kind="TOOL_INPUT_GUARDRAIL", agent=function(input_guardrails=[NAMED]), replies=CALLED),
    HookCase(kind="TOOL_OUTPUT_GUARDRAIL", agent=function(output_guardrails=[NAMED]), replies=CALLED),
    HookCase(kind="INSTRUCTIONS", agent={"instructions_hook": HOOK}),
    HookCase(kind="TOOL_ENABLED", agent=function(enabled={"hook": HOOK})),
    HookCase(kind="HANDOFF_ENABLED", agent=way(enabled={"hook": HOOK})),
    HookCase(
        kind="NEEDS_APPROVAL",
        agent=function(needs_approval={"hook": HOOK}),
        replies=CALLED,
        defaults=each("waiting"),
    ),
    HookCase(kind="ON_HANDOFF", agent=way(on_handoff=HOOK), replies=HANDED_OVER),
    HookCase(kind="HANDOFF_INPUT_FILTER", agent=way(input_filters=[{"hook": HOOK}]), replies=HANDED_OVER),
    HookCase(
        kind="HANDOFF_HISTORY",
        agent=way(),
        run_config={"nest_handoff_history": True, "handoff_history": {"mapper": HOOK}},
        replies=HANDED_OVER,
    ),
    HookCase(kind="SESSION_INPUT", run_config={"session_input": HOOK}),
    HookCase(kind="MODEL_INPUT_FILTER", run_config={"model_input_filters": [{"hook": HOOK}]}),
    HookCase(
        kind="TOOL_ERROR",
        agent=function(on_crash={"hook": HOOK}),
        replies=CALLED,
        crashes=True,
        defaults=each("completed"),
        told=FAILED_TEXT,
    ),
    HookCase(kind="TOOL_USE", agent={**function(), "tool_use_behavior": {"hook": HOOK}}, replies=CALLED),
    HookCase(
        kind="ERROR_HANDLER",
        agent=function(),
        run_config={"max_turns": 1, "error_handlers": {"max_turns": {"hook": HOOK}}},
        replies=CALLED,
        defaults=each("MAX_TURNS_EXCEEDED", "unserved", "late"),
    ),
    HookCase(
        kind="AGENT_INPUT",
        agent=nested(input_builder=HOOK),
        replies=(ASKED_OTHER[0], ASKED_OTHER[2]),
        defaults=each("completed"),
        told=FAILED_TEXT,
    ),
    HookCase(
        kind="AGENT_OUTPUT",
        agent=nested(output_extractor=HOOK),
        replies=ASKED_OTHER,
        defaults=each("completed"),
        told=FAILED_TEXT,
    ),
    HookCase(
        kind="CUSTOM_DATA",
        agent=function(custom_data=HOOK),
        replies=CALLED,
        defaults=each("completed"),
        told="18 °C",
    ),
    HookCase(
        kind="BLOCKED_OUTPUT",
        agent={
            **function(),
            "tool_use_behavior": {"stop_on_first_tool": True},
            "output_guardrails": [{"name": "guard", "deny": {"terms": ["18"]}}],
        },
        run_config={"blocked_output_text": {"hook": HOOK}},
        replies=CALLED,
        defaults=each("OUTPUT_GUARDRAIL_TRIPPED"),
        told="Output withheld by an output guardrail.",
    ),
    HookCase(
        kind="MODEL_RETRY",
        agent={"model_settings": {"retry": {"max_retries": 1, "rule": {"hook": HOOK}}}},
        replies=(fail(Reason.MODEL_UNAVAILABLE),),
        defaults=each("MODEL_UNAVAILABLE"),
    ),
    HookCase(
        kind="LIFECYCLE",
        run_config={
            "lifecycle_hooks": [
                {"hook": HOOK, "moments": [agent_pb2.LIFECYCLE_MOMENT_AGENT_START], "awaited": True},
            ]
        },
    ),
    HookCase(kind="SESSION_STORE", run_config={"history": {"stored": {"store": HOOK}}}),
)
"""One for each kind that a turn asks."""

WITHOUT_SHAPE = ("ON_HANDOFF", "LIFECYCLE")
"""Kinds of whose answer nothing is read: any object is one."""
