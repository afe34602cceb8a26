"""Options of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from baton.agents.agent import check_model
from baton.agents.error_handlers import handlers_to_pb
from baton.agents.guardrails import (
    AnyInputGuardrail,
    AnyOutputGuardrail,
    checked_guardrails,
    checked_output_guardrails,
    guardrails_to_pb,
    output_guardrails_to_pb,
)
from baton.agents.handoff_data import filter_answer, filter_arguments
from baton.agents.handoff_history import wrappers_to_pb
from baton.agents.input_filters import AnyFilter, filters_to_pb, listed_filters
from baton.agents.lifecycle import LifecycleFunction, LifecycleHook, hooks_to_pb, lifecycle_to_pb, listed_lifecycle
from baton.agents.model_settings import ModelSettings, read_settings, settings_to_pb
from baton.agents.tool_errors import blocked_to_pb, check_formatter, formatter_to_pb
from baton.checks import check_bool, check_text, check_whole
from baton.errors import UserError
from baton.hooks import RemoteHook, checked_function
from baton.hooks.data import HandoffHistoryData, SessionInputData
from baton.hooks.refs import RefOf, hook_use, only_remote
from baton.options import options
from baton.runs.run_options import RunOptions
from baton.runs.tracing import TracingConfig, check_trace_id, check_tracing, trace, trace_labels, tracing_to_pb
from baton.server.session_settings import SessionSettings, read_session_settings
from baton.v1 import run_config_pb2

__all__ = ["RunConfig", "ToolExecutionConfig", "config_to_pb", "read_config", "trace"]

ReasoningItemIdPolicy = Literal["preserve", "omit"]
ToolNotFoundBehavior = Literal["raise_error", "return_error_to_model"]
ToolNameCollisionPolicy = Literal["warn", "error"]

_WORDS: Mapping[str, tuple[str, ...]] = {
    "reasoning_item_id_policy": get_args(ReasoningItemIdPolicy),
    "tool_not_found_behavior": get_args(ToolNotFoundBehavior),
    "tool_name_collision_policy": get_args(ToolNameCollisionPolicy),
}

_REASONING = {"preserve": run_config_pb2.REASONING_ITEM_IDS_PRESERVE, "omit": run_config_pb2.REASONING_ITEM_IDS_OMIT}
_NOT_FOUND = {
    "raise_error": run_config_pb2.TOOL_NOT_FOUND_FAIL_TURN,
    "return_error_to_model": run_config_pb2.TOOL_NOT_FOUND_TELL_MODEL,
}
_COLLISION = {
    "warn": run_config_pb2.TOOL_NAME_COLLISION_LAST_WINS,
    "error": run_config_pb2.TOOL_NAME_COLLISION_FAIL_TURN,
}


@options
@dataclass(frozen=True)
class ToolExecutionConfig:
    """How the functions of a run are called.

    `max_function_tool_concurrency`: of one round at once, at least 1; None: all. `pre_approval_tool_input_guardrails`:
    ask them before the pause for an approval too; they are asked again after it.
    """

    max_function_tool_concurrency: int | None = None
    pre_approval_tool_input_guardrails: bool = False

    def __post_init__(self) -> None:
        check_whole("tool_execution: max_function_tool_concurrency", self.max_function_tool_concurrency, 1)
        check_bool("tool_execution: pre_approval_tool_input_guardrails", self.pre_approval_tool_input_guardrails)


@options
@dataclass(frozen=True)
class RunConfig:
    """Options of a run; they win over the agent's. None: the agent's, the surrounding `trace`'s, the default.

    Models: `model`, for every agent. `model_provider`: the server's provider for names without a prefix, by its name.
    `model_settings`: laid over each agent's. `session_settings`: how much of a session is remembered.

    What is asked of whom: `session_input_callback(history, new_input)` gives the input of a run with a session.
    `input_guardrails`, `output_guardrails`: after the agent's. `handoff_input_filter`: of handoffs without one of their
    own. `nest_handoff_history`: fold the conversation into one message at a handoff; what the receiver gets then is
    `handoff_history_mapper(transcript)`. `call_model_input_filter`: changes what each request to the model carries,
    never the history: a function of `CallModelData` that gives a `ModelInputData`. Filters may be lists, in order, and
    `KeepLast` and `ToolOutputTrimmer` are some without a program. All functions may be coroutines, or `RemoteHook`s.
    `reasoning_item_id_policy`: "omit" sends reasoning items of the run back without their ids.

    Functions: `tool_execution`. `tool_error_formatter`: words for rejected calls, unknown functions and exceptions: of
    a `ToolErrorFormatterArgs`, giving a text or None; or texts by kind. `tool_not_found_behavior`:
    "return_error_to_model" tells the model of an unknown function. `tool_name_collision_policy`: "error" fails a run
    whose agent has two tools of one name; else the last one wins. `output_guardrail_blocked_message`: stands for a
    function's output that an output guardrail held back: a text, or a function of OutputGuardrailBlockedMessageArgs.

    Traces: `tracing_disabled`, `tracing` (a TracingConfig), `trace_include_sensitive_data` (None: as the server says),
    `workflow_name`, `trace_id`, `group_id`, `trace_metadata` (labels; what is no text is sent as JSON).

    `scopes`: where the names of `RemoteFunction`s and `RemoteHook`s are looked up, in order, before the empty scope; at
    most 6, since this process's own two come before them. `lifecycle_hooks`: are told what happens; nothing waits for
    them, but for a `LifecycleHook` that says so.
    """

    model: str | None = None
    model_provider: str | None = None
    model_settings: ModelSettings | Mapping[str, Any] | None = None
    session_settings: SessionSettings | Mapping[str, Any] | None = None
    session_input_callback: Callable[[list[Any], list[Any]], Any] | RemoteHook | None = None
    input_guardrails: Sequence[AnyInputGuardrail] | None = ()
    output_guardrails: Sequence[AnyOutputGuardrail] | None = ()
    handoff_input_filter: AnyFilter | Sequence[AnyFilter] | None = None
    nest_handoff_history: bool | None = None
    handoff_history_mapper: Callable[[list[Any]], Any] | RemoteHook | None = None
    call_model_input_filter: AnyFilter | Sequence[AnyFilter] | None = None
    reasoning_item_id_policy: ReasoningItemIdPolicy | None = None
    tool_execution: ToolExecutionConfig | Mapping[str, Any] | None = None
    tool_error_formatter: Callable[[Any], Any] | RemoteHook | Mapping[str, str] | None = None
    tool_not_found_behavior: ToolNotFoundBehavior | None = None
    tool_name_collision_policy: ToolNameCollisionPolicy | None = None
    output_guardrail_blocked_message: str | Callable[[Any], Any] | RemoteHook | None = None
    tracing_disabled: bool = False
    tracing: TracingConfig | None = None
    trace_include_sensitive_data: bool | None = None
    workflow_name: str | None = None
    trace_id: str | None = None
    group_id: str | None = None
    trace_metadata: Mapping[str, Any] | None = None
    scopes: Sequence[str] = ()
    lifecycle_hooks: Sequence[LifecycleHook | LifecycleFunction | RemoteHook] = ()

    def __post_init__(self) -> None:
        check_model("RunConfig", self.model)
        if self.model_provider is not None and not isinstance(self.model_provider, str):
            raise TypeError(
                f"RunConfig: model_provider: {self.model_provider!r} is no name; providers are configured at the "
                "server, and named here"
            )
        if isinstance(self.tool_execution, Mapping):
            object.__setattr__(self, "tool_execution", ToolExecutionConfig(**self.tool_execution))
        object.__setattr__(self, "model_settings", read_settings("RunConfig", self.model_settings))
        object.__setattr__(self, "session_settings", read_session_settings(self.session_settings))
        checked_guardrails("RunConfig", self.input_guardrails)
        checked_output_guardrails("RunConfig", self.output_guardrails)
        listed_filters("call_model_input_filter", self.call_model_input_filter)
        listed_filters("handoff_input_filter", self.handoff_input_filter)
        listed_lifecycle(self.lifecycle_hooks)
        checked_function("session_input_callback", self.session_input_callback)
        checked_function("handoff_history_mapper", self.handoff_history_mapper)
        check_formatter(self.tool_error_formatter)
        check_tracing(self.tracing)
        check_trace_id("RunConfig", self.trace_id)
        object.__setattr__(self, "trace_metadata", trace_labels("RunConfig: trace_metadata", self.trace_metadata))
        self._check_words()

    def _check_words(self) -> None:
        for name, known in _WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                raise UserError(f"RunConfig: {name} must be one of {', '.join(map(repr, known))}, not {value!r}")
        if self.tool_execution is not None and not isinstance(self.tool_execution, ToolExecutionConfig):
            raise TypeError(f"RunConfig: tool_execution must be a ToolExecutionConfig, not {self.tool_execution!r}")
        for name in ("nest_handoff_history", "trace_include_sensitive_data"):
            check_bool(f"RunConfig: {name}", getattr(self, name), none=True)
        blocked = self.output_guardrail_blocked_message
        if isinstance(blocked, str):
            check_text("RunConfig: output_guardrail_blocked_message", blocked)
        else:
            words = "a text, a function or a RemoteHook"
            checked_function("RunConfig: output_guardrail_blocked_message", blocked, words=words)


def read_config(config: RunConfig | Mapping[str, object] | None) -> RunConfig:
    """Take a run's options as they may be given: an object, a mapping of its fields, or none."""
    if config is None:
        return RunConfig()
    if isinstance(config, RunConfig):
        return config
    if isinstance(config, Mapping):
        return RunConfig(**config)  # type: ignore[arg-type]  # unknown names are refused, values are checked
    raise TypeError(f"run_config must be a RunConfig or a dict, not {type(config).__name__}")


