"""The kinds of hooks: how each is read and written. Pure.

PROTOCOL.md §6 has payload and answer of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from baton.context.call_context import deadline_of
from baton.hooks import HookData, reading, writing
from baton.hooks.data import Moment
from baton.hooks.reading import Facts, Payload
from baton.items.usage import usage_from_pb
from baton.v1 import agent_pb2, event_pb2, handler_pb2


@dataclass(frozen=True, slots=True)
class HookKind:
    """`read` makes a function's data of facts and payload; `write` makes JSON of what the function `name` returned.

    `write` raises TypeError for what is no answer of the kind.
    """

    number: event_pb2.HandlerKind.ValueType
    read: Callable[[Facts, Payload], HookData[Any]]
    write: Callable[[str, Any], str]


def facts_of(batch: handler_pb2.HookBatch, hook: handler_pb2.Hook) -> dict[str, Any]:
    """Say whose moment a hook is asked in."""
    return {
        "session_id": batch.session_id,
        "turn_id": batch.turn_id,
        "agent_name": batch.agent,
        "round": batch.round,
        "deadline": deadline_of(hook),
        "context": None,
        "usage": usage_from_pb(batch.usage),
    }


def kind_word(number: event_pb2.HandlerKind.ValueType) -> str:
    """Say a kind by its name here, such as "lifecycle"."""
    return event_pb2.HandlerKind.Name(number).removeprefix("HANDLER_KIND_").lower()


HookName = Literal[
    "input_guardrail",
    "output_guardrail",
    "tool_input_guardrail",
    "tool_output_guardrail",
    "instructions",
    "tool_enabled",
    "handoff_enabled",
    "needs_approval",
    "on_handoff",
    "handoff_input_filter",
    "handoff_history",
    "session_input",
    "model_input_filter",
    "tool_error",
    "tool_use",
    "error_handler",
    "agent_output",
    "agent_input",
    "custom_data",
    "blocked_output",
    "model_retry",
    "lifecycle",
    "session_store",
]
"""Kinds of hooks that a worker serves under names of their own; a check has its function's."""

_KINDS = (
    HookKind(event_pb2.HANDLER_KIND_EFFECT_CHECK, reading.read_check, writing.write_check),
    HookKind(event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, reading.read_guardrail, writing.write_guardrail),
    HookKind(event_pb2.HANDLER_KIND_OUTPUT_GUARDRAIL, reading.read_output_guardrail, writing.write_guardrail),
    HookKind(event_pb2.HANDLER_KIND_TOOL_INPUT_GUARDRAIL, reading.read_call, writing.write_tool_guardrail),
    HookKind(event_pb2.HANDLER_KIND_TOOL_OUTPUT_GUARDRAIL, reading.read_call_output, writing.write_tool_guardrail),
    HookKind(event_pb2.HANDLER_KIND_INSTRUCTIONS, reading.read_instructions, writing.text_writer("instructions")),
    HookKind(event_pb2.HANDLER_KIND_TOOL_ENABLED, reading.read_enabled, writing.flag_writer("enabled")),
    HookKind(event_pb2.HANDLER_KIND_HANDOFF_ENABLED, reading.read_enabled, writing.flag_writer("enabled")),
    HookKind(event_pb2.HANDLER_KIND_NEEDS_APPROVAL, reading.read_call, writing.flag_writer("needs_approval")),
    HookKind(event_pb2.HANDLER_KIND_ON_HANDOFF, reading.read_on_handoff, writing.write_nothing),
    HookKind(event_pb2.HANDLER_KIND_HANDOFF_INPUT_FILTER, reading.read_handoff_filter, writing.write_handoff_filter),
    HookKind(event_pb2.HANDLER_KIND_HANDOFF_HISTORY, reading.read_handoff_history, writing.write_input),
    HookKind(event_pb2.HANDLER_KIND_SESSION_INPUT, reading.read_session_input, writing.write_input),
    HookKind(event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER, reading.read_filter, writing.write_filter),
    HookKind(event_pb2.HANDLER_KIND_TOOL_ERROR, reading.read_tool_error, writing.text_writer("message")),
    HookKind(event_pb2.HANDLER_KIND_TOOL_USE, reading.read_tool_use, writing.write_tool_use),
    HookKind(event_pb2.HANDLER_KIND_ERROR_HANDLER, reading.read_error, writing.write_handled),
    HookKind(event_pb2.HANDLER_KIND_AGENT_OUTPUT, reading.read_agent_output, writing.write_agent_output),
    HookKind(event_pb2.HANDLER_KIND_AGENT_INPUT, reading.read_agent_input, writing.write_agent_input),
    HookKind(event_pb2.HANDLER_KIND_CUSTOM_DATA, reading.read_call_output, writing.write_custom_data),
    HookKind(event_pb2.HANDLER_KIND_BLOCKED_OUTPUT, reading.read_blocked, writing.text_writer("message")),
    HookKind(event_pb2.HANDLER_KIND_MODEL_RETRY, reading.read_retry, writing.write_retry),
    HookKind(event_pb2.HANDLER_KIND_LIFECYCLE, reading.read_lifecycle, writing.write_nothing),
    HookKind(event_pb2.HANDLER_KIND_SESSION_STORE, reading.read_store, writing.write_store),
)

HOOK_KINDS: Mapping[str, HookKind] = {kind_word(kind.number): kind for kind in _KINDS}
"""Every kind by its name here."""

MOMENTS: Mapping[str, agent_pb2.LifecycleMoment.ValueType] = {
    name: agent_pb2.LifecycleMoment.Value(f"LIFECYCLE_MOMENT_{name.upper()}") for name in get_args(Moment)
}
