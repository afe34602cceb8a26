"""Who is told what happens in a run: functions that are told and nothing waits for, and hooks that are waited for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from baton.agents.agent_output import read_value
from baton.agents.tools import RemoteFunction
from baton.hooks import RemoteHook
from baton.hooks.data import LifecycleData, Moment
from baton.hooks.kinds import MOMENTS
from baton.hooks.refs import HookUse, RefOf, hook_use
from baton.items.model_response import ModelResponse
from baton.items.usage import usage_from_pb
from baton.options import options
from baton.v1 import agent_pb2, item_pb2

if TYPE_CHECKING:
    from baton.agents.agent import Agent

TContext = TypeVar("TContext")

LifecycleFunction = Callable[[LifecycleData[Any]], Any]


@options
@dataclass(frozen=True)
class LifecycleHook:
    """Is told what happens: a function of this process, or a hook elsewhere. `moments` empty: all.

    `awaited`: the run waits for it, and fails if it raises or does not answer; else it is told and that is all.
    """

    hook: LifecycleFunction | RemoteHook
    moments: Sequence[Moment] = ()
    awaited: bool = False


class RunHooks(Generic[TContext]):
    """Is told what happens in a run, and waited for: subclass it, and override what you want to know of.

    `context`: a `LifecycleData`, with the run's own `context`; of moments of functions it has `tool_name`,
    `tool_call_id` and `tool_arguments` besides. A method that raises fails the run.
    """

    async def on_agent_start(self, context: LifecycleData[TContext], agent: Agent[TContext]) -> None:
        """Hear that an agent begins: at the start, and after a handoff."""

    async def on_agent_end(self, context: LifecycleData[TContext], agent: Agent[TContext], output: Any) -> None:
        """Hear of a final output, before output guardrails are asked."""

    async def on_handoff(
        self, context: LifecycleData[TContext], from_agent: Agent[TContext], to_agent: Agent[TContext]
    ) -> None:
        """Hear of a handoff."""

    async def on_tool_start(self, context: LifecycleData[TContext], agent: Agent[TContext], tool: Any) -> None:
        """Hear that a function is about to be called. `tool`: as the agent has it."""

    async def on_tool_end(
        self, context: LifecycleData[TContext], agent: Agent[TContext], tool: Any, result: Any
    ) -> None:
        """Hear what a function gave: a text, or a list of content parts."""

    async def on_llm_start(
        self,
        context: LifecycleData[TContext],
        agent: Agent[TContext],
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Hear that the model is about to be asked, and what."""

    async def on_llm_end(
        self, context: LifecycleData[TContext], agent: Agent[TContext], response: ModelResponse
    ) -> None:
        """Hear what the model replied."""


