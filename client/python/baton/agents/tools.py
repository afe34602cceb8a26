"""Functions that an agent may call: those of this process, and those of workers elsewhere."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextvars import copy_context
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, Unpack, overload

from baton.agents.conditions import AnyApproval, EnabledRule, check_approval, check_enabled
from baton.agents.execution_options import FunctionOptions, LostWorker, SideEffects, TimeoutBehavior, check_options
from baton.agents.schema import FunctionSchema, function_schema
from baton.agents.strict import strict_schema
from baton.agents.tool_errors import ErrorWords, check_words, default_tool_error_function
from baton.agents.tool_guardrails import AnyToolInputGuardrail, AnyToolOutputGuardrail, checked_tool_guardrails
from baton.checks import check_bool
from baton.context.call_context import RunContext
from baton.errors import UserError
from baton.hooks import RemoteHook, checked_function
from baton.options import options, refusing_unknown

T = TypeVar("T")

Invoke = Callable[[RunContext[Any], str], Awaitable[Any]]
Handler = Callable[..., Any]


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOptions(FunctionOptions, total=False):
    """How an agent has a function, beside how it is executed; what is left out is as with a `FunctionTool`."""

    is_enabled: EnabledRule
    needs_approval: AnyApproval
    tool_input_guardrails: Sequence[AnyToolInputGuardrail] | None
    tool_output_guardrails: Sequence[AnyToolOutputGuardrail] | None
    timeout_error_function: ErrorWords | None
    defer_loading: bool
    custom_data_extractor: Callable[[FunctionToolCustomDataContext], Any] | RemoteHook | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionToolCustomDataContext:
    """A call that gave an output, for `custom_data_extractor`. `raw_item`: the output as the model is told it.

    `tool`: as the agent has it; None: it is not known.
    """

    tool_context: Any
    tool: Any
    output: Any
    raw_item: Mapping[str, Any]


@options
@dataclass(frozen=True)
class FunctionTool:
    """A function of this process.

    `on_invoke_tool(context, arguments)` gets the model's argument text and gives back what `function_tool`
    describes. With `strict_json_schema` the schema is made strict: every object closed, all properties required;
    then the server refuses other arguments before the function sees them.

    How the agent has it: `is_enabled`: whether it has it at the moment: a bool, a function `(context, agent)`, or a
    `RemoteHook`. `tool_input_guardrails`, `tool_output_guardrails`: check arguments and outputs, in order.
    `needs_approval`: whether a person must allow a call: a bool, a function `(context, arguments, call_id)`, a
    `RemoteHook`, or an `Approval`, which may expire. `timeout_error_function`: what the model is told when the time is
    up: as `failure_error_function`, and with None a sentence of the server's. `defer_loading`: keep it from the model
    until a `ToolSearchTool` finds it. `custom_data_extractor`: makes `custom_data` of a `ToolCallOutputItem`, which no
    model sees: a function of a FunctionToolCustomDataContext that gives a dict or None, or a `RemoteHook`.

    `timeout_seconds` is `timeout` of `FunctionOptions`, which describe it and what else follows.
    """

    name: str
    description: str
    params_json_schema: Mapping[str, Any]
    on_invoke_tool: Invoke
    strict_json_schema: bool = True
    is_enabled: EnabledRule = True
    tool_input_guardrails: Sequence[AnyToolInputGuardrail] | None = None
    tool_output_guardrails: Sequence[AnyToolOutputGuardrail] | None = None
    needs_approval: AnyApproval = False
    timeout_seconds: float | None = None
    timeout_behavior: TimeoutBehavior = "error_as_result"
    timeout_error_function: ErrorWords | None = None
    defer_loading: bool = False
    custom_data_extractor: Callable[[FunctionToolCustomDataContext], Any] | RemoteHook | None = None
    failure_error_function: ErrorWords | None = default_tool_error_function
    in_thread: ThreadedFunction | None = field(default=None, repr=False)
    version: str = ""
    side_effects: SideEffects | None = None
    idempotency_fields: Sequence[str] = ()
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        if not callable(self.on_invoke_tool):
            raise TypeError(f"{self.name}: on_invoke_tool must be a function, not {self.on_invoke_tool!r}")
        if not _NAME.fullmatch(self.name):
            raise UserError(f"{self.name!r} is no name of a function: give it one of 1 to 64 of A-Z a-z 0-9 _ -")
        check_options(self.name, self)
        _check_agent_side(self)
        if self.strict_json_schema:
            object.__setattr__(self, "params_json_schema", strict_schema(self.params_json_schema))

    @property
    def timeout(self) -> float | None:
        """Seconds over all attempts; None: none."""
        return self.timeout_seconds

    def of_agents(self) -> list[str]:
        """Name the options that are said here and that only an agent can say, so that a `Worker` cannot host them."""
        defaults = {one.name: one.default for one in fields(self)}
        names = [name for name in ToolOptions.__annotations__ if name not in FunctionOptions.__annotations__]
        said = [name for name in names if getattr(self, name) not in (defaults[name], [], ())]
        if not callable(self.failure_error_function):
            said.append("failure_error_function")
        return said


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

    The others are as of a `FunctionTool`: functions in them are those of this process. Exceptions are only told by
    their type and text, as a HandlerCrashedError, since the function runs elsewhere.
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
    is_enabled: EnabledRule = True
    needs_approval: AnyApproval = False
    tool_input_guardrails: Sequence[AnyToolInputGuardrail] | None = None
    tool_output_guardrails: Sequence[AnyToolOutputGuardrail] | None = None
    failure_error_function: ErrorWords | None = default_tool_error_function
    timeout_error_function: ErrorWords | None = None
    defer_loading: bool = False
    custom_data_extractor: Callable[[FunctionToolCustomDataContext], Any] | RemoteHook | None = None

    def __post_init__(self) -> None:
        check_options(self.name, self)
        _check_agent_side(self)


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
    **options: Unpack[ToolOptions],
) -> Callable[[Handler], FunctionTool]: ...


@refusing_unknown("function_tool", ToolOptions.__annotations__)
def function_tool(
    function: Handler | None = None,
    /,
    *,
    name_override: str | None = None,
    description_override: str | None = None,
    strict_mode: bool = True,
    **options: Unpack[ToolOptions],
) -> FunctionTool | Callable[[Handler], FunctionTool]:
    """Make a tool of a function: its schema from signature, annotations and docstring.

    A first parameter annotated `RunContext` gets the call's context and is not in the schema. Coroutines run on
    the event loop, other functions in threads; context variables of the run are not seen, its `context` is. What
    they return goes to the model: a text as it is; nothing (None) as an empty text; `ToolOutputText`,
    `ToolOutputImage`, `ToolOutputFileContent`, or a list of them, as content parts; everything else as JSON.
    `raise FunctionError("…")` tells the model of a failure in those words; any other exception is recorded and the
    model gets a sentence of the server's. Results are at most 4,194,304 bytes. `options`: `FunctionOptions`, and those
    of a `FunctionTool`.
    """
    timeout = options.get("timeout")
    others = {name: value for name, value in options.items() if name != "timeout"}

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
            timeout_seconds=timeout,
            **others,  # type: ignore[arg-type]  # each is of the kind that ToolOptions says
        )

    return make if function is None else make(function)


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


def _check_agent_side(tool: FunctionTool | RemoteFunction) -> None:
    """Check what an agent says of a function. Raises TypeError or UserError, with the value."""
    check_enabled(tool.name, tool.is_enabled)
    check_approval(tool.name, tool.needs_approval)
    checked_tool_guardrails(tool.name, tool.tool_input_guardrails, tool.tool_output_guardrails)
    check_words(f"{tool.name}: failure_error_function", tool.failure_error_function)
    check_words(f"{tool.name}: timeout_error_function", tool.timeout_error_function)
    check_bool(f"{tool.name}: defer_loading", tool.defer_loading)
    if tool.timeout_error_function is not None and tool.timeout_behavior == "raise_exception":
        raise UserError(
            f'{tool.name}: timeout_behavior="raise_exception" tells the model nothing; leave out one of both'
        )
    checked_function(f"{tool.name}: custom_data_extractor", tool.custom_data_extractor)