# -- for the wire --------------------------------------------------------------------------------


def config_to_pb(config: RunConfig, options: RunOptions, ref_of: RefOf = only_remote) -> run_config_pb2.RunConfig:
    """Write `baton.v1.RunConfig`. `ref_of`: names hooks; without it, UserError for those of this process."""
    handoff_filters = listed_filters("handoff_input_filter", config.handoff_input_filter)
    model_filters = listed_filters("call_model_input_filter", config.call_model_input_filter)
    made = run_config_pb2.RunConfig(
        model=config.model or "",
        model_provider=config.model_provider or "",
        history=options.history,
        scopes=[*options.scopes, *config.scopes],
        input_guardrails=guardrails_to_pb(config.input_guardrails, ref_of),
        output_guardrails=output_guardrails_to_pb(config.output_guardrails, ref_of),
        handoff_input_filters=filters_to_pb(
            handoff_filters, "handoff_input_filter", ref_of, filter_arguments, filter_answer
        ),
        nest_handoff_history=config.nest_handoff_history,
        model_input_filters=filters_to_pb(model_filters, "model_input_filter", ref_of),
        tool_error_texts=formatter_to_pb(config.tool_error_formatter, ref_of),
        blocked_output_text=blocked_to_pb(config.output_guardrail_blocked_message, ref_of),
        error_handlers=handlers_to_pb(options.error_handlers, ref_of),
        tracing=tracing_to_pb(config),
        lifecycle_hooks=hooks_to_pb(options.hooks, ref_of)
        + lifecycle_to_pb(listed_lifecycle(config.lifecycle_hooks), ref_of),
    )
    if options.max_turns is None:
        made.unlimited_turns = True
    else:
        made.max_turns = options.max_turns
    if isinstance(config.model_settings, ModelSettings):
        made.model_settings.CopyFrom(settings_to_pb(config.model_settings, ref_of))
    _set_inputs(made, config, ref_of)
    _set_tools(made, config)
    return made


