"""How a turn stands, and what can be told from that: facts alone, which `TurnState.apply` (state.py) keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from baton_server.core.agents import Agent, Handoff
from baton_server.core.errors import Failure
from baton_server.core.events import (
    TERMINAL,
    CancelMode,
    Decision,
    GuardrailTripped,
    HookSettled,
    OpenCall,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.hooks import names
from baton_server.core.items import FAILED_SETTLEMENTS, FunctionCallOutput, HandoffOutput, Item, Settlement, Usage
from baton_server.core.run import CallRecord, Run, Transfer
from baton_server.core.run_config import Pinned
from baton_server.core.tools import AgentTool, FunctionTool


@dataclass(frozen=True, slots=True)
class RoundUsage:
    """Tokens of one round: `baton.v1.RoundUsage`."""

    round: int
    model: str
    response_id: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Judged:
    """What a guardrail of the turn's own run said, as the log has it. `agent`: who went on then."""

    agent: str
    said: HookSettled | GuardrailTripped


@dataclass(slots=True)
class TurnFacts:
    """A turn as its events left it, and what can be told from that.

    `runs`: by path, the turn's own first; those of agent tools until the model is told what came of them. `items`: what
    the runs put in and made, by number, without what was rejected or cut off. `calls`: by id. `open_calls`: those that
    only the outside can settle, in call order. `sticky`: decisions that hold for the rest of the turn, by agent and
    the position of its tool. `next_number`: of the next item. `kept`: who has a number kept for its output.
    `output`, `failure` only when it is over; `structured`: the output is JSON.
    """

    turn_id: str
    session_id: str
    pinned: Pinned
    agent_digest: str
    run_config_digest: str
    request_id: str
    continues: str = ""
    status: TurnStatus = TurnStatus.QUEUED
    usage: Usage = field(default_factory=Usage)
    runs: dict[tuple[str, ...], Run] = field(default_factory=dict)
    items: dict[int, Item] = field(default_factory=dict)
    calls: dict[str, CallRecord] = field(default_factory=dict)
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    sticky: dict[tuple[str, int], Decision] = field(default_factory=dict)
    next_number: int = 0
    kept: dict[int, CallRecord | Transfer] = field(default_factory=dict)
    cancel: CancelMode | None = None
    output: str | None = None
    structured: bool = False
    failure: Failure | None = None
    round_usage: list[RoundUsage] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)

    @property
    def queued(self) -> bool:
        """Tell whether the turn has not begun."""
        return self.status is TurnStatus.QUEUED

    @property
    def over(self) -> bool:
        """Tell whether the turn has ended."""
        return self.status in TERMINAL

    @property
    def own(self) -> Run:
        """Give the turn's own run."""
        return self.runs[()]

    @property
    def rounds(self) -> int:
        """Count the rounds of the turn's own run."""
        return self.own.rounds

    def agent(self, run: Run) -> Agent:
        """Give the agent that goes on in a run."""
        return self.pinned.by_name[run.agent]

    def tool(self, call: CallRecord) -> FunctionTool | AgentTool | None:
        """Find what a call is a call of; None: the agent does not have it."""
        tools = self.pinned.by_name[call.agent].tools
        found = tools[call.at] if 0 <= call.at < len(tools) else None
        return found if isinstance(found, FunctionTool | AgentTool) else None

    def function(self, call_id: str) -> FunctionTool | None:
        """Find the function of a call; None: it is a call of something else."""
        tool = self.tool(self.calls[call_id])
        return tool if isinstance(tool, FunctionTool) else None

    def handoff(self, agent: str, name: str) -> Handoff | None:
        """Find a handoff by the name of its tool."""
        found = self.pinned.by_name[agent].callable(name)
        return found if isinstance(found, Handoff) else None

    def joined_to(self, call_id: str) -> str:
        """Find the older open call whose result is to be that of an open call too; empty: it is served itself."""
        key = self.calls[call_id].call.idempotency_key
        older = (other for other in self.calls.values() if key and other.call.idempotency_key == key)
        first = next((other.call.call_id for other in older if self._may_succeed(other)), call_id)
        return "" if first == call_id else first

    def _may_succeed(self, call: CallRecord) -> bool:
        if call.returned is not None and not call.settled:
            return call.returned.settlement not in FAILED_SETTLEMENTS
        return call.call.call_id in self.open_calls

    def succeeded(self, idempotency_key: str) -> FunctionCallOutput | None:
        """Find the output of a call of this turn that has succeeded under a key; None: there is none."""
        for call in self.calls.values() if idempotency_key else ():
            output = call.output if call.call.idempotency_key == idempotency_key else None
            if output is not None and output.settlement not in _WITHOUT_EFFECT:
                return output
        return None

    def check_of(self, call: CallRecord) -> str:
        """Name the hook that is asked what the last lost attempt of a call did."""
        return names.check_id(self.turn_id, call.call.call_id, call.lost_attempt)

    def items_of(self, run: Run) -> list[Item]:
        """List what a run put in and made, in the order in which the model sees it."""
        return [self.items[number] for number in sorted(run.items)]

    def said_items(self, run: Run) -> list[Item]:
        """List what a run put in and says that it made: without what a handoff's filter took from it."""
        return [self.items[number] for number in sorted(run.items) if number not in run.unsaid]

    def snapshot(self) -> TurnSnapshot:
        """Say how the turn stands: `baton.v1.Turn`."""
        own = self.own
        return TurnSnapshot(
            turn_id=self.turn_id,
            session_id=self.session_id,
            status=self.status,
            agent=self.pinned.start.name,
            last_agent=own.agent,
            agent_digest=self.agent_digest,
            run_config_digest=self.run_config_digest,
            request_id=self.request_id,
            rounds=own.rounds,
            max_turns=self.pinned.config.round_limit,
            usage=self.usage,
            output=self.output,
            failure=self.failure,
            last_response_id=own.last_response_id,
            structured=self.structured,
            continues=self.continues,
        )

    def unsent(self, run: Run) -> list[int]:
        """List the numbers of what the model's API does not keep yet: what came in, and outputs."""
        kept = (number for number in sorted(run.items) if number not in run.sent)
        return [number for number in kept if not self.items[number].agent or _is_output(self.items[number])]


_WITHOUT_EFFECT = FAILED_SETTLEMENTS | {Settlement.REJECTED}
"""Settlements of calls that another one of their key may still be executed for."""


def _is_output(item: Item) -> bool:
    return isinstance(item.body, FunctionCallOutput | HandoffOutput)
