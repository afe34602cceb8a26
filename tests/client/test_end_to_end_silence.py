"""A connection that is dead without anybody having said so: packets go into it, and nothing comes out."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.end_to_end import PATIENCE_S, Serve, serve
from tests.faults.proxy import Proxy
from tests.support.scripted_model import calls, say

from baton import Agent, Client, RemoteFunction, Worker
from baton.v1 import session_pb2

__all__ = ["serve"]

FOR_GOOD_S = 3600.0


@pytest.mark.slow
async def test_a_worker_goes_on_over_a_new_connection(serve: Serve) -> None:
    """Its heartbeats find out within three intervals; a stream over the old connection would be as dead."""
    worked = asyncio.Event()
    async with (
        serve(calls(("f", "{}")), say("Done."), heartbeat_s=0.2, registration_grace_s=0.5) as served,
        Proxy(served.baton.address) as proxy,
    ):
        worker = Worker(proxy.address)

        @worker.function
        async def f() -> str:
            worked.set()
            return "done"

        async with worker:
            assert proxy.half_open(FOR_GOOD_S) > 0
            client = Client(served.baton.address)
            agent: Agent[None] = Agent(
                name="Assistant", tools=[RemoteFunction("f", params_json_schema={"type": "object"})]
            )
            session = await client.create_session(agent=agent)
            await client.submit(session.session_id, "Go.")

            await asyncio.wait_for(worked.wait(), PATIENCE_S)
            async for part in client.watch(session.session_id, follow_until=session_pb2.FOLLOW_FOREVER):
                if part.event.HasField("turn_completed"):
                    break
