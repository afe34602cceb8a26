"""Reads of the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from baton_server.core.events import SessionStatus, TurnStatus
from baton_server.ports.store import (
    AgentRow,
    CallRow,
    CallState,
    EventRow,
    GrantRow,
    InboxRow,
    ItemRow,
    Page,
    RequestKey,
    RequestRow,
    SessionRow,
    TimerRow,
    TurnRow,
    Waiting,
)
from baton_server.store.memory.tables import Tables

EVENTS_BYTES = 1024 * 1024
"""What one read of the log gives, but for a single event that is larger (`Events.after`)."""

Row = TypeVar("Row")
Current = Callable[[], Tables]  # the tables after the newest commit; raises StoreUnavailable


class _Reads:
    def __init__(self, current: Current) -> None:
        self._current = current

    async def _now(self) -> Tables:
        """Take the tables as they are, and let others go on, as a store does that waits for a disk."""
        tables = self._current()
        await asyncio.sleep(0)
        return tables


def _behind(rows: Sequence[Row], after: str, key: Callable[[Row], str]) -> Sequence[Row]:
    """Cut off an ordered list what was seen, up to the row `after`; nothing is behind a row that is gone."""
    if not after:
        return rows
    return rows[next((n for n, row in enumerate(rows, 1) if key(row) == after), len(rows)) :]


class MemorySessions(_Reads):
    """Reads of sessions."""

    async def get(self, session_id: str) -> SessionRow | None:
        """Read a session."""
        return (await self._now()).sessions.get(session_id)

    async def by_key(self, key: str) -> SessionRow | None:
        """Read the session that has this key."""
        rows = (await self._now()).sessions.values()
        return next((row for row in rows if key and row.key == key), None)

    async def newest(
        self, page: Page, statuses: Sequence[SessionStatus] = (), metadata: Mapping[str, str] | None = None
    ) -> Sequence[SessionRow]:
        """List sessions, newest first."""
        wanted = (metadata or {}).items()
        rows = sorted((await self._now()).sessions.values(), key=lambda row: row.session_id, reverse=True)
        found = [
            row
            for row in rows
            if (not statuses or row.status in statuses)
            and wanted <= row.metadata.items()
            and (not page.after or row.session_id < page.after)
        ]
        return found[: page.size]

    async def expired(self, now: float, limit: int) -> Sequence[str]:
        """List sessions whose time has passed."""
        tables = await self._now()
        found = [
            (row.created_at + row.expires_after_s, row.session_id)
            for row in tables.sessions.values()
            if row.expires_after_s is not None
            and row.last_active_at + row.expires_after_s <= now
            and not tables.under_way(row.session_id)
        ]
        return [session_id for _, session_id in sorted(found)][:limit]

    async def grants(self, session_id: str) -> tuple[GrantRow, ...]:
        """List what was decided for all later calls of a session."""
        rows = sorted((await self._now()).grants.items())
        return tuple(row for key, row in rows if key[0] == session_id)


class MemoryTurns(_Reads):
    """Reads of turns."""

    async def get(self, turn_id: str) -> TurnRow | None:
        """Read a turn."""
        return (await self._now()).turns.get(turn_id)

    async def newest(self, session_id: str, page: Page) -> Sequence[TurnRow]:
        """List a session's turns, newest first."""
        rows = reversed((await self._now()).turns_of(session_id))
        return [row for row in rows if not page.after or row.turn_id < page.after][: page.size]

    async def queued(self, session_id: str) -> Sequence[TurnRow]:
        """List a session's QUEUED turns, oldest first."""
        return [row for row in (await self._now()).under_way(session_id) if row.status is TurnStatus.QUEUED]

    async def unfinished(self) -> Sequence[str]:
        """List the active turns of all sessions, oldest first."""
        active = (row.active_turn_id for row in (await self._now()).sessions.values())
        return sorted(turn_id for turn_id in active if turn_id)


class MemoryEvents(_Reads):
    """Reads of the log."""

    async def after(self, session_id: str, sequence: int, limit: int, turn_id: str = "") -> Sequence[EventRow]:
        """List events above a sequence, in order."""
        found: list[EventRow] = []
        size = 0
        for row in (await self._now()).events.get(session_id, ())[sequence:]:
            if turn_id and row.turn_id != turn_id:
                continue
            size += len(row.data)
            if len(found) == limit or (found and size > EVENTS_BYTES):
                break
            found.append(row)
        return found

    async def of_turn(self, turn_id: str) -> Sequence[EventRow]:
        """List all events of a turn, in order."""
        tables = await self._now()
        turn = tables.turns.get(turn_id)
        log = tables.events.get(turn.session_id, ()) if turn is not None else ()
        return [row for row in log if row.turn_id == turn_id]


