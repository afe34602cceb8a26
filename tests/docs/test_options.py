"""docs/from-the-agents-sdk.md lists every option that a program can give, with the default that it has."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.docs.markdown import read

from baton import Agent, AgentTool, FunctionTool, ModelSettings, RunConfig, ToolOptions, function_tool, handoff

PAGE = "docs/from-the-agents-sdk.md"

RENAMED = {"timeout": "timeout_seconds"}
"""What `function_tool` calls otherwise than `FunctionTool`."""


def listed(first: str) -> dict[str, str]:
    """Read the table whose first head cell is this one: defaults, as they are written, by option."""
    table = re.search(rf"^\| `{re.escape(first)}` \| default \| .*\n\| .*\n((?:\| .*\n)+)", read(PAGE), re.MULTILINE)
    assert table is not None, first
    cells = [row.split("|")[1:3] for row in table[1].splitlines()]
    return {name: default.strip() for names, default in cells for name in re.findall(r"`(\w+)`", names)}


def of_fields(made: Any, *without: str) -> dict[str, Any]:
    """List the fields of a class with their defaults."""
    shown = {}
    for one in dataclasses.fields(made):
        made_anew = one.default_factory is not dataclasses.MISSING
        shown[one.name] = one.default_factory() if made_anew else one.default
    return {name: default for name, default in shown.items() if name not in without}


def of_signature(function: Any, *without: str) -> dict[str, Any]:
    """List the parameters of a function with their defaults, those that it gathers left out."""
    found = inspect.signature(function).parameters.values()
    named = {one.name: one.default for one in found if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    return {name: default for name, default in named.items() if name not in without}


def of_functions() -> dict[str, Any]:
    """List what `function_tool` takes; what it hands on has the defaults of a `FunctionTool`."""
    fields = of_fields(FunctionTool)
    handed_on = {name: fields[RENAMED.get(name, name)] for name in ToolOptions.__annotations__}
    return of_signature(function_tool, "function") | handed_on


def written(default: Any) -> str:
    """Write a default as the page does."""
    if default is dataclasses.MISSING:
        return ""
    if callable(default):
        return f"`{default.__name__}`"
    if default == ModelSettings():
        return "`ModelSettings()`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default!r}`"


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("Agent", of_fields(Agent)),
        ("handoff(agent, …)", of_signature(handoff, "agent")),
        ("agent.as_tool(…)", of_fields(AgentTool, "agent", "params_json_schema")),
        ("function_tool(…)", of_functions()),
        ("ModelSettings", of_fields(ModelSettings)),
        ("RunConfig", of_fields(RunConfig)),
    ],
)
def test_every_option_is_listed_with_its_default(first: str, options: Mapping[str, Any]) -> None:
    """No option is left out, none is listed that there is not, and no default is another."""
    assert listed(first) == {name: written(default) for name, default in options.items()}