def _set_inputs(made: run_config_pb2.RunConfig, config: RunConfig, ref_of: RefOf) -> None:
    """Write who makes the input of a run with a session, and that of a receiver."""
    if config.session_input_callback is not None:
        use = hook_use("session_input", config.session_input_callback, _session_arguments)
        made.session_input.CopyFrom(ref_of(use))
    history = run_config_pb2.HandoffHistory()
    wrappers_to_pb(history)
    if config.handoff_history_mapper is not None:
        use = hook_use("handoff_history", config.handoff_history_mapper, _mapper_arguments)
        history.mapper.CopyFrom(ref_of(use))
    if history != run_config_pb2.HandoffHistory():
        made.handoff_history.CopyFrom(history)


def _set_tools(made: run_config_pb2.RunConfig, config: RunConfig) -> None:
    if config.reasoning_item_id_policy is not None:
        made.reasoning_item_ids = _REASONING[config.reasoning_item_id_policy]
    if config.tool_not_found_behavior is not None:
        made.tool_not_found = _NOT_FOUND[config.tool_not_found_behavior]
    if config.tool_name_collision_policy is not None:
        made.tool_name_collision = _COLLISION[config.tool_name_collision_policy]
    if isinstance(config.tool_execution, ToolExecutionConfig):
        made.tool_execution.SetInParent()
        made.tool_execution.guardrails_before_approval = config.tool_execution.pre_approval_tool_input_guardrails
        if config.tool_execution.max_function_tool_concurrency is not None:
            made.tool_execution.max_function_concurrency = config.tool_execution.max_function_tool_concurrency


def _session_arguments(data: SessionInputData[Any]) -> tuple[Any, ...]:
    return data.history, data.new_input


def _mapper_arguments(data: HandoffHistoryData[Any]) -> tuple[Any, ...]:
    return (data.transcript,)
