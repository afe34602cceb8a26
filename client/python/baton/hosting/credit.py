"""How many more calls the server may send, and how many bytes of arguments. Pure.

A call uses credit up when it arrives, and its place is owed back when it has ended. What is owed gathers, so that one
frame gives it back for several calls; and it waits while too many results are not acked, so that what a worker keeps
is bounded.
"""

from __future__ import annotations

from baton.v1 import handler_pb2

SHARE = 4
"""Credit goes back when this part of all of it has gathered."""

MOST_HELD = 9_000
"""Attempts that a worker holds at most: those that it gave up come on top, and a Hello names no more than 10,000."""


class Credit:
    """What one worker has granted on its stream, and what it owes. `bytes_` None: they are not limited."""

    def __init__(self, messages: int, bytes_: int | None = None) -> None:
        self._messages, self._bytes = messages, bytes_
        self._share = max(messages // SHARE, 1)
        self._most_held = min(2 * messages, MOST_HELD)
        self._granted = self._granted_bytes = 0
        self._owed = self._owed_bytes = 0

    def opening(self, busy: int, busy_bytes: int, held: int) -> handler_pb2.Credit:
        """Say how much there is on a new stream, on which none has been granted yet.

        `busy`, `busy_bytes`: calls whose places are taken, and their arguments. `held`: those, and results without
        their ack.
        """
        room = self._messages - busy
        self._granted = max(min(room, self._most_held - held), 0)
        if self._bytes is not None:
            room_bytes = self._bytes - busy_bytes
            self._granted_bytes = max(room_bytes, 1)  # none at all would mean: no limit
            self._owed_bytes = room_bytes - self._granted_bytes
            self._granted = self._granted if room_bytes > 0 else 0
        self._owed = room - self._granted
        limited = 0 if self._bytes is None else self._granted_bytes
        return handler_pb2.Credit(messages=self._granted, bytes=limited)

    def use(self, size_bytes: int) -> None:
        """Note that a call has arrived."""
        self._granted -= 1
        self._granted_bytes -= size_bytes

    def free(self, size_bytes: int) -> None:
        """Note that the place of a call is free again."""
        self._owed += 1
        self._owed_bytes += size_bytes

    def due(self, held: int) -> handler_pb2.Credit | None:
        """Take what is to be given back now; None: nothing is yet. `held` as in `opening`."""
        if self._owed <= 0 or self._granted + self._owed + held > self._most_held:
            return None
        if self._bytes is not None and self._granted_bytes + self._owed_bytes <= 0:
            return None
        dry = self._bytes is not None and min(self._granted, self._granted_bytes) <= 0
        if self._owed < self._share and not dry:
            return None
        credit = handler_pb2.Credit(messages=self._owed)
        self._granted, self._owed = self._granted + self._owed, 0
        if self._bytes is not None and self._owed_bytes > 0:
            credit.bytes = self._owed_bytes
            self._granted_bytes, self._owed_bytes = self._granted_bytes + self._owed_bytes, 0
        return credit
