"""Types of final outputs, where the Agents SDK has them: `from agents.agent_output import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.agent_output import AgentOutputSchema, AgentOutputSchemaBase

__all__ = ["AgentOutputSchema", "AgentOutputSchemaBase"]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
