"""Sessions of the server, by the protocol of the Agents SDK's session memories."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from baton.checks import check_whole
from baton.errors import NotFoundError
from baton.items.raw_items import write_items
from baton.items.responses import RawItem, answered_by, call_of, model_call_ids, raw_item
from baton.options import refusing_unknown
from baton.own_words import OF_ADDED_ITEMS, in_own_words
from baton.server.connection import Connection, connection_for
from baton.server.content import complete_item, list_items
from baton.server.session_settings import SessionSettings, read_session_settings
from baton.v1 import item_pb2, session_pb2


class Session:
    """A durable conversation that the server keeps under a key, made when it is first used.

    `session_id` is the key, chosen by the application, 1 to 256 characters; whoever names it has the same history.
    Items are Responses API dictionaries. `address` None: the default server. `session_settings`: how much of it a run
    remembers, where its RunConfig does not say; None: all.
    """

    @refusing_unknown("Session")
    def __init__(
        self,
        session_id: str,
        *,
        address: str | None = None,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        if not session_id:
            raise ValueError("a session needs a key: Session('user-7')")
        if not isinstance(session_id, str):
            raise TypeError(f"a session's key must be a text, not {session_id!r}; write {str(session_id)!r}")
        self.session_id = session_id
        self.address = address
        self.session_settings = read_session_settings(session_settings)
        self._server_id = ""

    async def get_items(self, limit: int | None = None) -> list[RawItem]:
        """List the history, oldest first. `limit`: only the newest so many; None: as the session's settings say.

        No session yet: nothing.
        """
        check_whole("get_items: limit", limit, 0)
        connection = connection_for(self.address)
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        try:
            found = await self._newest(connection, limit)
        except NotFoundError:
            self._server_id = ""
            return []
        names = model_call_ids(found)
        wanted = found if limit is None else found[:limit]
        return [raw_item(item, names) for item in reversed(wanted)]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Put items behind the history; the next run sees them, one that runs does not."""
        if not items:
            return
        connection = connection_for(self.address)
        request = session_pb2.AddItemsRequest(
            request_id=uuid.uuid4().hex,
            session_id=await self._made(connection),
            items_json=write_items(items),
        )
        with in_own_words(names=OF_ADDED_ITEMS):
            await connection.unary(connection.sessions.AddItems, request)

    async def pop_item(self) -> RawItem | None:
        """Take the newest item out of the history and return it; None: there is none.

        A call and its output leave together, since a model refuses the one without the other.
        """
        removed = await self._remove(session_pb2.RemoveItemsRequest(last=1))
        return removed[-1] if removed else None

    async def clear_session(self) -> None:
        """Take all items out of the history. The server's log keeps them."""
        await self._remove(session_pb2.RemoveItemsRequest(all=True))

    async def _newest(self, connection: Connection, limit: int | None) -> list[item_pb2.Item]:
        """List newest first, at least so many, and on to the calls of all outputs among them."""
        request = session_pb2.ListItemsRequest(
            session_id=await self._found(connection), history_only=True, newest_first=True
        )
        found: list[item_pb2.Item] = []
        missing: set[str] = set()
        if limit is not None and limit <= 0:
            return found
        async for item in list_items(connection, request):
            if limit is not None and len(found) >= limit and not missing:
                break
            found.append(item)
            call = call_of(item)
            if answered_by(item) and (limit is None or len(found) <= limit):
                missing.add(answered_by(item))
            elif call is not None:
                missing -= {call.call_id, call.model_call_id}
        return found

    async def _remove(self, request: session_pb2.RemoveItemsRequest) -> list[RawItem]:
        connection = connection_for(self.address)
        try:
            request.request_id = uuid.uuid4().hex
            request.session_id = await self._found(connection)
            answer = await connection.unary(connection.sessions.RemoveItems, request)
        except NotFoundError:
            self._server_id = ""
            return []
        for item in answer.items:
            await complete_item(connection, request.session_id, item)
        names = model_call_ids(answer.items)
        return [raw_item(item, names) for item in answer.items]

    async def _found(self, connection: Connection) -> str:
        """Say the server's id. Raises NotFoundError where there is no session yet."""
        if not self._server_id:
            request = session_pb2.GetSessionRequest(key=self.session_id)
            answer = await connection.unary(connection.sessions.GetSession, request)
            self._server_id = answer.session.session_id
        return self._server_id

    async def _made(self, connection: Connection) -> str:
        """Say the server's id, making the session if there is none."""
        if not self._server_id:
            request = session_pb2.CreateSessionRequest(
                request_id=uuid.uuid4().hex, key=self.session_id, get_or_create=True
            )
            answer = await connection.unary(connection.sessions.CreateSession, request)
            self._server_id = answer.session.session_id
        return self._server_id


class SQLiteSession(Session):
    """The Agents SDK's name for a session that lasts. The server keeps it: there is no file to name."""

    def __init__(
        self,
        session_id: str,
        db_path: str | None = None,
        *,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        if db_path is not None:
            raise TypeError(
                f"SQLiteSession({session_id!r}, {db_path!r}): the server keeps sessions; leave the file out: "
                f"SQLiteSession({session_id!r})"
            )
        super().__init__(session_id, session_settings=session_settings)
