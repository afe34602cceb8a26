"""Sessions: making, reading, changing and removing them, and their items outside turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from baton_server.app.agents import agent_not_found
from baton_server.app.keeping import check_takes_items
from baton_server.app.publish import publish
from baton_server.app.requests import Request, once
from baton_server.app.runtime import Runtime
from baton_server.app.turns.recording import Recording
from baton_server.app.watch import gone
from baton_server.core import ids
from baton_server.core.agents import Agent
from baton_server.core.errors import Reason, refuse
from baton_server.core.events import ItemAdded, ItemsWithdrawn, SessionCreated, SessionUpdated
from baton_server.core.inputs import NewItem
from baton_server.core.items import Item
from baton_server.core.run_config import RunConfig
from baton_server.ports.store import (
    Batch,
    Conflict,
    ConflictKind,
    ItemRow,
    SessionRow,
    SessionWrite,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """Where an agent comes from: inline, or kept (`agent_id`; `revision` None: the newest). Neither: none."""

    inline: Agent | None = None
    agent_id: str = ""
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a session gives its turns. `config` None: nothing said."""

    agent: AgentSource = field(default_factory=AgentSource)
    config: RunConfig | None = None
    scopes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """What RemoveItems took out of the history, oldest first, and the sequence of its event; 0: nothing."""

    items: Sequence[ItemRow]
    sequence: int


