"""The filter that shortens old outputs of functions, where the Agents SDK has it."""

from __future__ import annotations

from baton.agents.input_filters import ToolOutputTrimmer

__all__ = ["ToolOutputTrimmer"]
