"""Everything that can be read of a store through its port, to compare stores, or one store before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baton_server.ports.store import Page, Store

EVERYTHING = Page(size=10_000)


async def dump(
    store: Store, *, calls: Sequence[str] = (), digests: Sequence[str] = (), turns: Sequence[str] = ()
) -> dict[str, Any]:
    """Read all sessions and what they hold, and by name what no list shows."""
    sessions = await store.sessions.newest(EVERYTHING)
    agents = await store.agents.newest(EVERYTHING)
    return {
        "sessions": sessions,
        "of_sessions": {row.session_id: await _session(store, row.session_id) for row in sessions},
        "unfinished": await store.turns.unfinished(),
        "inboxes": {turn_id: await store.inbox.rows(turn_id) for turn_id in turns},
        "calls": {call_id: await store.calls.get(call_id) for call_id in calls},
        "open": await store.calls.open_everywhere(EVERYTHING),
        "timers": await store.timers.all(),
        "agents": {row.agent_id: await store.agents.revisions(row.agent_id, EVERYTHING) for row in agents},
        "newest_agents": agents,
        "documents": {digest: await store.documents.document(digest) for digest in digests},
    }


async def _session(store: Store, session_id: str) -> dict[str, Any]:
    turns = await store.turns.newest(session_id, EVERYTHING)
    events = await store.events.after(session_id, 0, 10_000)
    return {
        "turns": turns,
        "queued": await store.turns.queued(session_id),
        "events": events,
        "of_turns": {
            row.turn_id: (await store.events.of_turn(row.turn_id), await store.items.texts(row.turn_id))
            for row in turns
        },
        "items": await store.items.page(session_id, EVERYTHING),
        "histories": [await store.items.history(session_id, before) for before in range(len(events) + 2)],
        "open": await store.calls.open_in(session_id),
        "grants": await store.sessions.grants(session_id),
    }
