"""Options of runs, where the Agents SDK has them: `from agents.run_config import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.tool_errors import ToolErrorFormatterArgs
from baton.hooks.answers import ModelInputData
from baton.hooks.data import CallModelData
from baton.runs.run_config import RunConfig, ToolExecutionConfig
from baton.runs.run_options import DEFAULT_MAX_TURNS
from baton.sdk_names import (
    CallModelInputFilter,
    ReasoningItemIdPolicy,
    ToolErrorFormatter,
    ToolNameCollisionPolicy,
    ToolNotFoundBehavior,
)

__all__ = [
    "DEFAULT_MAX_TURNS",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
