"""Agents and run configurations: `baton.v1.Agent` and `baton.v1.RunConfig` as the core's values, and back.

In both directions what is absent or empty on the wire is None in the core where the core tells them apart.
"""

from __future__ import annotations

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.core.agents import (
    DEFAULT_HOOK_TIMEOUT_S,
    Agent,
    Execution,
    FunctionTool,
    Guardrail,
    History,
    HookRef,
    LifecycleHook,
    ModelSettings,
    RunConfig,
    Tracing,
)
from baton_server.wire.names import LOST_WORKERS, MOMENTS
from baton_server.wire.times import read_duration, write_duration

_OPTIONAL = ("temperature", "top_p", "parallel_tool_calls", "max_tokens", "store")
"""Settings that have presence on the wire."""


def read_agent(message: agent_pb2.Agent) -> Agent:
    """Read an agent; tools of a kind that is not known here are left out, `check` has refused them."""
    return Agent(
        name=message.name,
        instructions=message.instructions if message.HasField("instructions") else None,
        model=message.model,
        model_settings=read_settings(message.model_settings),
        functions=tuple(_read_function(tool.function) for tool in message.tools if tool.HasField("function")),
        input_guardrails=tuple(_read_guardrail(one) for one in message.input_guardrails),
    )


def write_agent(agent: Agent) -> agent_pb2.Agent:
    """Write an agent. Settings that say nothing are absent."""
    message = agent_pb2.Agent(name=agent.name, model=agent.model)
    if agent.instructions is not None:
        message.instructions = agent.instructions
    if agent.model_settings != _NO_SETTINGS:
        message.model_settings.CopyFrom(write_settings(agent.model_settings))
    for function in agent.functions:
        _write_function(function, message.tools.add().function)
    message.input_guardrails.extend(_write_guardrail(one) for one in agent.input_guardrails)
    return message


# -- functions -----------------------------------------------------------------------------------


def _read_function(message: agent_pb2.FunctionTool) -> FunctionTool:
    return FunctionTool(
        name=message.name,
        description=message.description,
        parameters_json=message.parameters_json,
        strict=message.strict if message.HasField("strict") else None,
        execution=_read_execution(message.execution),
        timeout_text=message.on_timeout.text,
        timeout_fails_turn=message.on_timeout.fail_turn,
        handler_version=message.handler_version,
    )


def _write_function(function: FunctionTool, message: agent_pb2.FunctionTool) -> None:
    message.name = function.name
    message.description = function.description
    message.parameters_json = function.parameters_json
    if function.strict is not None:
        message.strict = function.strict
    if function.execution != _NO_EXECUTION:
        _write_execution(function.execution, message.execution)
    if function.timeout_fails_turn:
        message.on_timeout.fail_turn = True
    elif function.timeout_text:
        message.on_timeout.text = function.timeout_text
    message.handler_version = function.handler_version


def _read_execution(message: agent_pb2.Execution) -> Execution:
    return Execution(
        timeout_s=read_duration(message.timeout) if message.HasField("timeout") else None,
        expires_s=read_duration(message.expires) if message.HasField("expires") else None,
        lost_worker=LOST_WORKERS.to_core.get(message.lost_worker),
        max_attempts=message.max_attempts if message.HasField("max_attempts") else None,
        idempotency_fields=tuple(message.idempotency_fields),
    )


def _write_execution(execution: Execution, message: agent_pb2.Execution) -> None:
    if execution.timeout_s is not None:
        message.timeout.CopyFrom(write_duration(execution.timeout_s))
    if execution.expires_s is not None:
        message.expires.CopyFrom(write_duration(execution.expires_s))
    if execution.lost_worker is not None:
        message.lost_worker = LOST_WORKERS.to_wire[execution.lost_worker]
    if execution.max_attempts is not None:
        message.max_attempts = execution.max_attempts
    message.idempotency_fields.extend(execution.idempotency_fields)


# -- hooks ---------------------------------------------------------------------------------------


def _read_ref(message: agent_pb2.HookRef) -> HookRef:
    timeout_s = read_duration(message.timeout) if message.HasField("timeout") else DEFAULT_HOOK_TIMEOUT_S
    return HookRef(name=message.name, timeout_s=timeout_s)


def _write_ref(ref: HookRef) -> agent_pb2.HookRef:
    """Write a reference. The default timeout is absent: it is part of the contract, and as it was said."""
    message = agent_pb2.HookRef(name=ref.name)
    if ref.timeout_s != DEFAULT_HOOK_TIMEOUT_S:
        message.timeout.CopyFrom(write_duration(ref.timeout_s))
    return message


def _read_guardrail(message: agent_pb2.Guardrail) -> Guardrail:
    return Guardrail(name=message.name, hook=_read_ref(message.hook), blocking=message.blocking)


def _write_guardrail(guardrail: Guardrail) -> agent_pb2.Guardrail:
    return agent_pb2.Guardrail(name=guardrail.name, hook=_write_ref(guardrail.hook), blocking=guardrail.blocking)


