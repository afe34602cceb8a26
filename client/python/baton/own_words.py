"""The server's words about a request, in those of whoever wrote it: names of arguments, not of the contract's fields.

A request is written from a `Runner` call, a `RunConfig`, agents and items; what is wrong with it the server tells by
the contract's paths. Here is which is which, as data. What has the same name in both stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from baton.errors import AgentsException, InvalidRequestError, Violation

E = TypeVar("E", bound=AgentsException)

_REQUEST = {
    r"(text|items_json|inputs\[\d+\]\.items_json)": "input",
    r"session_key": "session",
    r"(run_config|continues)\.(max_turns|unlimited_turns)": "max_turns",
    r"run_config\.error_handlers": "error_handlers",
    r"run_config\.history\.conversation\.id": "conversation_id",
    r"run_config\.history\.response\.previous_id": "previous_response_id",
    r"run_config\.history\.response\.auto": "auto_previous_response_id",
    r"run_config\.history\.(session|stored)\.limit": "run_config.session_settings.limit",
    r"run_config\.history": "session",
    r"run_config\.handoff_history\.start_marker": "set_conversation_history_wrappers: start",
    r"run_config\.handoff_history\.end_marker": "set_conversation_history_wrappers: end",
}
"""Of the request itself."""

_SETTINGS = {
    r"model_settings\.(extra_body|extra_args|context_management|prompt_cache_options)_json": r"model_settings.\1",
    r"model_settings\.retry\.(initial_delay|max_delay|multiplier|jitter)": r"model_settings.retry.backoff.\1",
    r"model_settings\.retry\.rule": "model_settings.retry.policy",
}
"""Of an agent and of a run's configuration."""

_RUN_CONFIG = _SETTINGS | {
    r"session_input": "session_input_callback",
    r"handoff_input_filters": "handoff_input_filter",
    r"handoff_history\.mapper": "handoff_history_mapper",
    r"model_input_filters": "call_model_input_filter",
    r"reasoning_item_ids": "reasoning_item_id_policy",
    r"tool_execution\.max_function_concurrency": "tool_execution.max_function_tool_concurrency",
    r"tool_execution\.guardrails_before_approval": "tool_execution.pre_approval_tool_input_guardrails",
    r"tool_not_found": "tool_not_found_behavior",
    r"tool_name_collision": "tool_name_collision_policy",
    r"tool_error_texts": "tool_error_formatter",
    r"blocked_output_text": "output_guardrail_blocked_message",
    r"tracing\.disabled": "tracing_disabled",
    r"tracing\.include_sensitive_data": "trace_include_sensitive_data",
    r"tracing\.metadata": "trace_metadata",
    r"tracing\.include_turn_spans": "tracing['include_task_and_turn_spans']",
    r"tracing\.(workflow_name|trace_id|group_id)": r"\1",
}
"""Behind `run_config.`."""

_AGENT = _SETTINGS | {
    r"instructions_hook": "instructions",
    r"output_schema(\.\w+)?": "output_type",
    r"keep_tool_choice": "reset_tool_choice",
    r"lifecycle_hooks": "hooks",
    r"(tools\[\d+\])\.hosted\.tool_json": r"\1",
    r"(tools\[\d+\])\.agent\.description": r"\1.tool_description",
    r"(tools\[\d+\])\.agent\.parameters_json": r"\1.parameters",
    r"(tools\[\d+\])\.agent\.output_extractor": r"\1.custom_output_extractor",
    r"(tools\[\d+\])\.function\.parameters_json": r"\1.params_json_schema",
    r"(tools\[\d+\])\.function\.strict": r"\1.strict_json_schema",
    r"(tools\[\d+\])\.function\.(input|output)_guardrails": r"\1.tool_\2_guardrails",
    r"(tools\[\d+\])\.function\.on_timeout": r"\1.timeout_error_function",
    r"(tools\[\d+\])\.function\.custom_data": r"\1.custom_data_extractor",
    r"(tools\[\d+\])\.function\.handler_version": r"\1.version",
    r"(tools\[\d+\])\.function\.execution": r"\1",
    r"(tools\[\d+\])\.(function|agent)\.on_crash": r"\1.failure_error_function",
    r"(tools\[\d+\])\.(function|agent)\.enabled": r"\1.is_enabled",
    r"(tools\[\d+\])\.(function|agent)": r"\1",
    r"(handoffs\[\d+\])\.input_schema_json": r"\1.input_type",
    r"(handoffs\[\d+\])\.input_filters": r"\1.input_filter",
    r"(handoffs\[\d+\])\.nest_history": r"\1.nest_handoff_history",
    r"(handoffs\[\d+\])\.enabled": r"\1.is_enabled",
}
"""Of an agent."""

