"""The Runner: what follows from what happened. Sans-IO; it never waits.

`step(state, given)` answers with the events to record and has applied them to `state` already. The host
commits the events, then performs what `commands.pending(state)` lists; if the commit fails it drops the
state. Theory of operation: each kind of input has one handler; handlers only decide which events to record,
through a `Recorder`, and never touch the state themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from baton_server.core import calls, hooks, rounds
from baton_server.core.calls import MAX_LOST_ATTEMPTS
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    AgentChanged,
    CancelMode,
    CancelRequested,
    Event,
    GuardrailTripped,
    HookKind,
    TurnInProgress,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    Broken,
    CallExpired,
    CallSettled,
    CallsUnheld,
    CallTimedOut,
    CancelAsked,
    GraceOver,
    HookAnswered,
    Input,
    ModelFailed,
    ModelReplied,
    RedeliveryAsked,
    Steered,
    TextCutOff,
)
from baton_server.core.items import FAILED_SETTLEMENTS
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.state import Phase, TurnState

__all__ = ["FAILED_SETTLEMENTS", "MAX_LOST_ATTEMPTS", "Runner"]


class Runner:
    """Decides. One instance serves every turn; it holds nothing but its rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._handlers: dict[type, Callable[[Recorder, Any], None]] = {
            Begun: self._begun,
            Steered: self._steered,
            ModelReplied: self._replied,
            ModelFailed: rounds.failed,
            CallSettled: _then_on(calls.settled),
            AttemptFailed: _then_on(calls.attempt_failed),
            CallTimedOut: _then_on(calls.timed_out),
            CallExpired: _then_on(calls.expired),
            RedeliveryAsked: calls.redelivery,
            HookAnswered: self._hook_answered,
            CancelAsked: self._cancel_asked,
            CallsUnheld: _then_on(self._unheld),
            TextCutOff: self._cut_off,
            GraceOver: _then_on(self._grace_over),
            Broken: self._broken,
        }
        self._answers: dict[HookKind, Callable[[Recorder, HookAnswered], None]] = {
            HookKind.INPUT_GUARDRAIL: _guardrail_answered,
            HookKind.MODEL_INPUT_FILTER: _filter_answered,
            HookKind.EFFECT_CHECK: _then_on(calls.checked),
        }

    def step(self, state: TurnState, given: Input) -> tuple[Event, ...]:
        """Record what follows from one input; `state` has taken it in when this returns.

        An input that comes too late, twice, or at the wrong time changes nothing and gives no event.
        """
        recorder = Recorder(state)
        if not state.over:
            self._handlers[type(given)](recorder, given)
        return tuple(recorder.events)

    # -- the turn's own course ------------------------------------------------------------------

    def _begun(self, record: Recorder, given: Begun) -> None:
        if record.state.phase is not Phase.QUEUED:
            return
        record(TurnInProgress())
        record(AgentChanged(agent=record.state.pinned.agent.name))
        for new in given.items:
            record.item(new)
        rounds.go_on(record)

    def _steered(self, record: Recorder, given: Steered) -> None:
        if record.state.takes_messages:
            for new in given.items:
                record.item(new)

    def _replied(self, record: Recorder, given: ModelReplied) -> None:
        if not record.state.holds_reply:
            rounds.replied(record, given, self._rules)

    def _hook_answered(self, record: Recorder, given: HookAnswered) -> None:
        self._answers[given.hook](record, given)

    # -- cancel ---------------------------------------------------------------------------------

    def _cancel_asked(self, record: Recorder, given: CancelAsked) -> None:
        state = record.state
        if state.cancel is CancelMode.NOW or state.cancel is given.mode:
            return
        record(CancelRequested(mode=given.mode, reason=given.reason))
        begun = state.phase in (Phase.MODEL, Phase.CALLS)
        ends_later = given.mode is CancelMode.AFTER_ROUND and begun
        if not ends_later and not state.open_calls:
            record.end(TurnStatus.CANCELLED)

    def _unheld(self, record: Recorder, given: CallsUnheld) -> None:
        if record.state.cancel is not None:
            calls.close(record, given.call_ids)

    def _cut_off(self, record: Recorder, given: TextCutOff) -> None:
        if record.state.phase is Phase.MODEL and given.text:
            record.cut_off(given.text)

    def _grace_over(self, record: Recorder, _given: GraceOver) -> None:
        if record.state.cancel is CancelMode.NOW:
            calls.close(record, tuple(record.state.open_calls))

    def _broken(self, record: Recorder, given: Broken) -> None:
        calls.close(record, tuple(record.state.open_calls))
        record.end(TurnStatus.FAILED, failure=given.failure)


def _then_on(handler: Callable[[Recorder, Any], None]) -> Callable[[Recorder, Any], None]:
    """Have the turn go on once a handler has settled its last open call."""

    def handle(record: Recorder, given: Any) -> None:
        before = len(record.events)
        handler(record, given)
        state = record.state
        if len(record.events) > before and state.phase is Phase.CALLS and not state.open_calls:
            rounds.go_on(record)

    return handle


def _guardrail_answered(record: Recorder, given: HookAnswered) -> None:
    """Take a guardrail's verdict; one that trips, or that there is none of, ends the turn."""
    name = next((one.name for hook_id, one in record.state.open_guardrails() if hook_id == given.hook_id), None)
    if name is None:
        return
    verdict, failure = hooks.Verdict(tripped=False), given.failure
    if failure is None:
        try:
            verdict = hooks.read_verdict(given.answer_json)
        except hooks.AnswerError as error:
            failure = hooks.nonsense(given.hook, given.name, error)
    record(calls.settled_hook(given, failure))
    if verdict.tripped:
        record(GuardrailTripped(name=name, info_json=verdict.info_json))
        failure = Failure(
            reason=Reason.INPUT_GUARDRAIL_TRIPPED,
            message=f"The input guardrail {name!r} tripped: the input is not worked on.",
            metadata={"guardrail": name},
        )
    if failure is not None:
        record.end(TurnStatus.FAILED, failure=failure)


def _filter_answered(record: Recorder, given: HookAnswered) -> None:
    """Take a filter's answer, packed, for the request that is about to be sent; without one the turn fails."""
    state = record.state
    count = len(state.pinned.config.model_input_filters)
    asked = {hooks.filter_id(state.turn_id, state.rounds + 1, index) for index in range(count)}
    if state.phase is Phase.MODEL and given.hook_id in asked and given.hook_id not in state.hooks:
        record(calls.settled_hook(given, given.failure))
        if given.failure is not None:
            record.end(TurnStatus.FAILED, failure=given.failure)
