"""Tools of agents as the contract carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from baton.agents.agent_tool import AgentTool
from baton.agents.conditions import approval_to_pb, enabled_to_pb
from baton.agents.execution_options import execution_to_pb, lost_worker_after
from baton.agents.hosted_tools import HostedTool, ToolSearchTool
from baton.agents.tool_errors import default_tool_error_function, failure_to_pb
from baton.agents.tool_guardrails import tool_guardrails_to_pb
from baton.agents.tools import FunctionTool, FunctionToolCustomDataContext, RemoteFunction
from baton.errors import UserError
from baton.hooks import RemoteHook
from baton.hooks.data import ToolOutputData
from baton.hooks.refs import RefOf, hook_use, only_remote
from baton.v1 import agent_pb2

Tool = FunctionTool | RemoteFunction | AgentTool | HostedTool | ToolSearchTool


def tools_to_pb(tools: Sequence[Tool], ref_of: RefOf) -> list[agent_pb2.Tool]:
    """Write `baton.v1.Tool`s. Raises UserError for deferred functions that nothing can find."""
    searches = sum(isinstance(tool, ToolSearchTool) for tool in tools)
    deferred = [tool.name for tool in tools if isinstance(tool, FunctionTool | RemoteFunction) and tool.defer_loading]
    if deferred and not searches:
        raise UserError(f"{', '.join(deferred)}: defer_loading needs a ToolSearchTool() among the agent's tools")
    if searches > 1:
        raise UserError(f"an agent has at most one ToolSearchTool, not {searches}")
    return [_one_to_pb(tool, ref_of) for tool in tools]


def tool_to_pb(tool: FunctionTool | RemoteFunction, ref_of: RefOf = only_remote) -> agent_pb2.FunctionTool:
    """Write `baton.v1.FunctionTool`."""
    made = agent_pb2.FunctionTool(
        name=tool.name,
        description=tool.description or "",
        handler_version=tool.version,
        execution=_execution(tool),
        defer_loading=tool.defer_loading,
        needs_approval=approval_to_pb(tool.needs_approval, ref_of),
        enabled=enabled_to_pb("tool_enabled", tool.is_enabled, ref_of),
        input_guardrails=tool_guardrails_to_pb(tool.tool_input_guardrails, "tool_input_guardrail", ref_of),
        output_guardrails=tool_guardrails_to_pb(tool.tool_output_guardrails, "tool_output_guardrail", ref_of),
    )
    _set_failures(made, tool, ref_of)
    if tool.custom_data_extractor is not None:
        made.custom_data.CopyFrom(ref_of(hook_use("custom_data", tool.custom_data_extractor, _custom_data_arguments)))
    if tool.params_json_schema is not None:
        made.parameters_json = parameters_json(tool.params_json_schema)
    if tool.strict_json_schema is not None:
        made.strict = tool.strict_json_schema
    return made


def parameters_json(schema: Mapping[str, Any]) -> str:
    """Write a schema as the contract carries it."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _one_to_pb(tool: Tool, ref_of: RefOf) -> agent_pb2.Tool:
    match tool:
        case FunctionTool() | RemoteFunction():
            return agent_pb2.Tool(function=tool_to_pb(tool, ref_of))
        case AgentTool():
            return agent_pb2.Tool(agent=tool.to_pb(ref_of))
        case HostedTool():
            return agent_pb2.Tool(hosted=tool.to_pb())
        case ToolSearchTool():
            return agent_pb2.Tool(tool_search=agent_pb2.ToolSearch())


def _set_failures(made: agent_pb2.FunctionTool, tool: FunctionTool | RemoteFunction, ref_of: RefOf) -> None:
    """Write what the model is told of failures. What a function of this process says of one is said where it ran."""
    words = tool.failure_error_function
    said_here = isinstance(tool, FunctionTool) and not isinstance(words, str | RemoteHook)
    if words is None:
        made.on_crash.fail_turn = True
    elif words is not default_tool_error_function and not said_here:
        made.on_crash.CopyFrom(failure_to_pb(words, ref_of))
    if tool.timeout_behavior == "raise_exception":
        made.on_timeout.fail_turn = True
    elif tool.timeout_error_function is not None:
        made.on_timeout.CopyFrom(failure_to_pb(tool.timeout_error_function, ref_of))


def _execution(tool: FunctionTool | RemoteFunction) -> agent_pb2.Execution | None:
    if isinstance(tool, FunctionTool):
        lost_worker = lost_worker_after(tool.side_effects)
        return execution_to_pb(tool.timeout, lost_worker, tool.idempotency_fields)
    return execution_to_pb(
        tool.timeout, tool.lost_worker, tool.idempotency_fields, expires=tool.expires, max_attempts=tool.max_attempts
    )


def _custom_data_arguments(data: ToolOutputData[Any]) -> tuple[Any, ...]:
    context = FunctionToolCustomDataContext(
        tool_context=data,
        tool=data.agent.find_tool(data.tool_name) if data.agent is not None else None,
        output=data.output,
        raw_item={"type": "function_call_output", "call_id": data.call_id, "output": data.output},
    )
    return (context,)
