"""What a model is told that it may call, and what it is told to call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton_server.core.agents import Handoff
from baton_server.core.tools import AgentTool, FunctionTool, HostedTool, Tool, ToolSearch
from baton_server.model.definitions import tool_choice, write_tools

CLOSED = '{ "type":"object","properties":{"n":{"enum":[1e3]}},"required":["n"],"additionalProperties":false }'
OPEN = '{"type":"object","properties":{"n":{"type":"integer"}}}'
SEARCH = HostedTool(tool_json='{ "type":"web_search", "filters":{"n":1.0} }')
MAPS = HostedTool(tool_json='{"type":"maps_of_tomorrow"}')


def written(*tools: Tool, handoffs: tuple[Handoff, ...] = ()) -> list[dict[str, Any]]:
    """Write definitions and read them again."""
    found: list[dict[str, Any]] = json.loads(f"[{write_tools(tools, handoffs)}]")
    return found


def test_each_kind_is_written_as_the_api_has_it() -> None:
    """In the agent's order, handoffs last."""
    tools = (
        FunctionTool(name="later", description="Loads late.", parameters_json=OPEN, strict=False, defer_loading=True),
        ToolSearch(),
        AgentTool(name="ask_billing", agent="Billing", description="Asks billing."),
        SEARCH,
    )
    handoffs = (Handoff(name="transfer_to_billing", agent="Billing", description="Hands over. "),)

    found = written(*tools, handoffs=handoffs)

    assert [{**one, "parameters": ...} if "parameters" in one else one for one in found] == [
        {
            "type": "function", "name": "later", "description": "Loads late.", "parameters": ..., "strict": False,
            "defer_loading": True,
        },
        {"type": "tool_search"},
        {"type": "function", "name": "ask_billing", "description": "Asks billing.", "parameters": ..., "strict": True},
        {"type": "web_search", "filters": {"n": 1.0}},
        {
            "type": "function", "name": "transfer_to_billing", "description": "Hands over. ", "parameters": ...,
            "strict": True,
        },
    ]  # fmt: skip


def test_schemas_and_hosted_tools_go_as_the_texts_that_they_are() -> None:
    """White space, numbers and order of keys reach the model."""
    tools = (FunctionTool(name="f", parameters_json=CLOSED), AgentTool(name="a", agent="A", parameters_json=CLOSED))

    text = write_tools((*tools, SEARCH), (Handoff(name="h", agent="A", input_schema_json=CLOSED),))

    assert text.count(CLOSED) == 3
    assert SEARCH.tool_json in text


def test_an_agent_takes_one_text_and_a_handoff_nothing() -> None:
    """Where they declare no arguments of their own."""
    agent, handoff = written(AgentTool(name="a", agent="A"), handoffs=(Handoff(name="h", agent="A"),))

    assert agent["parameters"]["properties"] == {"input": {"title": "Input", "type": "string"}}
    assert agent["parameters"]["required"] == ["input"]
    assert handoff["parameters"] == {"additionalProperties": False, "type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_strict_adherence_is_asked_where_the_schema_allows_it(schema: str, strict: bool) -> None:
    """The API refuses a strict function whose schema is open."""
    agent, handoff = written(
        AgentTool(name="a", agent="A", parameters_json=schema),
        handoffs=(Handoff(name="h", agent="A", input_schema_json=schema),),
    )

    assert (agent["strict"], handoff["strict"]) == (strict, strict)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("", ""),
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("get_weather", {"type": "function", "name": "get_weather"}),
        ("transfer_to_b", {"type": "function", "name": "transfer_to_b"}),
        ("web_search_preview", {"type": "web_search_preview"}),
        ("code_interpreter", {"type": "code_interpreter"}),
        ("maps_of_tomorrow", {"type": "maps_of_tomorrow"}),
        ("file_search", {"type": "function", "name": "file_search"}),
        ("nobody", {"type": "function", "name": "nobody"}),
    ],
)
def test_a_tool_is_chosen_by_its_name(choice: str | None, sent: object) -> None:
    """Three words go as they are, hosted tools by their type; what the agent itself calls so comes first."""
    tools = (FunctionTool(name="get_weather"), FunctionTool(name="file_search"), MAPS, ToolSearch())

    assert tool_choice(choice, tools, (Handoff(name="transfer_to_b", agent="B"),)) == sent
