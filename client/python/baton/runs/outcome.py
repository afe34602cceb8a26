"""What came of a run so far, put together: items, replies, guardrails, usage, what waits, what it failed with."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from baton.agents.agent import Agent
from baton.agents.agent_output import read_output
from baton.context.approvals import Approvals
from baton.context.run_context import RunContextWrapper
from baton.errors import (
    AgentsException,
    EffectUnknownError,
    ModelBehaviorError,
    StateError,
    TurnCancelledError,
    UnservedError,
)
from baton.hosting.own import Hosted
from baton.items.model_response import ModelResponse
from baton.items.run_items import Names, RunItem, ToolApprovalItem, ToolCallOutputItem
from baton.items.usage import usage_from_pb, usage_sum
from baton.own_words import reworded
from baton.reasons import error_from_pb
from baton.runs.course import Course
from baton.runs.guardrail_results import GuardrailResults, Said, read_results, tell_tripped
from baton.runs.item_order import Reply, RunItems, arranged, key_of, model_responses
from baton.runs.plan import Plan
from baton.runs.run_data import RunErrorDetails
from baton.runs.run_state import RunState
from baton.runs.run_state_json import Position
from baton.runs.turn_status import ENDED, undecided
from baton.v1 import event_pb2, item_pb2, runner_pb2

_REPLY_IS_VOID = frozenset({"MODEL_BEHAVIOR_ERROR", "MODEL_REFUSAL", "INPUT_GUARDRAIL_TRIPPED"})
_CALLS_ARE_OPEN = frozenset(
    {
        "TOOL_FAILED",
        "TOOL_TIMEOUT",
        "TOOL_INPUT_GUARDRAIL_TRIPPED",
        "TOOL_OUTPUT_GUARDRAIL_TRIPPED",
        "HOOK_RAISED",
        "HOOK_ANSWER_INVALID",
        "HOOK_TIMEOUT",
        "HOOK_UNSERVED",
    }
)
"""Reasons over which the last reply fails as a whole, or but for calls that have their output."""


class Making:
    """A run's items as they come, over all turns that it has gone on in."""

    def __init__(self, plan: Plan) -> None:
        self.names = Names(start=plan.agent, agents=plan.agents)
        self.items = RunItems(self.names)
        self.made: list[RunItem] = []
        self.input = plan.input
        self._state = plan.state

    def begin(self, course: Course, seen: Iterable[item_pb2.Item]) -> None:
        """Take what was there when the run was resumed: earlier turns whole, and of this one what was `seen`."""
        if self._state is None:
            return
        self.input = self.input or course.given
        for response in course.earlier:
            for item in response.new_items:
                self.made += self.items.feed(item)
            self.made += self.items.pause()
        position = self._state.position
        asked = {item.required_action.call_id: item for item in position.asked}
        self.made += self.items.seen(seen, frozenset(position.shown), frozenset(asked))
        self.made = arranged(self.made, position.shown, asked)

    def take(self, item: item_pb2.Item) -> list[RunItem]:
        """Take the next item; return what can be shown now."""
        shown = list(self.items.feed(item))
        self.made += shown
        return shown

    def forget(self, items: Collection[RunItem]) -> None:
        """Take back what turned out not to count."""
        keys = {key_of(item) for item in items}
        self.made = [item for item in self.made if key_of(item) not in keys]

    def pause(self, actions: Iterable[event_pb2.RequiredAction]) -> list[RunItem]:
        """Take note that the run rests; return what can be shown now."""
        shown = list(self.items.pause(actions))
        self.made += shown
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run at rest. `responses`: of its turns, the last one last. `hosted`: what it had here."""

    plan: Plan
    hosted: Hosted
    making: Making
    responses: Sequence[runner_pb2.RunResponse]
    approvals: Approvals = field(default_factory=Approvals)

    @property
    def response(self) -> runner_pb2.RunResponse:
        """Of its last turn."""
        return self.responses[-1]

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that ended it, or goes on."""
        return self.making.names.agent(self.response.turn.last_agent)

    @property
    def last_response_id(self) -> str | None:
        """The last reply's id at the provider; None: none."""
        found = (response.turn.last_response_id for response in reversed(self.responses))
        return next((one for one in found if one), None)

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """Usage, context and decisions."""
        total = usage_sum(response.turn.usage for response in self.responses)
        return RunContextWrapper(self.plan.context, usage_from_pb(total, self._rounds()), self.approvals)

    @property
    def raw_responses(self) -> list[ModelResponse]:
        """The model's replies, in order."""
        return model_responses(self.making.items.replies, self._rounds())

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """What waits for a decision, in call order; of a reply that was gone on with, nested calls first."""
        if self.response.turn.status in ENDED:
            return []
        actions = undecided(self.response.required_actions)
        left = self.plan.state.position.waiting if self.plan.state is not None else ()
        if any(action.call_id in left and not action.run_path for action in actions):
            actions.sort(key=lambda action: not action.run_path)
        return [self.making.items.interruption(action) for action in actions]

    def final_output(self) -> Any:
        """Make the final output, of the type of the agent that gave it; None: there is none.

        Raises ModelBehaviorError where it does not fit the type, which the server's schema did not say.
        """
        turn, agent = self.response.turn, self.last_agent
        if turn.status != event_pb2.TURN_STATUS_COMPLETED:
            return None
        written = turn.output_json or (turn.output if agent.output_schema is not None else "")
        if not written:
            return turn.output
        try:
            return read_output(agent, written)
        except ModelBehaviorError as error:
            if agent.tool_use_behavior != "run_llm_again":  # then it may be a function's, which nobody checks
                return json.loads(written)
            error.reason = "MODEL_BEHAVIOR_ERROR"
            error.run_data = self._run_data(error, self.guardrails(None))
            raise

    def guardrails(self, final_output: Any) -> GuardrailResults:
        """Say what its guardrails said."""
        outputs = {
            call_id: output.raw_item["output"]
            for call_id, output in self.making.items.outputs.items()
            if isinstance(output, ToolCallOutputItem)
        }
        said = Said(
            definitions=self.plan.definitions,
            agents=self.plan.agents,
            start=self.plan.agent,
            final_output=final_output,
            outputs=outputs,
        )
        return read_results((one for response in self.responses for one in response.guardrail_results), said)

    def state(self) -> RunState[Any]:
        """Make a state to go on from."""
        asked = {key_of(item): item for item in self.making.made if isinstance(item, ToolApprovalItem)}
        asked |= {key_of(item): item for item in self.interruptions}  # of nested runs, which no item of this run is
        position = Position(
            session_id=self.response.session_id,
            turn_id=self.response.turn.turn_id,
            request_id=uuid.uuid4().hex,
            sequence=self.response.turn.last_sequence,
            address=self.plan.address,
            earlier=tuple(response.turn.turn_id for response in self.responses[:-1]),
            shown=tuple(key_of(item) for item in self.making.made),
            asked=tuple(asked.values()),
            waiting=tuple(item.required_action.call_id for item in self.interruptions),
            place=self.hosted.place,
        )
        return RunState(
            agent=self.plan.agent,
            position=position,
            context=self.plan.context,
            approvals=self.approvals,
            plan=self.plan,
        )

    def failure(self) -> Exception | None:
        """Make the exception of a run that has no final output and waits for no decision; None: it has, or does."""
        error = _failure(self.response)
        if error is None or (self.interruptions and isinstance(error, UnservedError)):
            return None
        guardrails = self.guardrails(None)
        tell_tripped(error, guardrails)
        raised = self.plan.raised.in_place_of(error)
        if isinstance(raised, AgentsException):
            raised.run_data = self._run_data(error, guardrails)
        return raised

    # -- small moves -----------------------------------------------------------------------------

    def _rounds(self) -> list[runner_pb2.RoundUsage]:
        return [one for response in self.responses for one in response.round_usage]

    def _run_data(self, error: AgentsException, guardrails: GuardrailResults) -> RunErrorDetails:
        replies = self.making.items.replies
        failed = replies[-1] if replies and self._failed_in_last(error.reason) else None
        void = self._void_keys(failed, error) if failed is not None else frozenset()
        return RunErrorDetails(
            input=self.making.input,
            new_items=[item for item in self.making.made if key_of(item) not in void],
            raw_responses=self._replied(error.reason, failed),
            last_agent=self.last_agent,
            context_wrapper=self.context_wrapper,
            session_id=self.response.session_id,
            turn_id=self.response.turn.turn_id,
            state=self.state(),
            guardrails=guardrails,
        )

    def _void_keys(self, reply: Reply, error: AgentsException) -> frozenset[str]:
        """Name what of a failed reply does not count: all, or what belongs to no call that has its own output."""
        culprit = self.making.items.outputs.get(error.metadata.get("call_id", ""))
        kept = () if error.reason in _REPLY_IS_VOID else (one for one in reply.outputs if one is not culprit)
        done = {output.call_id for output in kept}
        every = (*reply.items, *reply.outputs)
        return frozenset(key_of(item) for item in every if item.call_id is None or item.call_id not in done)

    def _replied(self, reason: str, failed: Reply | None) -> list[ModelResponse]:
        """List the replies that count: not the last one, where the run failed over it and nothing of it is kept."""
        replied = self.raw_responses
        kept = reason in _CALLS_ARE_OPEN and failed is not None and bool(failed.outputs)
        return replied if kept or reason not in _REPLY_IS_VOID | _CALLS_ARE_OPEN else replied[: self._count() - 1]

    def _count(self) -> int:
        return sum(response.turn.rounds for response in self.responses)

    def _failed_in_last(self, reason: str) -> bool:
        """Tell whether the last reply that is here is the one over which the run failed."""
        if reason not in _REPLY_IS_VOID | _CALLS_ARE_OPEN:
            return False
        return len(self.making.items.replies) >= self._count()