OF_ADDED_ITEMS = {r"items_json": "items"}
"""Of a request that brings items alone."""

OF_SUBMITTED = {r"inputs\[(\d+)\]\.items_json": r"inputs[\1]"}
"""Of a batch of inputs, which are told apart by their numbers."""

_ADVICE: Mapping[str, Mapping[str, str]] = {
    "MAX_TURNS_EXCEEDED": {"run_config.max_turns, or set unlimited_turns": "max_turns, or pass max_turns=None"},
    "USER_ERROR": {"set tool_name_collision to LAST_WINS": 'leave tool_name_collision_policy at "warn"'},
    "FUNCTION_UNDECLARED": {
        "has no parameters_json": "has no params_json_schema",
        "Add parameters_json to the agent's tool": "Give the RemoteFunction its params_json_schema",
    },
}
"""What the server advises, by reason, and what it means here. Errors of other reasons quote a program or a model."""

_ONE_OF_AGENTS = re.compile(r"agent(?:\.agents\[(\d+)\])?(?:\.|$)")


def own_path(path: str, agents: Sequence[str] = (), names: Mapping[str, str] = _REQUEST) -> str:
    """Say a path of a request as its author wrote it.

    `agents`: their names, in the order of the graph. `names`: of the request itself.
    """
    found = _ONE_OF_AGENTS.match(path)
    if found is not None:
        number = 0 if found[1] is None else int(found[1]) + 1
        name = f"Agent {agents[number]!r}" if number < len(agents) else found[0].rstrip(".")
        rest = _renamed(path[found.end() :], _AGENT)
        return f"{name}: {rest}" if rest else name
    said = _renamed(path, names)
    before, dot, rest = said.partition(".")
    if before != "run_config":
        return said
    return f"{before}{dot}{_renamed(rest, _RUN_CONFIG)}"


def reworded(error: E, agents: Sequence[str] = (), names: Mapping[str, str] = _REQUEST) -> E:
    """Put the words of an error into those of the program; the same error."""
    text = error.message
    if isinstance(error, InvalidRequestError):
        said = [(one, own_path(one.field, agents, names)) for one in error.violations]
        for one, path in said:
            text = text.replace(f"{one.field}: {one.description}", f"{path}: {one.description}")
        error.violations = tuple(Violation(field=path, description=one.description) for one, path in said)
    for theirs, ours in _ADVICE.get(error.reason, {}).items():
        text = text.replace(theirs, ours)
    error.message, error.args = text, (text,)
    return error


@contextmanager
def in_own_words(agents: Sequence[str] = (), names: Mapping[str, str] = _REQUEST) -> Iterator[None]:
    """Put the words of what the block raises into those of the program. As `own_path`."""
    try:
        yield
    except AgentsException as error:
        reworded(error, agents, names)
        raise


def _renamed(path: str, names: Mapping[str, str]) -> str:
    """Rename the beginning of a path, by the first name that fits it."""
    for theirs, ours in names.items():
        said, count = re.subn(rf"^{theirs}(?=$|[.\[])", ours, path)
        if count:
            return said
    return path
