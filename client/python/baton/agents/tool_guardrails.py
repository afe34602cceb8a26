"""Guardrails of functions: their arguments before a call, their output after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from baton.agents.guardrails import named, set_terms
from baton.agents.terms import TermsGuardrail
from baton.hooks import RemoteHook, name_of
from baton.hooks.answers import ToolGuardrailFunctionOutput
from baton.hooks.data import ToolCallData, ToolOutputData
from baton.hooks.refs import RefOf, hook_use
from baton.options import options, refusing_unknown
from baton.v1 import agent_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent


TContext = TypeVar("TContext")


@dataclass(frozen=True, slots=True)
class ToolInputGuardrailData:
    """What a guardrail is asked before a call. `context`: the call: `tool_name`, `tool_arguments`, the run's `context`.

    `agent` None: in a `Worker`.
    """

    context: ToolCallData[Any]
    agent: Agent[Any] | None


@dataclass(frozen=True, slots=True)
class ToolOutputGuardrailData(ToolInputGuardrailData):
    """What a guardrail is asked after a call. `output`: a text, or a list of content parts."""

    output: Any


ToolGuardrailFunction = Callable[[Any], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]]


@dataclass(frozen=True)
class _ToolGuardrail(Generic[TContext]):
    guardrail_function: ToolGuardrailFunction | RemoteHook
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.guardrail_function, RemoteHook) and not callable(self.guardrail_function):
            raise TypeError(f"a guardrail is a function or a RemoteHook, not {self.guardrail_function!r}")

    def get_name(self) -> str:
        """Say its name."""
        function = self.guardrail_function
        return self.name or (function.name if isinstance(function, RemoteHook) else name_of(function))


@options
@dataclass(frozen=True)
class ToolInputGuardrail(_ToolGuardrail[TContext]):
    """Checks the arguments of a call: a function of `ToolInputGuardrailData`, or a hook elsewhere.

    Make it with `tool_input_guardrail`. `name`: shown in errors and events, 1 to 128 characters; None: the function's.
    """


@options
@dataclass(frozen=True)
class ToolOutputGuardrail(_ToolGuardrail[TContext]):
    """Checks the output of a call: a function of `ToolOutputGuardrailData`, or a hook elsewhere.

    Make it with `tool_output_guardrail`. `name`: as of a ToolInputGuardrail.
    """


AnyToolInputGuardrail = ToolInputGuardrail[Any] | RemoteHook | TermsGuardrail
AnyToolOutputGuardrail = ToolOutputGuardrail[Any] | RemoteHook | TermsGuardrail


@dataclass(frozen=True, slots=True)
class ToolInputGuardrailResult:
    """What a guardrail of a function said before a call."""

    guardrail: ToolInputGuardrail[Any] | TermsGuardrail
    output: ToolGuardrailFunctionOutput


@dataclass(frozen=True, slots=True)
class ToolOutputGuardrailResult:
    """What a guardrail of a function said after a call."""

    guardrail: ToolOutputGuardrail[Any] | TermsGuardrail
    output: ToolGuardrailFunctionOutput


@overload
def tool_input_guardrail(function: ToolGuardrailFunction, /) -> ToolInputGuardrail[Any]: ...


@overload
def tool_input_guardrail(
    function: None = None, /, *, name: str | None = None
) -> Callable[[ToolGuardrailFunction], ToolInputGuardrail[Any]]: ...


@refusing_unknown("tool_input_guardrail")
def tool_input_guardrail(
    function: ToolGuardrailFunction | None = None, /, *, name: str | None = None
) -> ToolInputGuardrail[Any] | Callable[[ToolGuardrailFunction], ToolInputGuardrail[Any]]:
    """Make a guardrail of a function of `ToolInputGuardrailData`, sync or async."""

    def make(target: ToolGuardrailFunction) -> ToolInputGuardrail[Any]:
        return ToolInputGuardrail(target, name)

    return make if function is None else make(function)


@overload
def tool_output_guardrail(function: ToolGuardrailFunction, /) -> ToolOutputGuardrail[Any]: ...


@overload
def tool_output_guardrail(
    function: None = None, /, *, name: str | None = None
) -> Callable[[ToolGuardrailFunction], ToolOutputGuardrail[Any]]: ...


@refusing_unknown("tool_output_guardrail")
def tool_output_guardrail(
    function: ToolGuardrailFunction | None = None, /, *, name: str | None = None
) -> ToolOutputGuardrail[Any] | Callable[[ToolGuardrailFunction], ToolOutputGuardrail[Any]]:
    """Make a guardrail of a function of `ToolOutputGuardrailData`, sync or async."""

    def make(target: ToolGuardrailFunction) -> ToolOutputGuardrail[Any]:
        return ToolOutputGuardrail(target, name)

    return make if function is None else make(function)


def checked_tool_guardrails(tool: str, inputs: Iterable[object] | None, outputs: Iterable[object] | None) -> None:
    """Check what stands for the guardrails of a function. Raises TypeError."""
    for side, given, kind in (("input", inputs, ToolInputGuardrail), ("output", outputs, ToolOutputGuardrail)):
        for one in given or ():
            if not isinstance(one, kind | RemoteHook | TermsGuardrail):
                raise TypeError(
                    f"{tool}: {one!r} is no tool {side} guardrail; decorate the function with tool_{side}_guardrail, "
                    "or name a worker's by RemoteHook"
                )


def tool_guardrails_to_pb(
    guardrails: Iterable[AnyToolInputGuardrail | AnyToolOutputGuardrail] | None, kind: str, ref_of: RefOf
) -> list[agent_pb2.ToolGuardrail]:
    """Write `baton.v1.ToolGuardrail`s. `kind`: "tool_input_guardrail" or "tool_output_guardrail"."""
    return [_to_pb(name, one, kind, ref_of) for name, one in named(guardrails)]


def _to_pb(
    name: str, given: AnyToolInputGuardrail | AnyToolOutputGuardrail, kind: str, ref_of: RefOf
) -> agent_pb2.ToolGuardrail:
    made = agent_pb2.ToolGuardrail(name=name)
    if isinstance(given, RemoteHook):
        made.hook.CopyFrom(ref_of(hook_use(kind, given)))
    elif isinstance(given, _ToolGuardrail):
        function = given.guardrail_function
        made.hook.CopyFrom(ref_of(hook_use(kind, function, GUARDED[kind], source=given, name=given.get_name())))
    else:
        made.message = given.message or ""
        set_terms(made, given)
    return made


def _before_call(data: ToolCallData[Any]) -> tuple[Any, ...]:
    return (ToolInputGuardrailData(data, data.agent),)


def _after_call(data: ToolOutputData[Any]) -> tuple[Any, ...]:
    return (ToolOutputGuardrailData(data, data.agent, data.output),)


GUARDED: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "tool_input_guardrail": _before_call,
    "tool_output_guardrail": _after_call,
}
"""What guardrails of functions are called with, by kind."""
