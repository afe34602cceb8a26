"""Options of a turn: `baton.v1.RunConfig` as the core's values, and back. None is absent."""

from __future__ import annotations

from typing import Any

from baton.v1 import run_config_pb2
from baton_server.core.run_config import (
    BlockedOutputText,
    ErrorHandler,
    ErrorHandlers,
    HandoffHistory,
    History,
    HistoryMode,
    RunConfig,
    ToolErrorTexts,
    ToolExecution,
    Tracing,
)
from baton_server.core.settings import NOTHING_SAID
from baton_server.wire.filters import read_filters, write_filters
from baton_server.wire.names import REASONING_ITEM_IDS, TOOL_NAME_COLLISIONS, TOOLS_NOT_FOUND
from baton_server.wire.refs import (
    read_guardrail,
    read_lifecycle_hook,
    read_optional_ref,
    unknown_arm,
    write_guardrail,
    write_lifecycle_hook,
    write_optional_ref,
    write_ref,
)
from baton_server.wire.settings import read_settings, write_settings
from baton_server.wire.times import read_duration, write_duration

_ERRORS = ("max_turns", "model_refusal", "invalid_final_output")
"""Errors that may have a fallback: fields of `baton.v1.ErrorHandlers`."""

_ERROR_TEXTS = ("approval_rejected", "tool_not_found", "tool_exception")


def read_config(message: run_config_pb2.RunConfig) -> RunConfig:
    """Read the options of a turn. Raises ValueError: they hold what is not known here."""
    return RunConfig(
        max_turns=message.max_turns if message.HasField("max_turns") else None,
        unlimited_turns=message.unlimited_turns,
        model=message.model,
        model_provider=message.model_provider,
        model_settings=read_settings(message),
        history=_read_history(message.history) if message.HasField("history") else None,
        session_input=read_optional_ref(message, "session_input"),
        input_guardrails=tuple(read_guardrail(one) for one in message.input_guardrails),
        output_guardrails=tuple(read_guardrail(one) for one in message.output_guardrails),
        handoff_input_filters=read_filters(message.handoff_input_filters),
        nest_handoff_history=message.nest_handoff_history if message.HasField("nest_handoff_history") else None,
        model_input_filters=read_filters(message.model_input_filters),
        reasoning_item_ids=REASONING_ITEM_IDS.to_core.get(message.reasoning_item_ids),
        tool_not_found=TOOLS_NOT_FOUND.to_core.get(message.tool_not_found),
        tool_name_collision=TOOL_NAME_COLLISIONS.to_core.get(message.tool_name_collision),
        unserved_grace_s=read_duration(message.unserved_grace) if message.HasField("unserved_grace") else None,
        scopes=tuple(message.scopes),
        lifecycle_hooks=tuple(read_lifecycle_hook(one) for one in message.lifecycle_hooks),
        start_agent=message.start_agent,
        **_read_groups(message),
    )


def _read_groups(message: run_config_pb2.RunConfig) -> dict[str, Any]:
    """Read what is said in messages of their own; absent ones are not in the answer."""
    return {name: read(getattr(message, name)) for name, read in _READERS.items() if message.HasField(name)}  # type: ignore[arg-type]  # names of one table


