"""Commands: what a state owes the world. `Runner.pending` lists them all, the same before and after a crash.

A host performs what it is not performing already, by `key`, and stops what is no longer listed. So a first
pass, a second process and a recovery take one path.
"""

from __future__ import annotations

from dataclasses import dataclass

from baton_server.core.hooks.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Ask the model for the reply of a round, from 1, of a run. Its answer is ModelReplied or ModelFailed."""

    round: int
    run_path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return "/".join(("model", *self.run_path, str(self.round)))


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
class CheckEffect:
    """Ask the handler's check whether a lost attempt took effect. Its answer is HookAnswered."""

    call_id: str
    attempt: int
    hook_id: str

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return f"check/{self.call_id}/{self.attempt}"


Command = CallModel | ServeCall | StopCalls | CheckEffect | Question
"""What a turn may owe. A Question is asked of a program."""
