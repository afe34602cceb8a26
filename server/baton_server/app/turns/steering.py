"""Bounds of steering: messages that wait to join a turn are held on disk and in memory until a model request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from baton_server.app.runtime import Runtime
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.ports.store import InboxRow

MAX_WAITING = 256
MAX_WAITING_BYTES = 2 * 16 * 1024 * 1024
"""What may wait for one turn (PROTOCOL.md §5): batches of messages, and 16 MiB of them, each of whose texts stands in
the inbox twice. One batch that waits alone may be as large as any."""


class Steering:
    """Keeps to the bounds, however many steer at once."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._coming: dict[str, list[int]] = {}

    @asynccontextmanager
    async def room_for(self, row: InboxRow | None) -> AsyncIterator[None]:
        """Hold room for messages while they are committed; None: there are none. Raises Refused(SESSION_BUSY)."""
        if row is None:
            yield
            return
        coming = self._coming.setdefault(row.turn_id, [])
        coming.append(len(row.data))
        # Counted before the look at the store: who is written meanwhile may count twice, and nobody is missed.
        count, size = len(coming), sum(coming)
        try:
            waiting = await self._runtime.store.inbox.waiting(row.turn_id)
            rows, size = waiting.rows + count, waiting.bytes + size
            if rows > MAX_WAITING or (rows > 1 and size > MAX_WAITING_BYTES):
                raise crowded(row.turn_id)
            yield
        finally:
            coming.remove(len(row.data))
            if not coming:
                del self._coming[row.turn_id]


def crowded(turn_id: str) -> Refused:
    """Say that a turn takes no more messages for now."""
    return refuse(
        Reason.SESSION_BUSY,
        f"{MAX_WAITING} batches of messages, or 16 MiB of them, wait to join the turn {turn_id}. Try again once its "
        "next model request has taken them, or say QUEUE.",
        turn_id=turn_id,
    )
