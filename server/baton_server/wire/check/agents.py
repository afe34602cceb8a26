"""Agents with the graphs that they start, and the requests of AgentService."""

from __future__ import annotations

from baton.v1 import agent_pb2
from baton_server.core.agents import handoff_name
from baton_server.wire.check.choices import enabled
from baton_server.wire.check.graph import graph
from baton_server.wire.check.hooks import filters, function_names, guardrails, hook_fields, hook_ref, lifecycle_hooks
from baton_server.wire.check.settings import settings
from baton_server.wire.check.tools import AGENT_CHARACTERS, NOT_STRICT, object_schema, tool_name, tools
from baton_server.wire.check.violations import Violations, join
from baton_server.wire.rules import output_schema_problem, strict_allows

DEFINITION_BYTES = 3 * 1024 * 1024
HANDOFFS, OTHER_AGENTS = 128, 127


def check_create_agent(request: agent_pb2.CreateAgentRequest) -> None:
    """Check a CreateAgentRequest.

    Raises Refused: INVALID_REQUEST, as all checks here do; AGENT_GRAPH_INVALID, as all do that take an agent.
    """
    found = Violations()
    found.id("request_id", request.request_id)
    _required_agent(found, request)
    found.labels("metadata", request.metadata)
    found.no_nul(request)
    found.raise_if_any()


def check_get_agent(request: agent_pb2.GetAgentRequest) -> None:
    """Check a GetAgentRequest."""
    found = Violations()
    found.id("agent_id", request.agent_id)
    if request.HasField("revision"):
        found.at_least("revision", request.revision, 1)
    found.no_nul(request)
    found.raise_if_any()


def check_list_agents(request: agent_pb2.ListAgentsRequest) -> None:
    """Check a ListAgentsRequest; what a page token means is the page's matter."""
    found = Violations()
    found.page_size("page_size", request.page_size)
    found.no_nul(request)
    found.raise_if_any()


def check_list_agent_revisions(request: agent_pb2.ListAgentRevisionsRequest) -> None:
    """Check a ListAgentRevisionsRequest."""
    found = Violations()
    found.id("agent_id", request.agent_id)
    found.page_size("page_size", request.page_size)
    found.no_nul(request)
    found.raise_if_any()


def check_update_agent(request: agent_pb2.UpdateAgentRequest) -> None:
    """Check an UpdateAgentRequest."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("agent_id", request.agent_id)
    _required_agent(found, request)
    if request.HasField("expected_revision"):
        found.at_least("expected_revision", request.expected_revision, 1)
    found.labels("metadata", request.metadata)
    found.no_nul(request)
    found.raise_if_any()


def check_delete_agent(request: agent_pb2.DeleteAgentRequest) -> None:
    """Check a DeleteAgentRequest."""
    found = Violations()
    found.id("request_id", request.request_id)
    found.id("agent_id", request.agent_id)
    found.no_nul(request)
    found.raise_if_any()


def _required_agent(found: Violations, request: agent_pb2.CreateAgentRequest | agent_pb2.UpdateAgentRequest) -> None:
    if request.HasField("agent"):
        agent(found, "agent", request.agent)
    else:
        found.add("agent", "is required")


# -- agents --------------------------------------------------------------------------------------


def agent(found: Violations, path: str, message: agent_pb2.Agent) -> None:
    """Check an agent's definition, and with it the graph that it starts."""
    size = message.ByteSize()
    if size > DEFINITION_BYTES:
        found.add(path, f"has {size} bytes, at most {DEFINITION_BYTES} are allowed")
    found.at_most(join(path, "agents"), len(message.agents), OTHER_AGENTS, "agents")
    _agent(found, path, message)
    for index, other in enumerate(message.agents):
        _agent(found, f"{path}.agents[{index}]", other)
    graph(found, path, message)


def agent_ref(found: Violations, path: str, message: agent_pb2.AgentRef) -> None:
    """Check the name of a kept agent."""
    found.id(join(path, "agent_id"), message.agent_id)
    if message.HasField("revision"):
        found.at_least(join(path, "revision"), message.revision, 1)


def _agent(found: Violations, path: str, message: agent_pb2.Agent) -> None:
    found.text(f"{path}.name", message.name, AGENT_CHARACTERS, required=True)
    hook_fields(found, path, message, "instructions_hook")
    callable_names = tools(found, f"{path}.tools", message.tools)
    found.at_most(f"{path}.handoffs", len(message.handoffs), HANDOFFS, "handoffs")
    for index, handoff in enumerate(message.handoffs):
        callable_names.add(_handoff(found, f"{path}.handoffs[{index}]", handoff))
    if message.HasField("model_settings"):
        settings(found, f"{path}.model_settings", message.model_settings, callable_names)
    if message.HasField("output_schema"):
        _output_schema(found, f"{path}.output_schema", message.output_schema)
    guardrails(found, f"{path}.input_guardrails", message.input_guardrails, of_inputs=True)
    guardrails(found, f"{path}.output_guardrails", message.output_guardrails, of_inputs=False)
    if message.HasField("tool_use_behavior"):
        _tool_use(found, f"{path}.tool_use_behavior", message.tool_use_behavior)
    lifecycle_hooks(found, f"{path}.lifecycle_hooks", message.lifecycle_hooks)


def _handoff(found: Violations, path: str, handoff: agent_pb2.Handoff) -> str:
    """Check a way to hand over; returns the name of its tool."""
    name = tool_name(found, path, handoff.agent, handoff.tool_name, handoff_name(handoff.agent))
    object_schema(found, f"{path}.input_schema_json", handoff.input_schema_json)
    hook_fields(found, path, handoff, "on_handoff")
    filters(found, f"{path}.input_filters", handoff.input_filters)
    enabled(found, path, handoff)
    return name


def _output_schema(found: Violations, path: str, schema: agent_pb2.OutputSchema) -> None:
    found.optional_function_name(f"{path}.name", schema.name)
    problem = output_schema_problem(schema.schema_json) if schema.schema_json else "is required"
    if problem is not None:
        found.add(f"{path}.schema_json", problem)
    elif (schema.strict or not schema.HasField("strict")) and not strict_allows(schema.schema_json):
        said = "true" if schema.HasField("strict") else "absent, which means true"
        problem = f"is {said}, but schema_json does not allow it: {NOT_STRICT}; or say false"
        found.add(f"{path}.strict", problem)


def _tool_use(found: Violations, path: str, behavior: agent_pb2.ToolUseBehavior) -> None:
    match found.arm(path, behavior, "behavior"):
        case "stop_on_first_tool":
            where = f"{path}.stop_on_first_tool"
            found.is_true(where, behavior.stop_on_first_tool, "leave tool_use_behavior out")
        case "stop_at_tools":
            names = behavior.stop_at_tools.names
            if not names:
                found.add(f"{path}.stop_at_tools.names", "must name at least one function")
            function_names(found, f"{path}.stop_at_tools.names", names)
        case "hook":
            hook_ref(found, f"{path}.hook", behavior.hook)
        case _:
            pass
