"""Functions that an agent may call: those of this process, and those of workers elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack, overload

from baton.context import RunContext
from baton.execution_options import (
    FunctionOptions,
    LostWorker,
    SideEffects,
    TimeoutBehavior,
    check_options,
    execution_to_pb,
    lost_worker_after,
)
from baton.options import options, refusing_unknown
from baton.schema import FunctionSchema, function_schema
from baton.strict import strict_schema
from baton.v1 import agent_pb2

T = TypeVar("T")

Invoke = Callable[[RunContext[Any], str], Awaitable[Any]]
Handler = Callable[..., Any]


@options
@dataclass(frozen=True)
class FunctionTool:
    """A function of this process.

    `on_invoke_tool(context, arguments)` gets the model's argument text and gives back what `function_tool`
    describes. With `strict_json_schema` the schema is made strict: every object closed, all properties required;
    then the server refuses other arguments before the function sees them. The last six are `FunctionOptions`.
    """

    name: str
    description: str
    params_json_schema: Mapping[str, Any]
    on_invoke_tool: Invoke
    strict_json_schema: bool = True
    in_thread: ThreadedFunction | None = field(default=None, repr=False)
    version: str = ""
    timeout: float | None = None
    timeout_behavior: TimeoutBehavior = "error_as_result"
    side_effects: SideEffects | None = None
    idempotency_fields: Sequence[str] = ()
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        check_options(self.name, self)
        if self.strict_json_schema:
            object.__setattr__(self, "params_json_schema", strict_schema(self.params_json_schema))


@options
@dataclass(frozen=True)
class RemoteFunction:
    """A function that a `Worker` elsewhere, or an outside party, executes.

    A name is enough where an attached worker declares the rest: description None, parameters None, and what follows
    where nothing is said, are taken from it. `strict_json_schema` None: strict where the schema allows it.

    `version`: of the handler; empty: of the one whose parameters were taken, else the newest. `timeout`,
    `timeout_behavior`, `idempotency_fields`: as in `FunctionOptions`. `expires`: seconds until the call must be
    settled, from when the model made it, 1 s to 30 days. `lost_worker`: "redeliver" delivers a call again whose worker
    was lost; "ask" never runs it twice: where it may have run, somebody is asked (`Client.redeliver`,
    `Client.settle`). `max_attempts`: that may lose their worker before the call fails, 1 to 100; None: 5.
    """

    name: str
    description: str | None = None
    params_json_schema: Mapping[str, Any] | None = None
    strict_json_schema: bool | None = None
    version: str = ""
    timeout: float | None = None
    timeout_behavior: TimeoutBehavior = "error_as_result"
    expires: float | None = None
    lost_worker: LostWorker | None = None
    max_attempts: int | None = None
    idempotency_fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_options(self.name, self)


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
    **options: Unpack[FunctionOptions],
) -> Callable[[Handler], FunctionTool]: ...


@refusing_unknown("function_tool", FunctionOptions.__annotations__)
def function_tool(
    function: Handler | None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    strict_mode: bool = True,
    **options: Unpack[FunctionOptions],
) -> FunctionTool | Callable[[Handler], FunctionTool]:
    """Make a tool of a function: its schema from signature, annotations and docstring.

    A first parameter annotated `RunContext` gets the call's context and is not in the schema. Coroutines run on
    the event loop, other functions in threads; context variables of the run are not seen, its `context` is. What
    they return goes to the model: a text as it is; nothing (None) as an empty text; `ToolOutputText`,
    `ToolOutputImage`, `ToolOutputFileContent`, or a list of them, as content parts; everything else as JSON.
    `raise FunctionError("…")` tells the model of a failure in those words; any other exception is recorded and the
    model gets a sentence of the server's. Results are at most 4,194,304 bytes. `options`: `FunctionOptions`.
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
            **options,
        )

    return make if function is None else make(function)


def tool_to_pb(tool: FunctionTool | RemoteFunction) -> agent_pb2.FunctionTool:
    """Write `baton.v1.FunctionTool`."""
    made = agent_pb2.FunctionTool(
        name=tool.name, description=tool.description or "", handler_version=tool.version, execution=_execution(tool)
    )
    if tool.timeout_behavior == "raise_exception":
        made.on_timeout.fail_turn = True
    if tool.params_json_schema is not None:
        made.parameters_json = parameters_json(tool.params_json_schema)
    if tool.strict_json_schema is not None:
        made.strict = tool.strict_json_schema
    return made


def _execution(tool: FunctionTool | RemoteFunction) -> agent_pb2.Execution | None:
    if isinstance(tool, FunctionTool):
        lost_worker = lost_worker_after(tool.side_effects)
        return execution_to_pb(tool.timeout, lost_worker, tool.idempotency_fields)
    return execution_to_pb(
        tool.timeout, tool.lost_worker, tool.idempotency_fields, expires=tool.expires, max_attempts=tool.max_attempts
    )


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
    return for_a_future(lambda: function(*positional, **keywords))


def for_a_future(code: Callable[[], T]) -> T:
    """Run code whose end a future tells, which can carry every exception but StopIteration, and would never end."""
    try:
        return code()
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error
