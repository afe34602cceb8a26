"""The bus: "look again", and fragments. Never facts: losing a message costs time, not truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part for watchers of a session: an event at rest, or a fragment.

    `sequence` 0: a fragment or a reset. `edge`: after this event the session or the turn may rest. `ends`: it is
    the last event of its turn. `data`: bytes of a `baton.v1.StreamPart`, encoded once for all.
    """

    sequence: int
    turn_id: str
    data: bytes
    edge: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a fragment stands: `baton.v1.Delta` without its text. `offset` in UTF-8 bytes of its part.

    `run_path`: the calls that enclose it, outermost first; empty: the turn's own run.
    """

    turn_id: str
    round: int
    model_attempt: int
    item_id: str
    output_index: int
    part_index: int
    offset: int
    run_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a handler reports: `baton.v1.CallProgress`. Exactly one of the three texts is set; `number` from 1."""

    call_id: str
    attempt: int
    number: int
    text: str | None = None
    progress_json: str | None = None
    output_so_far: str | None = None


class Parts(Protocol):
    """Encodes stream parts. Implemented by the wire package; handed in, since app knows no protobuf."""

    def event_part(self, stored_event: bytes) -> bytes:
        """Wrap an event at rest, without parsing it."""
        ...

    def delta_part(self, place: Place, text: str) -> bytes:
        """Make a fragment of text."""
        ...

    def progress_part(
        self, turn_id: str, round_number: int, progress: Progress, run_path: tuple[str, ...] = ()
    ) -> bytes:
        """Make a fragment of what a handler reports. `round_number`: in which its call was made, 0: not known."""
        ...

    def reset_part(self, at: Place, texts: Sequence[tuple[Place, str]], reason: str) -> bytes:
        """Make a reset: the texts so far of one round, by place. `reason`: ATTACHED or LOST.

        `at` names turn, run, round and attempt; its other fields are ignored.
        """
        ...

    def heartbeat_part(self, last_sequence: int, now: float) -> bytes:
        """Make a heartbeat; `now` is seconds since the epoch."""
        ...

    def nested(self, part: bytes) -> bool:
        """Tell whether a part is of a nested run: an event, a fragment or a reset with a run_path."""
        ...


class Subscription(Protocol):
    """What one watcher has not taken yet. Bounded: what does not fit is dropped and `lost` turns true."""

    @property
    def lost(self) -> bool:
        """Tell whether parts were dropped since the last `take`; the log has the facts among them."""
        ...

    @property
    def nudged(self) -> bool:
        """Tell whether there is more reason to look again than what `take` gives: a nudge, or lost parts."""
        ...

    @property
    def closed(self) -> bool:
        """Tell whether the session was deleted."""
        ...

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until there is something to take, parts were lost, or the session was closed.

        False: the timeout passed first. None: no timeout.
        """
        ...

    def take(self) -> Sequence[Part]:
        """Take all that is there, in order, and clear `lost` and `nudged`. Does not wait."""
        ...

    def nudge(self) -> None:
        """Wake the one who waits, though there is nothing to take."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class Bus(Protocol):
    """Carries parts to the watchers of a session, and wakes those who wait for a change of it."""

    def publish(self, session_id: str, parts: Sequence[Part]) -> None:
        """Give parts to every watcher; no parts nudge it. Never waits."""
        ...

    def heard(self, session_id: str) -> bool:
        """Tell whether anybody listens to the session: fragments for nobody need not be made."""
        ...

    def subscribe(self, session_id: str) -> Subscription:
        """Listen from now on."""
        ...

    def nudge(self) -> None:
        """Wake all who wait: who serves which function has changed."""
        ...

    def close_session(self, session_id: str) -> None:
        """Tell the watchers of a session that it was deleted."""
        ...
