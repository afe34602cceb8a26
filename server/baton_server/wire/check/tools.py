"""What an agent may call: functions, agents as tools, tools at the model's provider, the search for functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from baton.v1 import agent_pb2
from baton_server.core.agents import function_style
from baton_server.wire.check.choices import approval, enabled, failure_texts
from baton_server.wire.check.execution import VERSION_CHARACTERS, execution
from baton_server.wire.check.hooks import hook_fields, tool_guardrails
from baton_server.wire.check.violations import FUNCTION_NAME, Violations
from baton_server.wire.rules import schema_problem, strict_allows

TOOLS = 512
MAX_TURNS = 1_000_000
AGENT_CHARACTERS = 128

NOT_STRICT = "every object needs additionalProperties false and all its properties in required"

_MACHINE = "needs a machine of the server's own; host a function on a worker instead"
_NOT_HOSTED: Mapping[str, str] = {
    "computer": _MACHINE,
    "shell": _MACHINE,
    "local_shell": _MACHINE,
    "apply_patch": _MACHINE,
    "custom": "would have to run on the server; say it as a function",
    "function": "does not run at the provider; say it as function",
    "tool_search": "is said as tool_search",
}
"""Types of tools that are none of the provider's, and what to do."""


def tools(found: Violations, path: str, given: Sequence[agent_pb2.Tool]) -> set[str]:
    """Check what an agent may call; returns what a tool_choice may name: names, and types of hosted tools."""
    found.at_most(path, len(given), TOOLS, "tools")
    searches = [index for index, tool in enumerate(given) if tool.HasField("tool_search")]
    for index in searches[1:]:
        found.add(f"{path}[{index}].tool_search", f"is the second one after {path}[{searches[0]}], at most one is")
    names: set[str] = set()
    for index, tool in enumerate(given):
        where = f"{path}[{index}]"
        match found.arm(where, tool, "tool"):
            case "function":
                _function(found, f"{where}.function", tool.function, bool(searches))
                names.add(tool.function.name)
            case "agent":
                names.add(_agent_tool(found, f"{where}.agent", tool.agent))
            case "hosted":
                names.add(_hosted(found, f"{where}.hosted.tool_json", tool.hosted.tool_json))
            case _:
                pass
    return names


def _function(found: Violations, path: str, function: agent_pb2.FunctionTool, searchable: bool) -> None:
    found.function_name(f"{path}.name", function.name)
    if function.defer_loading and not searchable:
        found.add(f"{path}.defer_loading", "is true, but the agent has no tool_search that could find it; add one")
    approval(found, path, function)
    enabled(found, path, function)
    if function.HasField("execution"):
        execution(found, f"{path}.execution", function.execution)
    tool_guardrails(found, f"{path}.input_guardrails", function.input_guardrails)
    tool_guardrails(found, f"{path}.output_guardrails", function.output_guardrails)
    failure_texts(found, path, function, "on_crash", "on_timeout")
    hook_fields(found, path, function, "custom_data")
    found.text(f"{path}.handler_version", function.handler_version, VERSION_CHARACTERS)
    usable = object_schema(found, f"{path}.parameters_json", function.parameters_json)
    if usable and function.strict and not strict_allows(function.parameters_json):
        found.add(f"{path}.strict", f"is true, but parameters_json does not allow it: {NOT_STRICT}")


def _agent_tool(found: Violations, path: str, tool: agent_pb2.AgentTool) -> str:
    """Check an agent as a tool; returns its name."""
    name = tool_name(found, path, tool.agent, tool.tool_name, function_style(tool.agent))
    object_schema(found, f"{path}.parameters_json", tool.parameters_json)
    hook_fields(found, path, tool, "input_builder", "output_extractor")
    if tool.HasField("max_turns"):
        found.between(f"{path}.max_turns", tool.max_turns, 0, MAX_TURNS)
    approval(found, path, tool)
    enabled(found, path, tool)
    failure_texts(found, path, tool, "on_crash")
    return name


def _hosted(found: Violations, path: str, text: str) -> str:
    """Check a tool at the model's provider; returns its type."""
    shape = found.typed_object(path, text)
    kind = str(shape.get("type", ""))
    why = _MACHINE if kind.startswith("computer") else _NOT_HOSTED.get(kind)
    if why is not None:
        found.add(path, f"is of the type {kind[:80]!r}, which {why}")
    elif kind == "mcp" and shape.get("require_approval") != "never":
        why = 'may ask for approvals, which nobody could give; say "require_approval": "never"'
        found.add(path, f"is of the type 'mcp', which {why}")
    return kind


# -- shared with handoffs ------------------------------------------------------------------------


def tool_name(found: Violations, path: str, agent: str, name: str, default: str) -> str:
    """Check whom a tool is for and what it is called; returns its name. `default`: its name where none is said."""
    found.text(f"{path}.agent", agent, AGENT_CHARACTERS, required=True)
    found.optional_function_name(f"{path}.tool_name", name)
    if not name and agent and len(agent) <= AGENT_CHARACTERS and not FUNCTION_NAME.fullmatch(default):
        found.add(f"{path}.tool_name", f"is empty, and {default[:80]!r} made of the agent's name is too long; say one")
    return name or default


def object_schema(found: Violations, path: str, text: str) -> bool:
    """Check the JSON Schema of arguments, which may be empty; returns whether there is one that can be used."""
    problem = schema_problem(text) if text else None
    if problem is not None:
        found.add(path, problem)
    return bool(text) and problem is None
