"""Everything that a store keeps, as dictionaries of values that never change."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from baton_server.core.events import TERMINAL
from baton_server.ports.store import (
    AgentRow,
    CallRow,
    EventRow,
    GrantRow,
    InboxRow,
    ItemRow,
    RequestKey,
    RequestRow,
    SessionRow,
    TimerRow,
    TurnRow,
)


@dataclass(slots=True, kw_only=True)
class Tables:
    """The tables. Dictionaries keep the order in which rows came, which is the order of calls.

    `sessions_of_items`: session by item_id. `grants`: by session, agent and tool. `inbox_last`: the newest n that a
    turn's inbox ever had.
    """

    sessions: dict[str, SessionRow] = field(default_factory=dict)
    turns: dict[str, TurnRow] = field(default_factory=dict)
    events: dict[str, tuple[EventRow, ...]] = field(default_factory=dict)
    items: dict[str, ItemRow] = field(default_factory=dict)
    sessions_of_items: dict[str, str] = field(default_factory=dict)
    calls: dict[str, CallRow] = field(default_factory=dict)
    grants: dict[tuple[str, str, str], GrantRow] = field(default_factory=dict)
    inbox: dict[tuple[str, int], InboxRow] = field(default_factory=dict)
    inbox_last: dict[str, int] = field(default_factory=dict)
    timers: dict[tuple[str, str], TimerRow] = field(default_factory=dict)
    agents: dict[tuple[str, int], AgentRow] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    contents: dict[tuple[str, str], bytes] = field(default_factory=dict)
    requests: dict[RequestKey, RequestRow] = field(default_factory=dict)

    def copy(self) -> Tables:
        """Copy the dictionaries; the rows are shared."""
        return Tables(**{table.name: dict(getattr(self, table.name)) for table in fields(self)})

    def items_of(self, session_id: str) -> list[ItemRow]:
        """List a session's items in the order of its history."""
        own = [row for row in self.items.values() if self.sessions_of_items[row.item_id] == session_id]
        return sorted(own, key=lambda row: (row.anchor, row.rank, row.item_id))

    def turns_of(self, session_id: str) -> list[TurnRow]:
        """List a session's turns, oldest first."""
        own = (row for row in self.turns.values() if row.session_id == session_id)
        return sorted(own, key=lambda row: row.turn_id)

    def under_way(self, session_id: str) -> list[TurnRow]:
        """List a session's turns that have not ended, oldest first."""
        return [row for row in self.turns_of(session_id) if row.status not in TERMINAL]

    def inbox_of(self, turn_id: str) -> list[InboxRow]:
        """List what a turn was not fed yet, in order."""
        own = (row for row in self.inbox.values() if row.turn_id == turn_id)
        return sorted(own, key=lambda row: row.n)
