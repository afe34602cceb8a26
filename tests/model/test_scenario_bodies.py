"""Bodies beside those that the Agents SDK sent: the first request of every scenario, from its declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.compare import Json, differences

from baton_server.core.agents import Handoff, OutputSchema, handoff_name
from baton_server.core.jsontext import dump
from baton_server.core.settings import ModelSettings
from baton_server.core.tools import AgentTool, FunctionTool, Tool, ToolSearch
from baton_server.model.body import BodyWriter
from baton_server.ports.model import ModelRequest

FOLDER = Path(__file__).parents[1] / "conformance" / "scenarios"

NOTHING = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
"""Parameters of a function that declares none."""

NOT_OF_THE_BODY = {
    "input_filter_instructions",
    "append_instructions_handoff",
    "append_no_instructions",
    "fold_instructions",
    "agent_tool_collision",
    "handoff_name_collision",
    "agent_tool_filters",
    "instructions_over_rounds",
    "instructions_after_pause",
    "instructions_nested",
}
"""Scenarios whose instructions a program changes before they reach the body, or where one of two tools is dropped."""


def scenarios() -> dict[str, Json]:
    """Read all scenarios whose first request is written from declarations alone."""
    found = [one for path in sorted(FOLDER.glob("*.json")) for one in json.loads(path.read_text())]
    return {one["name"]: one for one in found if one["expect"]["requests"] and one["name"] not in NOT_OF_THE_BODY}


SCENARIOS = scenarios()


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_first_request_is_the_one_that_the_agents_sdk_sends(name: str) -> None:
    """Tools, settings, schemas and what the model's API keeps; items are given as the SDK sent them."""
    scenario = SCENARIOS[name]
    want = scenario["expect"]["requests"][0]

    body = json.loads(BodyWriter().write(request_of(scenario, want["input"]), want["model"]))

    sent = {key: value for key, value in body.items() if key != "stream"}
    assert differences(expecting(want), expecting(sent)) == []


def expecting(request: Json) -> Json:
    """Write what `differences` compares, with one request and nothing else."""
    return {"runs": [], "requests": [request], "functions_called": [], "streamed_alike": True}


def request_of(scenario: Json, items: list[Any]) -> ModelRequest:
    """Make the request that a scenario's first run begins with."""
    run = scenario["runs"][0]
    agent = scenario["agents"][run.get("agent", next(iter(scenario["agents"])))]
    settings = settings_of(agent.get("model_settings", {}))
    return ModelRequest(
        turn_id="turn_1",
        round=1,
        model="unused",
        settings=settings.under(settings_of(run.get("config", {}).get("model_settings", {}))),
        items=[dump(item) for item in items],
        instructions=agent.get("instructions"),
        tools=tuple(tools_of(scenario, agent)),
        handoffs=tuple(handoffs_of(scenario, agent)),
        output_schema=output_of(agent),
        conversation_id="conv_scenario" if run.get("memory") == "conversation" else "",
    )


def settings_of(declared: Json) -> ModelSettings:
    """Read settings by the SDK's names."""
    fields = {name: value for name, value in declared.items() if name != "retry"}  # which no body says
    for name, value in fields.pop("reasoning", {}).items():
        fields[f"reasoning_{name}"] = value
    if "response_include" in fields:
        fields["response_include"] = tuple(fields["response_include"])
    for name in ("extra_args", "extra_body"):
        if name in fields:
            fields[f"{name}_json"] = dump(fields.pop(name))
    return ModelSettings(**fields)


def tools_of(scenario: Json, agent: Json) -> list[Tool]:
    """Make an agent's tools, without those that it does not have at the moment."""
    declared = {tool.get("name", "tool_search"): tool for tool in scenario.get("tools", [])}
    made: list[Tool] = []
    for name in agent.get("tools", []):
        tool = declared[name]
        if tool.get("type") == "tool_search":
            made.append(ToolSearch())
        elif is_there(tool):
            made.append(
                FunctionTool(
                    name=name,
                    description=tool.get("description", ""),
                    parameters_json=dump(tool.get("parameters", NOTHING)),
                    strict=tool.get("strict", True),
                    defer_loading=tool.get("defer_loading", False),
                )
            )
    for tool in filter(is_there, agent.get("agent_tools", [])):
        made.append(AgentTool(name=tool["name"], agent=tool["agent"], description=tool["description"]))
    return made


def is_there(declared: Json) -> bool:
    """Tell whether the first request offers it, before any function was called."""
    enabled = declared.get("enabled", True)
    return "before" in enabled if isinstance(enabled, dict) else enabled


def handoffs_of(scenario: Json, agent: Json) -> list[Handoff]:
    """Make an agent's handoffs, with words of our own that carry what the reference's do."""
    made = []
    for declared in agent.get("handoffs", []):
        given = {"agent": declared} if isinstance(declared, str) else declared
        name = scenario["agents"][given["agent"]]["name"]
        if is_there(given):
            made.append(
                Handoff(
                    name=given.get("tool_name", handoff_name(name)),
                    agent=name,
                    description=given.get("tool_description", f"Hands over to {name}."),
                )
            )
    return made


def output_of(agent: Json) -> OutputSchema | None:
    """Make the shape of an agent's final output."""
    declared = agent.get("output")
    return declared and OutputSchema(name="final_output", schema_json=dump(declared["schema"]))
