"""Hosts the functions and hooks of this process's runs: which scope a run looks them up in, which stream carries it.

One attachment with one random scope serves all runs whose functions are told apart by their names. A run whose
function has the name of another's, or which brings another context, while that run goes on, gets a scope of its
own: a lane. Lanes beyond the first share attachments of LANES scopes, which are made as needed and stopped
when no run uses them. So programs that define functions inside a request neither mix them up nor leave
anything behind. A call says its scope; a question to a hook does not: its name says the lane, where there are several.

Every run looks into a scope of its own first, in which nobody serves anything. Whoever resumes it does, maybe in
another process: so it gets that one's functions and context, and no run that goes on elsewhere is disturbed.
"""

from __future__ import annotations

import contextvars
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from baton.agents.agent import Agent
from baton.agents.tools import FunctionTool
from baton.hooks import RemoteHook
from baton.hooks.kinds import HOOK_KINDS
from baton.hooks.refs import HookUse, LocalHook, local_ref, only_remote
from baton.hosting.asked import HookHandler
from baton.hosting.attachment import Attachment, Options
from baton.hosting.held import Handler
from baton.hosting.lanes import Brought, Lane, brought_hook, brought_tools
from baton.hosting.place import NOWHERE, Place
from baton.transport.channels import Door
from baton.transport.retry import Timing
from baton.v1 import agent_pb2, event_pb2, handler_pb2

LANES = 8
"""Scopes of each attachment beyond the first: the most that a Hello may name."""

RETIRE_S = 5.0
"""How long an attachment that no run uses any more may take to finish what it holds."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Contact = Callable[[Awaitable[None], Callable[[], str]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bringing:
    """What a run brings. `tools`: each with the name of its agent. `agents`: its graph, by name."""

    tools: Sequence[tuple[str, FunctionTool]] = ()
    hooks: Sequence[LocalHook] = ()
    agents: Mapping[str, Agent[Any]] = field(default_factory=dict)
    context: Any = None

    def brought(self) -> list[Brought]:
        """List it by kind and name."""
        made = brought_tools(self.tools, self.context)
        return made + [brought_hook(hook, self.context, self.agents) for hook in self.hooks]


class _Group:
    """An attachment and its lanes."""

    def __init__(self, door: Door, timing: Timing, places: Sequence[Place]) -> None:
        self.lanes = {place.scope: Lane(place.scope, place.suffix) for place in places}
        options = Options(scopes=tuple(self.lanes))
        self.attachment = Attachment(door, self._find, self._find_hook, options=options, timing=timing)

    @property
    def in_use(self) -> bool:
        return any(lane.in_use for lane in self.lanes.values())

    def _find(self, call: handler_pb2.Call) -> Handler | None:
        lane = self.lanes.get(call.scope)
        key = (event_pb2.HANDLER_KIND_FUNCTION, call.name)
        found = lane.find(key, call.turn_id) if lane is not None else None
        handler = found.of_agent(call.agent) if found is not None else None
        return handler if isinstance(handler, Handler) else None

    def _find_hook(self, batch: handler_pb2.HookBatch, hook: handler_pb2.Hook) -> HookHandler | None:
        for lane in self.lanes.values():
            if not hook.name.endswith(lane.suffix):
                continue
            found = lane.find((hook.kind, hook.name.removesuffix(lane.suffix)), batch.turn_id)
            if found is not None and isinstance(found.handler, HookHandler):
                return found.handler
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
        self._guests: list[_Group] = []

    @asynccontextmanager
    async def serving(self, bringing: Bringing, place: Place | None = None) -> AsyncIterator[Hosted]:
        """Serve a run's functions and hooks as long as the context is entered.

        `place`: of a run that is resumed; None: it begins. Raises HandlerRefusedError where the server refuses one,
        BatonConnectionError where no server answers.
        """
        brought = bringing.brought()
        if not brought or (place is not None and not place.scope):
            yield Hosted()
            return
        group, lane = self._lane(brought) if place is None else self._lane_of(place, brought)
        lane.enter(brought)
        hosted = Hosted(
            place=place or Place(scope=_new_scope(), suffix=lane.suffix),
            scope=lane.scope,
            names=frozenset(tool.name for _agent, tool in bringing.tools),
            attachment=group.attachment,
            hooks={(hook.kind.number, id(hook.source)): f"{hook.name}{lane.suffix}" for hook in bringing.hooks},
        )
        try:
            # In no run's context variables: the stream outlives the run that happens to begin it.
            group.attachment.start(contextvars.Context())
            specs = [spec for one in brought for spec in lane.specs(one)]
            await self._contact(group.attachment.register(specs), lambda: group.attachment.trouble)
            yield hosted
        finally:
            lane.leave(brought)
            for turn_id in hosted.paused:
                lane.park(turn_id, brought)
            self._retire(group)

    async def close(self) -> None:
        """End all attachments at once."""
        groups, self._groups, self._guests = [*self._groups, *self._guests], [], []
        for group in groups:
            await group.attachment.close()

    def _lane(self, brought: Sequence[Brought]) -> tuple[_Group, Lane]:
        self._groups = [group for group in self._groups if group.attachment.failure is None]
        for group in self._groups:
            for lane in group.lanes.values():
                if lane.fits(brought):
                    return group, lane
        many = bool(self._groups)
        places = [Place(scope=_new_scope(), suffix=f"-{n}" if many else "") for n in range(LANES if many else 1)]
        group = _Group(self._door, self._timing, places)
        self._groups.append(group)
        return group, group.lanes[places[0].scope]

    def _lane_of(self, place: Place, brought: Sequence[Brought]) -> tuple[_Group, Lane]:
        """Make the lane of a run that is resumed, or find it where that is done twice at once."""
        self._guests = [group for group in self._guests if group.attachment.failure is None]
        for group in self._guests:
            lane = group.lanes.get(place.scope)
            if lane is not None and lane.fits(brought):
                return group, lane
        group = _Group(self._door, self._timing, [place])
        self._guests.append(group)
        return group, group.lanes[place.scope]

    def _retire(self, group: _Group) -> None:
        spare = group in self._guests or group in self._groups[1:]
        if not spare or group.in_use:
            return
        for groups in (self._guests, self._groups):
            if group in groups:
                groups.remove(group)
        self._spawn(group.attachment.stop(RETIRE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """What a run has here. All empty, and no attachment, where it brings nothing.

    `place`: where it is served once it is resumed; `scope`: where it is now. `hooks`: under which name a hook of this
    process is served, by its kind and the id of its source, which the run keeps alive. `paused`: turns that rest here,
    for which the functions are kept.
    """

    place: Place = NOWHERE
    scope: str = ""
    names: frozenset[str] = frozenset()
    attachment: Attachment | None = None
    hooks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Where the run looks them up, before all others."""
        return (self.place.scope, self.scope) if self.scope else ()

    def ref_of(self, use: HookUse) -> agent_pb2.HookRef:
        """Name a hook, as `hook_refs.RefOf`."""
        if isinstance(use.source, RemoteHook):
            return only_remote(use)
        name = self.hooks.get((HOOK_KINDS[use.kind].number, id(use.source)))
        return only_remote(use) if name is None else local_ref(name)

    async def attached(self) -> None:
        """Wait until the functions are served (again). Raises what ended the attachment."""
        if self.attachment is not None:
            await self.attachment.wait_attached()


def _new_scope() -> str:
    return f"run-{uuid.uuid4().hex}"
