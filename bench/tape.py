"""A tape: the bytes that one real run moved, by the moment at which they moved.

    accept ── commit, messages
    round 1 ── request to the model, fragments meanwhile, commit of the reply, messages,
               its calls to workers, commit of each result with its ack, messages
    …
    last round ── the same without calls, and the result

Ids of the recorded turn stand in all of it; `Tape.for_turn` makes those of another turn, so that replays may
run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from baton.v1 import runner_pb2

TURN_ID_LENGTH = 25
"""Characters of a turn's id behind its prefix; its calls' ids hold them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a worker. `frame`: what the worker is sent; `settling`: the commit of its result; `ack`: after it."""

    call_id: bytes
    frame: bytes
    settling: bytes
    ack: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round. `during`: messages to the caller while the model writes; others by the commit they come after."""

    request: bytes
    during: tuple[bytes, ...]
    reply: bytes
    after_reply: tuple[bytes, ...]
    calls: tuple[Call, ...]
    after_calls: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A run. `model`: the name by which its request is known; `turn_id`: the part of the id that is replaced."""

    model: bytes
    turn_id: bytes
    accept: bytes
    after_accept: tuple[bytes, ...]
    rounds: tuple[Round, ...]

    def for_turn(self, number: int) -> Callable[[bytes], bytes]:
        """Make what puts the ids of another turn into recorded bytes, of the same length."""
        mine, its = self.turn_id, b"%0*d" % (TURN_ID_LENGTH, number)
        return lambda data: data.replace(mine, its)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a recorded run moved, each in its order, before it is sorted by moments.

    `requests`: to the model. `messages`: to the caller. `frames`: to the worker, Call and ResultAck in turn.
    `commits`: the bytes of each. `reads`: how often the store was read, by what was read.
    """

    model: str
    requests: tuple[bytes, ...]
    messages: tuple[bytes, ...]
    calls: tuple[tuple[bytes, bytes], ...]
    acks: tuple[bytes, ...]
    commits: tuple[bytes, ...]
    reads: dict[str, int]


def tape(recorded: Recorded) -> Tape:
    """Sort a recorded run by moments. Raises ValueError where it is not shaped as a run with its calls in order."""
    rounds, calls = len(recorded.requests), recorded.calls
    if len(calls) != rounds - 1 or len(recorded.acks) != len(calls) or len(recorded.commits) != 2 * rounds:
        raise ValueError(
            f"a run of {rounds} model calls gave {len(calls)} Calls, {len(recorded.acks)} ResultAcks and "
            f"{len(recorded.commits)} commits; expected {rounds - 1}, {rounds - 1} and {2 * rounds}"
        )
    read = [(_round(message), _live(message), message) for message in recorded.messages[:-1]]
    made = []
    for number in range(1, rounds + 1):
        facts = [message for r, live, message in read if r == number and not live]
        last = number == rounds
        made.append(
            Round(
                request=recorded.requests[number - 1],
                during=tuple(message for r, live, message in read if r == number and live),
                reply=recorded.commits[2 * number - 1],
                after_reply=tuple(facts if last else facts[:1]) + (recorded.messages[-1:] if last else ()),
                calls=() if last else (_call(recorded, number - 1),),
                after_calls=() if last else tuple(facts[1:]),
            )
        )
    first = runner_pb2.RunStreamedResponse.FromString(recorded.messages[0])
    return Tape(
        model=recorded.model.encode(),
        turn_id=first.started.turn_id.removeprefix("turn_").encode(),
        accept=recorded.commits[0],
        after_accept=tuple(message for r, _, message in read if r == 0),
        rounds=tuple(made),
    )


def _call(recorded: Recorded, index: int) -> Call:
    call_id, frame = recorded.calls[index]
    return Call(call_id=call_id, frame=frame, settling=recorded.commits[2 * index + 2], ack=recorded.acks[index])


def _round(message: bytes) -> int:
    """Tell the round that a message is about; 0: none."""
    parts = runner_pb2.RunStreamedResponse.FromString(message).parts
    return max((part.delta.round or part.reset.round or part.event.round for part in parts), default=0)


def _live(message: bytes) -> bool:
    """Tell whether a message holds no fact, so that it came while the model wrote."""
    parts = runner_pb2.RunStreamedResponse.FromString(message).parts
    return bool(parts) and not any(part.HasField("event") for part in parts)
