"""Watching: a session's log from any point, gap-free, then live with fragments.

Facts come from the log or, when the sequence is the very next, from the bus; a watcher that was too slow is
caught up from the log. Fragments come from the bus alone, behind a reset for who came in the middle.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import Enum

from baton_server.app.runtime import Runtime
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.rest import Rest
from baton_server.core.errors import Reason, refuse
from baton_server.ports.bus import Part, Subscription
from baton_server.ports.store import EventRow

PAGE = 500
"""Events read from the log at once."""


class Follow(Enum):
    """Until when a watch goes on: `baton.v1.Follow`."""

    REST = "REST"
    FOREVER = "FOREVER"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is watched. `turn_id` empty: the whole session; else its events alone, and its rest.

    `root_only`: nested runs are left out. `at_hand`: the first events, of the commit that accepted the turn, so that
    nothing is read to begin with; empty: all is read.
    """

    session_id: str
    after_sequence: int = 0
    follow: Follow = Follow.REST
    deltas: bool = True
    turn_id: str = ""
    root_only: bool = False
    at_hand: Sequence[EventRow] = ()


class Watcher:
    """Serves watches."""

    def __init__(self, runtime: Runtime, driver: Driver, rest: Rest) -> None:
        self._runtime, self._driver, self._rest = runtime, driver, rest

    async def parts(
        self, watch: Watch, until: asyncio.Event | None = None, then: Follow = Follow.REST
    ) -> AsyncGenerator[Sequence[bytes]]:
        """Stream lists of encoded parts; the last one is a heartbeat with the point to resume from.

        `until`: once it is set, `then` takes the place of `watch.follow`. Raises Refused(SESSION_NOT_FOUND,
        TURN_NOT_FOUND, SEQUENCE_AHEAD), the first also when the session is deleted.
        """
        subscription = self._runtime.bus.subscribe(watch.session_id)
        turning = None if until is None else asyncio.ensure_future(_nudge(until, subscription))
        try:
            view = _View(self._runtime, self._driver, watch, subscription)
            view.until, view.then = until, then
            last_sequence = None if watch.at_hand else await view.check()
            if watch.at_hand:
                yield view.begin()
            if view.behind:
                async for parts in view.catch_up(last_sequence):  # what comes after it, the bus brings
                    yield parts
            if watch.follow is not Follow.NONE:
                async for parts in self._live(view):
                    yield parts
            yield (view.heartbeat(),)
        finally:
            if turning is not None:
                turning.cancel()
            subscription.close()

    async def _live(self, view: _View) -> AsyncGenerator[Sequence[bytes]]:
        clock, beat = self._runtime.clock, self._runtime.limits.watch_heartbeat_s
        beat_at = clock.monotonic() + beat
        resets = view.resets()
        if resets:
            yield resets
        while True:
            if view.behind:
                async for parts in view.catch_up():
                    yield parts
            if view.ended and view.follow is Follow.REST:
                return
            left = await self._left(view) if view.edge or view.timed else math.inf
            if left is None:
                raise gone(view.watch.session_id)
            view.edge, view.timed = False, 0.0 < left < math.inf
            if left == 0.0:
                made = view.news()  # what was held back of the last text comes by the bus alone
                if made:
                    yield made
                async for parts in view.regain() if view.behind else view.catch_up():
                    yield parts
                return
            woken = await view.subscription.wait(max(0.0, min(left, beat_at - clock.monotonic())))
            if view.subscription.closed:
                raise gone(view.watch.session_id)
            made = view.news()
            if made:
                beat_at = clock.monotonic() + beat
                yield made
            if view.behind:
                async for parts in view.regain():
                    beat_at = clock.monotonic() + beat
                    yield parts
            if not woken and clock.monotonic() >= beat_at:
                beat_at = clock.monotonic() + beat
                yield (view.heartbeat(),)
            elif not woken:
                view.edge = True

    async def _left(self, view: _View) -> float | None:
        watch = view.watch
        if view.follow is not Follow.REST:
            return math.inf if view.follow is Follow.FOREVER else 0.0
        if watch.turn_id:
            return await self._rest.turn_left(watch.session_id, watch.turn_id)
        return await self._rest.session_left(watch.session_id)


