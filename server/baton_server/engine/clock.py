"""The clock and the ids of a real process."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: sorts as its values do, and nothing looks like something else."""


class SystemClock:
    """Time as the operating system tells it."""

    def monotonic(self) -> float:
        """Seconds from an unspecified start, never going back."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait at least so long."""
        if seconds > 0:
            await asyncio.sleep(seconds)


class TimeIds:
    """Ids of 48 bits of milliseconds and 77 bits of chance, growing within one process even in one millisecond."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """Make one, for example `turn_01k…`."""
        number = int(time.time() * 1000) << 77 | secrets.randbits(77)
        with self._lock:
            number = self._last = max(number, self._last + 1)
        return f"{prefix}_{_encode(number)}"


def _encode(number: int) -> str:
    digits = []
    for _ in range(25):
        digits.append(_ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))