class MemoryItems(_Reads):
    """Reads of items."""

    async def history(self, session_id: str, before: int) -> Sequence[str]:
        """List the JSON texts of the history as it was at a sequence."""
        return [
            row.json
            for row in (await self._now()).items_of(session_id)
            if row.json and 0 < row.added < before and not 0 < row.withdrawn < before
        ]

    async def texts(self, turn_id: str) -> Mapping[str, str]:
        """Read the JSON texts of a turn's items."""
        rows = (await self._now()).items.values()
        return {row.item_id: row.json for row in rows if row.turn_id == turn_id}

    async def page(
        self,
        session_id: str,
        page: Page,
        turn_id: str = "",
        history_only: bool = False,
        newest_first: bool = False,
    ) -> Sequence[ItemRow]:
        """List items in their order."""
        rows = (await self._now()).items_of(session_id)
        order = rows[::-1] if newest_first else rows
        found = [
            row
            for row in _behind(order, page.after, lambda row: row.item_id)
            if (not turn_id or row.turn_id == turn_id) and (not history_only or row.in_history)
        ]
        return found[: page.size]

    async def by_ids(self, session_id: str, item_ids: Sequence[str]) -> Sequence[ItemRow]:
        """Read items of a session, in the order asked for."""
        found = {row.item_id: row for row in (await self._now()).items_of(session_id)}
        return [found[item_id] for item_id in item_ids if item_id in found]

    async def newest_in_history(self, session_id: str, limit: int | None) -> Sequence[ItemRow]:
        """List the newest items of the history, newest first."""
        rows = [row for row in (await self._now()).items_of(session_id) if row.in_history]
        return rows[::-1][:limit]


class MemoryCalls(_Reads):
    """Reads of calls."""

    async def get(self, call_id: str) -> CallRow | None:
        """Read a call."""
        return (await self._now()).calls.get(call_id)

    async def open_in(self, session_id: str) -> Sequence[CallRow]:
        """List the open calls of a session, in call order."""
        return [row for row in await self._open() if row.session_id == session_id]

    async def open_everywhere(
        self, page: Page, names: Sequence[str] = (), scopes: Sequence[str] = ()
    ) -> Sequence[CallRow]:
        """List open calls of all sessions, oldest first."""
        order = list((await self._now()).calls.values())
        found = [
            row
            for row in _behind(order, page.after, lambda row: row.call_id)
            if row.state is not CallState.SETTLED
            and (not names or row.name in names)
            and (not scopes or set(row.scopes) & set(scopes))
        ]
        return found[: page.size]

    async def succeeded(self, session_id: str, idempotency_key: str) -> CallRow | None:
        """Find the newest call of a session that succeeded under a key, with its output recorded."""
        found = [
            row
            for row in (await self._now()).calls.values()
            if idempotency_key
            and (row.session_id, row.idempotency_key) == (session_id, idempotency_key)
            and row.succeeded
            and row.output_item_id
        ]
        return found[-1] if found else None

    async def _open(self) -> list[CallRow]:
        rows = (await self._now()).calls.values()
        return [row for row in rows if row.state is not CallState.SETTLED]


class MemoryAgents(_Reads):
    """Reads of kept agents."""

    async def get(self, agent_id: str, revision: int | None = None) -> AgentRow | None:
        """Read a revision."""
        rows = await self._revisions(agent_id)
        return next((row for row in rows if revision is None or row.revision == revision), None)

    async def newest(self, page: Page) -> Sequence[AgentRow]:
        """List the newest revision of each agent, newest agent first."""
        newest: dict[str, AgentRow] = {}
        for (agent_id, _), row in sorted((await self._now()).agents.items()):
            newest[agent_id] = row
        rows = [newest[agent_id] for agent_id in sorted(newest, reverse=True)]
        return [row for row in rows if not page.after or row.agent_id < page.after][: page.size]

    async def revisions(self, agent_id: str, page: Page) -> Sequence[AgentRow]:
        """List an agent's revisions, newest first."""
        rows = await self._revisions(agent_id)
        return [row for row in rows if not page.after or row.revision < int(page.after)][: page.size]

    async def _revisions(self, agent_id: str) -> list[AgentRow]:
        rows = [row for row in (await self._now()).agents.values() if row.agent_id == agent_id]
        return sorted(rows, key=lambda row: row.revision, reverse=True)


class MemoryDocuments(_Reads):
    """Reads by digest."""

    async def document(self, digest: str) -> bytes | None:
        """Read a pinned agent or configuration."""
        return (await self._now()).documents.get(digest)

    async def content(self, session_id: str, digest: str) -> bytes | None:
        """Read a large text of a session."""
        return (await self._now()).contents.get((session_id, digest))


class MemoryInbox(_Reads):
    """Reads of what reached turns."""

    async def rows(self, turn_id: str, after: int = 0) -> Sequence[InboxRow]:
        """List what a turn was not fed yet, in order."""
        return [row for row in (await self._now()).inbox_of(turn_id) if row.n > after]

    async def waiting(self, turn_id: str) -> Waiting:
        """Count what a turn was not fed yet."""
        rows = (await self._now()).inbox_of(turn_id)
        return Waiting(len(rows), sum(len(row.data) for row in rows))


class MemoryRequests(_Reads):
    """Reads of answered requests."""

    async def get(self, key: RequestKey) -> RequestRow | None:
        """Read the first answer."""
        return (await self._now()).requests.get(key)


class MemoryTimers(_Reads):
    """Reads of timers."""

    async def all(self) -> Sequence[TimerRow]:
        """List the timers that are set, soonest first."""
        rows = (await self._now()).timers.values()
        return sorted(rows, key=lambda row: (row.at, row.turn_id, row.name))
