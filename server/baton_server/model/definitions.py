"""What a model may call, as the Responses API has it: functions, agents, hosted tools, handoffs; and the choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from baton_server.core.agents import Handoff
from baton_server.core.jsontext import dump
from baton_server.core.strictness import allows_strict
from baton_server.core.tools import AgentTool, FunctionTool, HostedTool, Tool, ToolSearch

AGENT_PARAMETERS = (
    '{"type":"object","properties":{"input":{"title":"Input","type":"string"}},"required":["input"],'
    '"additionalProperties":false}'
)
"""Arguments of an agent that declares none: one text."""

NO_PARAMETERS = '{"additionalProperties":false,"type":"object","properties":{},"required":[]}'
"""Arguments of a handoff at which the model has nothing to say."""

_WORDS = frozenset({"auto", "required", "none"})

_HOSTED = frozenset(
    {"code_interpreter", "file_search", "image_generation", "mcp", "web_search", "web_search_preview"}
)  # fmt: skip
"""Names that mean a hosted tool where nothing of the agent's own is called so."""


def write_tools(tools: Sequence[Tool], handoffs: Sequence[Handoff]) -> str:
    """Write the elements of `tools`, handoffs last. Parameters and hosted tools go as the texts that they are."""
    return ",".join([*map(_tool, tools), *map(_handoff, handoffs)])


def tool_choice(choice: str | None, tools: Sequence[Tool], handoffs: Sequence[Handoff]) -> str | dict[str, str] | None:
    """Write a choice: one of three words, a hosted tool by its type, anything else as the name of a function."""
    if not choice or choice in _WORDS:
        return choice
    if any(getattr(one, "name", None) == choice for one in (*tools, *handoffs)):
        return {"type": "function", "name": choice}
    if choice in _HOSTED or choice in _hosted_types(tools):
        return {"type": choice}
    return {"type": "function", "name": choice}


def _hosted_types(tools: Sequence[Tool]) -> Iterator[str]:
    for tool in tools:
        if isinstance(tool, HostedTool):
            yield str(json.loads(tool.tool_json).get("type"))


def _tool(tool: Tool) -> str:
    match tool:
        case FunctionTool():
            more = ',"defer_loading":true' if tool.defer_loading else ""
            return _function(tool.name, tool.description, tool.parameters_json, tool.strict, more)
        case AgentTool():
            parameters = tool.parameters_json or AGENT_PARAMETERS
            return _function(tool.name, tool.description, parameters, allows_strict(parameters))
        case HostedTool():
            return tool.tool_json
        case ToolSearch():
            return '{"type":"tool_search"}'


def _handoff(handoff: Handoff) -> str:
    parameters = handoff.input_schema_json or NO_PARAMETERS
    return _function(handoff.name, handoff.description, parameters, allows_strict(parameters))


def _function(name: str, description: str, parameters: str, strict: bool | None, more: str = "") -> str:
    parts = ['"type":"function"', f'"name":{dump(name)}']
    if description:
        parts.append(f'"description":{dump(description)}')
    if parameters:
        parts.append(f'"parameters":{parameters}')
    if strict is not None:
        parts.append(f'"strict":{dump(strict)}')
    return f"{{{','.join(parts)}{more}}}"
