"""The bus of one process: a bounded queue for each watcher."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from baton_server.ports.bus import Part

MAX_PARTS = 256
"""Parts that a watcher may leave untaken (PROTOCOL.md §4, a slow watcher)."""

MAX_BYTES = 1024 * 1024
"""Bytes that a watcher may leave untaken; one part alone may exceed it."""


class LocalSubscription:
    """One watcher's queue. Beyond its bounds it is emptied: the watcher is caught up from the log."""

    def __init__(self, bus: LocalBus, session_id: str) -> None:
        self._bus, self._session_id = bus, session_id
        self._parts: deque[Part] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self.lost = False
        self.nudged = False
        self.closed = False

    def put(self, parts: Sequence[Part]) -> None:
        """Queue parts, or drop everything where they do not fit. None at all: have the watcher look again."""
        self._parts.extend(parts)
        self._bytes += sum(len(part.data) for part in parts)
        if len(self._parts) > MAX_PARTS or (self._bytes > MAX_BYTES and len(self._parts) > 1):
            self._parts.clear()
            self._bytes = 0
            self.lost = True
        self.nudged = self.nudged or self.lost or not parts
        self._wake.set()

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait for anything to happen; False: the timeout passed first."""
        if self._wake.is_set():
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> Sequence[Part]:
        """Take all that is there, in order, and clear `lost` and `nudged`."""
        taken = tuple(self._parts)
        self._parts.clear()
        self._bytes = 0
        self.lost = self.nudged = False
        if not self.closed:  # that the session is gone stays to be seen
            self._wake.clear()
        return taken

    def nudge(self) -> None:
        """Wake the one who waits."""
        self.nudged = True
        self._wake.set()

    def end(self) -> None:
        """Say that the session is gone."""
        self.closed = True
        self._wake.set()

    def close(self) -> None:
        """Stop listening."""
        self._bus.drop(self._session_id, self)


class LocalBus:
    """Hands parts to watchers in the same event loop."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[LocalSubscription]] = {}

    def publish(self, session_id: str, parts: Sequence[Part]) -> None:
        """Give parts to every watcher of the session."""
        for watcher in self._watchers.get(session_id, ()):
            watcher.put(parts)

    def heard(self, session_id: str) -> bool:
        """Tell whether anybody listens to the session."""
        return session_id in self._watchers

    def subscribe(self, session_id: str) -> LocalSubscription:
        """Listen from now on."""
        watcher = LocalSubscription(self, session_id)
        self._watchers.setdefault(session_id, set()).add(watcher)
        return watcher

    def nudge(self) -> None:
        """Wake all who wait."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.nudge()

    def close_session(self, session_id: str) -> None:
        """Tell the watchers of a session that it was deleted."""
        for watcher in self._watchers.get(session_id, ()):
            watcher.end()

    def drop(self, session_id: str, watcher: LocalSubscription) -> None:
        """Forget a watcher that has stopped listening."""
        watchers = self._watchers.get(session_id)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[session_id]
