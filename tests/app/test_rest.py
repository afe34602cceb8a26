"""Rest: a session rests when its last turn does, however its turns follow each other."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import cast

from tests.api.calling import client_of, helper, soon, until
from tests.support.faulty_store import FaultyStore
from tests.support.scripted_model import Gate, ScriptedModel, calls, say
from tests.support.server import server
from tests.support.stepped_clock import SteppedClock

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


async def test_what_a_former_process_left_does_not_rest_before_its_workers_had_their_grace(tmp_path: Path) -> None:
    """They come back to a server that was restarted within seconds; a run must not be told that nobody serves it."""
    tools = [{"function": {"name": "f", "parameters_json": '{"type":"object"}'}}]
    settings = {"registration_grace_s": 10.0}
    clock = SteppedClock()
    async with (
        server(tmp_path, ScriptedModel([calls(("f", "{}"))]), clock=clock, **settings) as baton,
        client_of(baton) as client,
    ):
        session = await client.session(agent=helper(tools=tools))
        answer = await client.submit(session.session_id, "Go.")
        await until(
            client.sessions.Watch(session_pb2.WatchRequest(session_id=session.session_id)), "session_requires_action"
        )
    clock.advance(60)

    async with server(tmp_path, ScriptedModel([]), clock=clock, **settings) as baton:
        rest = Rest(baton.runtime, Registry(), baton.driver)

        left = await rest.turn_left(session.session_id, answer.turn_id)

    assert left is not None
    assert left > 10
