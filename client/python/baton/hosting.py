"""Hosts the functions and hooks of this process's runs: which scope a run looks them up in, which stream carries it.

One attachment with one random scope serves all runs whose functions are told apart by their names. A run whose
function has the name of another's, or which brings another context, while that run goes on, gets a scope of its
own: a lane. Lanes beyond the first share attachments of LANES scopes, which are made as needed and stopped
when no run uses them. So programs that define functions inside a request neither mix them up nor leave
anything behind. A call says its scope; a question to a hook does not: its name says the lane, where there are several.
"""

from __future__ import annotations

import contextvars
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from baton.asked import HookHandler
from baton.attachment import Attachment, Options
from baton.channels import Door
from baton.errors import UserError
from baton.held import Handler
from baton.hook_refs import LocalHook, only_remote
from baton.hooks import RemoteHook
from baton.retry import Timing
from baton.tools import FunctionTool
from baton.v1 import agent_pb2, event_pb2, handler_pb2

LANES = 8
"""Scopes of each attachment beyond the first: the most that a Hello may name."""

RETIRE_S = 5.0
"""How long an attachment that no run uses any more may take to finish what it holds."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Contact = Callable[[Awaitable[None]], Awaitable[None]]


Key = tuple[int, str]
"""Kind and name of a handler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brought:
    """A function or a hook that a run brings. `parts`: what has to be the same objects for it to be the same."""

    key: Key
    parts: tuple[object, ...]
    handler: Handler | HookHandler


@dataclass(slots=True)
class _Entry:
    brought: _Brought
    uses: int = 0


@dataclass(slots=True)
class _Lane:
    """One scope: what serves each name in it, and how many runs use that now. `suffix`: of its hooks' names."""

    scope: str
    suffix: str
    entries: dict[Key, _Entry] = field(default_factory=dict)

    def fits(self, brought: Sequence[_Brought]) -> bool:
        """Tell whether these can be served here beside what is in use."""
        for one in brought:
            entry = self.entries.get(one.key)
            if entry is None or entry.uses == 0:
                continue
            if any(mine is not its for mine, its in zip(one.parts, entry.brought.parts, strict=True)):
                return False
        return True

    def enter(self, brought: Sequence[_Brought]) -> None:
        for one in brought:
            entry = self.entries.get(one.key)
            if entry is None or entry.uses == 0:
                entry = self.entries[one.key] = _Entry(one)
            entry.uses += 1

    def leave(self, brought: Sequence[_Brought]) -> None:
        for one in brought:
            self.entries[one.key].uses -= 1

    def spec(self, one: _Brought) -> handler_pb2.HandlerSpec:
        """Write what is registered for it."""
        name = one.key[1]
        if isinstance(one.handler, Handler):
            return handler_pb2.HandlerSpec(name=name, version=one.handler.tool.version)
        return handler_pb2.HandlerSpec(kind=one.handler.kind.number, name=f"{name}{self.suffix}")

    @property
    def in_use(self) -> bool:
        return any(entry.uses for entry in self.entries.values())


class _Group:
    """An attachment and its lanes."""

    def __init__(self, door: Door, timing: Timing, lanes: int) -> None:
        made = [_Lane(_new_scope(), f"-{number}" if lanes > 1 else "") for number in range(lanes)]
        self.lanes = {lane.scope: lane for lane in made}
        options = Options(scopes=tuple(self.lanes))
        self.attachment = Attachment(door, self._find, self._find_hook, options=options, timing=timing)

    def _find(self, call: handler_pb2.Call) -> Handler | None:
        lane = self.lanes.get(call.scope)
        entry = lane.entries.get((event_pb2.HANDLER_KIND_FUNCTION, call.name)) if lane is not None else None
        handler = entry.brought.handler if entry is not None else None
        return handler if isinstance(handler, Handler) else None

    def _find_hook(self, kind: event_pb2.HandlerKind.ValueType, name: str) -> HookHandler | None:
        for lane in self.lanes.values():
            entry = lane.entries.get((kind, name.removesuffix(lane.suffix))) if name.endswith(lane.suffix) else None
            handler = entry.brought.handler if entry is not None else None
            if isinstance(handler, HookHandler):
                return handler
        return None


