"""Which function or hook of this process serves a name in one scope, for whichever of the runs that share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.agents.agent import Agent
from baton.agents.tools import FunctionTool
from baton.hooks.refs import LocalHook
from baton.hosting.asked import HookHandler
from baton.hosting.held import Handler
from baton.v1 import event_pb2, handler_pb2

MOST_PARKED = 1_000
"""Runs that paused and whose functions are kept for them, the newest: a call that somebody allows comes here."""

Key = tuple[int, str]
"""Kind and name of a handler."""

_FUNCTION = event_pb2.HANDLER_KIND_FUNCTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """Functions of one name, or a hook, that a run brings. `parts`: what makes it the same, if it is the same objects.

    `by_agent`: functions by the name of the agent whose they are, where agents have different ones of one name.
    """

    key: Key
    parts: tuple[object, ...]
    handler: Handler | HookHandler
    by_agent: Mapping[str, Handler] = field(default_factory=dict)

    def of_agent(self, agent: str) -> Handler | HookHandler:
        """Find what serves an agent's call."""
        return self.by_agent.get(agent, self.handler)

    def same(self, other: Brought) -> bool:
        """Tell whether both are one thing."""
        return len(self.parts) == len(other.parts) and all(
            mine is its for mine, its in zip(self.parts, other.parts, strict=True)
        )


@dataclass(slots=True)
class _Entry:
    brought: Brought
    uses: int = 0


@dataclass(slots=True)
class Lane:
    """One scope: what serves each name in it, and how many runs use that now. `suffix`: of its hooks' names.

    Runs that paused have theirs beside it, by the turn.
    """

    scope: str
    suffix: str
    entries: dict[Key, _Entry] = field(default_factory=dict)
    parked: OrderedDict[str, dict[Key, Brought]] = field(default_factory=OrderedDict)

    @property
    def in_use(self) -> bool:
        """Some run goes on that needs it."""
        return any(entry.uses for entry in self.entries.values())

    def fits(self, brought: Sequence[Brought]) -> bool:
        """Tell whether these can be served here beside what is in use."""
        for one in brought:
            entry = self.entries.get(one.key)
            if entry is not None and entry.uses and not one.same(entry.brought):
                return False
        return True

    def enter(self, brought: Sequence[Brought]) -> None:
        """Serve these for one more run."""
        for one in brought:
            entry = self.entries.get(one.key)
            if entry is None or entry.uses == 0:
                entry = self.entries[one.key] = _Entry(one)
            entry.uses += 1

    def leave(self, brought: Sequence[Brought]) -> None:
        """Serve these for one run less."""
        for one in brought:
            self.entries[one.key].uses -= 1

    def park(self, owner: str, brought: Sequence[Brought]) -> None:
        """Keep these for a turn that paused, whoever has it go on."""
        self.parked[owner] = {one.key: one for one in brought}
        self.parked.move_to_end(owner)
        while len(self.parked) > MOST_PARKED:
            self.parked.popitem(last=False)

    def find(self, key: Key, turn_id: str) -> Brought | None:
        """Find what serves a name in a turn; None: nothing."""
        if key in self.parked.get(turn_id, {}):
            return self.parked[turn_id][key]
        entry = self.entries.get(key)
        return entry.brought if entry is not None else None

    def specs(self, one: Brought) -> list[handler_pb2.HandlerSpec]:
        """Write what is registered for it: one for each version."""
        name = one.key[1]
        if isinstance(one.handler, HookHandler):
            return [handler_pb2.HandlerSpec(kind=one.handler.kind.number, name=f"{name}{self.suffix}")]
        versions = dict.fromkeys(handler.tool.version for handler in (one.handler, *one.by_agent.values()))
        return [handler_pb2.HandlerSpec(name=name, version=version) for version in versions]


def brought_tools(tools: Sequence[tuple[str, FunctionTool]], context: Any) -> list[Brought]:
    """Bring functions, each with the name of its agent. Of two of one name on one agent the last one counts."""
    by_name: dict[str, dict[str, Handler]] = {}
    for agent, tool in tools:
        by_name.setdefault(tool.name, {})[agent] = Handler(tool, context)
    made = []
    for name, by_agent in by_name.items():
        different = {id(handler.tool): handler for handler in by_agent.values()}
        first = next(iter(different.values()))
        made.append(
            Brought(
                key=(_FUNCTION, name),
                parts=(*(handler.tool for handler in different.values()), context),
                handler=first,
                by_agent=by_agent if len(different) > 1 else {},
            )
        )
    return made


def brought_hook(hook: LocalHook, context: Any, agents: Mapping[str, Agent[Any]]) -> Brought:
    """Bring a hook. Agents that changed are others: a hook is told which agent asks."""
    handler = HookHandler(
        kind=hook.kind,
        name=hook.name,
        function=hook.function,
        agents=agents,
        context=context,
        raises=hook.raises,
    )
    parts = (hook.source, context, *agents.values())
    return Brought(key=(hook.kind.number, hook.name), parts=parts, handler=handler)
