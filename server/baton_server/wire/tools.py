"""What an agent may call: `baton.v1.Tool` and its pieces as the core's values, and back.

What is absent or empty on the wire is at its default in the core, and is written as absent again.
"""

from __future__ import annotations

from baton.v1 import agent_pb2
from baton_server.core.agents import function_style
from baton_server.core.tools import (
    AgentTool,
    Approval,
    Enabled,
    Execution,
    FailureText,
    FunctionTool,
    HostedTool,
    Tool,
    ToolSearch,
)
from baton_server.wire.names import LOST_WORKERS
from baton_server.wire.refs import (
    read_optional_ref,
    read_tool_guardrail,
    unknown_arm,
    write_optional_ref,
    write_ref,
    write_tool_guardrail,
)
from baton_server.wire.times import read_duration, write_duration

_NO_EXECUTION = Execution()
_NO_APPROVAL = Approval()
_ENABLED = Enabled()


def read_tool(message: agent_pb2.Tool) -> Tool:
    """Read a tool. Raises ValueError: its kind is not known here."""
    match message.WhichOneof("tool"):
        case "function":
            return _read_function(message.function)
        case "agent":
            return _read_agent_tool(message.agent)
        case "hosted":
            return HostedTool(tool_json=message.hosted.tool_json)
        case "tool_search":
            return ToolSearch()
        case _:
            raise unknown_arm("a tool")


def write_tool(tool: Tool) -> agent_pb2.Tool:
    """Write a tool."""
    match tool:
        case FunctionTool():
            return agent_pb2.Tool(function=_write_function(tool))
        case AgentTool():
            return agent_pb2.Tool(agent=_write_agent_tool(tool))
        case HostedTool(tool_json=tool_json):
            return agent_pb2.Tool(hosted=agent_pb2.HostedTool(tool_json=tool_json))
        case ToolSearch():
            return agent_pb2.Tool(tool_search=agent_pb2.ToolSearch())


# -- functions and agent tools -------------------------------------------------------------------


def _read_function(message: agent_pb2.FunctionTool) -> FunctionTool:
    return FunctionTool(
        name=message.name,
        description=message.description,
        parameters_json=message.parameters_json,
        strict=message.strict if message.HasField("strict") else None,
        defer_loading=message.defer_loading,
        approval=_read_approval(message.needs_approval),
        enabled=read_enabled(message.enabled),
        execution=_read_execution(message.execution),
        input_guardrails=tuple(read_tool_guardrail(one) for one in message.input_guardrails),
        output_guardrails=tuple(read_tool_guardrail(one) for one in message.output_guardrails),
        on_crash=_read_failure_text(message.on_crash),
        on_timeout=_read_failure_text(message.on_timeout),
        custom_data=read_optional_ref(message, "custom_data"),
        handler_version=message.handler_version,
    )


def _write_function(function: FunctionTool) -> agent_pb2.FunctionTool:
    return agent_pb2.FunctionTool(
        name=function.name,
        description=function.description,
        parameters_json=function.parameters_json,
        strict=function.strict,
        defer_loading=function.defer_loading,
        needs_approval=_write_approval(function.approval),
        enabled=write_enabled(function.enabled),
        execution=_write_execution(function.execution),
        input_guardrails=[write_tool_guardrail(one) for one in function.input_guardrails],
        output_guardrails=[write_tool_guardrail(one) for one in function.output_guardrails],
        on_crash=_write_failure_text(function.on_crash),
        on_timeout=_write_failure_text(function.on_timeout),
        custom_data=write_optional_ref(function.custom_data),
        handler_version=function.handler_version,
    )