class _View:
    """How far one watcher has come.

    `edge`: it may rest; `timed`: it rests by itself unless something changes; `behind`: the log has more;
    `ended`: the turn that is watched has ended, and all of it was taken.
    """

    def __init__(self, runtime: Runtime, driver: Driver, watch: Watch, subscription: Subscription) -> None:
        self._runtime, self._driver, self.watch, self.subscription = runtime, driver, watch, subscription
        self._seen = watch.after_sequence
        self.edge, self.timed, self.behind, self.ended = True, False, True, False
        self.until: asyncio.Event | None = None
        self.then = Follow.REST

    @property
    def follow(self) -> Follow:
        """Say until when the watch goes on, as things stand."""
        turned = self.until is not None and self.until.is_set()
        return self.then if turned else self.watch.follow

    async def check(self) -> int:
        """Refuse what cannot be watched; returns the session's last sequence."""
        session = await self._runtime.store.sessions.get(self.watch.session_id)
        if session is None:
            raise gone(self.watch.session_id)
        if self.watch.after_sequence > session.last_sequence:
            raise refuse(
                Reason.SEQUENCE_AHEAD,
                f"after_sequence {self.watch.after_sequence} is above the session's last sequence "
                f"{session.last_sequence}. Resume with a sequence that a watch of this session gave.",
                after_sequence=str(self.watch.after_sequence),
                last_sequence=str(session.last_sequence),
            )
        await self._check_turn()
        return session.last_sequence

    async def _check_turn(self) -> None:
        turn_id = self.watch.turn_id
        if not turn_id:
            return
        turn = self._driver.peek(turn_id) or await self._runtime.store.turns.get(turn_id)
        if turn is None or turn.session_id != self.watch.session_id:
            raise turn_not_found(turn_id)

    def begin(self) -> list[bytes]:
        """Take what is at hand; what its driver has committed since then is behind it in the log."""
        rows = self.watch.at_hand
        driven = self._driver.peek(self.watch.turn_id)
        self._seen = rows[-1].sequence
        self.behind = driven is None or driven.last_sequence != self._seen
        return self._parts_of(rows)

    async def catch_up(self, to: int | None = None) -> AsyncGenerator[Sequence[bytes]]:
        """Read the log from where the watcher is up to a sequence; None: to its end."""
        self.behind = False
        while to is None or self._seen < to:
            rows = await self._runtime.store.events.after(self.watch.session_id, self._seen, PAGE)
            if not rows:
                return
            self._seen = rows[-1].sequence
            parts = self._parts_of(rows)
            if parts:
                yield parts

    def news(self) -> list[bytes]:
        """Take what the bus brought; `behind` tells whether there is a gap."""
        return self._take(fragments=self.watch.deltas)

    async def regain(self) -> AsyncGenerator[Sequence[bytes]]:
        """Go on after a gap, which the log closes; fragments begin anew."""
        self.edge = True
        async for parts in self.catch_up():
            yield parts
        resets = self.resets()
        if resets:
            yield resets

    def resets(self) -> list[bytes]:
        """Make the resets that a newcomer needs. Fragments that the bus brought before are in them."""
        if not self.watch.deltas:
            return []
        parts = self._driver.resets(self.watch.session_id, self.watch.turn_id)
        return [*self._take(fragments=False), *self._shown([part.data for part in parts])]

    def _take(self, *, fragments: bool) -> list[bytes]:
        """Take what the bus brought: facts as long as each is the very next, and fragments if asked for."""
        self.behind = self.behind or self.subscription.lost
        self.edge = self.edge or self.subscription.nudged
        made: list[bytes] = []
        for part in self.subscription.take():
            if part.sequence == 0:
                if fragments and not self.behind and self._wanted(part):
                    made.append(part.data)
            elif part.sequence == self._seen + 1 and not self.behind:
                self._seen += 1
                self.edge = self.edge or part.edge
                self.ended = self.ended or (part.ends and part.turn_id == self.watch.turn_id)
                if self._wanted(part):
                    made.append(part.data)
            elif part.sequence > self._seen:
                self.behind = True
            else:  # the log told of it first, when who drives the turn did not know of its commit yet: look again
                self.edge = self.edge or part.edge
        return made

    def heartbeat(self) -> bytes:
        """Say where the watcher stands."""
        return self._runtime.parts.heartbeat_part(self._seen, self._runtime.clock.wall())

    def _parts_of(self, rows: Sequence[EventRow]) -> list[bytes]:
        mine = [row for row in rows if self.watch.turn_id in ("", row.turn_id)]
        return self._shown([self._runtime.parts.event_part(row.data) for row in mine])

    def _wanted(self, part: Part) -> bool:
        return self.watch.turn_id in ("", part.turn_id) and bool(self._shown([part.data]))

    def _shown(self, parts: list[bytes]) -> list[bytes]:
        """Leave out parts of nested runs, where the watcher does not want them."""
        return [part for part in parts if not self._runtime.parts.nested(part)] if self.watch.root_only else parts


async def _nudge(until: asyncio.Event, subscription: Subscription) -> None:
    await until.wait()
    subscription.nudge()


def turn_not_found(turn_id: str) -> Exception:
    """Say that the session has no such turn."""
    return refuse(Reason.TURN_NOT_FOUND, f"The session has no turn {turn_id!r}.", turn_id=turn_id)


def gone(session_id: str) -> Exception:
    """Say that there is no such session, or that it was deleted."""
    return refuse(
        Reason.SESSION_NOT_FOUND,
        f"There is no session {session_id!r}; it was deleted, has expired, or never was.",
        session_id=session_id,
    )
