"""Joining: calls of one session with one idempotency key take effect once, whichever turn made them.

Of several that are open only the oldest is served. Before it is, the store is asked whether an earlier call has
succeeded under the key; then that one's output is its result, and no worker hears of it. When the one that is served
fails, the next one's time has come; when it succeeds, the Runner gives its output to the others itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import structlog

from baton_server.app.calls.errands import Errands
from baton_server.app.runtime import Runtime
from baton_server.core.events import ItemAdded
from baton_server.core.inputs import CallSettled
from baton_server.core.items import ContentPart, FunctionCallOutput, Settlement
from baton_server.ports.store import CallRow

log = structlog.get_logger(__name__)

Feed = Callable[[str, CallSettled], "asyncio.Future[bool]"]

Key = tuple[str, str]
"""Session and idempotency key."""


@dataclass(frozen=True, slots=True)
class _Joiner:
    """An open call. `serve`: has it queued for a worker."""

    turn_id: str
    serve: Callable[[], None]


@dataclass(slots=True)
class _Line:
    """The open calls of one key. `served`: the one whose time has come, empty: none. `looking`: it is being asked."""

    calls: dict[str, _Joiner] = field(default_factory=dict)
    served: str = ""
    looking: bool = False

    @property
    def oldest(self) -> str:
        """Name the call that is next. Ids of calls sort as they were made."""
        return min(self.calls, default="")


class Joining:
    """Keeps calls of one key apart."""

    def __init__(self, runtime: Runtime, errands: Errands, feed: Feed) -> None:
        self._runtime, self._errands, self._feed = runtime, errands, feed
        self._lines: dict[Key, _Line] = {}
        self._keys: dict[str, Key] = {}
        self._due: deque[tuple[Key, _Line]] = deque()
        self._looking = False

    def wait(self, call: CallRow, serve: Callable[[], None]) -> None:
        """Have a call served when its time has come. One that was served before, and comes back, is at once."""
        line = self._enter(call, serve)
        if line.served == call.call_id:
            serve()
        else:
            self._next(self._keys[call.call_id], line)

    def serving(self, call: CallRow) -> None:
        """Note a call that was served by a former process: it is with a worker, or somebody is asked about it."""
        line = self._enter(call, lambda: None)
        line.served = line.served or call.call_id

    def forget(self, call_id: str) -> None:
        """Let a call go that is settled; the next one's time may have come."""
        key = self._keys.pop(call_id, None)
        if key is None:
            return
        line = self._lines[key]
        del line.calls[call_id]
        if line.served == call_id:
            line.served = ""
        if line.calls:
            self._next(key, line)
        else:
            del self._lines[key]

    def ahead_of(self, call_id: str) -> str:
        """Name the open call whose result this one waits for; empty: it waits for none."""
        key = self._keys.get(call_id)
        if key is None:
            return ""
        line = self._lines[key]
        ahead = line.served or line.oldest
        return "" if ahead == call_id else ahead

    # -- inside ----------------------------------------------------------------------------------

    def _enter(self, call: CallRow, serve: Callable[[], None]) -> _Line:
        key = (call.session_id, call.idempotency_key)
        line = self._lines.setdefault(key, _Line())
        self._keys[call.call_id] = key
        line.calls[call.call_id] = _Joiner(call.turn_id, serve)
        return line

    def _next(self, key: Key, line: _Line) -> None:
        """Have a line looked at whose next call may be served.

        One line after the other, so that calls of several keys keep their order.
        """
        if not line.calls or line.served or line.looking:
            return
        line.looking = True
        self._due.append((key, line))
        if not self._looking:
            self._looking = True
            self._errands.run(self._look_at_all())

    async def _look_at_all(self) -> None:
        try:
            while self._due:
                await self._look(*self._due.popleft())
        finally:
            self._looking = False

    async def _look(self, key: Key, line: _Line) -> None:
        """Find out what becomes of the oldest call of a line, and see to it."""
        call_id = line.oldest
        joiner = line.calls.get(call_id)
        if joiner is None:
            return  # all were settled meanwhile, and the line is gone
        joined, doubt = await self._errands.persist(partial(self._find, key, call_id, joiner.turn_id))
        if doubt:
            self._errands.run(self._later(key, line))
            return
        line.looking = False
        if line.calls.get(call_id) is not joiner:
            self._next(key, line)  # it was settled meanwhile
            return
        line.served = call_id
        if joined is None:
            joiner.serve()
        else:
            self._feed(joiner.turn_id, joined)

    async def _later(self, key: Key, line: _Line) -> None:
        await self._errands.pause()
        line.looking = False
        self._next(key, line)

    async def _find(self, key: Key, call_id: str, turn_id: str) -> tuple[CallSettled | None, bool]:
        """Find the result that a call takes over; None: there is none. True: that is not decided yet.

        Results from outside wait in the turn's inbox first, already acknowledged. The inbox is read before the calls,
        so that one which is taken out of it meanwhile is seen.
        """
        store = self._runtime.store
        given = [self._runtime.codec.read_input(row.data) for row in await store.inbox.rows(turn_id)]
        earlier = await store.calls.succeeded(*key)
        if earlier is not None:
            log.info("a call takes the result of an earlier one", call_id=call_id, joined_call_id=earlier.call_id)
            return await self._joined(call_id, earlier), False
        for result in given:
            row = await store.calls.get(result.call_id) if isinstance(result, CallSettled) else None
            if row is not None and (row.session_id, row.idempotency_key) == key:
                return None, True
        return None, False

    async def _joined(self, call_id: str, earlier: CallRow) -> CallSettled:
        return CallSettled(
            call_id=call_id,
            settlement=Settlement.OUTPUT,
            output=await self._output(earlier),
            joined_call_id=earlier.call_id,
        )

    async def _output(self, call: CallRow) -> tuple[ContentPart, ...]:
        """Read the output of a call from the event that recorded it. Raises LookupError: the store has lost it."""
        store, codec = self._runtime.store, self._runtime.codec
        for item in await store.items.by_ids(call.session_id, (call.output_item_id,)):
            for row in await store.events.after(call.session_id, item.sequence - 1, 1):
                contents = {
                    digest: await store.documents.content(call.session_id, digest) or b""
                    for digest in codec.omitted(row.data)
                }
                body = codec.read_event(row.data, {item.item_id: item.json}, contents).body
                if isinstance(body, ItemAdded) and isinstance(body.item.body, FunctionCallOutput):
                    return body.item.body.output
        raise LookupError(f"the output {call.output_item_id!r} of the call {call.call_id!r} is not in the log")
