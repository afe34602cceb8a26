"""Hooks: questions of the server's Runner to programs. What they are asked, what they answer, and how they are named.

A hook is a function, sync or async, with one argument: the data of its kind. A worker serves it by
`@worker.hook(kind)`; an agent or a run names it by `RemoteHook`, or brings a function of this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from baton.context import Cancellation
from baton.options import options, refusing_unknown

if TYPE_CHECKING:
    from baton.agent import Agent

TContext = TypeVar("TContext")

Moment = Literal["agent_start", "agent_end", "model_start", "model_end", "function_start", "function_end"]

DEFAULT_TIMEOUT_S = 30.0
"""How long a hook may take where nothing else is said (agent.proto, HookRef.timeout)."""


# -- what hooks are asked ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HookData(Generic[TContext]):
    """Whose moment it is.

    `agent` and `context` are those of the run, where it is one of this process; in a `Worker` they are None, and
    `agent_name` is all that is known. `round` from 1; 0: before the first. `deadline`: when an answer is late; None:
    none is owed. `cancelled` is set when the answer is not needed any more; a coroutine is cancelled besides.
    """

    session_id: str
    turn_id: str
    agent_name: str
    round: int
    deadline: datetime | None = None
    agent: Agent[Any] | None = None
    context: TContext | None = None
    cancelled: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputGuardrailData(HookData[TContext]):
    """May this input be worked on? `input`: Responses API items, the history before them included.

    A message that joins a running turn is asked about alone.
    """

    input: list[dict[str, Any]]


@dataclass(slots=True)
class ModelInputData:
    """What one request of the model carries: Responses API items, and instructions (None: none)."""

    input: list[Any]
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModelData(HookData[TContext]):
    """What is this request to carry? Asked before each request of the model."""

    model_data: ModelInputData


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleData(HookData[TContext]):
    """Something has happened. `facts` as PROTOCOL.md lists them, such as `tool` and `output` of "function_end"."""

    moment: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectCheckData(HookData[TContext]):
    """Did an attempt take effect whose worker was lost? Look it up by `idempotency_key`.

    `tool_arguments` is the model's own text. `attempt`: the last one that may have run.
    """

    call_id: str
    attempt: int
    tool_name: str
    tool_arguments: str
    idempotency_key: str


# -- what they answer ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardrailFunctionOutput:
    """What a guardrail says. `output_info`: its reasons, anything with a JSON form; it stands in the session's log."""

    output_info: Any
    tripwire_triggered: bool


@dataclass(frozen=True, slots=True)
class TookEffect:
    """A check says that the attempt did its work, and what the function would have returned.

    `output`: a text, or anything with a JSON form. A check that does not know it returns "took_effect" instead.
    """

    output: Any


Effect = Literal["none", "took_effect", "unknown"] | TookEffect
"""What a check answers. "none": nothing was done, so that the call is delivered again. "took_effect": it was done, what
came of it is not known, so that somebody is asked. "unknown": as the call's `lost_worker` says."""

# -- how they are named --------------------------------------------------------------------------


@options
@dataclass(frozen=True)
class RemoteHook:
    """A hook that a `Worker` elsewhere serves, by its name. `timeout` in seconds, to 600; None: 30."""

    name: str
    timeout: float | None = None


GuardrailFunction = Callable[..., GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]]
"""Called as `(data, agent, input)`: `data` an InputGuardrailData, with the run's `context`; `agent` the run's."""

ModelInputFilter = Callable[[CallModelData[Any]], ModelInputData | Awaitable[ModelInputData]]
LifecycleFunction = Callable[[LifecycleData[Any]], Any]


@options
@dataclass(frozen=True)
class InputGuardrail:
    """Checks what goes into a turn: a function of this process, or a hook elsewhere. Make it with `input_guardrail`.

    One that trips ends the turn: InputGuardrailTripwireTriggered. `name`: shown in errors and events, 1 to 128
    characters; None: the function's, or the hook's. `run_in_parallel` False: it ends before the model is asked; True:
    it runs beside the first request, whose reply counts once it has passed.
    """

    guardrail_function: GuardrailFunction | RemoteHook
    name: str | None = None
    run_in_parallel: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.guardrail_function, RemoteHook) and not callable(self.guardrail_function):
            raise TypeError(f"a guardrail is a function or a RemoteHook, not {self.guardrail_function!r}")

    def get_name(self) -> str:
        """Say its name."""
        source = self.guardrail_function
        return self.name or (source.name if isinstance(source, RemoteHook) else name_of(source))


@dataclass(frozen=True, slots=True)
class InputGuardrailResult:
    """What a guardrail of a run said."""

    guardrail: InputGuardrail
    output: GuardrailFunctionOutput


@options
@dataclass(frozen=True)
class LifecycleHook:
    """Is told what happens: a function of this process, or a hook elsewhere. `moments` empty: all."""

    hook: LifecycleFunction | RemoteHook
    moments: Sequence[Moment] = ()


@overload
def input_guardrail(function: GuardrailFunction, /) -> InputGuardrail: ...


@overload
def input_guardrail(
    function: None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[GuardrailFunction], InputGuardrail]: ...


@refusing_unknown("input_guardrail")
def input_guardrail(
    function: GuardrailFunction | None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail | Callable[[GuardrailFunction], InputGuardrail]:
    """Make a guardrail of a function `(data, agent, input)`, sync or async, for `Agent(input_guardrails=[…])`."""

    def make(target: GuardrailFunction) -> InputGuardrail:
        return InputGuardrail(target, name=name, run_in_parallel=run_in_parallel)

    return make if function is None else make(function)


def name_of(function: Callable[..., Any]) -> str:
    """Name a function, or an object that is called like one."""
    return getattr(function, "__name__", None) or type(function).__name__


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling it makes a coroutine, as far as it can be seen before."""
    if inspect.isroutine(function) or isinstance(function, partial):
        return inspect.iscoroutinefunction(function)
    called: Any = function  # an object that is called like a function
    return inspect.iscoroutinefunction(called.__call__)
