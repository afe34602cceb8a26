"""Hooks of an agent or a run: checked, gathered to be hosted, and as the contract carries them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from baton.errors import UserError
from baton.hook_kinds import HOOK_KINDS, MOMENTS, HookKind
from baton.hooks import InputGuardrail, InputGuardrailData, LifecycleHook, RemoteHook, is_async, name_of
from baton.v1 import agent_pb2, run_config_pb2

MOST_NAME = 56
"""Characters of a local hook's name: what its scope may need to add still fits into 64."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalHook:
    """A hook of this process, while a run goes on. `source`: the object by which the agent or the run names it.

    `function` takes the data of its kind alone.
    """

    kind: HookKind
    name: str
    source: object
    function: Callable[[Any], Any]


RefOf = Callable[[Any], agent_pb2.HookRef]
"""Names a hook: a RemoteHook, or the `source` of a local one."""


def only_remote(source: Any) -> agent_pb2.HookRef:
    """Name a RemoteHook. Raises UserError for a function of this process, which nothing hosts here."""
    if not isinstance(source, RemoteHook):
        name = source.get_name() if isinstance(source, InputGuardrail) else name_of(source)
        raise UserError(
            f"the hook {name!r} is a function of this process, which only a run of this process can host; serve it "
            "by a Worker and name it by RemoteHook"
        )
    made = agent_pb2.HookRef(name=source.name)
    if source.timeout is not None:
        made.timeout.FromTimedelta(timedelta(seconds=source.timeout))
    return made


# -- checks --------------------------------------------------------------------------------------


def checked_guardrails(owner: str, guardrails: Iterable[object]) -> None:
    """Check what stands for guardrails. Raises TypeError."""
    for guardrail in guardrails:
        if not isinstance(guardrail, InputGuardrail | RemoteHook):
            raise TypeError(
                f"{owner}: {guardrail!r} is no input guardrail; decorate the function with input_guardrail, or name a "
                "worker's by RemoteHook"
            )


def listed_filters(given: object) -> list[Any]:
    """List the model input filters of a run, given as one or as a list. Raises TypeError."""
    filters = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    for one in filters:
        if not isinstance(one, RemoteHook) and not callable(one):
            raise TypeError(f"call_model_input_filter must be a function or a RemoteHook, not {one!r}")
    return filters


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


# -- gathering -----------------------------------------------------------------------------------


class Gathered:
    """The local hooks of one run, each under a name of its own."""

    def __init__(self) -> None:
        self.hooks: list[LocalHook] = []

    def guardrails(self, guardrails: Iterable[InputGuardrail | RemoteHook]) -> None:
        """Gather guardrails of this process."""
        for guardrail in guardrails:
            if isinstance(guardrail, InputGuardrail) and not isinstance(guardrail.guardrail_function, RemoteHook):
                self._add("input_guardrail", guardrail.get_name(), guardrail, _called_with_three(guardrail))

    def functions(self, kind: str, functions: Iterable[Any]) -> None:
        """Gather functions that take the data of their kind; a RemoteHook is passed over."""
        for function in functions:
            if not isinstance(function, RemoteHook):
                self._add(kind, name_of(function), function, function)

    def _add(self, kind: str, name: str, source: object, function: Callable[[Any], Any]) -> None:
        if any(hook.source is source and hook.kind is HOOK_KINDS[kind] for hook in self.hooks):
            return
        plain = re.sub("[^A-Za-z0-9_-]", "_", name)[:MOST_NAME] or kind
        taken = {hook.name for hook in self.hooks if hook.kind is HOOK_KINDS[kind]}
        own = next(one for one in (plain, *(f"{plain}_{n}" for n in range(2, 99))) if one not in taken)
        self.hooks.append(LocalHook(HOOK_KINDS[kind], own, source, function))


def _called_with_three(guardrail: InputGuardrail) -> Callable[[InputGuardrailData[Any]], Any]:
    """Let a guardrail be called as the Agents SDK does: with the run's context, its agent and the input."""
    function: Any = guardrail.guardrail_function

    def call(data: InputGuardrailData[Any]) -> Any:
        return function(data, data.agent, data.input)

    async def call_async(data: InputGuardrailData[Any]) -> Any:
        return await function(data, data.agent, data.input)

    return call_async if is_async(function) else call


# -- writing -------------------------------------------------------------------------------------


def guardrails_to_pb(guardrails: Iterable[InputGuardrail | RemoteHook], ref_of: RefOf) -> list[agent_pb2.Guardrail]:
    """Write `baton.v1.Guardrail`s."""
    written: list[agent_pb2.Guardrail] = []
    for given in guardrails:
        guardrail = InputGuardrail(given) if isinstance(given, RemoteHook) else given
        function = guardrail.guardrail_function
        source = function if isinstance(function, RemoteHook) else guardrail
        written.append(
            agent_pb2.Guardrail(name=guardrail.get_name(), hook=ref_of(source), blocking=not guardrail.run_in_parallel)
        )
    return written


def filters_to_pb(filters: Iterable[Any], ref_of: RefOf) -> list[run_config_pb2.InputFilter]:
    """Write `baton.v1.InputFilter`s."""
    return [run_config_pb2.InputFilter(hook=ref_of(one)) for one in filters]


def lifecycle_to_pb(hooks: Iterable[LifecycleHook], ref_of: RefOf) -> list[run_config_pb2.LifecycleHook]:
    """Write `baton.v1.LifecycleHook`s."""
    return [
        run_config_pb2.LifecycleHook(hook=ref_of(one.hook), moments=[MOMENTS[moment] for moment in one.moments])
        for one in hooks
    ]