class Host:
    """The functions and hooks of one event loop's runs at one server. `spawn` owns tasks that outlive a run."""

    def __init__(
        self,
        door: Door,
        timing: Timing,
        spawn: Spawn,
        contact: Contact,
    ) -> None:
        self._door = door
        self._timing = timing
        self._spawn = spawn
        self._contact = contact
        self._groups: list[_Group] = []

    @asynccontextmanager
    async def serving(
        self, tools: Sequence[FunctionTool], context: Any, hooks: Sequence[LocalHook] = (), agent: Any = None
    ) -> AsyncIterator[Hosted]:
        """Serve a run's functions and hooks as long as the context is entered.

        Raises HandlerRefusedError where the server refuses one, BatonConnectionError where no server answers.
        """
        if not tools and not hooks:
            yield Hosted(scopes=(), names=frozenset(), attachment=None)
            return
        names = Counter(tool.name for tool in tools)
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise UserError(f"the agent has several functions named {', '.join(twice)}; rename all but one")
        brought = [_tool_brought(tool, context) for tool in tools]
        brought += [_hook_brought(hook, context, agent) for hook in hooks]
        group, lane = self._lane(brought)
        lane.enter(brought)
        try:
            # In no run's context variables: the stream outlives the run that happens to begin it.
            group.attachment.start(contextvars.Context())
            await self._contact(group.attachment.register([lane.spec(one) for one in brought]))
            yield Hosted(
                scopes=(lane.scope,),
                names=frozenset(names),
                attachment=group.attachment,
                hooks={id(hook.source): f"{hook.name}{lane.suffix}" for hook in hooks},
            )
        finally:
            lane.leave(brought)
            self._retire(group)

    async def close(self) -> None:
        """End all attachments at once."""
        groups, self._groups = self._groups, []
        for group in groups:
            await group.attachment.close()

    def _lane(self, brought: Sequence[_Brought]) -> tuple[_Group, _Lane]:
        self._groups = [group for group in self._groups if group.attachment.failure is None]
        for group in self._groups:
            for lane in group.lanes.values():
                if lane.fits(brought):
                    return group, lane
        group = _Group(self._door, self._timing, LANES if self._groups else 1)
        self._groups.append(group)
        return group, next(iter(group.lanes.values()))

    def _retire(self, group: _Group) -> None:
        spare = group in self._groups[1:]
        if spare and not any(lane.in_use for lane in group.lanes.values()):
            self._groups.remove(group)
            self._spawn(group.attachment.stop(RETIRE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """What a run has here. `scopes` and `attachment` are empty and None where it brings nothing.

    `hooks`: under which name a hook of this process is served, by the id of its source, which the run keeps alive.
    """

    scopes: tuple[str, ...]
    names: frozenset[str]
    attachment: Attachment | None
    hooks: Mapping[int, str] = field(default_factory=dict)

    def ref_of(self, source: Any) -> agent_pb2.HookRef:
        """Name a hook, as `hook_refs.RefOf`."""
        name = None if isinstance(source, RemoteHook) else self.hooks.get(id(source))
        return only_remote(source) if name is None else agent_pb2.HookRef(name=name)

    async def attached(self) -> None:
        """Wait until the functions are served (again). Raises what ended the attachment."""
        if self.attachment is not None:
            await self.attachment.wait_attached()


def _tool_brought(tool: FunctionTool, context: Any) -> _Brought:
    key = (event_pb2.HANDLER_KIND_FUNCTION, tool.name)
    return _Brought(key=key, parts=(tool, context), handler=Handler(tool, context))


def _hook_brought(hook: LocalHook, context: Any, agent: Any) -> _Brought:
    handler = HookHandler(kind=hook.kind, name=hook.name, function=hook.function, agent=agent, context=context)
    return _Brought(key=(hook.kind.number, hook.name), parts=(hook.source, context, agent), handler=handler)


def _new_scope() -> str:
    return f"run-{uuid.uuid4().hex}"
