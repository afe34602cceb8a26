"""What the functions of a run know of it: the application's own context, its usage, what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from baton.context.approvals import Approvals, ruling_about
from baton.items.usage import Usage

if TYPE_CHECKING:
    from baton.items.run_items import ToolApprovalItem

TContext = TypeVar("TContext")


@dataclass(frozen=True, slots=True)
class RunContextWrapper(Generic[TContext]):
    """A run, as the Agents SDK shows it to functions and in results.

    `context` is what `Runner.run(context=…)` was given; it never leaves this process. `usage` is the run's, nested runs
    included: in a result all of it, in a function or a hook what it was when that was called, without the entries of
    each reply. Calls are named by either id: the model's, as items carry it, or Baton's.
    """

    context: TContext
    usage: Usage = field(default_factory=Usage)
    approvals: Approvals = field(default_factory=Approvals, repr=False, compare=False)

    def get_approval_status(self, tool_name: str, call_id: str) -> bool | None:
        """Say what was decided about a call: True or False; None: nothing. The very call beats `always`."""
        found = self.approvals.of_call(call_id) or self.approvals.of_tool(tool_name)
        return None if found is None else found.approve

    def is_tool_approved(self, tool_name: str, call_id: str) -> bool | None:
        """Say the same, by the Agents SDK's other name."""
        return self.get_approval_status(tool_name, call_id)

    def get_rejection_message(self, tool_name: str, call_id: str) -> str | None:
        """Say in which words a call was rejected; None: in none of its own, or it was not."""
        found = self.approvals.of_call(call_id) or self.approvals.of_tool(tool_name)
        return None if found is None else found.message

    def approve_tool(self, approval_item: ToolApprovalItem, always_approve: bool = False) -> None:
        """Allow a call, as `RunState.approve` of a state that is made of this result."""
        self.approvals.take(ruling_about(approval_item, True, always=always_approve))

    def reject_tool(
        self, approval_item: ToolApprovalItem, always_reject: bool = False, rejection_message: str | None = None
    ) -> None:
        """Refuse a call, as `RunState.reject` of a state that is made of this result."""
        ruling = ruling_about(approval_item, False, always=always_reject, message=rejection_message)
        self.approvals.take(ruling)
