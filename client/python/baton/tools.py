"""Functions that an agent may call: those of this process, and those of workers elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, Future
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, overload

from baton.context import RunContext
from baton.options import options, refusing_unknown
from baton.schema import FunctionSchema, function_schema
from baton.strict import strict_schema
from baton.v1 import agent_pb2

Invoke = Callable[[RunContext[Any], str], Awaitable[Any]]
Handler = Callable[..., Any]


@options
@dataclass(frozen=True)
class FunctionTool:
    """A function of this process.

    `on_invoke_tool(context, arguments)` gets the model's argument text and gives back what `function_tool`
    describes. With `strict_json_schema` the schema is made strict: every object closed, all properties required;
    then the server refuses other arguments before the function sees them.
    """

    name: str
    description: str
    params_json_schema: Mapping[str, Any]
    on_invoke_tool: Invoke
    strict_json_schema: bool = True
    in_thread: ThreadedFunction | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.strict_json_schema:
            object.__setattr__(self, "params_json_schema", strict_schema(self.params_json_schema))


@options
@dataclass(frozen=True)
class RemoteFunction:
    """A function that a `Worker` elsewhere, or an outside party, executes.

    A name is enough where an attached worker declares the rest: description None and parameters None are taken
    from it. `strict_json_schema` None: strict where the schema allows it.
    """

    name: str
    description: str | None = None
    params_json_schema: Mapping[str, Any] | None = None
    strict_json_schema: bool | None = None


@dataclass(frozen=True, slots=True)
class ThreadedFunction:
    """A function that is no coroutine: it runs in a thread, with the context variables of its caller."""

    function: Handler
    schema: FunctionSchema

    def begin(self, context: RunContext[Any], arguments: str, threads: Executor) -> Future[Any]:
        """Check the arguments here, then queue the function. Raises FunctionError for wrong arguments."""
        positional, keywords = self.schema.bind(arguments)
        if self.schema.takes_context:
            positional.insert(0, context)
        variables = copy_context()
        return threads.submit(variables.run, _call, self.function, positional, keywords)


@overload
def function_tool(function: Handler, /) -> FunctionTool: ...


@overload
def function_tool(
    function: None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    strict_mode: bool = True,
) -> Callable[[Handler], FunctionTool]: ...


@refusing_unknown("function_tool")
def function_tool(
    function: Handler | None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    strict_mode: bool = True,
) -> FunctionTool | Callable[[Handler], FunctionTool]:
    """Make a tool of a function: its schema from signature, annotations and docstring.

    A first parameter annotated `RunContext` gets the call's context and is not in the schema. Coroutines run on
    the event loop, other functions in threads; context variables of the run are not seen, its `context` is. What
    they return goes to the model: a text as it is; nothing (None) as an empty text; `ToolOutputText`,
    `ToolOutputImage`, `ToolOutputFileContent`, or a list of them, as content parts; everything else as JSON.
    `raise FunctionError("…")` tells the model of a failure in those words; any other exception is recorded and the
    model gets a sentence of the server's. Results are at most 4,194,304 bytes.
    """

    def make(target: Handler) -> FunctionTool:
        schema = function_schema(target, name=name_override, description=description_override, strict=strict_mode)
        coroutine = inspect.iscoroutinefunction(target)
        return FunctionTool(
            name=schema.name,
            description=schema.description,
            params_json_schema=schema.parameters,
            on_invoke_tool=_invoker(target, schema),
            strict_json_schema=strict_mode,
            in_thread=None if coroutine else ThreadedFunction(target, schema),
        )

    return make if function is None else make(function)


def tool_to_pb(tool: FunctionTool | RemoteFunction) -> agent_pb2.FunctionTool:
    """Write `baton.v1.FunctionTool`."""
    made = agent_pb2.FunctionTool(name=tool.name, description=tool.description or "")
    if tool.params_json_schema is not None:
        made.parameters_json = parameters_json(tool.params_json_schema)
    if tool.strict_json_schema is not None:
        made.strict = tool.strict_json_schema
    return made


def parameters_json(schema: Mapping[str, Any]) -> str:
    """Write a schema as the contract carries it."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _invoker(target: Handler, schema: FunctionSchema) -> Invoke:
    async def invoke(context: RunContext[Any], arguments: str) -> Any:
        positional, keywords = schema.bind(arguments)
        if schema.takes_context:
            positional.insert(0, context)
        if inspect.iscoroutinefunction(target):
            return await target(*positional, **keywords)
        return await asyncio.to_thread(_call, target, positional, keywords)

    return invoke


def _call(function: Handler, positional: list[Any], keywords: dict[str, Any]) -> Any:
    return function(*positional, **keywords)
