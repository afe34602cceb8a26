"""Signals that ask a process to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@asynccontextmanager
async def stop_asked(handle_signals: bool) -> AsyncIterator[asyncio.Event]:
    """Give an event that the first signal sets; without `handle_signals` none does. Of the main thread alone.

    From then on signals are the operating system's, which ends the process: whatever keeps it, a second one is enough.
    So the handlers are Python's own, not the event loop's, which a function may block.
    """
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    numbers = _SIGNALS if handle_signals else ()

    def obey(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        with suppress(RuntimeError):  # the loop has ended: so has what was to be stopped
            loop.call_soon_threadsafe(asked.set)

    former = {number: signal.signal(number, obey) for number in numbers}
    try:
        yield asked
    finally:
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)
