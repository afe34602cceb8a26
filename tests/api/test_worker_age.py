"""Streams that grow old are replaced by new ones, and nobody notices but their workers."""

from __future__ import annotations

import grpc
import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import ScriptedWorker, acked, held
from tests.support.stage import Stage

from baton.v1 import handler_pb2


async def grown_old(stage: Stage, worker: ScriptedWorker) -> handler_pb2.Drain:
    """Let time pass until a stream is old."""
    for _ in range(70):
        stage.pass_time(1)
        await worker.send(heartbeat={})
        await worker.send()
        frame = await worker.frame()
        if frame.HasField("drain"):
            await worker.expect_error()
            return frame.drain
    raise AssertionError("nobody was asked to leave")


async def test_an_old_stream_is_replaced_without_losing_anything(empty_stage: Stage) -> None:
    """The worker attaches anew with what it holds while the old stream still lives."""
    stage = await empty_stage.start(max_stream_age_s=60.0)
    worker = await stage.worker("f")
    turn = await stage.turn([("f", "{}")], [("f", "{}")])
    call = await acked(worker)

    drain = await grown_old(stage, worker)
    assert drain.reason
    assert drain.deadline.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 10, abs=0.01)
    back = await stage.back(worker, "f", held=held(call))

    assert (await worker.ended()).reason == "WORKER_REPLACED"
    assert [one.verdict for one in back.welcome.attempts] == [handler_pb2.HELD_VERDICT_CONTINUE]
    await back.finish(call)
    await back.finish(await back.expect("call"))
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_a_worker_that_does_not_leave_is_made_to(empty_stage: Stage) -> None:
    """Its stream ends after the grace; until then it may finish what it has, but gets nothing new."""
    stage = await empty_stage.start(max_stream_age_s=60.0)
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await grown_old(stage, worker)
    waiting = await stage.call("f")
    await waiting.waiting()
    await worker.finish(call)
    await turn.completed()
    await worker.nothing()

    stage.pass_time(11)

    ending = await worker.ended()
    assert (ending.code, ending.reason) == (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
    assert await waiting.state() == "QUEUED"
    back = await stage.back(worker, "f")
    await back.finish(await back.expect("call"))
    await waiting.completed()
