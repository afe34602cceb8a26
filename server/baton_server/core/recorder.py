"""Recording: what one step's events look like. Decides nothing; `Runner` says what to record.

Each event is applied to the state at once and kept for the host, in that order of things, so that the number
of an item, its history and its round always follow from the state that the events before it left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from baton_server.core import ids
from baton_server.core.agents import History
from baton_server.core.errors import Failure
from baton_server.core.events import (
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    TurnEnded,
    TurnStatus,
)
from baton_server.core.inputs import CallSettled, ModelReplied, NewItem
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemStatus,
    Message,
    Role,
    TextPart,
)
from baton_server.core.responses import output_json
from baton_server.core.state import TurnState


class Recorder:
    """Records the events of one step. Called with an event's body, it records that one."""

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

    def reply(self, given: ModelReplied, items: Mapping[int, NewItem], *, rejected: bool = False) -> None:
        """Record the items of a reply by position, then the round. A rejected one is in the log alone."""
        number = given.round
        for index, new in items.items():
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
                joined_call_id=given.joined_call_id,
            ),
        )
        self(ItemAdded(item=item, in_history=self._in_history))

    def cut_off(self, text: str) -> None:
        """Record what was streamed before a cancel, outside the history; it never goes to the model."""
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
        self(TurnEnded(turn=replace(self.state.snapshot(), status=status, output=output, failure=failure)))

    def _named(self, new: NewItem, agent: str, index: int | None = None, *, rejected: bool = False) -> Item:
        state = self.state
        number = state.next_number
        body, status = new.body, new.status
        if isinstance(body, FunctionCall) and agent:
            body = replace(body, call_id=ids.call_id(state.turn_id, number))
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
