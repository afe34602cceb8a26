"""The bus: "look again", and fragments. Never facts: losing a message costs time, not truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part for watchers of a session: an event at rest, or a fragment.

    `sequence` 0: a fragment or a reset. `data`: bytes of a `baton.v1.StreamPart`, encoded once for all.
    """

    sequence: int
    turn_id: str
    data: bytes


class Subscription(Protocol):
    """What one watcher has not taken yet. Bounded: what does not fit is dropped and `lost` turns true."""

    lost: bool
    """Parts were dropped since the last `take`; the log has the facts among them."""

    async def wait(self) -> None:
        """Wait until there is something to take, or parts were lost, or the session was closed."""
        ...

    def take(self) -> Sequence[Part]:
        """Take all that is there, in order, and reset `lost`. Does not wait."""
        ...

    @property
    def closed(self) -> bool:
        """Tell whether the session was deleted."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Bus(Protocol):
    """Carries parts to the watchers of a session, and wakes those who wait for a change of it."""

    def publish(self, session_id: str, parts: Sequence[Part]) -> None:
        """Give parts to every watcher. Never waits."""
        ...

    def subscribe(self, session_id: str) -> Subscription:
        """Listen from now on."""
        ...

    def close_session(self, session_id: str) -> None:
        """Tell the watchers of a session that it was deleted."""
        ...
