"""Agents, where the Agents SDK has them: `from agents.agent import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.agent import Agent
from baton.agents.tool_use import StopAtTools
from baton.hooks.answers import ToolsToFinalOutputResult
from baton.sdk_names import AgentBase, ToolsToFinalOutputFunction

__all__ = ["Agent", "AgentBase", "StopAtTools", "ToolsToFinalOutputFunction", "ToolsToFinalOutputResult"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
