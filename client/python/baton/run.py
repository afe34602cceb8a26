"""What a run takes and gives, where the Agents SDK has it: `from agents.run import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.hooks.answers import ModelInputData
from baton.hooks.data import CallModelData
from baton.runs.results import RunResult
from baton.runs.run_config import RunConfig, ToolExecutionConfig
from baton.runs.run_options import DEFAULT_MAX_TURNS
from baton.runs.run_state import RunState
from baton.runs.runner import Runner
from baton.runs.streamed import RunResultStreaming
from baton.sdk_names import CallModelInputFilter, ReasoningItemIdPolicy, ToolErrorFormatter

__all__ = [
    "DEFAULT_MAX_TURNS",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "RunResult",
    "RunResultStreaming",
    "RunState",
    "Runner",
    "ToolErrorFormatter",
    "ToolExecutionConfig",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