def _read_agent_tool(message: agent_pb2.AgentTool) -> AgentTool:
    return AgentTool(
        name=message.tool_name or function_style(message.agent),
        agent=message.agent,
        description=message.description,
        parameters_json=message.parameters_json,
        input_builder=read_optional_ref(message, "input_builder"),
        output_extractor=read_optional_ref(message, "output_extractor"),
        max_turns=message.max_turns if message.HasField("max_turns") else None,
        approval=_read_approval(message.needs_approval),
        enabled=read_enabled(message.enabled),
        on_crash=_read_failure_text(message.on_crash),
    )


def _write_agent_tool(tool: AgentTool) -> agent_pb2.AgentTool:
    return agent_pb2.AgentTool(
        agent=tool.agent,
        tool_name="" if tool.name == function_style(tool.agent) else tool.name,
        description=tool.description,
        parameters_json=tool.parameters_json,
        input_builder=write_optional_ref(tool.input_builder),
        output_extractor=write_optional_ref(tool.output_extractor),
        max_turns=tool.max_turns,
        needs_approval=_write_approval(tool.approval),
        enabled=write_enabled(tool.enabled),
        on_crash=_write_failure_text(tool.on_crash),
    )


# -- pieces --------------------------------------------------------------------------------------


def read_enabled(message: agent_pb2.Enabled) -> Enabled:
    """Read whether something is there."""
    if message.HasField("hook"):
        return Enabled(hook=read_optional_ref(message, "hook"))
    return Enabled(always=message.always) if message.HasField("always") else _ENABLED


def write_enabled(enabled: Enabled) -> agent_pb2.Enabled | None:
    """Write whether something is there; always is absent."""
    if enabled.hook is not None:
        return agent_pb2.Enabled(hook=write_ref(enabled.hook))
    return None if enabled == _ENABLED else agent_pb2.Enabled(always=enabled.always)


def _read_approval(message: agent_pb2.Approval) -> Approval:
    return Approval(
        always=message.always,
        hook=read_optional_ref(message, "hook"),
        expires_s=read_duration(message.expires) if message.HasField("expires") else None,
    )


def _write_approval(approval: Approval) -> agent_pb2.Approval | None:
    if approval == _NO_APPROVAL:
        return None
    message = agent_pb2.Approval()
    if approval.hook is not None:
        message.hook.CopyFrom(write_ref(approval.hook))
    else:
        message.always = approval.always
    if approval.expires_s is not None:
        message.expires.CopyFrom(write_duration(approval.expires_s))
    return message


def _read_failure_text(message: agent_pb2.FailureText) -> FailureText:
    return FailureText(text=message.text, hook=read_optional_ref(message, "hook"), fail_turn=message.fail_turn)


def _write_failure_text(words: FailureText) -> agent_pb2.FailureText | None:
    if not words.said:
        return None
    if words.hook is not None:
        return agent_pb2.FailureText(hook=write_ref(words.hook))
    if words.fail_turn:
        return agent_pb2.FailureText(fail_turn=True)
    return agent_pb2.FailureText(text=words.text)


def _read_execution(message: agent_pb2.Execution) -> Execution:
    return Execution(
        timeout_s=read_duration(message.timeout) if message.HasField("timeout") else None,
        expires_s=read_duration(message.expires) if message.HasField("expires") else None,
        lost_worker=LOST_WORKERS.to_core.get(message.lost_worker),
        max_attempts=message.max_attempts if message.HasField("max_attempts") else None,
        idempotency_fields=tuple(message.idempotency_fields),
    )


def _write_execution(execution: Execution) -> agent_pb2.Execution | None:
    if execution == _NO_EXECUTION:
        return None
    lost = execution.lost_worker
    return agent_pb2.Execution(
        timeout=None if execution.timeout_s is None else write_duration(execution.timeout_s),
        expires=None if execution.expires_s is None else write_duration(execution.expires_s),
        lost_worker=agent_pb2.LOST_WORKER_UNSPECIFIED if lost is None else LOST_WORKERS.to_wire[lost],
        max_attempts=execution.max_attempts,
        idempotency_fields=execution.idempotency_fields,
    )
