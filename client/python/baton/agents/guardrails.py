"""Guardrails of a run: what goes in, and what comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from baton.agents.agent_output import read_value
from baton.agents.terms import AllowTerms, DenyTerms, TermsGuardrail
from baton.hooks import RemoteHook, name_of
from baton.hooks.answers import GuardrailFunctionOutput
from baton.hooks.data import InputGuardrailData, OutputGuardrailData
from baton.hooks.refs import RefOf, hook_use
from baton.options import options, refusing_unknown
from baton.v1 import agent_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")

GuardrailFunction = Callable[..., GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]]
"""Called as `(context, agent, input or output)`; `context`: the data of its kind, with the run's own `context`."""


@options
@dataclass(frozen=True)
class InputGuardrail(Generic[TContext]):
    """Checks what goes into a turn: a function of this process, or a hook elsewhere. Make it with `input_guardrail`.

    One that trips ends the turn: InputGuardrailTripwireTriggered. `name`: shown in errors and events, 1 to 128
    characters; None: the function's, or the hook's. `run_in_parallel` False: it ends before the model is asked; True:
    it runs beside the first request, whose reply counts once it has passed.
    """

    guardrail_function: GuardrailFunction | RemoteHook
    name: str | None = None
    run_in_parallel: bool = True

    def __post_init__(self) -> None:
        _check_function(self.guardrail_function)

    def get_name(self) -> str:
        """Say its name."""
        return _name(self.name, self.guardrail_function)


@options
@dataclass(frozen=True)
class OutputGuardrail(Generic[TContext]):
    """Checks a final output: a function of this process, or a hook elsewhere. Make it with `output_guardrail`.

    One that trips ends the turn: OutputGuardrailTripwireTriggered. `name`: as of an InputGuardrail.
    """

    guardrail_function: GuardrailFunction | RemoteHook
    name: str | None = None

    def __post_init__(self) -> None:
        _check_function(self.guardrail_function)

    def get_name(self) -> str:
        """Say its name."""
        return _name(self.name, self.guardrail_function)


AnyInputGuardrail = InputGuardrail[Any] | RemoteHook | TermsGuardrail
AnyOutputGuardrail = OutputGuardrail[Any] | RemoteHook | TermsGuardrail


@dataclass(frozen=True, slots=True)
class InputGuardrailResult:
    """What a guardrail of a run said. `guardrail` as the agent or the run names it."""

    guardrail: InputGuardrail[Any] | TermsGuardrail
    output: GuardrailFunctionOutput


@dataclass(frozen=True, slots=True)
class OutputGuardrailResult:
    """What a guardrail of a run said. `agent_output`: the run's final output; None: it has none, since one tripped."""

    guardrail: OutputGuardrail[Any] | TermsGuardrail
    agent_output: Any
    agent: Agent[Any]
    output: GuardrailFunctionOutput


@overload
def input_guardrail(function: GuardrailFunction, /) -> InputGuardrail[Any]: ...


@overload
def input_guardrail(
    function: None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[GuardrailFunction], InputGuardrail[Any]]: ...


