"""When to try again, and how long to wait before it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc

from baton.reasons import details_of

FIRST_DELAY_S = (0.05, 0.2)
"""Bounds of the first wait: a server that is restarted is back before anyone notices."""

BASE_DELAY_S, MAX_DELAY_S = 0.5, 30.0
"""The second wait is up to the one; it doubles with each further one, up to the other."""

TRANSIENT_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Codes of a broken connection, where they come without a reason of Baton's. The same request is sent again."""

TERMINAL_STREAM_CODES = frozenset(
    {
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""Codes that end a worker's attaching for good: trying again would end the same. After all others it goes on."""


CONNECT_S = 10.0
"""How long the very first contact may take. Once a server has answered, it is waited for for ever."""

BROKEN_OFF = ("stream removed", "socket closed", "reset by peer", "goaway")
"""Words of gRPC's for a call whose connection ended; for one that never had any it says "failed to connect" first."""

REFUSED_S = 1.0
"""The same where the connection is refused: the machine is there, and nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What tells time and chance, where a test brings its own; and how patient a connection is, in seconds.

    `connect_s`, `refused_s`: as CONNECT_S and REFUSED_S, of which the shorter holds where it is refused. `max_delay_s`:
    as MAX_DELAY_S, the longest wait between two tries.
    """

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform
    connect_s: float = CONNECT_S
    refused_s: float = REFUSED_S
    max_delay_s: float = MAX_DELAY_S

    def first_contact_s(self, why: str) -> float:
        """Say how long the very first contact may take. `why` it failed last, in gRPC's words; empty: it did not."""
        return min(self.refused_s, self.connect_s) if "refused" in why.lower() else self.connect_s


class Backoff:
    """Counts attempts and says how long to wait before the next one, with full jitter."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.failures = 0

    def reset(self) -> None:
        """Begin again at the short first wait: it has worked."""
        self.failures = 0

    def next_delay(self, most: float | None = None) -> float:
        """Count one more failure; return the wait after it in seconds. `most`: no longer one; None: as timing says."""
        self.failures += 1
        if self.failures == 1:
            return self._timing.uniform(*FIRST_DELAY_S)
        doubled = min(self.failures - 2, 16)  # 0.5 s doubled so often is far above the most
        longest = self._timing.max_delay_s if most is None else min(self._timing.max_delay_s, most)
        return self._timing.uniform(0.0, min(longest, BASE_DELAY_S * 2**doubled))

    async def wait(self, at_most: float | None = None) -> None:
        """Count one more failure and wait after it. `at_most`: in seconds; None: as long as it is."""
        delay = self.next_delay()
        await self._timing.sleep(delay if at_most is None else min(delay, at_most))


def is_break(failed: grpc.aio.AioRpcError) -> bool:
    """Tell whether the connection failed, or the server is away, rather than the request."""
    info, _violations, _retry = details_of(failed)
    if info is not None:
        return info.reason == "UNAVAILABLE"
    return failed.code() in TRANSIENT_CODES


def broke_off(failed: grpc.aio.AioRpcError) -> bool:
    """Tell whether a call had a connection, which ended: somebody had listened."""
    words = (failed.details() or "").lower()
    return not words.startswith("failed to connect") and any(one in words for one in BROKEN_OFF)
