"""A run that paused or ended early: where it stands, what is decided about it, and how both are written down.

Nothing of the run itself is here: the server keeps that. A state names its turn, and holds what the server has not
been told yet. So it is small, and whoever alters it can ask for nothing that he could not ask the server for anyway;
decisions are bound to what was seen, and the server refuses them where that has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from baton.agents.agent import Agent
from baton.agents.graph import reachable
from baton.context.approvals import Approvals, ruling_about
from baton.errors import UserError
from baton.items.raw_items import write_items
from baton.items.run_items import ToolApprovalItem
from baton.runs.run_state_json import Position, read_state, write_state
from baton.v1 import session_pb2

if TYPE_CHECKING:
    from baton.runs.plan import Plan

TContext = TypeVar("TContext")


@dataclass(slots=True, kw_only=True)
class RunState(Generic[TContext]):
    """Make it with `to_state()` of a result, decide, and run it again: `Runner.run(agent, state)`.

    That may be in another process, from its JSON, and may be by another of the three ways. It goes on under what it
    began with: its limit, its memory, its options. `context`: for the functions of this process; None: none, also
    after `from_json`, for it is never written down. `plan`: of this process's own run; None: it was another's.
    """

    agent: Agent[Any]
    position: Position
    context: TContext | None = None
    approvals: Approvals = field(default_factory=Approvals)
    pending_input: list[Any] = field(default_factory=list)
    plan: Plan | None = field(default=None, repr=False)

    # -- what stands there -----------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The server's id of the session."""
        return self.position.session_id

    @property
    def turn_id(self) -> str:
        """The server's id of the turn."""
        return self.position.turn_id

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """List the calls that waited for a decision where the run paused, in call order."""
        asked = {item.required_action.call_id: item for item in self.position.asked}
        return [asked[call_id] for call_id in self.position.waiting]

    # -- what is to follow -----------------------------------------------------------------------

    def approve(
        self,
        approval_item: ToolApprovalItem,
        always_approve: bool = False,
        *,
        always_in_session: bool = False,
        decided_by: str = "",
    ) -> None:
        """Allow a call. Nothing is sent before the state is run.

        `always_approve`: also later calls of the same function by the same agent in this run; `always_in_session`: in
        later runs of the session too. `decided_by`: who says so, for the log. Raises UserError for a call that this
        state does not wait for.
        """
        self._check(approval_item)
        ruling = ruling_about(
            approval_item, True, always=always_approve, always_in_session=always_in_session, decided_by=decided_by
        )
        self.approvals.take(ruling)

    def reject(
        self,
        approval_item: ToolApprovalItem,
        always_reject: bool = False,
        *,
        rejection_message: str | None = None,
        always_in_session: bool = False,
        decided_by: str = "",
    ) -> None:
        """Refuse a call: it is not executed, the model is told, the run goes on. Else as `approve`.

        `rejection_message`: what the model is told; None: what the run's `tool_error_formatter` says, or the server's
        own words.
        """
        self._check(approval_item)
        ruling = ruling_about(
            approval_item,
            False,
            always=always_reject,
            always_in_session=always_in_session,
            message=rejection_message,
            decided_by=decided_by,
        )
        self.approvals.take(ruling)

    def add_input(self, input: str | Sequence[Any]) -> None:
        """Say something more: it joins the run before its next request, after the outputs of its functions."""
        if not isinstance(input, str | Sequence):
            raise TypeError(f"input must be a text or a list of items, not {type(input).__name__}")
        self.pending_input += [{"role": "user", "content": input}] if isinstance(input, str) else list(input)

    def clear_pending_input(self) -> None:
        """Say nothing more after all."""
        self.pending_input.clear()

    def inputs(self, *, ended: bool = False) -> list[session_pb2.Input]:
        """Write what is to be sent: the decisions, then the input. `ended`: the turn is over, and takes no input."""
        made = [session_pb2.Input(decision=one.to_pb()) for one in self.approvals.in_order(self.position.waiting)]
        if self.pending_input and not ended:
            made.append(session_pb2.Input(items_json=write_items(self.pending_input)))
        return made

    # -- written down ----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Write it down as what has a JSON form. Neither the context nor the agent is in it."""
        return write_state(self.position, self.approvals, self.pending_input, self.agent.name)

    def to_string(self) -> str:
        """Write it down as text."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    @staticmethod
    async def from_json(
        initial_agent: Agent[Any], state_json: Mapping[str, Any], *, context_override: Any = None
    ) -> RunState[Any]:
        """Read what `to_json` wrote. `initial_agent`: the one that the run began with, as it was then.

        `context_override`: for the functions of this process. Raises UserError for what is no state, or one of another
        agent.
        """
        position, approvals, pending = read_state(state_json, initial_agent, reachable(initial_agent))
        return RunState(
            agent=initial_agent,
            position=position,
            context=context_override,
            approvals=approvals,
            pending_input=pending,
        )

    @staticmethod
    async def from_string(
        initial_agent: Agent[Any], state_string: str, *, context_override: Any = None
    ) -> RunState[Any]:
        """Read what `to_string` wrote. Else as `from_json`."""
        try:
            read = json.loads(state_string)
        except ValueError as error:
            raise UserError(f"this is no state of a run: {error}") from error
        return await RunState.from_json(initial_agent, read, context_override=context_override)

    # -- small moves -----------------------------------------------------------------------------

    def _check(self, item: object) -> None:
        if not isinstance(item, ToolApprovalItem):
            raise TypeError(f"only an interruption can be decided about, not {type(item).__name__}")
        call_id = item.required_action.call_id
        if call_id not in self.position.waiting:
            raise UserError(
                f"this state does not wait for the call {call_id} of {item.tool_name}, but for "
                f"{', '.join(self.position.waiting) or 'none'}; decide about one of get_interruptions()"
            )
