"""What the dispatcher says to a worker, in plain values; the api writes it as frames of `ConnectResponse`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from baton_server.core.errors import Failure
from baton_server.ports.store import CallRow


class CancelReason(StrEnum):
    """Why a worker is to stop: `baton.v1.CancelReason`."""

    TURN_ENDED = "TURN_ENDED"
    SETTLED_ELSEWHERE = "SETTLED_ELSEWHERE"
    LEASE_LOST = "LEASE_LOST"


class ResultVerdict(StrEnum):
    """What became of a result: `baton.v1.ResultVerdict`."""

    DURABLE = "DURABLE"
    DISCARDED = "DISCARDED"
    REFUSED = "REFUSED"


class HeldVerdict(StrEnum):
    """What to do about a held attempt: `baton.v1.HeldVerdict`."""

    CONTINUE = "CONTINUE"
    ABANDON = "ABANDON"
    ALREADY_SETTLED = "ALREADY_SETTLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """A function to execute; `scope` is where the handler was found."""

    call: CallRow
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Stop a call. `grace_s` 0: the result is of no use any more."""

    call_id: str
    attempt: int
    reason: CancelReason
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """What became of a result."""

    call_id: str
    attempt: int
    verdict: ResultVerdict
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """The server drains; attach elsewhere, or again later."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The stream ends: with a status, since nothing can go on, or (None) with OK behind all that is queued."""

    failure: Failure | None


Frame = Deliver | Stop | Ack | Leave | End


class Link(Protocol):
    """The way to one worker. Never waits; what it holds back is bounded by the worker's credit and frames."""

    def send(self, frame: Frame) -> None:
        """Queue a frame; on a stream that has broken it is lost, and the dispatcher's clocks notice."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An attempt that a worker says it holds: `baton.v1.HeldAttempt`."""

    call_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What a worker serves under one name. `parameters_json` empty: it does not say."""

    name: str
    description: str = ""
    parameters_json: str = ""

    @property
    def size(self) -> int:
        """Count its bytes, in UTF-8."""
        return sum(len(text.encode()) for text in (self.name, self.description, self.parameters_json))