def _failure(response: runner_pb2.RunResponse) -> AgentsException | None:
    turn = response.turn
    if turn.status == event_pb2.TURN_STATUS_QUEUED:
        return StateError(
            f"the run was not begun: a turn of its session ({response.session_id}) waits for somebody's decision. "
            "Decide about it first (`interruptions` of its result, or `baton actions`), or use another session",
            reason="AWAITING_DECISION",
        )
    if turn.status == event_pb2.TURN_STATUS_COMPLETED:
        return None
    if turn.status == event_pb2.TURN_STATUS_FAILED:
        return reworded(error_from_pb(turn.error))
    if turn.status == event_pb2.TURN_STATUS_CANCELLED:
        return TurnCancelledError(f"the turn {turn.turn_id} was cancelled")
    return _rest(response)


def _rest(response: runner_pb2.RunResponse) -> UnservedError:
    """Say why a run rests, and what to do."""
    turn, actions = response.turn, response.required_actions
    where = f"the turn {turn.turn_id} of session {response.session_id} then goes on"
    unknown = sorted({one.name for one in actions if one.state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN})
    names = sorted({one.name for one in actions})
    made = (
        EffectUnknownError(
            f"the run rests: it is not known whether {', '.join(unknown)} took effect, and it must not run twice. Find "
            f"out; settle the call, or have it delivered again; {where}"
        )
        if unknown
        else UnservedError(
            f"the run rests: nobody serves {', '.join(names) or 'what it waits for'}. Attach a worker for it, or "
            f"settle the calls; {where}"
        )
    )
    made.required_actions = tuple(actions)
    return made


def input_list(next_items_json: str) -> list[dict[str, Any]]:
    """Read `RunResponse.next_items_json`."""
    found: list[dict[str, Any]] = json.loads(next_items_json or "[]")
    return found
