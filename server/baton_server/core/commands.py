"""Commands: what a state owes the world. `pending(state)` lists them all, the same before and after a crash.

A host performs what it is not performing already, by `key`, and stops what is no longer listed. So a first
pass, a second process and a recovery take one path.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.agents import Guardrail
from baton_server.core.events import CancelMode
from baton_server.core.state import Doubt, Phase, TurnState


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AskGuardrails:
    """Ask whether what came in may be worked on: items `first` to `last` of the turn. `hooks`: guardrails by hook id.

    Its answers are HookAnswered, one for each.
    """

    hooks: tuple[tuple[str, Guardrail], ...]
    first: int
    last: int

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return f"guard/{self.first}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEffect:
    """Ask the handler's check whether a lost attempt took effect. Its answer is HookAnswered."""

    call_id: str
    attempt: int
    hook_id: str

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return f"check/{self.call_id}/{self.attempt}"


Command = CallModel | ServeCall | StopCalls | AskGuardrails | CheckEffect


def pending(state: TurnState) -> tuple[Command, ...]:
    """List what a turn owes, in the order in which it is to be begun. Empty: it is queued or over."""
    if state.phase is Phase.MODEL:
        return _for_model(state)
    if state.phase is not Phase.CALLS:
        return ()
    if state.cancel is CancelMode.NOW:
        return (StopCalls(call_ids=tuple(state.open_calls)),)
    return tuple(command for call_id in state.open_calls if (command := _for_call(state, call_id)) is not None)


def _for_model(state: TurnState) -> tuple[Command, ...]:
    asked, batch = state.open_guardrails(), state.batch
    request = CallModel(round=state.rounds + 1)
    if not asked or batch is None:
        return (request,)
    guard = AskGuardrails(hooks=tuple(asked), first=batch.first, last=batch.last)
    return (guard,) if any(guardrail.blocking for _, guardrail in asked) else (guard, request)


def _for_call(state: TurnState, call_id: str) -> Command | None:
    """Say what an open call needs; None: it waits for another one's result, or for somebody outside."""
    call = state.calls[call_id]
    if call.doubt is Doubt.CHECKED:
        return CheckEffect(call_id=call_id, attempt=call.lost_attempt, hook_id=state.check_of(call))
    if call.doubt is Doubt.UNKNOWN or state.joined_to(call_id):
        return None
    return ServeCall(call_id=call_id)
