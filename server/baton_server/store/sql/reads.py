"""Reads of the port, over whatever runs a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from baton_server.core.events import SessionStatus
from baton_server.ports.store import (
    AgentRow,
    CallRow,
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
from baton_server.store.sql import rows
from baton_server.store.sql.rows import Params, Row
from baton_server.store.sql.statements import Queries

EVENTS_BYTES = 1024 * 1024
"""What one read of the log gives, but for a single event that is larger (`Events.after`)."""


class Ask(Protocol):
    """Runs a query, after every commit that has returned."""

    async def __call__(self, sql: str, params: Params, max_bytes: int | None = None) -> Sequence[Row]:
        """Read rows. `max_bytes` bounds the sum of their last columns after the first row; None: all rows."""
        ...


class SqlSessions:
    """Reads of sessions."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.sessions

    async def get(self, session_id: str) -> SessionRow | None:
        """Read a session."""
        found = await self._ask(self._sql.get, {"session_id": session_id})
        return rows.session(found[0]) if found else None

    async def by_key(self, key: str) -> SessionRow | None:
        """Read the session that has this key."""
        found = await self._ask(self._sql.by_key, {"key": key})
        return rows.session(found[0]) if found else None

    async def newest(
        self, page: Page, statuses: Sequence[SessionStatus] = (), metadata: Mapping[str, str] | None = None
    ) -> Sequence[SessionRow]:
        """List sessions, newest first."""
        given = {
            "statuses": rows.texts(statuses),
            "metadata": rows.pairs(metadata or {}),
            "after": page.after,
            "size": page.size,
        }
        found = await self._ask(self._sql.newest_after if page.after else self._sql.newest, given)
        return [rows.session(row) for row in found]

    async def expired(self, now: float, limit: int) -> Sequence[str]:
        """List sessions whose time has passed."""
        return [row[0] for row in await self._ask(self._sql.expired, {"now": now, "limit": limit})]

    async def grants(self, session_id: str) -> tuple[GrantRow, ...]:
        """List what was decided for all later calls of a session."""
        return tuple(rows.grant(row) for row in await self._ask(self._sql.grants, {"session_id": session_id}))


class SqlTurns:
    """Reads of turns."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.turns

    async def get(self, turn_id: str) -> TurnRow | None:
        """Read a turn."""
        found = await self._ask(self._sql.get, {"turn_id": turn_id})
        return rows.turn(found[0]) if found else None

    async def newest(self, session_id: str, page: Page) -> Sequence[TurnRow]:
        """List a session's turns, newest first."""
        given = {"session_id": session_id, "after": page.after, "size": page.size}
        found = await self._ask(self._sql.newest_after if page.after else self._sql.newest, given)
        return [rows.turn(row) for row in found]

    async def queued(self, session_id: str) -> Sequence[TurnRow]:
        """List a session's QUEUED turns, oldest first."""
        return [rows.turn(row) for row in await self._ask(self._sql.queued, {"session_id": session_id})]

    async def unfinished(self) -> Sequence[str]:
        """List the ids of all turns IN_PROGRESS or WAITING, oldest first."""
        return [row[0] for row in await self._ask(self._sql.unfinished, {})]


class SqlEvents:
    """Reads of the log."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.events

    async def after(self, session_id: str, sequence: int, limit: int, turn_id: str = "") -> Sequence[EventRow]:
        """List events above a sequence, in order."""
        given = {"session_id": session_id, "after": sequence, "limit": limit, "turn_id": turn_id}
        sql = self._sql.after_of_turn if turn_id else self._sql.after
        return [rows.event(row) for row in await self._ask(sql, given, EVENTS_BYTES)]

    async def of_turn(self, turn_id: str) -> Sequence[EventRow]:
        """List all events of a turn, in order."""
        return [rows.event(row) for row in await self._ask(self._sql.of_turn, {"turn_id": turn_id})]


class SqlItems:
    """Reads of items."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.items

    async def history(self, session_id: str, before: int) -> Sequence[str]:
        """List the JSON texts of the history as it was at a sequence."""
        found = await self._ask(self._sql.history, {"session_id": session_id, "before": before})
        return [row[0].decode() for row in found]

    async def texts(self, turn_id: str) -> Mapping[str, str]:
        """Read the JSON texts of a turn's items."""
        return {row[0]: row[1].decode() for row in await self._ask(self._sql.texts, {"turn_id": turn_id})}

    async def page(
        self,
        session_id: str,
        page: Page,
        turn_id: str = "",
        history_only: bool = False,
        newest_first: bool = False,
    ) -> Sequence[ItemRow]:
        """List items in their order."""
        sql = {
            (False, False): self._sql.page,
            (False, True): self._sql.page_after,
            (True, False): self._sql.newest,
            (True, True): self._sql.newest_after,
        }[newest_first, bool(page.after)]
        given = {
            "session_id": session_id,
            "turn_id": turn_id,
            "history_only": int(history_only),
            "after": page.after,
            "size": page.size,
        }
        return [rows.item(row) for row in await self._ask(sql, given)]

    async def by_ids(self, session_id: str, item_ids: Sequence[str]) -> Sequence[ItemRow]:
        """Read items of a session, in the order asked for."""
        answer = await self._ask(self._sql.by_ids, {"item_ids": rows.texts(item_ids)})
        found = {row[0]: rows.item(row) for row in answer if row[-1] == session_id}
        return [found[item_id] for item_id in item_ids if item_id in found]

    async def newest_in_history(self, session_id: str, limit: int | None) -> Sequence[ItemRow]:
        """List the newest items of the history, newest first."""
        everything = Page(size=_ALL if limit is None else limit)
        return await self.page(session_id, everything, history_only=True, newest_first=True)


