"""The Runner: what follows from what happened. Sans-IO; it never waits.

`step(state, given)` answers with the events to record and has applied them to `state` already. The host
commits the events, then performs what `commands.pending(state)` lists; if the commit fails it drops the
state. Theory of operation: each kind of input has one handler; handlers only decide which events to record,
through a `Recorder`, and never touch the state themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baton_server.core import reply, texts
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    AfterLoss,
    AgentChanged,
    AttemptLost,
    CancelMode,
    CancelRequested,
    Event,
    SessionInProgress,
    SessionRequiresAction,
    TurnInProgress,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
    Broken,
    CallSettled,
    CallsUnheld,
    CancelAsked,
    GraceOver,
    Input,
    ModelFailed,
    ModelReplied,
    NewItem,
    Steered,
    TextCutOff,
)
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    FunctionCall,
    Hosted,
    Message,
    RefusalPart,
    Settlement,
    TextPart,
    text_of,
)
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.state import Phase, TurnState

__all__ = ["FAILED_SETTLEMENTS", "MAX_LOST_ATTEMPTS", "Runner"]

MAX_LOST_ATTEMPTS = 5
"""Of one call; the last one settles it. What a worker gave back is not lost (PROTOCOL.md §3)."""


class Runner:
    """Decides. One instance serves every turn; it holds nothing but its rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._handlers: dict[type, Callable[[Recorder, Any], None]] = {
            Begun: self._begun,
            Steered: self._steered,
            ModelReplied: self._replied,
            ModelFailed: self._model_failed,
            CallSettled: self._settled,
            AttemptFailed: self._attempt_failed,
            CancelAsked: self._cancel_asked,
            CallsUnheld: self._unheld,
            TextCutOff: self._cut_off,
            GraceOver: self._grace_over,
            Broken: self._broken,
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
        self._next_round(record)

    def _steered(self, record: Recorder, given: Steered) -> None:
        if record.state.takes_messages:
            for new in given.items:
                record.item(new)

    def _next_round(self, record: Recorder) -> None:
        """Go on to the next model request, unless a cancel or the limit of rounds forbids it."""
        state = record.state
        limit = state.pinned.config.round_limit
        if state.cancel is not None:
            record.end(TurnStatus.CANCELLED)
        elif limit is not None and state.rounds >= limit:
            record.end(
                TurnStatus.FAILED,
                failure=Failure(
                    reason=Reason.MAX_TURNS_EXCEEDED,
                    message=f"The turn reached its limit of {limit} rounds without a final output. "
                    "Raise run_config.max_turns, or set unlimited_turns.",
                    metadata={"max_turns": str(limit)},
                ),
            )
        elif state.phase is Phase.CALLS:
            record(SessionInProgress())

    # -- the model's reply ----------------------------------------------------------------------

    def _replied(self, record: Recorder, given: ModelReplied) -> None:
        state = record.state
        if state.phase is not Phase.MODEL or given.round != state.rounds + 1:
            return
        items = reply.without_repeats(given.items)
        calls = tuple(item.body for item in items.values() if isinstance(item.body, FunctionCall))
        failure = reply.misbehaviour(state, given, calls)
        record.reply(given, items, rejected=failure is not None)
        if failure is not None:
            record.end(TurnStatus.FAILED, failure=failure)
            return
        self._refuse_arguments(record)
        if state.open_calls:
            record(SessionRequiresAction(calls=tuple(state.open_calls.values())))
        elif calls:
            self._next_round(record)
        else:
            self._final(record, items)

    def _refuse_arguments(self, record: Recorder) -> None:
        """Answer the calls that no handler must see in its place; the others are served all the same."""
        agent = record.state.pinned.agent
        for call in tuple(record.state.open_calls.values()):
            words = reply.bad_arguments(self._rules, call, agent.function(call.name))
            if words is not None:
                settlement = Settlement.ARGUMENTS_INVALID
                record.output(CallSettled(call_id=call.call_id, settlement=settlement, output=(words,)))

    def _final(self, record: Recorder, items: Mapping[int, NewItem]) -> None:
        """End the turn with the text of the last message; hosted tools alone mean another round."""
        bodies = [item.body for item in items.values()]
        messages = [body for body in bodies if isinstance(body, Message)]
        if not messages and any(isinstance(body, Hosted) for body in bodies):
            self._next_round(record)
            return
        last = messages[-1].content if messages else ()
        refusal = "".join(part.refusal for part in last if isinstance(part, RefusalPart))
        if refusal:
            record.end(TurnStatus.FAILED, failure=reply.refusal(refusal))
        else:
            record.end(TurnStatus.COMPLETED, output=text_of(last))

    def _model_failed(self, record: Recorder, given: ModelFailed) -> None:
        if record.state.phase is Phase.MODEL and given.round == record.state.rounds + 1:
            record.end(TurnStatus.FAILED, failure=given.failure)

    # -- calls ----------------------------------------------------------------------------------

    def _settled(self, record: Recorder, given: CallSettled) -> None:
        if given.call_id in record.state.open_calls:
            record.output(given)
            self._after_output(record)

    def _attempt_failed(self, record: Recorder, given: AttemptFailed) -> None:
        state = record.state
        call = state.calls.get(given.call_id)
        if call is None or call.settled or given.attempt <= call.lost_attempt:
            return
        again = given.may_retry and state.cancel is None and call.losses + 1 < MAX_LOST_ATTEMPTS
        record(
            AttemptLost(
                call_id=given.call_id,
                attempt=given.attempt,
                worker_id=given.worker_id,
                next=AfterLoss.REDELIVERED if again else AfterLoss.FAILED,
            )
        )
        if state.cancel is not None:
            self._synthesize(record, (given.call_id,))
        elif not again:
            self._lost(record, given)

    def _lost(self, record: Recorder, given: AttemptFailed) -> None:
        record.output(
            CallSettled(
                call_id=given.call_id,
                settlement=Settlement.WORKER_LOST,
                output=(TextPart(text=texts.FUNCTION_FAILED),),
                error=Failure(
                    reason=Reason.WORKER_LOST,
                    message=f"Attempt {given.attempt} of the call lost its worker, and no other is allowed.",
                    metadata={"attempts": str(given.attempt)},
                ),
            )
        )
        self._after_output(record)

    def _after_output(self, record: Recorder) -> None:
        if not record.state.open_calls:
            self._next_round(record)

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
            self._synthesize(record, given.call_ids)

    def _cut_off(self, record: Recorder, given: TextCutOff) -> None:
        if record.state.phase is Phase.MODEL and given.text:
            record.cut_off(given.text)

    def _grace_over(self, record: Recorder, _given: GraceOver) -> None:
        if record.state.cancel is CancelMode.NOW:
            self._synthesize(record, tuple(record.state.open_calls))

    def _broken(self, record: Recorder, given: Broken) -> None:
        self._close(record, tuple(record.state.open_calls))
        record.end(TurnStatus.FAILED, failure=given.failure)

    def _synthesize(self, record: Recorder, call_ids: tuple[str, ...]) -> None:
        """Settle calls by an output of our own, and go on if they were the last."""
        self._close(record, call_ids)
        if record.state.phase is Phase.CALLS:
            self._after_output(record)

    def _close(self, record: Recorder, call_ids: tuple[str, ...]) -> None:
        """Give calls an output of our own, since a model refuses a history with a call and no output."""
        for call_id in call_ids:
            if call_id in record.state.open_calls:
                record.output(
                    CallSettled(
                        call_id=call_id,
                        settlement=Settlement.CANCELLED,
                        output=(TextPart(text=texts.CALL_CANCELLED),),
                    )
                )
