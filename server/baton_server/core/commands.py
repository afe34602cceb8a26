"""Commands: what a state owes the world. `pending(state)` lists them all, the same before and after a crash.

A host performs what it is not performing already, by `key`, and stops what is no longer listed. So a first
pass, a second process and a recovery take one path.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.events import CancelMode
from baton_server.core.state import Phase, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Ask the model for the reply of a round, from 1. Its answer is ModelReplied or ModelFailed."""

    round: int

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return f"model/{self.round}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeCall:
    """Have a call executed by a worker. Its answer is CallSettled or AttemptFailed."""

    call_id: str

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return f"serve/{self.call_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCalls:
    """Tell the workers that hold these calls to stop, and wait out the grace of the cancel.

    Its answers are CallSettled, CallsUnheld, at last GraceOver.
    """

    call_ids: tuple[str, ...]

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return "stop"


Command = CallModel | ServeCall | StopCalls


def pending(state: TurnState) -> tuple[Command, ...]:
    """List what a turn owes, in the order in which it is to be begun. Empty: it is queued or over."""
    if state.phase is Phase.MODEL:
        return (CallModel(round=state.rounds + 1),)
    if state.phase is not Phase.CALLS:
        return ()
    if state.cancel is CancelMode.NOW:
        return (StopCalls(call_ids=tuple(state.open_calls)),)
    return tuple(ServeCall(call_id=call_id) for call_id in state.open_calls)
