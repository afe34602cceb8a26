"""Signals, as something that a command is told of and not as an end from anywhere.

Python runs a handler of its own only when the main thread runs Python. One that is about to block does not, and does
not hear of a signal that comes just then: so it blocks in `Waking.wait` or in an event loop, which signals wake.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

_WAKE = b"w"
"""What `wake` writes. Signals write their numbers, which are below 65."""


class Waking:
    """Where the main thread waits: for files, for `wake` from any thread, and for signals while `listening`."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have signals end the waiting, so that their handlers run."""
        if not _in_main_thread():
            yield
            return
        before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)

    def wake(self) -> None:
        """End the waiting, now or when it begins."""
        with suppress(BlockingIOError):  # it is full of wakes that nobody took yet
            os.write(self._writes, _WAKE)

    def wait(self, *files: int) -> bool:
        """Wait until a file can be read: True, or `wake` is called, maybe before. Handlers of signals run meanwhile."""
        while True:
            ready, _, _ = select.select([self._reads, *files], [], [])
            if ready != [self._reads]:
                return True
            if self.forget():
                return False

    def forget(self) -> bool:
        """Let no wake from before count; say whether there was one."""
        taken = b""
        with suppress(BlockingIOError):
            while more := os.read(self._reads, 1024):
                taken += more
        return _WAKE in taken

    def close(self) -> None:
        """Give the pipe back. Nobody may wake it any more."""
        os.close(self._reads)
        os.close(self._writes)


@contextmanager
def on_signal(number: signal.Signals, told: Callable[[], object]) -> Iterator[None]:
    """Have a signal call `told` in the main thread, between any two steps of it, as long as the block runs.

    A command that runs in another thread gets no signals: there nothing happens.
    """
    if not _in_main_thread():
        yield
        return
    before = signal.signal(number, lambda _number, _frame: told())
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def on_signal_in_loop(number: signal.Signals, told: Callable[[], object]) -> Iterator[None]:
    """Have a signal call `told` in the running event loop, if that is the main thread's; else as `on_signal`."""
    if not _in_main_thread():
        yield
        return
    before = signal.getsignal(number)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
        signal.signal(number, before)


def terminated() -> NoReturn:
    """End the command in good order, as shells count SIGTERM: a terminal must not stay as it is in the middle."""
    raise SystemExit(128 + signal.SIGTERM)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
