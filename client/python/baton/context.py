"""What a function may know about its call, beside its arguments."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Generic, TypeVar

TContext = TypeVar("TContext")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Generic[TContext]):
    """One call of a function. Ask for it with a first parameter that is annotated with this class.

    `tool_arguments` is the model's own text, byte for byte. `idempotency_key` is the same for every attempt of
    the call; `may_have_run` says that an earlier attempt may have done its work already: look before you leap.
    `cancelled` is set when the result is of no use any more: a function in a thread has to look at it, a
    coroutine is cancelled besides. `context` is what `Runner.run(context=…)` was given; it never leaves this
    process. None in a `Worker`.
    """

    call_id: str
    attempt: int
    tool_name: str
    tool_arguments: str
    session_id: str
    turn_id: str
    agent_name: str
    idempotency_key: str
    may_have_run: bool
    context: TContext
    cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def tool_call_id(self) -> str:
        """The call's id, by the Agents SDK's name. It is Baton's id, not the model's."""
        return self.call_id


RunContextWrapper = RunContext
ToolContext = RunContext
