"""From events to rows: what the events of one step write into the store.

Data over branching: a `Recording` gathers events in order and says what the batch of the step contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from baton_server.core import ids
from baton_server.core.events import (
    ApprovalRequested,
    CallReturned,
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    SessionIdle,
    SessionInProgress,
    SessionRequiresAction,
    SessionStatus,
    TurnEnded,
)
from baton_server.core.items import FunctionCall, FunctionCallOutput, Item, ItemStatus
from baton_server.ports.codec import Codec
from baton_server.ports.store import ItemRow, NewEvent

_STATUS_EDGES: Mapping[type, SessionStatus] = {
    SessionInProgress: SessionStatus.IN_PROGRESS,
    SessionRequiresAction: SessionStatus.REQUIRES_ACTION,
    SessionIdle: SessionStatus.IDLE,
}


class Recording:
    """The events of one step, serialised as they come.

    `status`: where they leave the session, None: as it was. `opened`, `answered`: calls that they opened and
    settled, `returned`: calls of which it is known what they gave, and the model is told later. `withdrawn`: items that
    leave the history. `contents`: large texts by digest. `bodies`: the events themselves, as the core has them.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.events: list[NewEvent] = []
        self.bodies: list[Event] = []
        self.edges: list[bool] = []
        self.ends: list[bool] = []
        self.contents: dict[str, bytes] = {}
        self.status: SessionStatus | None = None
        self.opened: list[FunctionCall] = []
        self.answered: list[FunctionCallOutput] = []
        self.returned: list[CallReturned] = []
        self.withdrawn: list[str] = []

    def add(self, body: EventBody, turn_id: str = "", round_number: int = 0) -> None:
        """Record an event that the use case itself makes."""
        self.extend((Event(body=body, turn_id=turn_id, round=round_number),))

    def extend(self, events: Iterable[Event]) -> None:
        """Record events of the core."""
        for event in events:
            data, contents = self._codec.event(event)
            self.contents.update(contents)
            row = None
            body = event.body
            if isinstance(body, ItemAdded | ItemDone):
                row = self._item(body.item, body.in_history)
            elif isinstance(body, CallReturned):
                self.returned.append(body)
            elif isinstance(body, ItemsWithdrawn):
                self.withdrawn.extend(body.item_ids)
            self.status = _STATUS_EDGES.get(type(body), self.status)
            self.events.append(NewEvent(turn_id=event.turn_id, data=data, item=row))
            self.bodies.append(event)
            self.edges.append(_may_rest(body))
            self.ends.append(isinstance(body, TurnEnded))

    def _item(self, item: Item, in_history: bool) -> ItemRow:
        if isinstance(item.body, FunctionCall) and item.status is ItemStatus.IN_PROGRESS:
            self.opened.append(item.body)
        elif isinstance(item.body, FunctionCallOutput) and item.body.settlement is not None:
            self.answered.append(item.body)
        return ItemRow(
            item_id=item.item_id,
            turn_id=item.turn_id,
            rank=ids.number_of(item.item_id),
            data=self._codec.item(item),
            json=item.json,
            in_history=in_history,
        )


def _may_rest(body: EventBody) -> bool:
    """Tell whether a turn may rest after an event: an output may leave only calls that nobody serves."""
    if isinstance(body, ItemAdded):
        return isinstance(body.item.body, FunctionCallOutput)
    return isinstance(body, SessionRequiresAction | SessionIdle | TurnEnded | CallReturned | ApprovalRequested)
