"""Recording: what one step's events look like. Decides nothing; `Runner` says what to record.

Each event is applied to the state at once and kept for the host, in that order of things, so that the number
of an item, its history and its round always follow from the state that the events before it left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from baton_server.core import filters, ids
from baton_server.core.errors import Failure
from baton_server.core.events import (
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    RoundCompleted,
    TurnEnded,
    TurnStatus,
    Withdrawal,
)
from baton_server.core.inputs import CallSettled, ModelReplied, NewItem
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    ContentPart,
    FunctionCall,
    FunctionCallOutput,
    HandoffCall,
    HandoffOutput,
    Item,
    ItemStatus,
    Message,
    Reasoning,
    Role,
    Settlement,
    TextPart,
)
from baton_server.core.responses import assistant_message, output_json
from baton_server.core.rules import Rules
from baton_server.core.run import Run, Transfer
from baton_server.core.run_config import HistoryMode, ReasoningItemIds
from baton_server.core.state import TurnState

_WITHDRAWN_FROM_ALL = frozenset({Withdrawal.FILTERED, Withdrawal.FAILED, Withdrawal.UNANSWERED})
"""Why items leave what a turn made, or what its next one begins with: told also where nothing is in a history."""


class Recorder:
    """Records the events of one step, of one run after another. Called with an event's body, it records that one."""

    def __init__(self, state: TurnState, rules: Rules) -> None:
        self.state, self.rules = state, rules
        self.events: list[Event] = []
        self._in_history = state.pinned.config.mode is HistoryMode.SESSION

    def __call__(self, body: EventBody, run: Run | None = None, round_number: int | None = None) -> None:
        run = run or self.state.own
        rounds = run.rounds if round_number is None else round_number
        event = Event(body=body, turn_id=self.state.turn_id, round=rounds, run_path=run.path)
        self.events.append(event)
        self.state.apply(event)

    def item(self, new: NewItem, run: Run | None = None, *, in_history: bool = True) -> None:
        """Record an item of a run's input. `in_history` False: it is there already, or must not be."""
        run = run or self.state.own
        item = self._named(new, run, agent="")
        self(ItemAdded(item=item, in_history=in_history and self._joins(run)), run)

    def reply(self, given: ModelReplied, items: Sequence[NewItem], run: Run, rejected: Collection[int]) -> None:
        """Record the items of a reply, then the round. Those at the positions `rejected` are in the log alone."""
        number = given.round
        omits = self.state.pinned.config.reasoning_item_ids is ReasoningItemIds.OMIT
        for index, new in enumerate(items):
            if omits and isinstance(new.body, Reasoning):
                new = replace(new, json=filters.without_id(new.json))
            item = self._named(new, run, agent=run.agent, index=index, rejected=index in rejected)
            arm = ItemAdded if isinstance(new.body, FunctionCall | HandoffCall) else ItemDone
            self(arm(item=item, in_history=self._joins(run) and index not in rejected), run, number)
        done = RoundCompleted(
            model=given.model,
            response_id=given.response_id,
            usage=given.usage,
            duration_ms=given.duration_ms,
            model_attempts=given.model_attempts,
        )
        self(done, run, number)

    def output(self, given: CallSettled, *, custom_data_json: str = "") -> None:
        """Record what came of a call, under the number that was kept for it."""
        known = self.state.calls[given.call_id]
        body = FunctionCallOutput(
            call_id=given.call_id,
            name=known.call.name,
            output=given.output,
            settlement=given.settlement,
            attempt=given.attempt,
            worker_id=given.worker_id,
            error=given.error,
            joined_call_id=given.joined_call_id,
            custom_data_json=custom_data_json,
        )
        self._output(body, known.output_number, known.agent, known.call.model_call_id, known.run_path)

    def blocked(self, call_id: str, output: tuple[ContentPart, ...]) -> None:
        """Record what stands in the place of a call's output that was held back, behind all else."""
        known = self.state.calls[call_id]
        settlement = Settlement.BLOCKED
        body = FunctionCallOutput(call_id=call_id, name=known.call.name, output=output, settlement=settlement)
        self._output(body, self.state.next_number, known.agent, known.call.model_call_id, known.run_path)

    def handed(self, transfer: Transfer, to_agent: str, words: str, run: Run) -> None:
        """Record what the model is told of a handoff. `to_agent` empty: another one won."""
        call = transfer.call
        item = Item(
            item_id=ids.item_id(self.state.turn_id, transfer.output_number),
            turn_id=self.state.turn_id,
            agent=run.agent,
            run_path=run.path,
            json=output_json(call.model_call_id, (TextPart(text=words),)),
            body=HandoffOutput(call_id=call.call_id, from_agent=run.agent, to_agent=to_agent, output=words),
        )
        self(ItemAdded(item=item, in_history=self._joins(run)), run)

    def message(self, text: str, run: Run) -> None:
        """Record a message of the agent's that no model made."""
        new = assistant_message(text)
        self(ItemDone(item=self._named(new, run, agent=run.agent), in_history=self._joins(run)), run)

    def cut_off(self, text: str, run: Run) -> None:
        """Record what was streamed before a cancel, outside the history; it never goes to the model."""
        item = Item(
            item_id=ids.item_id(self.state.turn_id, self.state.next_number),
            turn_id=self.state.turn_id,
            agent=run.agent,
            run_path=run.path,
            status=ItemStatus.INCOMPLETE,
            json="",
            body=Message(role=Role.ASSISTANT, content=(TextPart(text=text),)),
        )
        self(ItemDone(item=item, in_history=False), run, run.round)

    def withdraw(self, numbers: Iterable[int], reason: Withdrawal, run: Run) -> None:
        """Record that items leave the history, and what a turn made; where they never joined one, only the latter."""
        item_ids = tuple(ids.item_id(self.state.turn_id, number) for number in numbers)
        if item_ids and (self._joins(run) or reason in _WITHDRAWN_FROM_ALL):
            self(ItemsWithdrawn(item_ids=item_ids, reason=reason), run)

    def end(
        self,
        status: TurnStatus,
        *,
        output: str | None = None,
        structured: bool = False,
        failure: Failure | None = None,
    ) -> None:
        """Record the turn's terminal event."""
        turn = replace(self.state.snapshot(), status=status, output=output, structured=structured, failure=failure)
        self(TurnEnded(turn=turn))

    def _joins(self, run: Run) -> bool:
        return self._in_history and not run.path

    def _output(
        self, body: FunctionCallOutput, number: int, agent: str, model_call_id: str, run_path: tuple[str, ...]
    ) -> None:
        run = self.state.runs[run_path]
        failed = body.settlement in FAILED_SETTLEMENTS
        item = Item(
            item_id=ids.item_id(self.state.turn_id, number),
            turn_id=self.state.turn_id,
            agent=agent,
            run_path=run_path,
            status=ItemStatus.FAILED if failed else ItemStatus.COMPLETED,
            json=output_json(model_call_id, body.output),
            body=body,
        )
        self(ItemAdded(item=item, in_history=self._joins(run)), run)

    def _named(self, new: NewItem, run: Run, agent: str, index: int | None = None, *, rejected: bool = False) -> Item:
        state = self.state
        number = state.next_number
        body, status = new.body, new.status
        if isinstance(body, FunctionCall | HandoffCall) and agent:
            body = replace(body, call_id=ids.call_id(state.turn_id, number))
            status = ItemStatus.IN_PROGRESS if isinstance(body, FunctionCall) else status
        return Item(
            item_id=ids.item_id(state.turn_id, number),
            turn_id=state.turn_id,
            agent=agent,
            run_path=run.path,
            status=ItemStatus.REJECTED if rejected else status,
            json="" if rejected else new.json,
            body=body,
            output_index=index,
            model_item_id=new.model_item_id,
        )
