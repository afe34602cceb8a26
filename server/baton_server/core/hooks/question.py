"""One question of the Runner to a program: what it asks, how its answer is read, and what no answer means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from baton_server.core.events import HookKind
from baton_server.core.tools import HookRef

Payload = Callable[[Sequence[str]], str]
"""Makes the payload from the history that the turn began with (JSON texts of items)."""

Settle = Callable[[Sequence[str], str], str]
"""Checks an answer, given the same history, and writes it as it is to stand in the log. Raises AnswerError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that a turn owes: a command. Its answer is HookAnswered.

    `payload` and `settle` need the history, and none of it is read unless `needs_history`. `round` and `agent`:
    whose moment it is. `key`: what tells it from others of the turn.
    """

    hook_id: str
    kind: HookKind
    ref: HookRef
    agent: str
    round: int
    payload: Payload = field(repr=False, compare=False)
    settle: Settle = field(repr=False, compare=False)
    needs_history: bool = False
    run_path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name the command within its turn."""
        return self.hook_id
