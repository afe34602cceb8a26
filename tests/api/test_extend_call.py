"""Who works without a stream renews its leases, reports, and learns what is to stop."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.calling import kinds, refused, soon
from tests.support.scripted_watcher import Watcher, extend_request, extended, not_extended
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import handler_pb2, session_pb2


async def out(stage: Stage) -> tuple[Watcher, Turn, handler_pb2.Call]:
    """Bring a call to a watcher."""
    watcher = await Watcher.watching(stage.client, "f")
    turn = await stage.call("f")
    call = await watcher.expect("call")
    await eventually(lambda: stage.lease(call.call_id).acked)
    return watcher, turn, call


async def test_a_lease_is_renewed_by_nothing_else(stage: Stage) -> None:
    """The answer says until when; at its end the call is delivered again."""
    watcher, turn, call = await out(stage)
    stage.pass_time(20)

    answer = await extended(stage.client, call, 60)

    assert answer.until.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 60, abs=0.01)
    assert not answer.HasField("cancel")
    (action,) = await turn.actions()
    assert action.lease.until == answer.until
    stage.pass_time(59)
    assert await turn.state() == "LEASED"
    stage.pass_time(2)
    lost = await watcher.expect("cancel")
    assert (lost.call_id, lost.reason) == (call.call_id, handler_pb2.CANCEL_REASON_LEASE_LOST)
    again = await watcher.expect("call")
    assert again.attempt == 2
    await watcher.finish(again)
    await turn.completed()


async def test_it_needs_no_stream(stage: Stage) -> None:
    """A poll has ended; its call goes on."""
    turn = await stage.call("f")
    poll = await Watcher.watching(stage.client, "f", ends={"end_after": 1})
    call = await poll.expect("call")
    await poll.ended()
    for _ in range(3):
        await extended(stage.client, call, 60)
        stage.pass_time(50)

    await poll.finish(call)

    assert "attempt_lost" not in kinds(await turn.completed())


async def test_after_a_restart_it_renews_what_is_left_of_the_grace(stage: Stage) -> None:
    """The lease is known by its attempt alone."""
    watcher, turn, call = await out(stage)
    await stage.restart()
    stage.pass_time(9)

    await extended(stage.client, call, 60)
    stage.pass_time(59)

    request = handler_pb2.SettleCallRequest(worker_id=watcher.worker_id, result={"call_id": call.call_id, "attempt": 1})
    request.result.output = "done"
    (ack,) = (await soon(stage.client.handlers.SettleCall(request))).acks
    assert ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE
    assert "attempt_lost" not in kinds(await stage.again(turn).completed())


async def test_who_extends_learns_that_its_turn_was_cancelled(stage: Stage) -> None:
    """With what is left of the grace; a result within it is taken, and one that stopped gives the call back."""
    turn = await stage.call("f")
    poll = await Watcher.watching(stage.client, "f", ends={"end_after": 1})
    call = await poll.expect("call")
    await poll.ended()
    await turn.cancel(grace={"seconds": 9})
    await turn.until("cancel_requested")
    await eventually(lambda: stage.lease(call.call_id).stop_by is not None)
    stage.pass_time(2)

    answer = await extended(stage.client, call, 60)

    cancel = answer.cancel
    assert (cancel.call_id, cancel.attempt, cancel.reason) == (call.call_id, 1, handler_pb2.CANCEL_REASON_TURN_ENDED)
    assert cancel.grace.ToTimedelta().total_seconds() == pytest.approx(7)
    await poll.give_back(call)
    await turn.until("turn_cancelled")


async def test_progress_is_published_to_watchers(stage: Stage) -> None:
    """As a worker's report on its stream is."""
    _, turn, call = await out(stage)
    follow = session_pb2.WatchRequest(session_id=turn.session_id, follow=session_pb2.FOLLOW_FOREVER)
    watch = stage.client.sessions.Watch(follow)
    await soon(watch.read())
    reported = {"call_id": call.call_id, "attempt": 1, "number": 1, "text": "half"}

    await extended(stage.client, call, progress=reported)

    async def progress() -> str:
        while True:
            for part in (await watch.read()).parts:
                if part.delta.HasField("progress"):
                    return part.delta.progress.text

    assert await asyncio.wait_for(progress(), 10) == "half"
    watch.cancel()


async def test_who_has_no_lease_is_told_why(stage: Stage) -> None:
    """As a status: there was never such a call, another attempt has its place, or it is settled."""
    watcher, turn, call = await out(stage)
    unknown = handler_pb2.Call(call_id="call_gone", attempt=1)
    assert await not_extended(stage.client, unknown) == "CALL_NOT_FOUND"
    await watcher.give_back(call)
    again = await watcher.expect("call")

    assert await not_extended(stage.client, call) == "ATTEMPT_STALE"
    await watcher.finish(again)
    assert await not_extended(stage.client, again) == "CALL_SETTLED"
    await turn.completed()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"seconds": 3601}, "extend.lease"),
        ({"progress": {"call_id": "call_1", "attempt": 2, "number": 1, "text": "x"}}, "progress.attempt"),
    ],
)
async def test_a_wrong_request_is_refused(stage: Stage, fields: dict[str, object], path: str) -> None:
    """By the field that is wrong."""
    request = extend_request(handler_pb2.Call(call_id="call_1", attempt=1), **fields)  # type: ignore[arg-type]

    said = await refused(stage.client.handlers.ExtendCall(request))

    assert (said.reason, said.paths) == ("INVALID_REQUEST", [path])
