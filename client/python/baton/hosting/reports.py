"""What one attempt reports while it runs: sent at once, or joined with what follows soon."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from baton.v1 import event_pb2, handler_pb2

REPORT_EVERY_S = 0.05
"""One report per call in so long: the server sends on no more."""


class Reports:
    """Sends the reports of one attempt; the newest wins. `every_s` 0: each is sent.

    `ready`: whether the stream takes some now; else the newest waits, for the end of the attempt at the latest.
    `report` may be called from any thread; the others on the event loop.
    """

    def __init__(
        self,
        call: handler_pb2.Call,
        send: Callable[[handler_pb2.ConnectRequest], None],
        ready: Callable[[], bool],
        every_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._call = call
        self._send = send
        self._ready = ready
        self._every_s = every_s
        self._loop = loop
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: list[event_pb2.CallProgress] = []
        self._awake = self._ended = False
        self._timer: asyncio.TimerHandle | None = None

    def report(self, progress: event_pb2.CallProgress) -> None:
        """Take a report. After the end of the attempt it goes nowhere."""
        with self._lock:
            if self._ended:
                return
            self._number += 1
            progress.call_id, progress.attempt, progress.number = self._call.call_id, self._call.attempt, self._number
            if self._every_s:
                self._waiting.clear()
            self._waiting.append(progress)
            asleep, self._awake = not self._awake, True
        if asleep:
            with suppress(RuntimeError):  # the loop has ended before a function in a thread
                self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Send what waits, and take no more."""
        with self._lock:
            self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._flush()

    def _wake(self) -> None:
        """Send what waits; look again a while later, or sleep."""
        self._timer = None
        if not self._ready() or self._flush():
            self._timer = self._loop.call_later(self._every_s, self._wake)

    def _flush(self) -> bool:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._awake = False
        for progress in waiting:
            self._send(handler_pb2.ConnectRequest(progress=progress))
        return bool(waiting)
