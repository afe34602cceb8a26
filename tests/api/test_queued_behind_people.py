"""Runs queued behind a turn that waits for people: who waits for them is told, and they begin in their time."""

from __future__ import annotations

import asyncio

from tests.api.approvals import KYOTO, REJECT, decide, guarded
from tests.api.calling import attach, everything, frames, fresh, soon, streamed_request
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2


async def test_a_run_behind_a_turn_that_waits_for_a_decision_rests(serve: Serve) -> None:
    """It is QUEUED and says so; sent again once somebody has decided, it waits, and has its answer."""
    served = await serve(calls(KYOTO), say("As you like."), say("Two."))
    client, session_id = served.client, (await served.client.session()).session_id
    await attach(client, "get_weather")
    paused = await client.run(session_id=session_id, agent=guarded("get_weather"))
    request_id = fresh()

    queued = await soon(client.run(session_id=session_id, text="b", request_id=request_id))
    await decide(client, paused.required_actions[0], REJECT)
    await client.rest(session_id)
    again = await client.run(session_id=session_id, text="b", request_id=request_id)

    assert (queued.turn.status, list(queued.required_actions)) == (event_pb2.TURN_STATUS_QUEUED, [])
    assert (again.turn.turn_id, again.turn.output) == (queued.turn.turn_id, "Two.")


async def test_a_streamed_run_ends_once_the_turn_before_it_waits_for_people(serve: Serve) -> None:
    """However long it has stood behind it before."""
    gate = Gate()
    served = await serve(calls(KYOTO, before=gate))
    client, session_id = served.client, (await served.client.session()).session_id
    await attach(client, "get_weather")
    first = asyncio.ensure_future(client.run(session_id=session_id, agent=guarded("get_weather")))
    await gate.reached()
    second = client.runner.RunStreamed(streamed_request(session_id=session_id, text="b"))
    await soon(second.read())

    gate.open()
    result = (await everything(frames(second)))[-1].result

    assert (await first).turn.status == event_pb2.TURN_STATUS_WAITING
    assert result.turn.status == event_pb2.TURN_STATUS_QUEUED
