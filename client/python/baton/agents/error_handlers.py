"""Final outputs in place of errors: functions of this process, hooks elsewhere, and fixed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from baton.context.run_context import RunContextWrapper
from baton.errors import AgentsException, UserError
from baton.hooks import RemoteHook
from baton.hooks.answers import RunErrorHandlerResult
from baton.hooks.data import ErrorHandlerData
from baton.hooks.refs import RefOf, hook_use
from baton.hooks.writing import dump
from baton.items.raw_run_items import run_items_of
from baton.items.run_items import RunItem
from baton.v1 import run_config_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")

KINDS = ("max_turns", "model_refusal", "invalid_final_output")
"""Errors that may have an output in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrorData:
    """What a run had made when it failed. `input`, `history`, `output`: Responses API items.

    `history`: the input, and what the run made; `output`: that alone. `last_agent` None: in a worker.
    """

    input: list[Any]
    new_items: list[RunItem]
    history: list[Any]
    output: list[Any]
    last_agent: Agent[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrorHandlerInput(Generic[TContext]):
    """What an error handler is asked. It gives a RunErrorHandlerResult, a final output, or None: the error stands."""

    error: AgentsException
    context: RunContextWrapper[TContext]
    run_data: RunErrorData


ErrorHandler = Callable[[RunErrorHandlerInput[Any]], Any] | RemoteHook | RunErrorHandlerResult
"""A RunErrorHandlerResult is a fixed output, for which nobody is asked."""


def checked_handlers(given: Any) -> Mapping[str, Any]:
    """Take the error handlers of a run; None: none. Raises TypeError or UserError, with the value."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"error_handlers must be a dict of handlers by error, not {given!r}")
    for kind, handler in given.items():
        if kind not in KINDS:
            raise UserError(f"error_handlers: there is none for {kind!r}; they are for {', '.join(KINDS)}")
        known = handler is None or isinstance(handler, RemoteHook | RunErrorHandlerResult) or callable(handler)
        if not known:
            raise TypeError(
                f"error_handlers: {kind} must be a function, a RemoteHook, or a fixed RunErrorHandlerResult, not "
                f"{handler!r}"
            )
    return given


def handlers_to_pb(given: Mapping[str, Any] | None, ref_of: RefOf) -> run_config_pb2.ErrorHandlers | None:
    """Write `baton.v1.ErrorHandlers`; None: every error stands."""
    found = checked_handlers(given)
    written = {kind: _to_pb(kind, handler, ref_of) for kind, handler in found.items() if handler is not None}
    return run_config_pb2.ErrorHandlers(**written) if written else None


def _to_pb(kind: str, handler: Any, ref_of: RefOf) -> run_config_pb2.ErrorHandler:
    if not isinstance(handler, RunErrorHandlerResult):
        return run_config_pb2.ErrorHandler(hook=ref_of(hook_use("error_handler", handler, _arguments, _answer)))
    made = run_config_pb2.ErrorHandler(include_in_history=handler.include_in_history)
    if isinstance(handler.final_output, str):
        made.output = handler.final_output
    else:
        try:
            made.output_json = dump(handler.final_output)
        except TypeError as error:
            raise UserError(f"error_handlers: the fixed output for {kind} cannot be sent: {error}") from error
    return made


def _arguments(data: ErrorHandlerData[Any]) -> tuple[Any, ...]:
    last = data.agents.get(data.last_agent, data.agent)
    ways = {way.get_tool_name(): way.agent for one in data.agents.values() for way in one.ways_out()}
    run = RunErrorData(
        input=data.input,
        new_items=[] if last is None else run_items_of(data.new_items, last, ways),
        history=data.history,
        output=data.output,
        last_agent=last,
    )
    return (RunErrorHandlerInput(error=data.error, context=data, run_data=run),)


def _answer(_data: ErrorHandlerData[Any], said: Any) -> Any:
    """Take the dictionary by which the Agents SDK writes a result. Raises UserError for other keys beside it."""
    if not isinstance(said, dict) or "final_output" not in said:
        return said
    unknown = set(said) - {"final_output", "include_in_history"}
    if unknown:
        raise UserError(f"an error handler's result has final_output and include_in_history, not {', '.join(unknown)}")
    return RunErrorHandlerResult(**said)
