"""Rest: a session rests when its last turn does, however its turns follow each other."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import cast

from tests.api.calling import client_of, soon
from tests.support.faulty_store import FaultyStore
from tests.support.scripted_model import Gate, ScriptedModel, say
from tests.support.server import server

from baton.v1 import session_pb2
from baton_server.app.calls.registry import Registry
from baton_server.app.turns.rest import Rest
from baton_server.ports.store import Store


async def test_a_session_does_not_rest_between_two_turns(tmp_path: Path) -> None:
    """The turn that was active when somebody looked has ended meanwhile; the next one works."""
    first, second = Gate(), Gate()
    made: list[FaultyStore] = []

    def around(store: Store) -> Store:
        made.append(FaultyStore(store))
        return cast(Store, made[0])

    model = ScriptedModel([say("one", first), say("two", second)])
    async with server(tmp_path, model, around_store=around) as baton, client_of(baton) as client:
        session = await client.session()
        await client.submit(session.session_id, "first")
        await first.reached()
        await client.submit(session.session_id, "second", if_busy=session_pb2.IF_BUSY_QUEUE)
        rest = Rest(baton.runtime, Registry(), baton.driver)
        read, go_on = made[0].hold("sessions.get")
        left = asyncio.ensure_future(rest.session_left(session.session_id))
        await soon(read.wait())
        first.open()
        await second.reached()

        go_on.set()

        assert await soon(left) == math.inf
        second.open()
        await client.rest(session.session_id)
        assert await rest.session_left(session.session_id) == 0.0
