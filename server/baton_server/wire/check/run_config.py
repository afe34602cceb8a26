"""Options of a turn: what a run or a session says, whatever agents take part in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from baton.v1 import run_config_pb2, session_pb2
from baton_server.wire.check.hooks import WORDS_CHARACTERS, filters, guardrails, hook_fields, hook_ref, lifecycle_hooks
from baton_server.wire.check.settings import settings
from baton_server.wire.check.tools import AGENT_CHARACTERS, MAX_TURNS
from baton_server.wire.check.violations import Violations

CONFIG_BYTES = 1024 * 1024
TRACE_CHARACTERS, PROVIDER_CHARACTERS, MARKER_CHARACTERS = 256, 128, 256
KEPT_ID_CHARACTERS = 256
"""Of ids at the model's API."""
UNSERVED_GRACE_S = 600

_TRACE_ID = re.compile(r"trace_(?!0{32})[0-9a-fA-F]{32}")

_ENUMS: Mapping[str, object] = {
    "reasoning_item_ids": run_config_pb2.ReasoningItemIds,
    "tool_not_found": run_config_pb2.ToolNotFound,
    "tool_name_collision": run_config_pb2.ToolNameCollision,
}
_ERROR_TEXTS = ("approval_rejected", "tool_not_found", "tool_exception")
_ERRORS = ("max_turns", "model_refusal", "invalid_final_output")


def run_config(found: Violations, path: str, message: run_config_pb2.RunConfig) -> None:
    """Check the options of a turn."""
    size = message.ByteSize()
    if size > CONFIG_BYTES:
        found.add(path, f"has {size} bytes, at most {CONFIG_BYTES} are allowed")
    round_limit(found, path, message)
    found.text(f"{path}.model_provider", message.model_provider, PROVIDER_CHARACTERS)
    if message.HasField("model_settings"):
        settings(found, f"{path}.model_settings", message.model_settings)
    if message.HasField("history"):
        _history(found, f"{path}.history", message.history)
    hook_fields(found, path, message, "session_input")
    guardrails(found, f"{path}.input_guardrails", message.input_guardrails, of_inputs=True)
    guardrails(found, f"{path}.output_guardrails", message.output_guardrails, of_inputs=False)
    filters(found, f"{path}.handoff_input_filters", message.handoff_input_filters)
    filters(found, f"{path}.model_input_filters", message.model_input_filters)
    lifecycle_hooks(found, f"{path}.lifecycle_hooks", message.lifecycle_hooks)
    for name, kind in _ENUMS.items():
        found.enum(f"{path}.{name}", getattr(message, name), kind)
    _functions(found, path, message)
    _texts(found, path, message)
    for name in _ERRORS:
        if message.HasField("error_handlers") and message.error_handlers.HasField(name):  # type: ignore[arg-type]  # names of one table
            _error_handler(found, f"{path}.error_handlers.{name}", getattr(message.error_handlers, name))
    if message.HasField("tracing"):
        _tracing(found, f"{path}.tracing", message.tracing)
    if message.HasField("unserved_grace"):
        found.duration(f"{path}.unserved_grace", message.unserved_grace, 0, UNSERVED_GRACE_S)
    found.scopes(f"{path}.scopes", message.scopes, required=True)
    found.text(f"{path}.start_agent", message.start_agent, AGENT_CHARACTERS)


def round_limit(found: Violations, path: str, message: run_config_pb2.RunConfig | session_pb2.ContinueInput) -> None:
    """Check how many rounds a turn may take."""
    if not message.HasField("max_turns"):
        return
    found.between(f"{path}.max_turns", message.max_turns, 0, MAX_TURNS)
    if message.unlimited_turns:
        found.add(f"{path}.unlimited_turns", "is true, then max_turns must be absent")


def _history(found: Violations, path: str, history: run_config_pb2.History) -> None:
    match history.WhichOneof("mode"):
        case "session":
            if history.session.HasField("limit"):
                found.at_least(f"{path}.session.limit", history.session.limit, 0)
        case "conversation":
            found.text(f"{path}.conversation.id", history.conversation.id, KEPT_ID_CHARACTERS, required=True)
        case "response":
            chain = history.response
            found.text(f"{path}.response.previous_id", chain.previous_id, KEPT_ID_CHARACTERS)
            if not chain.previous_id and not chain.auto:
                found.add(f"{path}.response.auto", "is false, must be true where previous_id is empty; or say that")
        case "stored":
            if history.stored.HasField("store"):
                hook_ref(found, f"{path}.stored.store", history.stored.store)
            else:
                found.add(f"{path}.stored.store", "is required")
            if history.stored.HasField("limit"):
                found.at_least(f"{path}.stored.limit", history.stored.limit, 0)
        case _:
            pass


def _functions(found: Violations, path: str, message: run_config_pb2.RunConfig) -> None:
    execution = message.tool_execution
    if execution.HasField("max_function_concurrency"):
        where = f"{path}.tool_execution.max_function_concurrency"
        found.at_least(where, execution.max_function_concurrency, 1)


def _texts(found: Violations, path: str, message: run_config_pb2.RunConfig) -> None:
    """Check words that stand for others: of failures, of outputs held back, around a folded conversation."""
    hook_fields(found, f"{path}.handoff_history", message.handoff_history, "mapper")
    for name in ("start_marker", "end_marker"):
        found.text(f"{path}.handoff_history.{name}", getattr(message.handoff_history, name), MARKER_CHARACTERS)
    hook_fields(found, f"{path}.tool_error_texts", message.tool_error_texts, "hook")
    for name in _ERROR_TEXTS:
        found.text(f"{path}.tool_error_texts.{name}", getattr(message.tool_error_texts, name), WORDS_CHARACTERS)
    if not message.HasField("blocked_output_text"):
        return
    where, words = f"{path}.blocked_output_text", message.blocked_output_text
    match found.arm(where, words, "text_source"):
        case "text":
            found.text(f"{where}.text", words.text, WORDS_CHARACTERS, required=True)
        case "hook":
            hook_ref(found, f"{where}.hook", words.hook)
        case _:
            pass


def _error_handler(found: Violations, path: str, handler: run_config_pb2.ErrorHandler) -> None:
    match found.arm(path, handler, "handler"):
        case "hook":
            hook_ref(found, f"{path}.hook", handler.hook)
            if handler.HasField("include_in_history"):
                found.add(f"{path}.include_in_history", "is for fixed outputs only; a hook's answer says it")
        case "output_json":
            found.json(f"{path}.output_json", handler.output_json)
        case _:
            pass


def _tracing(found: Violations, path: str, tracing: run_config_pb2.Tracing) -> None:
    found.text(f"{path}.workflow_name", tracing.workflow_name, TRACE_CHARACTERS)
    if tracing.trace_id and not _TRACE_ID.fullmatch(tracing.trace_id):
        words = "must be trace_ and 32 hex digits that are not all 0, or empty"
        found.add(f"{path}.trace_id", f"is {tracing.trace_id[:80]!r}, {words}")
    found.text(f"{path}.group_id", tracing.group_id, TRACE_CHARACTERS)
    found.labels(f"{path}.metadata", tracing.metadata)
