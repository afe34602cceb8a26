"""Sweeping: one look removes all that has expired, however much it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.api.calling import client_of, sweeper_at
from tests.support.server import server

from baton.v1 import session_pb2
from baton_server.app.sweep import AT_ONCE
from baton_server.ports.store import Batch, RequestKey, RequestRow, SessionRow, SessionWrite

MANY = 2 * AT_ONCE + 1


async def test_one_look_removes_all_that_has_expired(tmp_path: Path) -> None:
    """More sessions and answers than one commit takes; what has not expired stays."""
    async with server(tmp_path) as baton, client_of(baton) as client:
        store = baton.runtime.store
        keys = [RequestKey(rpc="Run", session_id="", request_id=str(number)) for number in range(MANY)]
        await asyncio.gather(*(store.commit(Batch(request=RequestRow(key=k, digest="d", answer=b"{}"))) for k in keys))
        rows = [SessionRow(session_id=f"sess_{number}", expires_after_s=60.0) for number in range(MANY)]
        await asyncio.gather(
            *(store.commit(Batch(session_id=row.session_id, session=SessionWrite(new=row))) for row in rows)
        )
        kept = await client.session()

        await sweeper_at(baton, 25 * 3600.0).sweep()

        assert [await store.requests.get(key) for key in keys] == [None] * MANY
        left = await client.sessions.ListSessions(session_pb2.ListSessionsRequest())
        assert [session.session_id for session in left.sessions] == [kept.session_id]
