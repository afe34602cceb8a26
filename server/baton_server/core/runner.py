"""The Runner: what follows from what happened. Sans-IO; it never waits.

`step(state, given)` answers with the events to record and has applied them to `state` already. The host
commits the events, then performs what `commands.pending(state)` lists; if the commit fails it drops the
state. Theory of operation: each kind of input has one handler; handlers only decide which events to record,
through `_Recorder`, and never touch the state themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from baton_server.core import ids, texts
from baton_server.core.agents import History
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import (
    AfterLoss,
    AgentChanged,
    AttemptLost,
    CancelMode,
    CancelRequested,
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    SessionInProgress,
    SessionRequiresAction,
    TurnEnded,
    TurnInProgress,
    TurnStatus,
)
from baton_server.core.inputs import (
    AttemptFailed,
    Begun,
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
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    Hosted,
    Item,
    ItemStatus,
    Message,
    RefusalPart,
    Role,
    Settlement,
    TextPart,
    text_of,
)
from baton_server.core.responses import output_json
from baton_server.core.rules import Rules
from baton_server.core.state import Phase, TurnState

FAILED_SETTLEMENTS = frozenset(
    {
        Settlement.FAILURE,
        Settlement.CRASH,
        Settlement.OUTSIDE_FAILURE,
        Settlement.CANCELLED,
        Settlement.ARGUMENTS_INVALID,
        Settlement.WORKER_LOST,
    }
)
"""Settlements whose output says that the function failed (`ItemStatus.FAILED`)."""


class Runner:
    """Decides. One instance serves every turn; it holds nothing but its rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._handlers: dict[type, Callable[[_Recorder, Any], None]] = {
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
        }

    def step(self, state: TurnState, given: Input) -> tuple[Event, ...]:
        """Record what follows from one input; `state` has taken it in when this returns.

        An input that comes too late, or twice, changes nothing and gives no event.
        """
        recorder = _Recorder(state)
        if not state.over:
            self._handlers[type(given)](recorder, given)
        return tuple(recorder.events)

    # -- the turn's own course ------------------------------------------------------------------

    def _begun(self, record: _Recorder, given: Begun) -> None:
        if record.state.phase is not Phase.QUEUED:
            return
        record(TurnInProgress())
        record(AgentChanged(agent=record.state.pinned.agent.name))
        for new in given.items:
            record.item(new)
        self._next_round(record)

    def _steered(self, record: _Recorder, given: Steered) -> None:
        for new in given.items:
            record.item(new)

    def _next_round(self, record: _Recorder) -> None:
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

    def _replied(self, record: _Recorder, given: ModelReplied) -> None:
        state = record.state
        if state.phase is not Phase.MODEL or given.round != state.rounds + 1:
            return
        items = _without_repeats(given.items)
        failure = self._misbehaviour(state, given, items)
        if failure is not None:
            record.reply(given, items, rejected=True)
            record.end(TurnStatus.FAILED, failure=failure)
            return
        record.reply(given, items)
        for call_id, problem in self._bad_arguments(state):
            record.output(CallSettled(call_id=call_id, settlement=Settlement.ARGUMENTS_INVALID, output=problem))
        if state.open_calls:
            record(SessionRequiresAction(calls=tuple(state.open_calls.values())))
        elif any(isinstance(item.body, FunctionCall) for item in items):
            self._next_round(record)
        else:
            self._final(record, items)

    def _final(self, record: _Recorder, items: tuple[NewItem, ...]) -> None:
        """End the turn with the text of the last message; hosted tools alone mean another round."""
        messages = [item.body for item in items if isinstance(item.body, Message)]
        if not messages and any(isinstance(item.body, Hosted) for item in items):
            self._next_round(record)
            return
        last = messages[-1].content if messages else ()
        refusal = "".join(part.refusal for part in last if isinstance(part, RefusalPart))
        if refusal:
            record.end(
                TurnStatus.FAILED,
                failure=Failure(
                    reason=Reason.MODEL_REFUSAL,
                    message=f"The model refused to produce an output: {refusal[:512]}",
                    metadata={"refusal": refusal[:512]},
                ),
            )
        else:
            record.end(TurnStatus.COMPLETED, output=text_of(last))

    def _misbehaviour(
        self, state: TurnState, given: ModelReplied, items: tuple[NewItem, ...]
    ) -> Failure | None:
        """Say what the model did that it must not; None: nothing."""
        agent = state.pinned.agent
        if given.incomplete_reason:
            return _behaviour(
                f"The model's reply is incomplete: {given.incomplete_reason}. Raise "
                "model_settings.max_tokens if it was cut off.",
                incomplete=given.incomplete_reason,
            )
        seen: set[str] = set()
        for body in (item.body for item in items):
            if not isinstance(body, FunctionCall):
                continue
            if agent.function(body.name) is None:
                return _behaviour(
                    f"The model called the function {body.name!r}, which the agent {agent.name!r} does not "
                    "have. Declare it in the agent's tools, or name the functions in its instructions.",
                    tool=body.name,
                    agent=agent.name,
                )
            if body.model_call_id in seen or body.model_call_id in state.model_call_ids:
                return _behaviour(
                    f"The model used the call id {body.model_call_id!r} for two different calls.",
                    tool=body.name,
                    call_id=body.model_call_id,
                )
            seen.add(body.model_call_id)
        return None

    def _bad_arguments(self, state: TurnState) -> list[tuple[str, tuple[ContentPart, ...]]]:
        """Find the open calls whose arguments a handler must never see, with the words for the model."""
        bad = []
        for call in state.open_calls.values():
            function = state.pinned.agent.function(call.name)
            problem = _argument_problem(call.arguments)
            if problem is None and function is not None and function.strict:
                problem = self._rules.violation(function.parameters_json, call.arguments or "{}")
            if problem is not None:
                text = f"The arguments of {call.name} were not accepted: {problem}. {texts.CALL_AGAIN}"
                bad.append((call.call_id, (TextPart(text=text),)))
        return bad

    def _model_failed(self, record: _Recorder, given: ModelFailed) -> None:
        if record.state.phase is Phase.MODEL and given.round == record.state.rounds + 1:
            record.end(TurnStatus.FAILED, failure=given.failure)

    # -- calls ----------------------------------------------------------------------------------

    def _settled(self, record: _Recorder, given: CallSettled) -> None:
        if given.call_id in record.state.open_calls:
            record.output(given)
            self._after_output(record)

    def _attempt_failed(self, record: _Recorder, given: AttemptFailed) -> None:
        if given.call_id not in record.state.open_calls:
            return
        after = AfterLoss.REDELIVERED if given.may_retry else AfterLoss.FAILED
        record(
            AttemptLost(call_id=given.call_id, attempt=given.attempt, worker_id=given.worker_id, next=after)
        )
        if record.state.cancel is not None:
            self._synthesize(record, (given.call_id,))
        elif after is AfterLoss.FAILED:
            failure = Failure(
                reason=Reason.WORKER_LOST,
                message=f"All {given.attempt} attempts of the call lost their worker.",
                metadata={"attempts": str(given.attempt)},
            )
            record.output(
                CallSettled(
                    call_id=given.call_id,
                    settlement=Settlement.WORKER_LOST,
                    output=(TextPart(text=texts.FUNCTION_FAILED),),
                    error=failure,
                )
            )
            self._after_output(record)

    def _after_output(self, record: _Recorder) -> None:
        if not record.state.open_calls:
            self._next_round(record)

    # -- cancel ---------------------------------------------------------------------------------

    def _cancel_asked(self, record: _Recorder, given: CancelAsked) -> None:
        state = record.state
        if state.cancel is CancelMode.NOW or state.cancel is given.mode:
            return
        record(CancelRequested(mode=given.mode, reason=given.reason))
        begun = state.phase in (Phase.MODEL, Phase.CALLS)
        ends_later = given.mode is CancelMode.AFTER_ROUND and begun
        if not ends_later and not state.open_calls:
            record.end(TurnStatus.CANCELLED)

    def _unheld(self, record: _Recorder, given: CallsUnheld) -> None:
        if record.state.cancel is not None:
            self._synthesize(record, given.call_ids)

    def _cut_off(self, record: _Recorder, given: TextCutOff) -> None:
        if record.state.phase is Phase.MODEL and given.text:
            record.cut_off(given.text)

    def _grace_over(self, record: _Recorder, _given: GraceOver) -> None:
        if record.state.cancel is CancelMode.NOW:
            self._synthesize(record, tuple(record.state.open_calls))

    def _synthesize(self, record: _Recorder, call_ids: tuple[str, ...]) -> None:
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
        if record.state.phase is Phase.CALLS:
            self._after_output(record)