@refusing_unknown("input_guardrail")
def input_guardrail(
    function: GuardrailFunction | None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail[Any] | Callable[[GuardrailFunction], InputGuardrail[Any]]:
    """Make a guardrail of a function `(context, agent, input)`, sync or async, for `Agent(input_guardrails=[…])`."""

    def make(target: GuardrailFunction) -> InputGuardrail[Any]:
        return InputGuardrail(target, name=name, run_in_parallel=run_in_parallel)

    return make if function is None else make(function)


@overload
def output_guardrail(function: GuardrailFunction, /) -> OutputGuardrail[Any]: ...


@overload
def output_guardrail(
    function: None = None, /, *, name: str | None = None
) -> Callable[[GuardrailFunction], OutputGuardrail[Any]]: ...


@refusing_unknown("output_guardrail")
def output_guardrail(
    function: GuardrailFunction | None = None, /, *, name: str | None = None
) -> OutputGuardrail[Any] | Callable[[GuardrailFunction], OutputGuardrail[Any]]:
    """Make a guardrail of a function `(context, agent, output)`, sync or async, for `Agent(output_guardrails=[…])`.

    It gets the output as the agent's `output_type` has it.
    """

    def make(target: GuardrailFunction) -> OutputGuardrail[Any]:
        return OutputGuardrail(target, name=name)

    return make if function is None else make(function)


def checked_guardrails(owner: str, guardrails: Iterable[object] | None) -> None:
    """Check what stands for input guardrails. Raises TypeError."""
    _check_all(owner, guardrails, InputGuardrail | RemoteHook | TermsGuardrail, "input")


def checked_output_guardrails(owner: str, guardrails: Iterable[object] | None) -> None:
    """Check what stands for output guardrails. Raises TypeError."""
    _check_all(owner, guardrails, OutputGuardrail | RemoteHook | TermsGuardrail, "output")


# -- for the wire --------------------------------------------------------------------------------


def named(guardrails: Iterable[Any] | None) -> list[tuple[str, Any]]:
    """Name the guardrails of one list, each by a name of its own, as the contract has it: a second "x" is "x (2)"."""
    made: dict[str, Any] = {}
    for given in guardrails or ():
        own = given.name if isinstance(given, RemoteHook) else given.get_name()
        name, number = own, 1
        while name in made:
            number += 1
            name = f"{own} ({number})"
        made[name] = given
    return list(made.items())


def guardrails_to_pb(guardrails: Iterable[AnyInputGuardrail] | None, ref_of: RefOf) -> list[agent_pb2.Guardrail]:
    """Write input guardrails as `baton.v1.Guardrail`s."""
    written: list[agent_pb2.Guardrail] = []
    for name, given in named(guardrails):
        guardrail = InputGuardrail(given) if isinstance(given, RemoteHook) else given
        made = agent_pb2.Guardrail(name=name, blocking=not guardrail.run_in_parallel)
        if isinstance(guardrail, InputGuardrail):
            function = guardrail.guardrail_function
            use = hook_use("input_guardrail", function, _input_arguments, source=guardrail, name=guardrail.get_name())
            made.hook.CopyFrom(ref_of(use))
        else:
            set_terms(made, guardrail)
        written.append(made)
    return written


def output_guardrails_to_pb(
    guardrails: Iterable[AnyOutputGuardrail] | None, ref_of: RefOf
) -> list[agent_pb2.Guardrail]:
    """Write output guardrails as `baton.v1.Guardrail`s."""
    written: list[agent_pb2.Guardrail] = []
    for name, given in named(guardrails):
        guardrail = OutputGuardrail(given) if isinstance(given, RemoteHook) else given
        made = agent_pb2.Guardrail(name=name)
        if isinstance(guardrail, OutputGuardrail):
            function = guardrail.guardrail_function
            use = hook_use("output_guardrail", function, _output_arguments, source=guardrail, name=guardrail.get_name())
            made.hook.CopyFrom(ref_of(use))
        else:
            set_terms(made, guardrail)
        written.append(made)
    return written


def set_terms(made: agent_pb2.Guardrail | agent_pb2.ToolGuardrail, guardrail: TermsGuardrail) -> None:
    """Write which texts a guardrail looks for."""
    match guardrail:
        case DenyTerms():
            made.deny.CopyFrom(guardrail.to_pb())
        case AllowTerms():
            made.allow.CopyFrom(guardrail.to_pb())


def _input_arguments(data: InputGuardrailData[Any]) -> tuple[Any, ...]:
    """Call a guardrail as the Agents SDK does: with the run's context, its agent and the input.

    An input that is one message of plain text is that text, as users of `Runner.run(agent, "…")` expect.
    """
    return data, data.agent, _plain_text(data.input) or data.input


def _plain_text(given: Sequence[Any]) -> str:
    """Find the text of an input that is one user's message; empty: it is another one."""
    message = given[0] if len(given) == 1 else {}
    text = message.get("content") if isinstance(message, Mapping) and message.get("role") == "user" else None
    return text if isinstance(text, str) else ""


def _output_arguments(data: OutputGuardrailData[Any]) -> tuple[Any, ...]:
    return data, data.agent, read_value(data.agent, data.output)


def _check_function(given: object) -> None:
    if not isinstance(given, RemoteHook) and not callable(given):
        raise TypeError(f"a guardrail is a function or a RemoteHook, not {given!r}")


def _check_all(owner: str, guardrails: Iterable[object] | None, kinds: Any, side: str) -> None:
    for guardrail in guardrails or ():
        if not isinstance(guardrail, kinds):
            raise TypeError(
                f"{owner}: {guardrail!r} is no {side} guardrail; decorate the function with {side}_guardrail, or name "
                "a worker's by RemoteHook"
            )


def _name(name: str | None, function: Callable[..., Any] | RemoteHook) -> str:
    return name or (function.name if isinstance(function, RemoteHook) else name_of(function))
