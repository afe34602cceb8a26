"""Makes agents and functions of this process out of a scenario's declarations."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from baton import Agent, FunctionError, FunctionTool, ModelSettings, RunContext
from baton.tools import Invoke
from tests.conformance.compare import Json

NOTHING: Json = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
"""Parameters of a function that declares none."""


@dataclass(slots=True)
class Log:
    """The functions called, in order, and how many ran at once at the most."""

    called: list[str] = field(default_factory=list)
    running: int = 0
    most: int = 0


class AsTheScenarioSays(Exception):
    """What a function raises unexpectedly: its text is not for the model."""


def make_agents(scenario: Json, log: Log, model: str) -> dict[str, Agent[Any]]:
    """Make a scenario's agents by their keys; all ask `model`."""
    tools = {tool["name"]: _tool(tool, log) for tool in scenario.get("tools", [])}
    return {
        key: Agent(
            name=declared["name"],
            instructions=declared.get("instructions"),
            model=model,
            model_settings=ModelSettings(**declared.get("model_settings", {})),
            tools=[tools[name] for name in declared.get("tools", [])],
        )
        for key, declared in scenario["agents"].items()
    }


def _tool(declared: Json, log: Log) -> FunctionTool:
    return FunctionTool(
        name=declared["name"],
        description=declared.get("description", ""),
        params_json_schema=declared.get("parameters", NOTHING),
        on_invoke_tool=_handler(declared, log),
        strict_json_schema=declared.get("strict", True),
    )


def _handler(declared: Json, log: Log) -> Invoke:
    does: Json = declared["does"]

    async def invoke(_context: RunContext[Any], text: str) -> Any:
        try:
            arguments = json.loads(text or "{}")
        except ValueError as error:
            raise FunctionError(f"the arguments are no JSON: {error}") from error
        log.called.append(declared["name"])
        log.running += 1
        log.most = max(log.most, log.running)
        try:
            await asyncio.sleep(does.get("sleep_ms", 0) / 1000)
            return _outcome(does, arguments)
        finally:
            log.running -= 1

    return invoke


def _outcome(does: Json, arguments: Json) -> Any:
    if "raise" in does:
        raise AsTheScenarioSays(does["raise"])
    if "return_argument" in does:
        return str(arguments[does["return_argument"]])
    return does["return"]