_ALL = 2**62
"""A limit above any count."""


class SqlCalls:
    """Reads of calls."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.calls

    async def get(self, call_id: str) -> CallRow | None:
        """Read a call."""
        found = await self._ask(self._sql.get, {"call_id": call_id})
        return rows.call(found[0]) if found else None

    async def open_in(self, session_id: str) -> Sequence[CallRow]:
        """List the open calls of a session, in call order."""
        return [rows.call(row) for row in await self._ask(self._sql.open_in, {"session_id": session_id})]

    async def open_everywhere(
        self, page: Page, names: Sequence[str] = (), scopes: Sequence[str] = ()
    ) -> Sequence[CallRow]:
        """List open calls of all sessions, oldest first."""
        given = {
            "names": rows.texts(names),
            "scopes": rows.texts(scopes),
            "after": page.after,
            "size": page.size,
        }
        sql = self._sql.open_everywhere_after if page.after else self._sql.open_everywhere
        return [rows.call(row) for row in await self._ask(sql, given)]

    async def succeeded(self, session_id: str, idempotency_key: str) -> CallRow | None:
        """Find the newest call of a session that succeeded under a key, with its output recorded."""
        given = {"session_id": session_id, "idempotency_key": idempotency_key}
        found = await self._ask(self._sql.succeeded, given)
        return rows.call(found[0]) if found else None


class SqlAgents:
    """Reads of kept agents."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.agents

    async def get(self, agent_id: str, revision: int | None = None) -> AgentRow | None:
        """Read a revision."""
        sql = self._sql.get if revision is None else self._sql.revision
        found = await self._ask(sql, {"agent_id": agent_id, "revision": revision})
        return rows.agent(found[0]) if found else None

    async def newest(self, page: Page) -> Sequence[AgentRow]:
        """List the newest revision of each agent, newest agent first."""
        given = {"after": page.after, "size": page.size}
        found = await self._ask(self._sql.newest_after if page.after else self._sql.newest, given)
        return [rows.agent(row) for row in found]

    async def revisions(self, agent_id: str, page: Page) -> Sequence[AgentRow]:
        """List an agent's revisions, newest first."""
        given = {"agent_id": agent_id, "after": int(page.after or 0), "size": page.size}
        found = await self._ask(self._sql.revisions_after if page.after else self._sql.revisions, given)
        return [rows.agent(row) for row in found]


class SqlDocuments:
    """Reads by digest."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.rest

    async def document(self, digest: str) -> bytes | None:
        """Read a pinned agent or configuration."""
        found = await self._ask(self._sql.document, {"digest": digest})
        return found[0][0] if found else None

    async def content(self, session_id: str, digest: str) -> bytes | None:
        """Read a large text of a session."""
        found = await self._ask(self._sql.content, {"session_id": session_id, "digest": digest})
        return found[0][0] if found else None


class SqlInbox:
    """Reads of what reached turns."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.rest

    async def rows(self, turn_id: str, after: int = 0) -> Sequence[InboxRow]:
        """List what a turn was not fed yet, in order."""
        found = await self._ask(self._sql.inbox, {"turn_id": turn_id, "after": after})
        return [rows.inbox(row) for row in found]

    async def waiting(self, turn_id: str) -> Waiting:
        """Count what a turn was not fed yet."""
        ((count, size),) = await self._ask(self._sql.inbox_waiting, {"turn_id": turn_id})
        return Waiting(count, size)


class SqlRequests:
    """Reads of answered requests."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.rest

    async def get(self, key: RequestKey) -> RequestRow | None:
        """Read the first answer."""
        given = {"rpc": key.rpc, "session_id": key.session_id, "request_id": key.request_id}
        found = await self._ask(self._sql.request, given)
        if not found:
            return None
        digest, answer, created_at = found[0]
        return RequestRow(key=key, digest=digest, answer=answer, created_at=created_at)


class SqlTimers:
    """Reads of timers."""

    def __init__(self, ask: Ask, queries: Queries) -> None:
        self._ask, self._sql = ask, queries.rest

    async def all(self) -> Sequence[TimerRow]:
        """List the timers that are set, soonest first."""
        return [rows.timer(row) for row in await self._ask(self._sql.timers, {})]