class Sessions:
    """The use cases of SessionService that start no turn."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def find(self, session_id: str) -> SessionRow:
        """Read a session. Raises Refused(SESSION_NOT_FOUND)."""
        row = await self._runtime.store.sessions.get(session_id)
        if row is None:
            raise gone(session_id)
        return row

    async def find_by_key(self, key: str) -> SessionRow:
        """Read the session of a key. Raises Refused(SESSION_NOT_FOUND)."""
        row = await self._runtime.store.sessions.by_key(key)
        if row is None:
            raise refuse(Reason.SESSION_NOT_FOUND, f"There is no session with the key {key!r}.", key=key)
        return row

    async def create(
        self, request: Request, key: str, defaults: Defaults, get_or_create: bool
    ) -> tuple[SessionRow, bool]:
        """Make a session; the flag tells whether it is new. Raises Refused(SESSION_KEY_TAKEN, AGENT_NOT_FOUND)."""

        async def attempt() -> tuple[SessionRow, bool]:
            there = await self._runtime.store.sessions.by_key(key) if key else None
            if there is not None:
                if not get_or_create:
                    raise key_taken(key, there.session_id)
                await self._runtime.store.commit(Batch(request=request.row(session_id=there.session_id, created=False)))
                return there, False
            row, documents = await self.new_row(key, defaults)
            recording = Recording(self._runtime.codec)
            recording.add(self.created(row))
            await self._runtime.store.commit(
                Batch(
                    session_id=row.session_id,
                    request=request.row(session_id=row.session_id, created=True),
                    session=SessionWrite(new=row),
                    events=tuple(recording.events),
                    documents=documents,
                )
            )
            return await self.find(row.session_id), True

        async def again(answer: Mapping[str, Any]) -> tuple[SessionRow, bool]:
            return await self.find(answer["session_id"]), bool(answer["created"])

        return await once(self._runtime, request, attempt, again)

    def created(self, row: SessionRow) -> SessionCreated:
        """Make the first event of a session's log."""
        return SessionCreated(key=row.key, agent_digest=row.agent_digest, metadata=row.metadata)

    async def new_row(self, key: str, defaults: Defaults) -> tuple[SessionRow, dict[str, bytes]]:
        """Make the row of a new session, and the documents that it names."""
        row = SessionRow(session_id=self._runtime.ids.new("sess"), key=key)
        return await self._with_defaults(row, defaults)

    async def update(self, request: Request, session_id: str, paths: tuple[str, ...], defaults: Defaults) -> SessionRow:
        """Change the named defaults for turns from now on. Raises Refused(SESSION_NOT_FOUND, AGENT_NOT_FOUND)."""

        async def attempt() -> SessionRow:
            row = await self.find(session_id)
            wanted, documents = await self._with_defaults(row, defaults)
            named = {
                "agent": ("agent_id", "agent_revision", "agent_digest"),
                "run_config": ("config_digest",),
                "scopes": ("scopes",),
                "metadata": ("metadata",),
                "expires_after": ("expires_after_s",),
            }
            changed = replace(row, **{column: getattr(wanted, column) for path in paths for column in named[path]})
            recording = Recording(self._runtime.codec)
            recording.add(SessionUpdated(paths=paths, agent_digest=changed.agent_digest))
            done = await self._runtime.store.commit(
                Batch(
                    session_id=session_id,
                    request=request.row(),
                    session=SessionWrite(expected_version=row.version, bump=True, replace=changed),
                    events=tuple(recording.events),
                    documents=documents,
                )
            )
            publish(self._runtime, session_id, recording, done)
            return await self.find(session_id)

        async def again(_: Mapping[str, Any]) -> SessionRow:
            return await self.find(session_id)

        return await once(self._runtime, request, attempt, again)

    async def delete(self, request: Request, session_id: str) -> None:
        """Remove a session with all that belongs to it. Raises Refused(SESSION_NOT_FOUND, TURN_RUNNING)."""

        async def attempt() -> None:
            row = await self.find(session_id)
            if row.active_turn_id:
                raise refuse(
                    Reason.TURN_RUNNING,
                    f"The turn {row.active_turn_id} of the session still runs or waits. Cancel it first.",
                    turn_id=row.active_turn_id,
                )
            await self._runtime.store.commit(Batch(session_id=session_id, request=request.row(), session_deleted=True))
            self._runtime.bus.close_session(session_id)

        async def again(_: Mapping[str, Any]) -> None:
            return None

        await once(self._runtime, request, attempt, again)

    async def expire(self, limit: int) -> int:
        """Remove sessions whose life is over; returns how many."""
        now = self._runtime.clock.wall()
        removed = 0
        for session_id in await self._runtime.store.sessions.expired(now, limit):
            try:
                await self._runtime.store.commit(Batch(session_id=session_id, session_deleted=True))
            except Conflict as conflict:
                if conflict.kind not in (ConflictKind.BUSY, ConflictKind.GONE):
                    raise
                continue
            self._runtime.bus.close_session(session_id)
            removed += 1
        return removed

    # -- items -----------------------------------------------------------------------------------

    async def add_items(
        self, request: Request, session_id: str, items: Sequence[NewItem]
    ) -> tuple[tuple[str, ...], int]:
        """Put items into the history without a turn; returns their ids and the last sequence.

        Raises Refused(SESSION_NOT_FOUND, HISTORY_MIXED).
        """

        async def attempt() -> tuple[tuple[str, ...], int]:
            check_takes_items(await self.find(session_id))
            batch_id = self._runtime.ids.new("turn")  # only the ids of the items carry it
            recording = Recording(self._runtime.codec)
            names = []
            for number, new in enumerate(items):
                item = Item(
                    item_id=ids.item_id(batch_id, number),
                    turn_id="",
                    body=new.body,
                    json=new.json,
                    status=new.status,
                    model_item_id=new.model_item_id,
                )
                names.append(item.item_id)
                recording.add(ItemAdded(item=item, in_history=True))
            done = await self._runtime.store.commit(
                Batch(
                    session_id=session_id,
                    request=request.row(item_ids=names),
                    events=tuple(recording.events),
                    contents=recording.contents,
                )
            )
            publish(self._runtime, session_id, recording, done)
            return tuple(names), done.last_sequence

        async def again(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
            rows = await self._runtime.store.items.by_ids(session_id, answer["item_ids"])
            return tuple(answer["item_ids"]), max((row.sequence for row in rows), default=0)

        return await once(self._runtime, request, attempt, again)

    async def remove_items(self, request: Request, session_id: str, last: int | None) -> Removed:
        """Take the newest `last` items out of the history, None: all; a call and its output go together."""

        async def attempt() -> Removed:
            session = await self.find(session_id)
            history = await self._runtime.store.items.newest_in_history(session_id, None)
            # A turn that runs still makes its items: without one of them the rest would not be well formed.
            rows = [row for row in history if not row.turn_id or row.turn_id != session.active_turn_id]
            gone_rows = rows if last is None else _with_partners(rows, last)
            gone_ids = tuple(row.item_id for row in reversed(gone_rows))
            recording = Recording(self._runtime.codec)
            if gone_ids:
                recording.add(ItemsWithdrawn(item_ids=() if len(gone_ids) == len(history) else gone_ids))
            done = await self._runtime.store.commit(
                Batch(
                    session_id=session_id,
                    request=request.row(item_ids=gone_ids),
                    session=SessionWrite(expected_version=session.version, bump=True),
                    events=tuple(recording.events),
                    withdrawn=gone_ids,
                )
            )
            publish(self._runtime, session_id, recording, done)
            return Removed(list(reversed(gone_rows)), done.last_sequence if gone_ids else 0)

        async def again(answer: Mapping[str, Any]) -> Removed:
            rows = await self._runtime.store.items.by_ids(session_id, answer["item_ids"])
            return Removed(rows, max((row.withdrawn for row in rows), default=0))

        return await once(self._runtime, request, attempt, again)

    # -- inside ----------------------------------------------------------------------------------

    async def agent_of(self, source: AgentSource) -> tuple[Agent, str, int] | None:
        """Find the agent that a source names, with its id and revision. Raises Refused(AGENT_NOT_FOUND)."""
        if source.inline is not None:
            return source.inline, "", 0
        if not source.agent_id:
            return None
        row = await self._runtime.store.agents.get(source.agent_id, source.revision)
        if row is None:
            raise agent_not_found(source.agent_id, source.revision)
        return await self._runtime.agent(row.digest), row.agent_id, row.revision

    async def _with_defaults(self, row: SessionRow, defaults: Defaults) -> tuple[SessionRow, dict[str, bytes]]:
        documents: dict[str, bytes] = {}
        found = await self.agent_of(defaults.agent)
        agent_digest, agent_id, revision = "", "", 0
        if found is not None:
            agent, agent_id, revision = found
            agent_digest, data = self._runtime.codec.agent(agent)
            documents[agent_digest] = data
        config_digest = ""
        if defaults.config is not None:
            config_digest, data = self._runtime.codec.config(defaults.config)
            documents[config_digest] = data
        row = replace(
            row,
            agent_id=agent_id,
            agent_revision=revision,
            agent_digest=agent_digest,
            config_digest=config_digest,
            scopes=defaults.scopes,
            metadata=defaults.metadata,
            expires_after_s=defaults.expires_after_s,
        )
        return row, documents


def key_taken(key: str, session_id: str) -> Exception:
    """Say that another session has a key."""
    return refuse(
        Reason.SESSION_KEY_TAKEN,
        f"The session {session_id} has the key {key!r}. Choose another key, or set get_or_create.",
        key=key,
        session_id=session_id,
    )


def _with_partners(newest_first: Sequence[ItemRow], last: int) -> list[ItemRow]:
    """Take the newest `last` rows, and what their calls and outputs belong to."""
    chosen = set(range(min(last, len(newest_first))))
    calls: dict[str, list[int]] = {}
    for index, row in enumerate(newest_first):
        call_id = json.loads(row.json).get("call_id") if '"call_id"' in row.json else None
        if call_id:
            calls.setdefault(call_id, []).append(index)
    for partners in calls.values():
        if chosen.intersection(partners):
            chosen.update(partners)
    return [row for index, row in enumerate(newest_first) if index in chosen]
