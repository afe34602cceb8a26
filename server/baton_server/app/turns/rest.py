"""Rest: when a turn, or a session, waits for nobody but the outside, so that Run and Watch may end.

A turn rests when it is over, or WAITING with only calls left that no worker holds and whose names nobody serves,
for `unserved_grace`, or that wait for people: for a decision, or since nobody knows their effect. So does one that is
QUEUED behind a turn that waits for people alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from baton_server.app.calls.registry import Registry
from baton_server.app.runtime import Runtime
from baton_server.app.turns.drive import Driver
from baton_server.app.turns.turn import Glimpse
from baton_server.core.events import TERMINAL, TurnStatus
from baton_server.core.run_config import DEFAULT_UNSERVED_GRACE_S
from baton_server.ports.store import CallState

FOR_PEOPLE = frozenset({CallState.EFFECT_UNKNOWN, CallState.AWAITING_DECISION, CallState.HELD})
"""States of calls that wait for somebody outside, or behind such calls."""


class Rest:
    """Tells how long something may still go on."""

    def __init__(self, runtime: Runtime, registry: Registry, driver: Driver) -> None:
        self._runtime, self._registry, self._driver = runtime, registry, driver
        self._began, self._began_at = runtime.clock.monotonic(), runtime.clock.wall()

    async def turn_left(self, session_id: str, turn_id: str) -> float | None:
        """Say in how many seconds a turn rests if nothing changes: 0: it does, inf: it works, None: it is gone."""
        seen = self._driver.peek(turn_id) or await self._read(turn_id)
        if seen is None or seen.session_id != session_id:
            return None
        if seen.status in TERMINAL:
            return 0.0
        if seen.status is TurnStatus.QUEUED:
            return 0.0 if await self._stands_behind_people(session_id, turn_id) else math.inf
        return self._unserved_left(seen.open_names, seen) if self._only_waits(turn_id, seen) else math.inf

    def _only_waits(self, turn_id: str, seen: Glimpse) -> bool:
        """Tell whether nothing goes on in a turn but waiting."""
        held = self._driver.dispatcher.leases.any_of(turn_id)
        return seen.status is TurnStatus.WAITING and not held and not self._driver.working(turn_id)

    async def _stands_behind_people(self, session_id: str, turn_id: str) -> bool:
        """Tell whether a queued turn cannot begin before somebody has decided something in the turn that runs."""
        session = await self._runtime.store.sessions.get(session_id)
        active = "" if session is None else session.active_turn_id
        if active in ("", turn_id):
            return False
        ahead = self._driver.peek(active) or await self._read(active)
        return ahead is not None and self._only_waits(active, ahead) and not ahead.open_names

    async def session_left(self, session_id: str) -> float | None:
        """Say in how many seconds a session rests if nothing changes. As `turn_left`."""
        active = None
        while True:
            session = await self._runtime.store.sessions.get(session_id)
            if session is None:
                return None
            if session.active_turn_id in ("", active):
                return 0.0
            active = session.active_turn_id
            left = await self.turn_left(session_id, active)
            if left != 0.0:
                return left
            # The turn rests. Unless another one has become active meanwhile, so does the session.

    async def _read(self, turn_id: str) -> Glimpse | None:
        row = await self._runtime.store.turns.get(turn_id)
        if row is None:
            return None
        names: tuple[tuple[str, str], ...] = ()
        if row.status is TurnStatus.WAITING:
            calls = await self._runtime.store.calls.open_in(row.session_id)
            mine = (call for call in calls if call.turn_id == turn_id)
            names = tuple((call.name, call.version) for call in mine if call.state not in FOR_PEOPLE)
        config = await self._runtime.config(row.config_digest)
        return Glimpse(
            session_id=row.session_id,
            status=row.status,
            open_names=names,
            config=config,
            since=self._began,
            created_at=row.created_at,
        )

    def _unserved_left(self, names: Sequence[tuple[str, str]], seen: Glimpse) -> float:
        if not names:  # what is open waits for people, and for nobody here
            return 0.0
        since = [self._registry.unserved_since(name, seen.config.lookup, version) for name, version in names]
        if any(moment is None for moment in since):
            return math.inf
        said = seen.config.unserved_grace_s
        grace = DEFAULT_UNSERVED_GRACE_S if said is None else said
        latest = max(seen.since, *(moment for moment in since if moment is not None))
        if 0 < seen.created_at < self._began_at:  # of a former process, whose workers have their grace to come back
            latest = max(latest, self._began + self._runtime.limits.registration_grace_s)
        return max(0.0, latest + grace - self._runtime.clock.monotonic())
