"""Hosts the functions of this process's runs: which scope a run looks them up in, which stream carries it.

One attachment with one random scope serves all runs whose functions are told apart by their names. A run whose
function has the name of another's, or which brings another context, while that run goes on, gets a scope of its
own: a lane. Lanes beyond the first share attachments of LANES scopes, which are made as needed and stopped
when no run uses them. So programs that define functions inside a request neither mix them up nor leave
anything behind.
"""

from __future__ import annotations

import contextvars
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from baton.attachment import Attachment
from baton.errors import UserError
from baton.held import Handler
from baton.retry import Timing
from baton.tools import FunctionTool
from baton.v1 import handler_pb2, handler_pb2_grpc

LANES = 8
"""Scopes of each attachment beyond the first: the most that a Hello may name."""

RETIRE_S = 5.0
"""How long an attachment that no run uses any more may take to finish what it holds."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
Contact = Callable[[Awaitable[None]], Awaitable[None]]


@dataclass(slots=True)
class _Entry:
    handler: Handler
    uses: int = 0


@dataclass(slots=True)
class _Lane:
    """One scope: what serves each name in it, and how many runs use that now."""

    scope: str
    entries: dict[str, _Entry] = field(default_factory=dict)

    def fits(self, handlers: Sequence[Handler]) -> bool:
        """Tell whether these can be served here beside what is in use."""
        for handler in handlers:
            entry = self.entries.get(handler.tool.name)
            if entry is None or entry.uses == 0:
                continue
            if entry.handler.tool is not handler.tool or entry.handler.context is not handler.context:
                return False
        return True

    def enter(self, handlers: Sequence[Handler]) -> None:
        for handler in handlers:
            entry = self.entries.get(handler.tool.name)
            if entry is None or entry.uses == 0:
                entry = self.entries[handler.tool.name] = _Entry(handler)
            entry.uses += 1

    def leave(self, handlers: Sequence[Handler]) -> None:
        for handler in handlers:
            self.entries[handler.tool.name].uses -= 1

    @property
    def in_use(self) -> bool:
        return any(entry.uses for entry in self.entries.values())


class _Group:
    """An attachment and its lanes."""

    def __init__(self, stub: handler_pb2_grpc.HandlerServiceStub, timing: Timing, lanes: int) -> None:
        self.lanes = {scope: _Lane(scope) for scope in (_new_scope() for _ in range(lanes))}
        self.attachment = Attachment(stub, self._find, scopes=tuple(self.lanes), timing=timing)

    def _find(self, call: handler_pb2.Call) -> Handler | None:
        lane = self.lanes.get(call.scope)
        entry = lane.entries.get(call.name) if lane is not None else None
        return entry.handler if entry is not None else None


class Host:
    """The functions of one event loop's runs at one server. `spawn` owns tasks that outlive a run."""

    def __init__(
        self,
        stub: handler_pb2_grpc.HandlerServiceStub,
        timing: Timing,
        spawn: Spawn,
        contact: Contact,
    ) -> None:
        self._stub = stub
        self._timing = timing
        self._spawn = spawn
        self._contact = contact
        self._groups: list[_Group] = []

    @asynccontextmanager
    async def serving(self, tools: Sequence[FunctionTool], context: Any) -> AsyncIterator[Hosted]:
        """Serve a run's functions as long as the context is entered.

        Raises HandlerRefusedError where the server refuses one, BatonConnectionError where no server answers.
        """
        if not tools:
            yield Hosted(scopes=(), names=frozenset(), attachment=None)
            return
        names = Counter(tool.name for tool in tools)
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise UserError(f"the agent has several functions named {', '.join(twice)}; rename all but one")
        handlers = [Handler(tool, context) for tool in tools]
        group, lane = self._lane(handlers)
        lane.enter(handlers)
        try:
            specs = [handler_pb2.HandlerSpec(name=tool.name) for tool in tools]
            # In no run's context variables: the stream outlives the run that happens to begin it.
            group.attachment.start(contextvars.Context())
            await self._contact(group.attachment.register(specs))
            yield Hosted(scopes=(lane.scope,), names=frozenset(names), attachment=group.attachment)
        finally:
            lane.leave(handlers)
            self._retire(group)

    async def close(self) -> None:
        """End all attachments at once."""
        groups, self._groups = self._groups, []
        for group in groups:
            await group.attachment.close()

    def _lane(self, handlers: Sequence[Handler]) -> tuple[_Group, _Lane]:
        self._groups = [group for group in self._groups if group.attachment.failure is None]
        for group in self._groups:
            for lane in group.lanes.values():
                if lane.fits(handlers):
                    return group, lane
        group = _Group(self._stub, self._timing, LANES if self._groups else 1)
        self._groups.append(group)
        return group, next(iter(group.lanes.values()))

    def _retire(self, group: _Group) -> None:
        spare = group in self._groups[1:]
        if spare and not any(lane.in_use for lane in group.lanes.values()):
            self._groups.remove(group)
            self._spawn(group.attachment.stop(RETIRE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """What a run has here. `scopes` and `attachment` are empty and None where it brings no function."""

    scopes: tuple[str, ...]
    names: frozenset[str]
    attachment: Attachment | None

    async def attached(self) -> None:
        """Wait until the functions are served (again). Raises what ended the attachment."""
        if self.attachment is not None:
            await self.attachment.wait_attached()


def _new_scope() -> str:
    return f"run-{uuid.uuid4().hex}"
