"""What a person decided about calls that wait for it, before and after the server has heard of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from baton.errors import UserError
from baton.v1 import event_pb2

if TYPE_CHECKING:
    from baton.items.run_items import ToolApprovalItem

MAX_MESSAGE, MAX_DECIDED_BY = 4096, 256
"""Characters of a rejection's words, and of who decided (event.proto, Decision)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """One decision: `baton.v1.Decision`. `tool_name`, `agent_name`: what `always` is about.

    `model_call_id`: the model's own id of the call, by which items know it; empty: not known. `message` None: what the
    run's formatter says, or the server's own words. The digests are of what the decider saw.
    """

    turn_id: str
    call_id: str
    tool_name: str
    agent_name: str
    approve: bool
    model_call_id: str = ""
    always: bool = False
    always_in_session: bool = False
    message: str | None = None
    decided_by: str = ""
    arguments_digest: str = ""
    definition_digest: str = ""

    def __post_init__(self) -> None:
        if self.approve and self.message is not None:
            raise UserError(f"{self.tool_name}: only a rejection has a message, not an approval: {self.message!r}")
        for what, text, most in (
            ("a rejection's message", self.message or "", MAX_MESSAGE),
            ("decided_by", self.decided_by, MAX_DECIDED_BY),
        ):
            if len(text) > most:
                raise UserError(f"{self.tool_name}: {what} has at most {most} characters, not {len(text)}")

    @property
    def lasts(self) -> bool:
        """Tell whether it holds for later calls of the function too."""
        return self.always or self.always_in_session

    @property
    def function(self) -> tuple[str, str]:
        """Say what it is about: an agent's function."""
        return self.agent_name, self.tool_name

    def to_pb(self) -> event_pb2.Decision:
        """Write it as an input carries it."""
        return event_pb2.Decision(
            turn_id=self.turn_id,
            call_id=self.call_id,
            verdict=event_pb2.VERDICT_APPROVE if self.approve else event_pb2.VERDICT_REJECT,
            always=self.always,
            always_in_session=self.always_in_session,
            message=self.message or "",
            decided_by=self.decided_by,
            arguments_digest=self.arguments_digest,
            definition_digest=self.definition_digest,
        )


class Approvals:
    """The decisions of one run. A later one about the same call takes the place of an earlier one."""

    def __init__(self) -> None:
        self._by_call: dict[str, Ruling] = {}

    @property
    def rulings(self) -> tuple[Ruling, ...]:
        """All of them, in the order in which the calls were first decided about."""
        return tuple(self._by_call.values())

    def in_order(self, waiting: Sequence[str]) -> list[Ruling]:
        """List the decisions about some calls as they are to be sent: in the order of the calls.

        But one that holds for later calls too comes behind what was decided about a single call of the same function:
        the server has it hold for every call that waits.
        """
        rulings = [self._by_call[call_id] for call_id in waiting if call_id in self._by_call]
        single = {one.function for one in rulings if not one.lasts}
        return sorted(rulings, key=lambda one: one.lasts and one.function in single)

    def take(self, ruling: Ruling) -> None:
        """Decide about a call."""
        self._by_call[ruling.call_id] = ruling

    def take_back(self, call_id: str) -> None:
        """Forget a decision that does not hold."""
        self._by_call.pop(call_id, None)

    def of_call(self, call_id: str) -> Ruling | None:
        """Find what was decided about one call, by Baton's id or the model's; None: nothing."""
        same = (ruling for ruling in self._by_call.values() if call_id in (ruling.call_id, ruling.model_call_id))
        return next(same, None)

    def of_tool(self, tool_name: str, agent_name: str | None = None) -> Ruling | None:
        """Find the newest decision about all later calls of a function; `agent_name` None: by whatever agent."""
        for ruling in reversed(self.rulings):
            if ruling.lasts and ruling.tool_name == tool_name and agent_name in (None, ruling.agent_name):
                return ruling
        return None


def ruling_about(
    item: ToolApprovalItem,
    approve: bool,
    *,
    always: bool = False,
    always_in_session: bool = False,
    message: str | None = None,
    decided_by: str = "",
) -> Ruling:
    """Make a decision about an interruption, bound to what it shows."""
    action = item.required_action
    return Ruling(
        turn_id=action.turn_id,
        call_id=action.call_id,
        tool_name=action.name,
        agent_name=action.agent,
        approve=approve,
        model_call_id=item.call_id or "",
        always=always,
        always_in_session=always_in_session,
        message=message,
        decided_by=decided_by,
        arguments_digest=action.approval.arguments_digest,
        definition_digest=action.approval.definition_digest,
    )
