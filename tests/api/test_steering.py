"""Steering has bounds: what waits for a turn's next model request is read once, and is never too much."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import grpc
from tests.api.calling import client_of, kinds, refused, submit_request
from tests.api.conftest import Serve
from tests.support.faulty_store import FaultyStore
from tests.support.scripted_model import Gate, ScriptedModel, say
from tests.support.server import server

from baton.v1 import session_pb2 as pb
from baton_server.ports.store import Store

MOST = 256


async def test_messages_that_wait_are_read_once(tmp_path: Path) -> None:
    """However many have come before, the next one costs one row."""
    gate = Gate()
    made: list[FaultyStore] = []

    def around(store: Store) -> Store:
        made.append(FaultyStore(store))
        return cast(Store, made[0])

    model = ScriptedModel([say("one", gate), say("two")])
    async with server(tmp_path, model, around_store=around) as baton, client_of(baton) as client:
        session = await client.session()
        await client.submit(session.session_id, "begin")
        await gate.reached()

        for number in range(20):
            await client.submit(session.session_id, f"m{number}")

        gate.open()
        await client.rest(session.session_id)
        assert [item["content"] for item in model.input_of(1)[-20:]] == [f"m{number}" for number in range(20)]
        # Each was read once when it came, and once more by the turn that they joined in the end.
        assert made[0].counts["inbox.rows"] <= 41


async def test_too_many_messages_for_one_turn_are_refused(serve: Serve) -> None:
    """However many come at once; QUEUE is still open, and a message joins again once the others were taken."""
    first, second = Gate(), Gate()
    served = await serve(say("one", first), say("two", second), say("three"), say("four"))
    client = served.client
    session = await client.session()
    turn = await client.submit(session.session_id, "begin")
    await first.reached()

    async def steer(number: int) -> str:
        try:
            return pb.InputStatus.Name((await client.submit(session.session_id, f"m{number}")).outcomes[0].status)
        except grpc.aio.AioRpcError:
            return "refused"

    seen = await asyncio.gather(*(steer(number) for number in range(MOST + 40)))
    while await steer(-1) != "refused":  # what was just written may count twice for a moment
        seen.append("INPUT_STATUS_STEERED")

    assert seen.count("INPUT_STATUS_STEERED") == MOST
    refusal = await refused(client.sessions.SubmitInput(submit_request(session.session_id, "one more")))
    assert (refusal.reason, refusal.metadata) == ("SESSION_BUSY", {"turn_id": turn.turn_id})
    assert "next model request" in refusal.message
    later = await client.submit(session.session_id, "later", if_busy=pb.IF_BUSY_QUEUE)
    assert later.outcomes[0].status == pb.INPUT_STATUS_QUEUED
    first.open()
    await second.reached()
    assert await steer(-2) == "INPUT_STATUS_STEERED"
    second.open()
    assert kinds(await client.rest(session.session_id))[-1] == "session_idle"


async def test_too_large_messages_for_one_turn_are_refused(serve: Serve) -> None:
    """Sixteen mebibytes may wait; a message that waits alone may be as large as any."""
    gate = Gate()
    served = await serve(say("one", gate), say("two"))
    client = served.client
    session = await client.session()
    await client.submit(session.session_id, "begin")
    await gate.reached()
    await client.submit(session.session_id, "x" * 9_000_000)

    refusal = await refused(client.sessions.SubmitInput(submit_request(session.session_id, "y" * 9_000_000)))

    assert refusal.reason == "SESSION_BUSY"
    await client.submit(session.session_id, "y" * 5_000_000)
    gate.open()
    assert kinds(await client.rest(session.session_id))[-2:] == ["turn_completed", "session_idle"]
