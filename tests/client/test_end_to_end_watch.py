"""A watch of a turn ends with the turn, however the log and the server's own news of it fall in time."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.client.end_to_end import PATIENCE_S, Serve, serve
from tests.support.scripted_model import Gate, say

from baton import Agent, Client, Runner, SQLiteSession
from baton.v1 import session_pb2
from baton_server.ports.store import Batch, Committed, Store

__all__ = ["serve"]


class LateNews:
    """A `Store` whose commit is on disk before whoever made it hears of that, once it is `armed`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.armed = False
        self.written, self.go_on = asyncio.Event(), asyncio.Event()

    async def commit(self, batch: Batch) -> Committed:
        """Implement `Store.commit`."""
        done = await self._store.commit(batch)
        if self.armed:
            self.written.set()
            await self.go_on.wait()
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_watch_that_read_the_end_in_the_log_ends_when_the_server_knows_of_it(serve: Serve) -> None:
    """The last events come from the log while the driver of the turn still waits for its commit."""
    stores: list[LateNews] = []
    gate = Gate()

    def around(store: Store) -> Store:
        stores.append(LateNews(store))
        late: Any = stores[0]  # the rest of a Store is the other one's
        return late  # type: ignore[no-any-return]

    async with serve(say("It ", gate, "rains."), around_store=around, heartbeat_s=0.05):
        running = asyncio.create_task(Runner.run(Agent[None](name="A"), "Hi", session=SQLiteSession("s")))
        await gate.reached()
        stores[0].armed = True
        gate.open()
        await stores[0].written.wait()
        client = Client()
        session = await client.get_session(key="s")
        kept = client.watch(session.session_id, follow_until=session_pb2.FOLLOW_NONE)
        (turn_id,) = {part.event.turn_id async for part in kept if part.event.HasField("turn_completed")}
        arms: list[str | None] = []

        async with asyncio.timeout(PATIENCE_S / 3):
            async for part in client.watch(session.session_id, turn_id=turn_id):
                arms.append(part.event.WhichOneof("event") or part.WhichOneof("part"))
                if arms[-1] == "heartbeat":  # it has looked, and waits for news
                    stores[0].go_on.set()

        assert arms[-1] == "heartbeat"
        assert arms.index("turn_completed") < arms.index("heartbeat") < len(arms) - 1
        assert (await running).final_output == "It rains."
