"""Workers that expect to be silent ask for more time, call by call."""

from __future__ import annotations

import grpc
import pytest
from tests.api.calling import kinds
from tests.support.scripted_worker import ScriptedWorker, acked, held
from tests.support.stage import Stage

from baton.v1 import error_pb2, handler_pb2


async def extend(worker: ScriptedWorker, call: handler_pb2.Call, seconds: int) -> handler_pb2.ExtendAck:
    """Ask for a longer lease, and take the answer."""
    await worker.send(extend={"call_id": call.call_id, "attempt": call.attempt, "lease": {"seconds": seconds}})
    ack: handler_pb2.ExtendAck = await worker.expect("extend_ack")
    assert (ack.call_id, ack.attempt) == (call.call_id, call.attempt)
    return ack


async def test_an_extension_lasts_over_silence_and_then_ends(stage: Stage) -> None:
    """The answer says until when; the stream is not ended meanwhile, and the call is nobody else's."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)

    ack = await extend(worker, call, 600)

    assert ack.until.ToMicroseconds() / 1e6 == pytest.approx(stage.clock.wall() + 600, abs=0.01)
    (action,) = await turn.actions()
    assert action.lease.until == ack.until
    stage.pass_time(599)
    await worker.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())
    stage.pass_time(31)
    assert (await worker.ended()).code == grpc.StatusCode.UNAVAILABLE


async def test_an_extension_lasts_over_a_broken_stream(stage: Stage) -> None:
    """A laptop may sleep for longer than the grace, and then come back with its token and go on."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await acked(worker)
    await extend(worker, call, 600)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(300)
    assert await turn.state() == "LEASED"

    back = await stage.back(worker, "f", held=held(call))

    assert [one.verdict for one in back.welcome.attempts] == [handler_pb2.HELD_VERDICT_CONTINUE]
    await back.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())


async def test_who_has_no_lease_is_told_why(stage: Stage) -> None:
    """The call was settled, or another attempt takes the place of this one."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.send(nack={"call_id": call.call_id, "attempt": 1})
    again = await worker.expect("call")

    stale = await extend(worker, call, 60)
    await worker.finish(again)
    settled = await extend(worker, again, 60)

    assert stale.error.reason == error_pb2.ERROR_REASON_ATTEMPT_STALE
    assert settled.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    assert not settled.HasField("until")
    await turn.completed()


@pytest.mark.slow
async def test_many_extensions_without_a_lease_are_all_answered(stage: Stage) -> None:
    """Each is looked up in the store; what waits for that is bounded, and none is forgotten."""
    worker = await stage.worker("f")

    for n in range(1500):
        await worker.send(extend={"call_id": f"call_{n}", "attempt": 1, "lease": {"seconds": 60}})

    acks = await worker.expect_all("extend_ack", 1500)
    assert {ack.call_id for ack in acks} == {f"call_{n}" for n in range(1500)}
