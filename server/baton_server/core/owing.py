"""What a turn owes, as it was told last. No state: it is told anew whenever an event has changed what it was told from.

A turn is asked what it owes several times between two events, and a reply may ask for hundreds of calls. An event about
one call says nothing about the others, so that these need not be looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from baton_server.core.commands import Command
from baton_server.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    CallReturned,
    EventBody,
    GuardrailTripped,
    HookSettled,
    ItemAdded,
    NestedRunClosed,
    NestedRunCreated,
    SessionInProgress,
    SessionRequiresAction,
)
from baton_server.core.hooks.question import Question
from baton_server.core.items import FunctionCallOutput


@dataclass(slots=True)
class Owing:
    """Keeps what was told until it is not true any more. `commands` None: it must be told anew.

    It has no more calls than the replies that are being worked on.
    """

    commands: tuple[Command, ...] | None = None
    _by_call: dict[str, tuple[Command, ...]] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)

    def of_call(self, call_id: str) -> tuple[Command, ...] | None:
        """Say what a call waits for; None: it must be looked at."""
        return self._by_call.get(call_id)

    def keep(self, call_id: str, commands: tuple[Command, ...]) -> None:
        """Keep what a call waits for, of one that hangs on no other call."""
        self._by_call[call_id] = commands
        for one in commands:
            if isinstance(one, Question):
                self._asked[one.hook_id] = call_id

    def forget(self, body: EventBody) -> None:
        """Forget what an event has changed: of one about a single call what that one waited for, else everything."""
        self.commands = None
        if isinstance(body, SessionInProgress | SessionRequiresAction):
            return  # that a turn waits follows from its calls
        call_id = self._call_of(body)
        if call_id:
            self._by_call.pop(call_id, None)
        elif self._by_call:
            self._by_call.clear()
            self._asked.clear()

    def _call_of(self, body: EventBody) -> str:
        """Find the one call that an event is about; empty: it may be about several."""
        match body:
            case HookSettled(hook_id=hook_id):
                return self._asked.pop(hook_id, "")
            case ItemAdded(item=item):
                return item.body.call_id if isinstance(item.body, FunctionCallOutput) else ""
            case ApprovalDecided(decision=decision):
                return "" if decision.lasts else decision.call_id
            case (
                ApprovalRequested(call_id=call_id)
                | CallReturned(call_id=call_id)
                | GuardrailTripped(call_id=call_id)
                | NestedRunCreated(call_id=call_id)
                | NestedRunClosed(call_id=call_id)
            ):
                return call_id
            case _:
                return ""
