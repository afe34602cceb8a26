"""Which words of a scenario the client has an option for. What it has none for is named, and not left out in silence.

A word stands here with the value that says nothing: a scenario may write it where a word is not supported, without
asking for anything. New options of the client get their line here, and their translation in `building` or `scenario`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from baton import ModelSettings
from tests.conformance.compare import Json

AGENT = frozenset({"name", "instructions", "tools", "model_settings"})
TOOL = frozenset({"name", "description", "parameters", "strict", "does"})
RUN = frozenset({"input", "max_turns", "memory", "agent", "from_last_agent", "config"})
CONFIG = frozenset({"model_settings"})
SETTINGS = frozenset(field.name for field in fields(ModelSettings))
MEMORY = frozenset({"session", "input_list"})

SAYS_NOTHING: Mapping[str, Any] = {
    "enabled": True,
    "needs_approval": False,
    "defer_loading": False,
    "reset_tool_choice": True,
    "tool_use_behavior": "run_llm_again",
    "on_failure": "tell",
}
"""Defaults of the reference."""


def unsupported(scenario: Json) -> list[str]:
    """List what the scenario asks for and the client does not have, each once, by the scenario's words."""
    found: list[str] = []
    for agent in scenario["agents"].values():
        found += _words(agent, AGENT)
        found += _words(agent.get("model_settings", {}), SETTINGS, "model_settings.")
    for tool in scenario.get("tools", []):
        found += [str(tool["type"])] if "type" in tool else list(_words(tool, TOOL))
    for run in scenario["runs"]:
        config = run.get("config", {})
        found += _words(run, RUN)
        found += _words(config, CONFIG, "config.")
        found += _words(config.get("model_settings", {}), SETTINGS, "config.model_settings.")
        if run.get("memory", "session") not in MEMORY:
            found.append(f"memory {run['memory']!r}")
    return list(dict.fromkeys(found))


def _words(declared: Json, known: frozenset[str], prefix: str = "") -> Iterator[str]:
    for word, value in declared.items():
        if word not in known and not (word in SAYS_NOTHING and SAYS_NOTHING[word] == value):
            yield f"{prefix}{word}"