def _read_lifecycle(message: run_config_pb2.LifecycleHook) -> LifecycleHook:
    return LifecycleHook(
        hook=_read_ref(message.hook), moments=tuple(MOMENTS.to_core[moment] for moment in message.moments)
    )


def _write_lifecycle(one: LifecycleHook) -> run_config_pb2.LifecycleHook:
    moments = [MOMENTS.to_wire[moment] for moment in one.moments]
    return run_config_pb2.LifecycleHook(hook=_write_ref(one.hook), moments=moments)


# -- settings ------------------------------------------------------------------------------------


def read_settings(message: agent_pb2.ModelSettings) -> ModelSettings:
    """Read model settings; what is absent or empty is None."""
    return ModelSettings(
        temperature=message.temperature if message.HasField("temperature") else None,
        top_p=message.top_p if message.HasField("top_p") else None,
        tool_choice=message.tool_choice or None,
        parallel_tool_calls=message.parallel_tool_calls if message.HasField("parallel_tool_calls") else None,
        truncation=message.truncation or None,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
        reasoning_effort=message.reasoning.effort or None,
        reasoning_summary=message.reasoning.summary or None,
        verbosity=message.verbosity or None,
        metadata=dict(message.metadata) or None,
        store=message.store if message.HasField("store") else None,
    )


def write_settings(settings: ModelSettings) -> agent_pb2.ModelSettings:
    """Write model settings; None is absent or empty."""
    message = agent_pb2.ModelSettings(
        tool_choice=settings.tool_choice or "",
        truncation=settings.truncation or "",
        verbosity=settings.verbosity or "",
        metadata=settings.metadata or {},
    )
    for name in _OPTIONAL:
        value = getattr(settings, name)
        if value is not None:
            setattr(message, name, value)
    if settings.reasoning_effort or settings.reasoning_summary:
        message.reasoning.effort = settings.reasoning_effort or ""
        message.reasoning.summary = settings.reasoning_summary or ""
    return message


# -- run configurations --------------------------------------------------------------------------


def read_config(message: run_config_pb2.RunConfig) -> RunConfig:
    """Read the options of a turn. A history without a mode is SESSION."""
    history = None
    if message.HasField("history"):
        history = History.CALLER if message.history.HasField("caller") else History.SESSION
    return RunConfig(
        max_turns=message.max_turns if message.HasField("max_turns") else None,
        unlimited_turns=message.unlimited_turns,
        model=message.model,
        model_settings=read_settings(message.model_settings),
        history=history,
        tracing=_read_tracing(message.tracing) if message.HasField("tracing") else None,
        unserved_grace_s=(read_duration(message.unserved_grace) if message.HasField("unserved_grace") else None),
        scopes=tuple(message.scopes),
        input_guardrails=tuple(_read_guardrail(one) for one in message.input_guardrails),
        model_input_filters=tuple(_read_ref(one.hook) for one in message.model_input_filters),
        lifecycle_hooks=tuple(_read_lifecycle(one) for one in message.lifecycle_hooks),
    )


def write_config(config: RunConfig) -> run_config_pb2.RunConfig:
    """Write the options of a turn; None is absent."""
    message = run_config_pb2.RunConfig(unlimited_turns=config.unlimited_turns, model=config.model, scopes=config.scopes)
    if config.max_turns is not None:
        message.max_turns = config.max_turns
    if config.model_settings != _NO_SETTINGS:
        message.model_settings.CopyFrom(write_settings(config.model_settings))
    if config.history is History.SESSION:
        message.history.session.SetInParent()
    elif config.history is History.CALLER:
        message.history.caller.SetInParent()
    if config.tracing is not None:
        message.tracing.CopyFrom(_write_tracing(config.tracing))
    if config.unserved_grace_s is not None:
        message.unserved_grace.CopyFrom(write_duration(config.unserved_grace_s))
    message.input_guardrails.extend(_write_guardrail(one) for one in config.input_guardrails)
    message.model_input_filters.extend(
        run_config_pb2.InputFilter(hook=_write_ref(ref)) for ref in config.model_input_filters
    )
    message.lifecycle_hooks.extend(_write_lifecycle(one) for one in config.lifecycle_hooks)
    return message


def _read_tracing(message: run_config_pb2.Tracing) -> Tracing:
    return Tracing(
        disabled=message.disabled,
        workflow_name=message.workflow_name,
        group_id=message.group_id,
        metadata=dict(message.metadata),
    )


def _write_tracing(tracing: Tracing) -> run_config_pb2.Tracing:
    return run_config_pb2.Tracing(
        disabled=tracing.disabled,
        workflow_name=tracing.workflow_name,
        group_id=tracing.group_id,
        metadata=tracing.metadata,
    )


_NO_SETTINGS = ModelSettings()
_NO_EXECUTION = Execution()