class _Recorder:
    """Records events of one step: applies each to the state, and keeps it for the host."""

    def __init__(self, state: TurnState) -> None:
        self.state = state
        self.events: list[Event] = []
        self._in_history = state.pinned.config.history is not History.CALLER

    def __call__(self, body: EventBody, round_number: int | None = None) -> None:
        rounds = self.state.rounds if round_number is None else round_number
        self.events.append(Event(body=body, turn_id=self.state.turn_id, round=rounds))
        self.state.apply(body)

    def item(self, new: NewItem) -> None:
        """Record an item of the turn's input."""
        self(ItemAdded(item=self._named(new, agent=""), in_history=self._in_history))

    def reply(self, given: ModelReplied, items: tuple[NewItem, ...], rejected: bool = False) -> None:
        """Record the items of a reply, then the round. A rejected one is in the log alone."""
        number = given.round
        for index, new in enumerate(items):
            item = self._named(new, agent=self.state.pinned.agent.name, index=index, rejected=rejected)
            arm = ItemAdded if isinstance(new.body, FunctionCall) else ItemDone
            self(arm(item=item, in_history=self._in_history and not rejected), number)
        self(
            RoundCompleted(
                model=given.model,
                response_id=given.response_id,
                usage=given.usage,
                duration_ms=given.duration_ms,
            ),
            number,
        )

    def output(self, given: CallSettled) -> None:
        """Record what came of a call, under the number that was kept for it."""
        known = self.state.calls[given.call_id]
        failed = given.settlement in FAILED_SETTLEMENTS
        item = Item(
            item_id=ids.item_id(self.state.turn_id, known.output_number),
            turn_id=self.state.turn_id,
            agent=known.agent,
            status=ItemStatus.FAILED if failed else ItemStatus.COMPLETED,
            json=output_json(known.call.model_call_id, given.output),
            body=FunctionCallOutput(
                call_id=given.call_id,
                name=known.call.name,
                output=given.output,
                settlement=given.settlement,
                attempt=given.attempt,
                worker_id=given.worker_id,
                error=given.error,
            ),
        )
        self(ItemAdded(item=item, in_history=self._in_history))

    def cut_off(self, text: str) -> None:
        """Record what was streamed before a cancel, outside the history."""
        item = Item(
            item_id=ids.item_id(self.state.turn_id, self.state.next_number),
            turn_id=self.state.turn_id,
            agent=self.state.pinned.agent.name,
            status=ItemStatus.INCOMPLETE,
            json="",
            body=Message(role=Role.ASSISTANT, content=(TextPart(text=text),)),
        )
        self(ItemDone(item=item, in_history=False), self.state.rounds + 1)

    def end(self, status: TurnStatus, *, output: str | None = None, failure: Failure | None = None) -> None:
        """Record the turn's terminal event."""
        state = self.state
        state.status, state.output, state.failure = status, output, failure
        self(TurnEnded(turn=state.snapshot()))

    def _named(self, new: NewItem, agent: str, index: int | None = None, rejected: bool = False) -> Item:
        state = self.state
        number = state.next_number
        body, status = new.body, new.status
        if isinstance(body, FunctionCall) and agent:
            body = FunctionCall(
                call_id=ids.call_id(state.turn_id, number),
                name=body.name,
                arguments=body.arguments,
                model_call_id=body.model_call_id,
            )
            status = ItemStatus.IN_PROGRESS
        return Item(
            item_id=ids.item_id(state.turn_id, number),
            turn_id=state.turn_id,
            agent=agent,
            status=ItemStatus.REJECTED if rejected else status,
            json="" if rejected else new.json,
            body=body,
            output_index=index,
            model_item_id=new.model_item_id,
        )


def _without_repeats(items: tuple[NewItem, ...]) -> tuple[NewItem, ...]:
    """Drop a call that the reply says twice over, word for word: it is executed once."""
    kept: dict[object, NewItem] = {}
    for position, item in enumerate(items):
        kept.setdefault(item.body if isinstance(item.body, FunctionCall) else position, item)
    return tuple(kept.values())


def _behaviour(message: str, **metadata: str) -> Failure:
    return Failure(reason=Reason.MODEL_BEHAVIOR_ERROR, message=message, metadata=metadata)


def _argument_problem(arguments: str) -> str | None:
    """Say why a model's argument text is no JSON object; None: it is one. Empty means no arguments."""
    if not arguments.strip():
        return None
    try:
        value = json.loads(arguments, parse_constant=_no_constant)
    except RecursionError:
        return "they are nested too deeply"
    except ValueError as error:
        return f"they are no JSON ({error})"
    return None if isinstance(value, dict) else "they are no JSON object"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


__all__ = ["FAILED_SETTLEMENTS", "Runner"]
