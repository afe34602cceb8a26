"""What becomes of inputs that are put into a session, and how that is kept for a request that comes again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from baton_server.core.errors import Failure, Reason


class IfBusy(StrEnum):
    """What a message does while a turn runs: `baton.v1.IfBusy`."""

    STEER = "STEER"
    QUEUE = "QUEUE"
    REJECT = "REJECT"


class InputStatus(StrEnum):
    """What became of one input: `baton.v1.InputStatus`."""

    STARTED = "STARTED"
    QUEUED = "QUEUED"
    STEERED = "STEERED"
    SETTLED = "SETTLED"
    DISCARDED = "DISCARDED"
    DUPLICATE = "DUPLICATE"
    CANCELLING = "CANCELLING"
    ALREADY_ENDED = "ALREADY_ENDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one input. `failure`: what came before one that was DISCARDED or a DUPLICATE."""

    status: InputStatus
    turn_id: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The answer: `baton.v1.SubmitInputResponse`. `turn_id` empty: the batch made no turn and joined none."""

    turn_id: str
    sequence: int
    outcomes: tuple[Outcome, ...]


def write_submitted(answer: Submitted) -> dict[str, Any]:
    """Write an answer as it is kept."""
    return {
        "turn_id": answer.turn_id,
        "sequence": answer.sequence,
        "outcomes": [
            [outcome.status, outcome.turn_id, None if outcome.failure is None else _written(outcome.failure)]
            for outcome in answer.outcomes
        ],
    }


def read_submitted(answer: Mapping[str, Any]) -> Submitted:
    """Read it back."""
    return Submitted(
        turn_id=answer["turn_id"],
        sequence=answer["sequence"],
        outcomes=tuple(
            Outcome(
                status=InputStatus(status),
                turn_id=turn_id,
                failure=failure and Failure(reason=Reason(failure[0]), message=failure[1], metadata=failure[2]),
            )
            for status, turn_id, failure in answer["outcomes"]
        ),
    )


def _written(failure: Failure) -> list[Any]:
    return [failure.reason, failure.message, dict(failure.metadata)]
