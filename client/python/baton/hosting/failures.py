"""What the model is told of a function that raised: its author's words, where there are any."""

from __future__ import annotations

import inspect
import logging

from baton.agents.tool_errors import default_tool_error_function
from baton.agents.tools import FunctionTool
from baton.context.call_context import RunContext
from baton.errors import FunctionError
from baton.hooks import RemoteHook
from baton.items.outputs import result_of_error
from baton.v1 import handler_pb2

_log = logging.getLogger("baton.worker.calls")


async def result_of_failure(
    tool: FunctionTool, context: RunContext[object], error: BaseException
) -> handler_pb2.Result:
    """Write what a function raised: words for the model, or a crash, of which the model is told what the agent says.

    Never raises: a `failure_error_function` that does is a crash in place of the one that it was asked about.
    """
    words = tool.failure_error_function
    if isinstance(error, FunctionError) or words is default_tool_error_function:
        return result_of_error(error)
    if not callable(words) or isinstance(words, RemoteHook):
        return result_of_error(error)
    try:
        said = words(context, error)
        text = await said if inspect.isawaitable(said) else said
        if not isinstance(text, str):
            raise TypeError(f"failure_error_function of {tool.name!r} must return a text, not {type(text).__name__}")
    except Exception as failed:  # noqa: BLE001 - the boundary of user code: that is the call's result
        _log.exception("the failure_error_function of %s failed", tool.name)
        return result_of_error(failed)
    _log.error("the function %s raised, and the model is told: %s", tool.name, text, exc_info=error)
    return result_of_error(FunctionError(text))
