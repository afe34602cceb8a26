"""Agents: `baton.v1.Agent` and the graph that it starts, as the core's values, and back.

In both directions what is absent or empty on the wire is None or at its default in the core, so that reading and
writing again gives the bytes by whose digest a graph is known.
"""

from __future__ import annotations

from baton.v1 import agent_pb2
from baton_server.core.agents import Agent, Handoff, OutputSchema, ToolUseBehavior, handoff_name
from baton_server.core.settings import NOTHING_SAID
from baton_server.wire.filters import read_filters, write_filters
from baton_server.wire.refs import (
    read_guardrail,
    read_lifecycle_hook,
    read_optional_ref,
    read_ref,
    unknown_arm,
    write_guardrail,
    write_lifecycle_hook,
    write_optional_ref,
    write_ref,
)
from baton_server.wire.settings import read_settings, write_settings
from baton_server.wire.tools import read_enabled, read_tool, write_enabled, write_tool

DEFAULT_OUTPUT_NAME = "final_output"
"""Name of an output schema where nobody says otherwise (agent.proto, `OutputSchema.name`)."""

_NO_BEHAVIOR = ToolUseBehavior()


def read_agent(message: agent_pb2.Agent) -> Agent:
    """Read an agent, and with it its graph. Raises ValueError: it holds what is not known here."""
    return Agent(
        name=message.name,
        instructions=message.instructions if message.HasField("instructions") else None,
        instructions_hook=read_optional_ref(message, "instructions_hook"),
        model=message.model,
        model_settings=read_settings(message),
        tools=tuple(read_tool(tool) for tool in message.tools),
        handoffs=tuple(_read_handoff(handoff) for handoff in message.handoffs),
        handoff_description=message.handoff_description,
        output_schema=_read_output_schema(message.output_schema) if message.HasField("output_schema") else None,
        input_guardrails=tuple(read_guardrail(one) for one in message.input_guardrails),
        output_guardrails=tuple(read_guardrail(one) for one in message.output_guardrails),
        tool_use=_read_behavior(message.tool_use_behavior) if message.HasField("tool_use_behavior") else _NO_BEHAVIOR,
        keep_tool_choice=message.keep_tool_choice,
        lifecycle_hooks=tuple(read_lifecycle_hook(one) for one in message.lifecycle_hooks),
        agents=tuple(read_agent(agent) for agent in message.agents),
    )


def write_agent(agent: Agent) -> agent_pb2.Agent:
    """Write an agent, and with it its graph. What says nothing is absent."""
    message = agent_pb2.Agent(
        name=agent.name,
        model=agent.model,
        tools=[write_tool(tool) for tool in agent.tools],
        handoffs=[_write_handoff(handoff) for handoff in agent.handoffs],
        handoff_description=agent.handoff_description,
        output_schema=None if agent.output_schema is None else _write_output_schema(agent.output_schema),
        input_guardrails=[write_guardrail(one) for one in agent.input_guardrails],
        output_guardrails=[write_guardrail(one) for one in agent.output_guardrails],
        tool_use_behavior=_write_behavior(agent.tool_use),
        keep_tool_choice=agent.keep_tool_choice,
        lifecycle_hooks=[write_lifecycle_hook(one) for one in agent.lifecycle_hooks],
        agents=[write_agent(other) for other in agent.agents],
    )
    if agent.instructions is not None:
        message.instructions = agent.instructions
    elif agent.instructions_hook is not None:
        message.instructions_hook.CopyFrom(write_ref(agent.instructions_hook))
    if agent.model_settings != NOTHING_SAID:
        message.model_settings.CopyFrom(write_settings(agent.model_settings))
    return message


def _read_handoff(message: agent_pb2.Handoff) -> Handoff:
    return Handoff(
        name=message.tool_name or handoff_name(message.agent),
        agent=message.agent,
        description=message.tool_description,
        input_schema_json=message.input_schema_json,
        on_handoff=read_optional_ref(message, "on_handoff"),
        input_filters=read_filters(message.input_filters),
        nest_history=message.nest_history if message.HasField("nest_history") else None,
        enabled=read_enabled(message.enabled),
    )


def _write_handoff(handoff: Handoff) -> agent_pb2.Handoff:
    return agent_pb2.Handoff(
        agent=handoff.agent,
        tool_name="" if handoff.name == handoff_name(handoff.agent) else handoff.name,
        tool_description=handoff.description,
        input_schema_json=handoff.input_schema_json,
        on_handoff=write_optional_ref(handoff.on_handoff),
        input_filters=write_filters(handoff.input_filters),
        nest_history=handoff.nest_history,
        enabled=write_enabled(handoff.enabled),
    )


def _read_output_schema(message: agent_pb2.OutputSchema) -> OutputSchema:
    return OutputSchema(
        name=message.name or DEFAULT_OUTPUT_NAME,
        schema_json=message.schema_json,
        strict=message.strict if message.HasField("strict") else True,
    )


def _write_output_schema(schema: OutputSchema) -> agent_pb2.OutputSchema:
    return agent_pb2.OutputSchema(
        name="" if schema.name == DEFAULT_OUTPUT_NAME else schema.name,
        schema_json=schema.schema_json,
        strict=None if schema.strict else False,
    )


def _read_behavior(message: agent_pb2.ToolUseBehavior) -> ToolUseBehavior:
    match message.WhichOneof("behavior"):
        case "stop_on_first_tool":
            return ToolUseBehavior(stop_on_first=message.stop_on_first_tool)
        case "stop_at_tools":
            return ToolUseBehavior(stop_at=tuple(message.stop_at_tools.names))
        case "hook":
            return ToolUseBehavior(hook=read_ref(message.hook))
        case _:
            raise unknown_arm("what happens after functions ran")


def _write_behavior(behavior: ToolUseBehavior) -> agent_pb2.ToolUseBehavior | None:
    if behavior.hook is not None:
        return agent_pb2.ToolUseBehavior(hook=write_ref(behavior.hook))
    if behavior.stop_at:
        return agent_pb2.ToolUseBehavior(stop_at_tools=agent_pb2.StopAtTools(names=behavior.stop_at))
    return agent_pb2.ToolUseBehavior(stop_on_first_tool=True) if behavior.stop_on_first else None