def write_config(config: RunConfig) -> run_config_pb2.RunConfig:
    """Write the options of a turn."""
    message = run_config_pb2.RunConfig(
        max_turns=config.max_turns,
        unlimited_turns=config.unlimited_turns,
        model=config.model,
        model_provider=config.model_provider,
        history=None if config.history is None else _write_history(config.history),
        session_input=write_optional_ref(config.session_input),
        input_guardrails=[write_guardrail(one) for one in config.input_guardrails],
        output_guardrails=[write_guardrail(one) for one in config.output_guardrails],
        handoff_input_filters=write_filters(config.handoff_input_filters),
        nest_handoff_history=config.nest_handoff_history,
        model_input_filters=write_filters(config.model_input_filters),
        unserved_grace=None if config.unserved_grace_s is None else write_duration(config.unserved_grace_s),
        scopes=config.scopes,
        lifecycle_hooks=[write_lifecycle_hook(one) for one in config.lifecycle_hooks],
        start_agent=config.start_agent,
    )
    if config.model_settings != NOTHING_SAID:
        message.model_settings.CopyFrom(write_settings(config.model_settings))
    if config.reasoning_item_ids is not None:
        message.reasoning_item_ids = REASONING_ITEM_IDS.to_wire[config.reasoning_item_ids]
    if config.tool_not_found is not None:
        message.tool_not_found = TOOLS_NOT_FOUND.to_wire[config.tool_not_found]
    if config.tool_name_collision is not None:
        message.tool_name_collision = TOOL_NAME_COLLISIONS.to_wire[config.tool_name_collision]
    for name, write in _WRITERS.items():
        group = getattr(config, name)
        if group is not None:
            getattr(message, name).CopyFrom(write(group))
    return message


# -- history -------------------------------------------------------------------------------------


def _read_history(message: run_config_pb2.History) -> History:
    match message.WhichOneof("mode"):
        case "caller":
            return History(mode=HistoryMode.CALLER)
        case "conversation":
            return History(mode=HistoryMode.CONVERSATION, id=message.conversation.id)
        case "response":
            chain = message.response
            return History(mode=HistoryMode.RESPONSE, id=chain.previous_id, auto=chain.auto)
        case "stored":
            stored = message.stored
            limit = stored.limit if stored.HasField("limit") else None
            return History(mode=HistoryMode.STORED, limit=limit, store=read_optional_ref(stored, "store"))
        case _:  # a history without a mode is the session's
            own = message.session
            return History(limit=own.limit if own.HasField("limit") else None)


def _write_history(history: History) -> run_config_pb2.History:
    message = run_config_pb2.History()
    match history.mode:
        case HistoryMode.SESSION:
            message.session.CopyFrom(run_config_pb2.SessionHistory(limit=history.limit))
        case HistoryMode.CALLER:
            message.caller.SetInParent()
        case HistoryMode.CONVERSATION:
            message.conversation.CopyFrom(run_config_pb2.ConversationHistory(id=history.id))
        case HistoryMode.RESPONSE:
            chain = run_config_pb2.ResponseHistory(previous_id=history.id, auto=history.auto)
            message.response.CopyFrom(chain)
        case HistoryMode.STORED:
            stored = run_config_pb2.StoredHistory(store=write_optional_ref(history.store), limit=history.limit)
            message.stored.CopyFrom(stored)
    return message


# -- groups --------------------------------------------------------------------------------------


def _read_handoff_history(message: run_config_pb2.HandoffHistory) -> HandoffHistory:
    return HandoffHistory(
        mapper=read_optional_ref(message, "mapper"),
        start_marker=message.start_marker,
        end_marker=message.end_marker,
    )


def _write_handoff_history(folded: HandoffHistory) -> run_config_pb2.HandoffHistory:
    return run_config_pb2.HandoffHistory(
        mapper=write_optional_ref(folded.mapper), start_marker=folded.start_marker, end_marker=folded.end_marker
    )


def _read_tool_execution(message: run_config_pb2.ToolExecution) -> ToolExecution:
    said = message.HasField("max_function_concurrency")
    return ToolExecution(
        max_concurrency=message.max_function_concurrency if said else None,
        guardrails_before_approval=message.guardrails_before_approval,
    )


def _write_tool_execution(execution: ToolExecution) -> run_config_pb2.ToolExecution:
    return run_config_pb2.ToolExecution(
        max_function_concurrency=execution.max_concurrency,
        guardrails_before_approval=execution.guardrails_before_approval,
    )


def _read_error_texts(message: run_config_pb2.ToolErrorTexts) -> ToolErrorTexts:
    texts = {name: getattr(message, name) for name in _ERROR_TEXTS}
    return ToolErrorTexts(hook=read_optional_ref(message, "hook"), **texts)


