"""Agents, their tools and settings, run configurations, and the requests of AgentService."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.wire.check.execution import VERSION_CHARACTERS, execution, timeout_action
from baton_server.wire.check.hooks import filters, guardrails, lifecycle_hooks
from baton_server.wire.check.violations import FUNCTION_NAME, Violations, join
from baton_server.wire.rules import schema_problem, strict_allows

TOOLS = 512
DEFINITION_BYTES = 3 * 1024 * 1024
MAX_TURNS = 1_000_000
NAME_CHARACTERS, TRACE_CHARACTERS = 128, 256
UNSERVED_GRACE_S = 600

_CHOICES = ("auto", "required", "none")


def check_create_agent(request: agent_pb2.CreateAgentRequest) -> None:
    """Check a CreateAgentRequest. Raises Refused with INVALID_REQUEST, as all checks here do."""
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
    """Check an agent's definition."""
    size = message.ByteSize()
    if size > DEFINITION_BYTES:
        found.add(path, f"has {size} bytes, at most {DEFINITION_BYTES} are allowed")
    found.text(join(path, "name"), message.name, NAME_CHARACTERS, required=True)
    functions = _tools(found, join(path, "tools"), message.tools)
    if message.HasField("model_settings"):
        settings(found, join(path, "model_settings"), message.model_settings, functions)
    guardrails(found, join(path, "input_guardrails"), message.input_guardrails)


def agent_ref(found: Violations, path: str, message: agent_pb2.AgentRef) -> None:
    """Check the name of a kept agent."""
    found.id(join(path, "agent_id"), message.agent_id)
    if message.HasField("revision"):
        found.at_least(join(path, "revision"), message.revision, 1)


def _tools(found: Violations, path: str, tools: Sequence[agent_pb2.Tool]) -> Collection[str]:
    """Check what an agent may call; returns the names of its functions."""
    if len(tools) > TOOLS:
        found.add(path, f"has {len(tools)} tools, at most {TOOLS} are allowed")
    first: dict[str, int] = {}
    for index, tool in enumerate(tools):
        where = f"{path}[{index}]"
        if found.arm(where, tool, "tool") is None:
            continue
        name = tool.function.name
        _function(found, f"{where}.function", tool.function)
        if first.setdefault(name, index) != index:
            found.add(f"{where}.function.name", f"is {name[:80]!r} as in {path}[{first[name]}], must be unique")
    return first


def _function(found: Violations, path: str, function: agent_pb2.FunctionTool) -> None:
    found.function_name(f"{path}.name", function.name)
    if function.HasField("execution"):
        execution(found, f"{path}.execution", function.execution)
    if function.HasField("on_timeout"):
        timeout_action(found, f"{path}.on_timeout", function.on_timeout)
    found.text(f"{path}.handler_version", function.handler_version, VERSION_CHARACTERS)
    if not function.parameters_json:
        return
    problem = schema_problem(function.parameters_json)
    if problem is not None:
        found.add(f"{path}.parameters_json", problem)
    elif function.strict and not strict_allows(function.parameters_json):
        found.add(
            f"{path}.strict",
            "is true, but parameters_json does not allow it: every object needs additionalProperties false "
            "and all its properties in required",
        )


def settings(
    found: Violations, path: str, message: agent_pb2.ModelSettings, functions: Collection[str] | None = None
) -> None:
    """Check model settings. `functions`: those that a tool_choice may name, None: not known here."""
    if message.HasField("temperature"):
        found.between(f"{path}.temperature", message.temperature, 0, 2)
    if message.HasField("top_p"):
        found.between(f"{path}.top_p", message.top_p, 0, 1)
    if message.HasField("max_tokens"):
        found.at_least(f"{path}.max_tokens", message.max_tokens, 1)
    choice = message.tool_choice
    if choice and choice not in _CHOICES:
        if not FUNCTION_NAME.fullmatch(choice):
            found.add(f"{path}.tool_choice", f"is {choice[:80]!r}, must be auto, required, none or a function")
        elif functions is not None and choice not in functions:
            found.add(f"{path}.tool_choice", f"is {choice!r}, which is none of the agent's functions")
    found.one_of(f"{path}.truncation", message.truncation, ("auto", "disabled"))
    found.one_of(f"{path}.verbosity", message.verbosity, ("low", "medium", "high"))
    found.labels(f"{path}.metadata", message.metadata)


# -- run configurations --------------------------------------------------------------------------


def run_config(found: Violations, path: str, message: run_config_pb2.RunConfig) -> None:
    """Check the options of a turn."""
    if message.HasField("max_turns"):
        found.between(f"{path}.max_turns", message.max_turns, 0, MAX_TURNS)
        if message.unlimited_turns:
            found.add(f"{path}.unlimited_turns", "is true, then max_turns must be absent")
    if message.HasField("model_settings"):
        settings(found, f"{path}.model_settings", message.model_settings)
    if message.HasField("tracing"):
        tracing = message.tracing
        found.text(f"{path}.tracing.workflow_name", tracing.workflow_name, TRACE_CHARACTERS)
        found.text(f"{path}.tracing.group_id", tracing.group_id, TRACE_CHARACTERS)
        found.labels(f"{path}.tracing.metadata", tracing.metadata)
    if message.HasField("unserved_grace"):
        found.duration(f"{path}.unserved_grace", message.unserved_grace, 0, UNSERVED_GRACE_S)
    found.scopes(f"{path}.scopes", message.scopes, required=True)
    guardrails(found, f"{path}.input_guardrails", message.input_guardrails)
    filters(found, f"{path}.model_input_filters", message.model_input_filters)
    lifecycle_hooks(found, f"{path}.lifecycle_hooks", message.lifecycle_hooks)
