"""The Agents SDK's names of types, for annotations: here they stand for what this package takes in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, TypeVar

from baton.agents.agent import Agent
from baton.agents.error_handlers import RunErrorHandlerInput
from baton.agents.handoff_data import HandoffInputData
from baton.agents.model_retry import RetryPolicy
from baton.agents.tool_errors import OutputGuardrailBlockedMessageArgs, ToolErrorFormatterArgs
from baton.agents.tool_use import FunctionToolResult
from baton.agents.tool_writing import Tool
from baton.agents.tools import FunctionToolCustomDataContext
from baton.context.run_context import RunContextWrapper
from baton.hooks.data import CallModelData, LifecycleData
from baton.items.responses import TResponseInputItem
from baton.runs.results import RunResult
from baton.runs.run_config import ReasoningItemIdPolicy, ToolNameCollisionPolicy, ToolNotFoundBehavior
from baton.runs.streamed import RunResultStreaming

__all__ = [
    "AgentBase",
    "AgentHookContext",
    "CallModelInputFilter",
    "FunctionToolCustomDataExtractor",
    "HandoffInputFilter",
    "OutputGuardrailBlockedMessageFormatter",
    "ReasoningItemIdPolicy",
    "RetryPolicy",
    "RunErrorHandler",
    "RunErrorHandlers",
    "RunResultBase",
    "TContext",
    "TResponseInputItem",
    "Tool",
    "ToolErrorFormatter",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
    "ToolOutputFileContentDict",
    "ToolOutputImageDict",
    "ToolOutputTextDict",
    "ToolsToFinalOutputFunction",
]

TContext = TypeVar("TContext")
"""The application's own context."""

AgentBase = Agent
AgentHookContext = LifecycleData
RunResultBase = RunResult | RunResultStreaming

# What functions return may be awaited.
CallModelInputFilter = Callable[[CallModelData[Any]], Any]
HandoffInputFilter = Callable[[HandoffInputData], Any]
FunctionToolCustomDataExtractor = Callable[[FunctionToolCustomDataContext], Any]
OutputGuardrailBlockedMessageFormatter = Callable[[OutputGuardrailBlockedMessageArgs[Any]], Any]
RunErrorHandler = Callable[[RunErrorHandlerInput[Any]], Any]
ToolErrorFormatter = Callable[[ToolErrorFormatterArgs[Any]], Any]
ToolsToFinalOutputFunction = Callable[[RunContextWrapper[Any], list[FunctionToolResult]], Any]


class ToolOutputTextDict(TypedDict):
    """A ToolOutputText, as a function may return it too."""

    type: Literal["text"]
    text: str


class ToolOutputImageDict(TypedDict):
    """A ToolOutputImage, as a function may return it too."""

    type: Literal["image"]
    image_url: NotRequired[str]
    file_id: NotRequired[str]
    detail: NotRequired[str]


class ToolOutputFileContentDict(TypedDict):
    """A ToolOutputFileContent, as a function may return it too."""

    type: Literal["file"]
    file_data: NotRequired[str]
    file_url: NotRequired[str]
    file_id: NotRequired[str]
    filename: NotRequired[str]


class RunErrorHandlers(TypedDict, total=False):
    """Handlers of errors, by error; what is left out ends the run."""

    max_turns: RunErrorHandler
    model_refusal: RunErrorHandler
    invalid_final_output: RunErrorHandler
