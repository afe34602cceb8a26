"""The Runner: what follows from what happened. Sans-IO; it never waits.

`step(state, given)` answers with the events to record and has applied them to `state` already. The host
commits the events, then performs what `pending(state)` lists; if the commit fails it drops the
state. Theory of operation: each kind of input has one handler, which takes it in; then the course of the turn makes all
the moves that can be made at once (`course.move`). Both record events through a `Recorder` and never touch the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baton_server.core import calls
from baton_server.core.calls import MAX_LOST_ATTEMPTS
from baton_server.core.commands import CallModel, Command
from baton_server.core.course import ending, move, opening, rounds, tools
from baton_server.core.course.asking import Consequence, consequence
from baton_server.core.course.here import Here
from baton_server.core.events import (
    AgentChanged,
    CancelMode,
    CancelRequested,
    Event,
    HookKind,
    ModelAttemptFailed,
    TurnInProgress,
    TurnStatus,
)
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    Broken,
    CallExpired,
    CallSettled,
    CallsUnheld,
    CallTimedOut,
    CancelAsked,
    DecisionMade,
    DecisionsMade,
    GraceOver,
    HookAnswered,
    Input,
    ModelFailed,
    ModelReplied,
    ModelTried,
    RedeliveryAsked,
    Steered,
    TextCutOff,
)
from baton_server.core.items import FAILED_SETTLEMENTS
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.run import Run
from baton_server.core.state import TurnState

__all__ = ["FAILED_SETTLEMENTS", "MAX_LOST_ATTEMPTS", "Runner"]


class Runner:
    """Decides. One instance serves every turn; it holds nothing but its rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._handlers: dict[type, Callable[[Recorder, Any], None]] = {
            Begun: _begun,
            Steered: self._steered,
            ModelReplied: self._replied,
            ModelTried: _tried,
            ModelFailed: self._failed,
            CallSettled: calls.settled,
            AttemptFailed: calls.attempt_failed,
            CallTimedOut: calls.timed_out,
            CallExpired: calls.expired,
            RedeliveryAsked: calls.redelivery,
            DecisionMade: lambda record, given: tools.decide(record, (given,)),
            DecisionsMade: lambda record, given: tools.decide(record, given.made),
            HookAnswered: self._hook_answered,
            CancelAsked: _cancel_asked,
            CallsUnheld: _unheld,
            TextCutOff: _cut_off,
            GraceOver: _grace_over,
            Broken: _broken,
        }

    def step(self, state: TurnState, given: Input | DecisionsMade) -> tuple[Event, ...]:
        """Record what follows from one input; `state` has taken it in when this returns.

        An input that comes too late, twice, or at the wrong time changes nothing and gives no event.
        """
        recorder = Recorder(state, self._rules)
        if not state.over:
            self._handlers[type(given)](recorder, given)
            if recorder.events:
                move.go_on(recorder)
        return tuple(recorder.events)

    def pending(self, state: TurnState) -> tuple[Command, ...]:
        """List what a turn owes, in the order in which it is to be begun: the same before and after a crash."""
        return move.owed(state, self._rules)

    def held(self, state: TurnState) -> set[str]:
        """List the open calls that must not be handed out yet."""
        return move.held(state, self._rules)

    def takes_messages(self, state: TurnState) -> bool:
        """Tell whether steered messages may join now, if the host has begun no request and asks nothing."""
        return move.takes_messages(state, self._rules)

    def holds_reply(self, state: TurnState, run_path: tuple[str, ...]) -> bool:
        """Tell whether a model's reply must wait before it is fed: a guardrail that runs beside it is asked."""
        return move.holds_reply(state, run_path)

    # -- inputs ----------------------------------------------------------------------------------

    def _steered(self, record: Recorder, given: Steered) -> None:
        if self.takes_messages(record.state):
            for new in given.items:
                record.item(new)

    def _replied(self, record: Recorder, given: ModelReplied) -> None:
        run = self._asked(record, given.run_path, given.round)
        if run is not None and not move.holds_reply(record.state, given.run_path):
            rounds.replied(record, run, given)

    def _failed(self, record: Recorder, given: ModelFailed) -> None:
        """End a run over a model request that failed for good."""
        run = self._asked(record, given.run_path, given.round)
        if run is not None:
            ending.fail(record, run, given.failure)

    def _asked(self, record: Recorder, run_path: tuple[str, ...], round_number: int) -> Run | None:
        """Find the run that a reply is for; None: it does not wait for that reply any more."""
        owed = CallModel(round=round_number, run_path=run_path) in self.pending(record.state)
        return record.state.runs[run_path] if owed else None

    def _hook_answered(self, record: Recorder, given: HookAnswered) -> None:
        if given.hook is HookKind.EFFECT_CHECK:
            calls.checked(record, given)
            return
        asked = (one for one in self.pending(record.state) if isinstance(one, Question))
        question = next((one for one in asked if one.hook_id == given.hook_id), None)
        if question is None:
            return
        run = record.state.runs[question.run_path]
        record(calls.settled_hook(given, given.failure), run)
        if given.failure is not None and consequence(given.hook, given.failure) is Consequence.RUN_FAILS:
            ending.fail(record, run, given.failure)
        elif given.hook is HookKind.SESSION_INPUT and given.failure is None:
            opening.merged(record, run, given.answer_json)


def _begun(record: Recorder, given: Begun) -> None:
    if not record.state.queued:
        return
    record(TurnInProgress())
    for carried in given.carried:
        record.item(carried, in_history=False)
    wrong = rounds.cannot_take_back(Here(record.state, record.state.own, record.rules))
    if wrong is None:
        record(AgentChanged(agent=record.state.pinned.start.name))
    for new in given.items:
        record.item(new)
    if wrong is not None:
        ending.fail(record, record.state.own, wrong)


def _tried(record: Recorder, given: ModelTried) -> None:
    run = record.state.runs.get(given.run_path)
    if run is not None and not run.closed and given.round == run.round:
        failed = ModelAttemptFailed(
            model_attempt=given.model_attempt, failure=given.failure, retry_after_s=given.retry_after_s
        )
        record(failed, run, given.round)


def _cancel_asked(record: Recorder, given: CancelAsked) -> None:
    state = record.state
    if state.cancel is not None and (state.cancel is given.mode or state.cancel is CancelMode.NOW):
        return
    queued = state.queued
    record(CancelRequested(mode=given.mode, reason=given.reason))
    if queued:
        record.end(TurnStatus.CANCELLED)


def _unheld(record: Recorder, given: CallsUnheld) -> None:
    if record.state.cancel is not None:
        ending.close(record, tuple(one for one in given.call_ids if one in record.state.open_calls))


def _cut_off(record: Recorder, given: TextCutOff) -> None:
    run = record.state.runs.get(given.run_path)
    if run is not None and not run.closed and not run.unsettled and not record.state.queued and given.text:
        record.cut_off(given.text, run)


def _grace_over(record: Recorder, _given: GraceOver) -> None:
    if record.state.cancel is not None and record.state.cancel is CancelMode.NOW:
        ending.close(record, tuple(record.state.open_calls))


def _broken(record: Recorder, given: Broken) -> None:
    ending.close_all(record, record.state.own)
    record.end(TurnStatus.FAILED, failure=given.failure)
