"""Hooks: questions of the server's Runner to programs. Whose moment it is, and how a hook elsewhere is named.

A hook is a function, sync or async, with one argument: the data of its kind (`data`). A worker serves it by
`@worker.hook(kind)`; an agent or a run names it by `RemoteHook`, or brings a function of this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from baton.context.call_context import Cancellation
from baton.context.run_context import RunContextWrapper
from baton.options import options

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookData(RunContextWrapper[TContext]):
    """Whose moment it is; what functions of the Agents SDK get as their context wrapper.

    `agent` and `context` are those of the run, where it is one of this process; in a `Worker` they are None, and
    `agent_name` is all that is known. `agents`: all of the run's graph, by name; in a `Worker` none. `round` from 1;
    0: before the first. `deadline`: when an answer is late; None: none is owed. `cancelled` is set when the answer is
    not needed any more; a coroutine is cancelled besides.
    """

    session_id: str
    turn_id: str
    agent_name: str
    round: int
    deadline: datetime | None = None
    agent: Agent[Any] | None = None
    agents: Mapping[str, Agent[Any]] = field(default_factory=dict, repr=False, compare=False)
    cancelled: Cancellation = field(default_factory=Cancellation, repr=False, compare=False)


@options
@dataclass(frozen=True)
class RemoteHook:
    """A hook that a `Worker` elsewhere serves, by its name. `timeout` in seconds, to 600; None: 30."""

    name: str
    timeout: float | None = None


def name_of(function: Callable[..., Any]) -> str:
    """Name a function, or an object that is called like one."""
    return getattr(function, "__name__", None) or type(function).__name__


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether calling it makes a coroutine, as far as it can be seen before."""
    if inspect.isroutine(function) or isinstance(function, partial):
        return inspect.iscoroutinefunction(function)
    called: Any = function  # an object that is called like a function
    return inspect.iscoroutinefunction(called.__call__)


def adapted(
    function: Callable[..., Any],
    arguments: Callable[[Any], tuple[Any, ...]],
    answer: Callable[[Any, Any], Any],
) -> Callable[[Any], Any]:
    """Let a function be asked by the data of its kind alone. `arguments`: what it is called with.

    `answer`: makes what the kind writes, of the data and what the function returned. A coroutine stays one.
    """

    def call(data: Any) -> Any:
        said = function(*arguments(data))
        return later(data, said) if inspect.isawaitable(said) else answer(data, said)

    async def call_async(data: Any) -> Any:
        return answer(data, await function(*arguments(data)))

    async def later(data: Any, said: Awaitable[Any]) -> Any:
        return answer(data, await said)

    return call_async if is_async(function) else call


def checked_function(what: str, given: object, *, none: bool = True, words: str = "a function or a RemoteHook") -> None:
    """Check what stands for a hook. `none`: None is as good. Raises TypeError, with the value."""
    if isinstance(given, RemoteHook) or callable(given) or (none and given is None):
        return
    raise TypeError(f"{what} must be {words}, not {given!r}")
