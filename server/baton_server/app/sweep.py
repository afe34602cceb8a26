"""Sweeping: sessions whose life is over, and answers of requests that nobody repeats any more."""

from __future__ import annotations

import structlog

from baton_server.app.runtime import Runtime
from baton_server.app.sessions import Sessions
from baton_server.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

INTERVAL_S = 30.0
"""Between two looks. What has expired is removed at most so much later."""

AT_ONCE = 200
"""Rows removed in one commit, so that none holds the writer for long."""


class Sweeper:
    """Removes what has expired."""

    def __init__(self, runtime: Runtime, sessions: Sessions) -> None:
        self._runtime, self._sessions = runtime, sessions

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._runtime.clock.sleep(INTERVAL_S)
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("the store is away; nothing was swept", error=str(error))

    async def sweep(self) -> None:
        """Remove what has expired by now."""
        while await self._sessions.expire(AT_ONCE) == AT_ONCE:
            pass
        before = self._runtime.clock.wall() - self._runtime.limits.request_life_s
        while await self._runtime.store.forget(before, AT_ONCE) == AT_ONCE:
            pass