class AgentHooks(Generic[TContext]):
    """Is told what happens with one agent, and waited for: `Agent(hooks=…)`. Everything else is as with `RunHooks`."""

    async def on_start(self, context: LifecycleData[TContext], agent: Agent[TContext]) -> None:
        """Hear that the agent begins: at the start, and after a handoff."""

    async def on_end(self, context: LifecycleData[TContext], agent: Agent[TContext], output: Any) -> None:
        """Hear of its final output, before output guardrails are asked."""

    async def on_handoff(
        self, context: LifecycleData[TContext], agent: Agent[TContext], source: Agent[TContext]
    ) -> None:
        """Hear that this agent, `source`, has handed over to `agent`."""

    async def on_tool_start(self, context: LifecycleData[TContext], agent: Agent[TContext], tool: Any) -> None:
        """Hear that a function is about to be called. `tool`: as the agent has it."""

    async def on_tool_end(
        self, context: LifecycleData[TContext], agent: Agent[TContext], tool: Any, result: Any
    ) -> None:
        """Hear what a function gave: a text, or a list of content parts."""

    async def on_llm_start(
        self,
        context: LifecycleData[TContext],
        agent: Agent[TContext],
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Hear that the model is about to be asked, and what."""

    async def on_llm_end(
        self, context: LifecycleData[TContext], agent: Agent[TContext], response: ModelResponse
    ) -> None:
        """Hear what the model replied."""


# -- what methods are called with ----------------------------------------------------------------


def _agent(data: LifecycleData[Any]) -> tuple[Any, ...]:
    return data, data.agent


def _agent_end(data: LifecycleData[Any]) -> tuple[Any, ...]:
    return data, data.agent, read_value(data.agent, data.facts.get("output"))


def _model_start(data: LifecycleData[Any]) -> tuple[Any, ...]:
    return data, data.agent, data.facts.get("instructions"), list(data.facts.get("input") or ())


def _model_end(data: LifecycleData[Any]) -> tuple[Any, ...]:
    facts = data.facts
    usage = usage_from_pb(item_pb2.Usage(**(facts.get("usage") or {})))
    response = ModelResponse(
        output=list(facts.get("output") or ()), usage=usage, response_id=facts.get("response_id") or None
    )
    return data, data.agent, response


def _function(data: LifecycleData[Any]) -> tuple[Any, ...]:
    found = data.agent.find_tool(data.tool_name) if data.agent is not None else None
    return data, data.agent, found or RemoteFunction(data.tool_name)


def _function_end(data: LifecycleData[Any]) -> tuple[Any, ...]:
    return *_function(data), data.facts.get("output")


def _handoff(data: LifecycleData[Any]) -> tuple[Any, ...]:
    return data, *(data.agents.get(str(data.facts.get(name, ""))) for name in ("from_agent", "to_agent"))


def _handed_over(data: LifecycleData[Any]) -> tuple[Any, ...]:
    context, source, target = _handoff(data)
    return context, target, source


Arguments = Callable[[LifecycleData[Any]], tuple[Any, ...]]

_SHARED: Mapping[str, tuple[str, Arguments]] = {
    "model_start": ("on_llm_start", _model_start),
    "model_end": ("on_llm_end", _model_end),
    "function_start": ("on_tool_start", _function),
    "function_end": ("on_tool_end", _function_end),
}

_METHODS: Mapping[type, Mapping[str, tuple[str, Arguments]]] = {
    RunHooks: {
        "agent_start": ("on_agent_start", _agent),
        "agent_end": ("on_agent_end", _agent_end),
        **_SHARED,
        "handoff": ("on_handoff", _handoff),
    },
    AgentHooks: {
        "agent_start": ("on_start", _agent),
        "agent_end": ("on_end", _agent_end),
        **_SHARED,
        "handoff": ("on_handoff", _handed_over),
    },
}
"""By base class and moment: the method, and what it is called with."""


# -- for the wire --------------------------------------------------------------------------------


def listed_lifecycle(given: Sequence[object]) -> list[LifecycleHook]:
    """List the lifecycle hooks of a run. Raises TypeError, or ValueError for a moment that there is not."""
    listed = [one if isinstance(one, LifecycleHook) else LifecycleHook(one) for one in given]  # type: ignore[arg-type]  # checked below
    for one in listed:
        if not isinstance(one.hook, RemoteHook) and not callable(one.hook):
            raise TypeError(f"a lifecycle hook must be a function or a RemoteHook, not {one.hook!r}")
        for moment in one.moments:
            if moment not in MOMENTS:
                raise ValueError(f"a lifecycle moment is one of {', '.join(MOMENTS)}, not {moment!r}")
    return listed


def lifecycle_to_pb(hooks: Iterable[LifecycleHook], ref_of: RefOf) -> list[agent_pb2.LifecycleHook]:
    """Write `baton.v1.LifecycleHook`s."""
    return [
        agent_pb2.LifecycleHook(
            hook=ref_of(hook_use("lifecycle", one.hook)),
            moments=[MOMENTS[moment] for moment in one.moments],
            awaited=one.awaited,
        )
        for one in hooks
    ]


def hooks_to_pb(hooks: RunHooks[Any] | AgentHooks[Any] | None, ref_of: RefOf) -> list[agent_pb2.LifecycleHook]:
    """Write hooks that are waited for, with the moments whose methods are their own; none: an empty list."""
    if hooks is None:
        return []
    base = RunHooks if isinstance(hooks, RunHooks) else AgentHooks
    told = [moment for moment, (method, _) in _METHODS[base].items() if _overrides(hooks, base, method)]
    if not told:
        return []
    use = HookUse(kind="lifecycle", source=hooks, name=type(hooks).__name__, function=_asked(hooks, base))
    return [agent_pb2.LifecycleHook(hook=ref_of(use), moments=[MOMENTS[moment] for moment in told], awaited=True)]


def _overrides(hooks: object, base: type, method: str) -> bool:
    return getattr(getattr(hooks, method), "__func__", None) is not getattr(base, method)


def _asked(hooks: object, base: type) -> Callable[[LifecycleData[Any]], Any]:
    async def tell(data: LifecycleData[Any]) -> None:
        found = _METHODS[base].get(data.moment)
        if found is None:
            return  # a moment of a later version
        method, arguments = found
        said = getattr(hooks, method)(*arguments(data))
        if inspect.isawaitable(said):
            await said

    return tell