def _write_error_texts(texts: ToolErrorTexts) -> run_config_pb2.ToolErrorTexts:
    said = {name: getattr(texts, name) for name in _ERROR_TEXTS}
    return run_config_pb2.ToolErrorTexts(hook=write_optional_ref(texts.hook), **said)


def _read_blocked_text(message: run_config_pb2.BlockedOutputText) -> BlockedOutputText:
    return BlockedOutputText(text=message.text, hook=read_optional_ref(message, "hook"))


def _write_blocked_text(words: BlockedOutputText) -> run_config_pb2.BlockedOutputText:
    if words.hook is not None:
        return run_config_pb2.BlockedOutputText(hook=write_ref(words.hook))
    return run_config_pb2.BlockedOutputText(text=words.text) if words.text else run_config_pb2.BlockedOutputText()


def _read_handlers(message: run_config_pb2.ErrorHandlers) -> ErrorHandlers:
    said = [name for name in _ERRORS if message.HasField(name)]  # type: ignore[arg-type]  # names of one table
    return ErrorHandlers(**{name: _read_handler(getattr(message, name)) for name in said})


def _write_handlers(handlers: ErrorHandlers) -> run_config_pb2.ErrorHandlers:
    said = [name for name in _ERRORS if getattr(handlers, name) is not None]
    return run_config_pb2.ErrorHandlers(**{name: _write_handler(getattr(handlers, name)) for name in said})


def _read_handler(message: run_config_pb2.ErrorHandler) -> ErrorHandler:
    include = message.include_in_history if message.HasField("include_in_history") else True
    match message.WhichOneof("handler"):
        case "hook":
            return ErrorHandler(hook=read_optional_ref(message, "hook"), include_in_history=include)
        case "output":
            return ErrorHandler(output=message.output, include_in_history=include)
        case "output_json":
            return ErrorHandler(output_json=message.output_json, include_in_history=include)
        case _:
            raise unknown_arm("a fallback for an error")


def _write_handler(handler: ErrorHandler) -> run_config_pb2.ErrorHandler:
    message = run_config_pb2.ErrorHandler(include_in_history=None if handler.include_in_history else False)
    if handler.hook is not None:
        message.hook.CopyFrom(write_ref(handler.hook))
    elif handler.output is not None:
        message.output = handler.output
    elif handler.output_json is not None:
        message.output_json = handler.output_json
    return message


def _read_tracing(message: run_config_pb2.Tracing) -> Tracing:
    sensitive, spans = message.HasField("include_sensitive_data"), message.HasField("include_turn_spans")
    return Tracing(
        disabled=message.disabled,
        include_sensitive_data=message.include_sensitive_data if sensitive else None,
        workflow_name=message.workflow_name,
        trace_id=message.trace_id,
        group_id=message.group_id,
        metadata=dict(message.metadata),
        include_turn_spans=message.include_turn_spans if spans else True,
    )


def _write_tracing(tracing: Tracing) -> run_config_pb2.Tracing:
    return run_config_pb2.Tracing(
        disabled=tracing.disabled,
        include_sensitive_data=tracing.include_sensitive_data,
        workflow_name=tracing.workflow_name,
        trace_id=tracing.trace_id,
        group_id=tracing.group_id,
        metadata=tracing.metadata,
        include_turn_spans=None if tracing.include_turn_spans else False,
    )


# Any: each function takes the message, or the value, of the field that it stands under.
_READERS: dict[str, Any] = {
    "handoff_history": _read_handoff_history,
    "tool_execution": _read_tool_execution,
    "tool_error_texts": _read_error_texts,
    "blocked_output_text": _read_blocked_text,
    "error_handlers": _read_handlers,
    "tracing": _read_tracing,
}
_WRITERS: dict[str, Any] = {
    "handoff_history": _write_handoff_history,
    "tool_execution": _write_tool_execution,
    "tool_error_texts": _write_error_texts,
    "blocked_output_text": _write_blocked_text,
    "error_handlers": _write_handlers,
    "tracing": _write_tracing,
}
