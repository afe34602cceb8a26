"""Reads, one protocol per aggregate, and the store that offers them all beside its one write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from baton_server.core.events import SessionStatus
from baton_server.ports.store.batch import Batch, Committed
from baton_server.ports.store.rows import (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Where a list goes on: `after` is the sort key of the last row seen, empty: from the start."""

    size: int
    after: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How much waits in an inbox: rows, and bytes of their data."""

    rows: int
    bytes: int


class Sessions(Protocol):
    """Reads of sessions."""

    async def get(self, session_id: str) -> SessionRow | None:
        """Read a session; None: there is none."""
        ...

    async def by_key(self, key: str) -> SessionRow | None:
        """Read the session that has this key; None: there is none."""
        ...

    async def newest(
        self, page: Page, statuses: Sequence[SessionStatus] = (), metadata: Mapping[str, str] | None = None
    ) -> Sequence[SessionRow]:
        """List sessions, newest first; `page.after` is a session_id. Empty filters let everything through."""
        ...

    async def expired(self, now: float, limit: int) -> Sequence[str]:
        """List sessions whose `expires_after_s` has passed since their last event and all of whose turns ended."""
        ...

    async def grants(self, session_id: str) -> tuple[GrantRow, ...]:
        """List what was decided for all later calls of a session, by agent and tool."""
        ...


class Turns(Protocol):
    """Reads of turns."""

    async def get(self, turn_id: str) -> TurnRow | None:
        """Read a turn; None: there is none."""
        ...

    async def newest(self, session_id: str, page: Page) -> Sequence[TurnRow]:
        """List a session's turns, newest first; `page.after` is a turn_id."""
        ...

    async def queued(self, session_id: str) -> Sequence[TurnRow]:
        """List a session's QUEUED turns, oldest first."""
        ...

    async def unfinished(self) -> Sequence[str]:
        """List the active turns of all sessions, oldest first: what a new process drives on.

        An active turn may still be QUEUED: its session named it when the turn before ended.
        """
        ...


class Events(Protocol):
    """Reads of the log."""

    async def after(self, session_id: str, sequence: int, limit: int, turn_id: str = "") -> Sequence[EventRow]:
        """List events above a sequence, in order, at most `limit` and about 1 MiB; at least one if there is any."""
        ...

    async def of_turn(self, turn_id: str) -> Sequence[EventRow]:
        """List all events of a turn, in order."""
        ...


class Items(Protocol):
    """Reads of items."""

    async def history(self, session_id: str, before: int) -> Sequence[str]:
        """List the JSON texts of the history as it was at sequence `before`, in its order.

        What was added below `before` and not withdrawn below it.
        """
        ...

    async def texts(self, turn_id: str) -> Mapping[str, str]:
        """Read the JSON texts of a turn's items, by item_id."""
        ...

    async def page(
        self,
        session_id: str,
        page: Page,
        turn_id: str = "",
        history_only: bool = False,
        newest_first: bool = False,
    ) -> Sequence[ItemRow]:
        """List items in (anchor, rank) order; `page.after` is an item_id."""
        ...

    async def by_ids(self, session_id: str, item_ids: Sequence[str]) -> Sequence[ItemRow]:
        """Read items of a session, in the order asked for; what is not there is left out."""
        ...

    async def newest_in_history(self, session_id: str, limit: int | None) -> Sequence[ItemRow]:
        """List the newest items of the history, newest first. None: all of it."""
        ...


class Calls(Protocol):
    """Reads of calls."""

    async def get(self, call_id: str) -> CallRow | None:
        """Read a call; None: there was never one."""
        ...

    async def open_in(self, session_id: str) -> Sequence[CallRow]:
        """List the open calls of a session, in call order."""
        ...

    async def open_everywhere(
        self, page: Page, names: Sequence[str] = (), scopes: Sequence[str] = ()
    ) -> Sequence[CallRow]:
        """List open calls of all sessions, oldest first; `page.after` is a call_id.

        A new process sets all clocks of calls from it: `deadline`, `expires_at`, `decide_by`.
        """
        ...

    async def succeeded(self, session_id: str, idempotency_key: str) -> CallRow | None:
        """Find the newest call of a session that was settled with success under a key (not empty) and whose output
        is recorded; None: there is none."""
        ...


class Agents(Protocol):
    """Reads of kept agents."""

    async def get(self, agent_id: str, revision: int | None = None) -> AgentRow | None:
        """Read a revision, None: the newest. None: there is none."""
        ...

    async def newest(self, page: Page) -> Sequence[AgentRow]:
        """List the newest revision of each agent, newest agent first; `page.after` is an agent_id."""
        ...

    async def revisions(self, agent_id: str, page: Page) -> Sequence[AgentRow]:
        """List an agent's revisions, newest first; `page.after` is a revision as text."""
        ...


class Documents(Protocol):
    """Reads by digest."""

    async def document(self, digest: str) -> bytes | None:
        """Read a pinned agent or configuration; None: there is none."""
        ...

    async def content(self, session_id: str, digest: str) -> bytes | None:
        """Read a large text of a session; None: there is none."""
        ...


class Inbox(Protocol):
    """Reads of what reached turns."""

    async def rows(self, turn_id: str, after: int = 0) -> Sequence[InboxRow]:
        """List what a turn was not fed yet, in order. `after`: the `n` of the last row that is known, 0: none."""
        ...

    async def waiting(self, turn_id: str) -> Waiting:
        """Count what a turn was not fed yet."""
        ...


class Requests(Protocol):
    """Reads of answered requests."""

    async def get(self, key: RequestKey) -> RequestRow | None:
        """Read the first answer; None: the request_id is unused or was forgotten."""
        ...


class Timers(Protocol):
    """Reads of timers."""

    async def all(self) -> Sequence[TimerRow]:
        """List the timers that are set, soonest first."""
        ...


class Store(Protocol):
    """All of it. Reads see every commit that returned before they were asked. Raises StoreUnavailable."""

    @property
    def sessions(self) -> Sessions:
        """Reads of sessions."""
        ...

    @property
    def turns(self) -> Turns:
        """Reads of turns."""
        ...

    @property
    def events(self) -> Events:
        """Reads of the log."""
        ...

    @property
    def items(self) -> Items:
        """Reads of items."""
        ...

    @property
    def calls(self) -> Calls:
        """Reads of calls."""
        ...

    @property
    def agents(self) -> Agents:
        """Reads of kept agents."""
        ...

    @property
    def documents(self) -> Documents:
        """Reads by digest."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Reads of what reached turns."""
        ...

    @property
    def requests(self) -> Requests:
        """Reads of answered requests."""
        ...

    @property
    def timers(self) -> Timers:
        """Reads of timers."""
        ...

    async def commit(self, batch: Batch) -> Committed:
        """Check the guards and write the batch, durably. Raises Conflict, Duplicate, StoreUnavailable."""
        ...

    async def forget(self, before: float, limit: int) -> int:
        """Remove up to `limit` answered requests from before a time. Returns how many."""
        ...

    async def healthy(self) -> bool:
        """Tell whether the store can be read and written now. False once it is closed."""
        ...

    async def close(self) -> None:
        """Finish what was asked for and let go of files and connections. Later calls raise StoreUnavailable."""
        ...


class Stamp(Protocol):
    """Completes an event at rest. Given to a store when it is built, since only the codec knows the format."""

    def __call__(self, event: bytes, session_id: str, sequence: int, at: float) -> bytes:
        """Add session, sequence and time to an event that was serialised without them."""
        ...
