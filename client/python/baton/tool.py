"""Functions, and other tools, where the Agents SDK has them: `from agents.tool import …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baton.absent import refusing
from baton.agents.hosted_tools import HostedTool, ToolSearchTool
from baton.agents.tool_errors import default_tool_error_function
from baton.agents.tool_use import FunctionToolResult
from baton.agents.tools import FunctionTool, FunctionToolCustomDataContext, function_tool
from baton.items.outputs import ToolOutputFileContent, ToolOutputImage, ToolOutputText
from baton.sdk_names import (
    FunctionToolCustomDataExtractor,
    Tool,
    ToolOutputFileContentDict,
    ToolOutputImageDict,
    ToolOutputTextDict,
)

__all__ = [
    "FunctionTool",
    "FunctionToolCustomDataContext",
    "FunctionToolCustomDataExtractor",
    "FunctionToolResult",
    "HostedTool",
    "Tool",
    "ToolOutputFileContent",
    "ToolOutputFileContentDict",
    "ToolOutputImage",
    "ToolOutputImageDict",
    "ToolOutputText",
    "ToolOutputTextDict",
    "ToolSearchTool",
    "default_tool_error_function",
    "function_tool",
]

if not TYPE_CHECKING:
    __getattr__ = refusing(__name__)
