"""Signals, as something that a command is told of and not as an end from anywhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def on_signal(number: signal.Signals, told: Callable[[], object]) -> Iterator[None]:
    """Have a signal call `told`, in the main thread, as long as the block runs.

    A command that runs in another thread gets no signals: there nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, lambda _number, _frame: told())
    try:
        yield
    finally:
        signal.signal(number, before)


def terminated() -> NoReturn:
    """End the command in good order, as shells count SIGTERM: a terminal must not stay as it is in the middle."""
    raise SystemExit(128 + signal.SIGTERM)
