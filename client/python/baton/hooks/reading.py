"""From the JSON of a question to the data of its kind. Pure. Fields that are not known here are passed over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from baton.errors import AgentsException
from baton.hooks.answers import ModelInputData
from baton.hooks.data import (
    AgentInputData,
    AgentOutputData,
    BlockedOutputData,
    CallModelData,
    EffectCheckData,
    EnabledData,
    ErrorHandlerData,
    HandoffFilterData,
    HandoffHistoryData,
    InputGuardrailData,
    InstructionsData,
    LifecycleData,
    ModelRetryData,
    OnHandoffData,
    OutputGuardrailData,
    SessionInputData,
    SessionStoreData,
    ToolCallData,
    ToolErrorData,
    ToolOutcome,
    ToolOutputData,
    ToolUseData,
)
from baton.items.responses import RawItem
from baton.reasons import error_from_pb
from baton.v1 import error_pb2, handler_pb2

Payload = Mapping[str, Any]
Facts = Mapping[str, Any]
"""The fields of HookData."""


def payload_of(batch: handler_pb2.HookBatch, hook: handler_pb2.Hook) -> Payload:
    """Read a question. Raises ValueError where it is no JSON object."""
    shared = json.loads(batch.shared_payload_json or "{}", object_hook=RawItem)
    own = json.loads(hook.payload_json or "{}", object_hook=RawItem)
    if not isinstance(shared, dict) or not isinstance(own, dict):
        raise ValueError("the question is no JSON object")
    return {**shared, **own}


def read_guardrail(facts: Facts, payload: Payload) -> InputGuardrailData[Any]:
    """Read INPUT_GUARDRAIL."""
    return InputGuardrailData(**facts, input=_items(payload, "input"))


def read_output_guardrail(facts: Facts, payload: Payload) -> OutputGuardrailData[Any]:
    """Read OUTPUT_GUARDRAIL."""
    return OutputGuardrailData(**facts, output=payload.get("output"))


def read_instructions(facts: Facts, _payload: Payload) -> InstructionsData[Any]:
    """Read INSTRUCTIONS."""
    return InstructionsData(**facts)


def read_enabled(facts: Facts, payload: Payload) -> EnabledData[Any]:
    """Read TOOL_ENABLED and HANDOFF_ENABLED."""
    return EnabledData(**facts, tool_name=_text(payload, "tool"), to_agent=_text(payload, "to_agent"))


def read_call(facts: Facts, payload: Payload) -> ToolCallData[Any]:
    """Read NEEDS_APPROVAL and TOOL_INPUT_GUARDRAIL."""
    return ToolCallData(**facts, **_call(payload))


def read_call_output(facts: Facts, payload: Payload) -> ToolOutputData[Any]:
    """Read TOOL_OUTPUT_GUARDRAIL and CUSTOM_DATA."""
    return ToolOutputData(**facts, **_call(payload), output=payload.get("output"))


def read_on_handoff(facts: Facts, payload: Payload) -> OnHandoffData[Any]:
    """Read ON_HANDOFF."""
    return OnHandoffData(
        **facts,
        from_agent=_text(payload, "from_agent"),
        to_agent=_text(payload, "to_agent"),
        input_json=payload.get("input_json"),
    )


def read_handoff_filter(facts: Facts, payload: Payload) -> HandoffFilterData[Any]:
    """Read HANDOFF_INPUT_FILTER."""
    return HandoffFilterData(
        **facts,
        input_history=_items(payload, "input_history"),
        pre_handoff_items=_items(payload, "pre_handoff_items"),
        new_items=_items(payload, "new_items"),
    )


def read_handoff_history(facts: Facts, payload: Payload) -> HandoffHistoryData[Any]:
    """Read HANDOFF_HISTORY."""
    return HandoffHistoryData(**facts, transcript=_items(payload, "transcript"))


def read_session_input(facts: Facts, payload: Payload) -> SessionInputData[Any]:
    """Read SESSION_INPUT."""
    return SessionInputData(**facts, history=_items(payload, "history"), new_input=_items(payload, "new_input"))


def read_filter(facts: Facts, payload: Payload) -> CallModelData[Any]:
    """Read MODEL_INPUT_FILTER."""
    data = ModelInputData(input=_items(payload, "input"), instructions=payload.get("instructions"))
    return CallModelData(**facts, model_data=data)


def read_tool_error(facts: Facts, payload: Payload) -> ToolErrorData[Any]:
    """Read TOOL_ERROR."""
    kind = _text(payload, "kind")
    return ToolErrorData(
        **facts,
        kind=kind,
        tool_name=_text(payload, "tool"),
        tool_type=_text(payload, "tool_type") or "function",
        call_id=_text(payload, "call_id"),
        default_message=_text(payload, "default_message"),
        error=_tool_error(kind, payload),
    )


def read_tool_use(facts: Facts, payload: Payload) -> ToolUseData[Any]:
    """Read TOOL_USE."""
    results = [
        ToolOutcome(call_id=_text(one, "call_id"), tool_name=_text(one, "tool"), output=one.get("output"))
        for one in payload.get("results") or ()
    ]
    return ToolUseData(**facts, results=results)


def read_error(facts: Facts, payload: Payload) -> ErrorHandlerData[Any]:
    """Read ERROR_HANDLER."""
    run = payload.get("run") or {}
    return ErrorHandlerData(
        **facts,
        error=error_of(payload.get("error") or {}),
        input=_items(run, "input"),
        new_items=_items(run, "new_items"),
        history=_items(run, "history"),
        output=_items(run, "output"),
        last_agent=_text(run, "last_agent"),
    )


def read_agent_input(facts: Facts, payload: Payload) -> AgentInputData[Any]:
    """Read AGENT_INPUT."""
    return AgentInputData(**facts, tool_arguments=_text(payload, "arguments_json"))


def read_agent_output(facts: Facts, payload: Payload) -> AgentOutputData[Any]:
    """Read AGENT_OUTPUT."""
    items = _items(payload, "new_items")
    last_agent = str(payload.get("last_agent", ""))
    return AgentOutputData(**facts, output=payload.get("output"), new_items=items, last_agent=last_agent)


def read_blocked(facts: Facts, payload: Payload) -> BlockedOutputData[Any]:
    """Read BLOCKED_OUTPUT."""
    return BlockedOutputData(
        **facts,
        guardrail_name=_text(payload, "guardrail"),
        tool_name=_text(payload, "tool"),
        call_id=_text(payload, "call_id"),
    )


def read_retry(facts: Facts, payload: Payload) -> ModelRetryData[Any]:
    """Read MODEL_RETRY."""
    wait_ms = payload.get("retry_after_ms")
    return ModelRetryData(
        **facts,
        attempt=int(payload.get("model_attempt") or 1),
        error=error_of(payload.get("error") or {}),
        provider_suggests=bool(payload.get("provider_suggests")),
        retry_after=None if wait_ms is None else float(wait_ms) / 1000,
    )


def read_store(facts: Facts, payload: Payload) -> SessionStoreData[Any]:
    """Read SESSION_STORE. Raises ValueError for an operation of a later version."""
    operation = payload.get("operation")
    if operation not in ("get", "add"):
        raise ValueError(f"a session store gets and adds; it does not know {operation!r}")
    return SessionStoreData(
        **facts,
        operation="get" if operation == "get" else "add",
        limit=payload.get("limit"),
        items=_items(payload, "items"),
    )


def read_lifecycle(facts: Facts, payload: Payload) -> LifecycleData[Any]:
    """Read LIFECYCLE."""
    told = {name: value for name, value in payload.items() if name not in ("moment", "agent")}
    return LifecycleData(**facts, moment=_text(payload, "moment"), facts=told)


def read_check(facts: Facts, payload: Payload) -> EffectCheckData[Any]:
    """Read EFFECT_CHECK."""
    return EffectCheckData(
        **facts,
        **_call(payload),
        attempt=int(payload.get("attempt", 0)),
        idempotency_key=_text(payload, "idempotency_key"),
    )


def error_of(told: Payload) -> AgentsException:
    """Make the exception of an error as hooks are told it: reason, message, metadata."""
    name = str(told.get("reason", "")).removeprefix("ERROR_REASON_")
    number = error_pb2.ErrorReason.DESCRIPTOR.values_by_name.get(f"ERROR_REASON_{name}")
    metadata = {str(key): str(value) for key, value in (told.get("metadata") or {}).items()}
    made = error_pb2.Error(message=str(told.get("message", "")), metadata=metadata)
    if number is not None:
        made.reason = error_pb2.ErrorReason.ValueType(number.number)
    return error_from_pb(made)


def _tool_error(kind: str, payload: Payload) -> AgentsException | None:
    told = payload.get("error")
    if not isinstance(told, dict):
        return None
    reason = "TOOL_TIMEOUT" if kind == "timeout" else "HANDLER_CRASHED"
    facts = {"tool": _text(payload, "tool"), "call_id": _text(payload, "call_id"), "type": _text(told, "type")}
    metadata = {name: value for name, value in {**facts, **(told.get("metadata") or {})}.items() if value}
    return error_of({"reason": reason, "message": told.get("text", ""), "metadata": metadata})


def _call(payload: Payload) -> dict[str, Any]:
    return {
        "call_id": _text(payload, "call_id"),
        "tool_name": _text(payload, "tool"),
        "tool_arguments": _text(payload, "arguments_json"),
    }


def _items(payload: Payload, name: str) -> list[dict[str, Any]]:
    return list(payload.get(name) or ())


def _text(payload: Payload, name: str) -> str:
    value = payload.get(name)
    return "" if value is None else str(value)
