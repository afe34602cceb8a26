"""A server that misbehaves: the worker of the client lives through it, and what else its process does goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from baton import close_connections
from baton.v1 import error_pb2, handler_pb2
from tests.faults.peers import UNKNOWN_ARM, Liar, Lying, Victim, home, soon
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
Lie = Callable[[Lying], Awaitable[None]]


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    """A server that does what the test says."""
    async with Liar() as made:
        yield made


@pytest.fixture
async def victim(liar: Liar) -> AsyncIterator[Victim]:
    """A worker that is to be lied to."""
    made = Victim(liar.address)
    yield made
    await made.stop()
    await close_connections()


# -- lies that are passed over -----------------------------------------------------------------------


def about(call_id: str = "call_of_nobody", **fields: Any) -> dict[str, Any]:
    """Make the fields of a frame about a call that the worker does not have."""
    return {"call_id": call_id, "attempt": 1, **fields}


LIES: dict[str, list[dict[str, Any]]] = {
    "a frame that says nothing": [{}],
    "an ack of a result that was never sent": [
        {"result_ack": about(verdict=handler_pb2.RESULT_VERDICT_DURABLE)},
        {"result_ack": about(verdict=handler_pb2.RESULT_VERDICT_REFUSED)},
        {"result_ack": about()},
    ],
    "a cancel of a call that it does not have": [{"cancel": about(reason=handler_pb2.CANCEL_REASON_TURN_ENDED)}],
    "an extension that it did not ask for": [
        {"extend_ack": about()},
        {"extend_ack": about(error=error_pb2.Error(reason=error_pb2.ERROR_REASON_ATTEMPT_STALE))},
    ],
    "verdicts about handlers that it does not have": [
        {"registered": {"handlers": [{"name": "nothing"}, {"name": "", "error": {"message": "no"}}]}}
    ],
    "an error about a frame that it never sent": [
        {"protocol_error": {"frame_number": 10**15, "error": {"reason": error_pb2.ERROR_REASON_FRAME_INVALID}}}
    ],
    "hooks that it does not serve": [{"hook_batch": {"batch_id": "b", "hooks": [{"hook_id": "hook_1", "name": "x"}]}}],
    "a call of a function that it does not have": [{"call": about(name="nothing", arguments_json="{}")}],
    "arguments that are no JSON": [{"call": about(name="work", arguments_json="{")}],
}


@pytest.mark.parametrize("frames", LIES.values(), ids=LIES)
async def test_frames_that_make_no_sense_change_nothing(
    liar: Liar, victim: Victim, tmp_path: Path, frames: list[dict[str, Any]]
) -> None:
    """The stream lives, and the next call is executed on it."""
    async with home(tmp_path):
        peer = await victim.attach(liar)
        for frame in frames:
            await peer.send(**frame)
        await peer.lives("call_1")
        assert ("call_1", 1) in victim.begun


async def test_an_unknown_frame_is_passed_over(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """One of a later version, and a call that has a field of one."""
    async with home(tmp_path):
        peer = await victim.attach(liar)
        await peer.send_bytes(UNKNOWN_ARM)
        call = handler_pb2.Call(call_id="call_1", attempt=1, name="work", arguments_json="{}").SerializeToString()
        frame = handler_pb2.ConnectResponse(call=handler_pb2.Call.FromString(call + UNKNOWN_ARM))
        await peer.send_bytes(frame.SerializeToString())
        assert (await peer.settle()).output == "worked 1"


async def test_a_call_that_comes_twice_is_executed_once(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """While it runs it is acked again; once its result is kept, that is sent again."""
    victim.leave.clear()
    async with home(tmp_path):
        peer = await victim.attach(liar)
        for _ in range(3):
            await peer.call("work")
        assert (await peer.receive("call_ack")).call_id == "call_1"
        victim.leave.set()
        first = await peer.receive("result")
        await peer.call("work")
        assert await peer.receive("result") == first
        assert victim.begun == [("call_1", 1)]
        await peer.lives("call_2")


async def test_a_cancel_that_comes_late_stops_nothing(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """Behind the result and its ack, and for an attempt that is long over while the next one runs."""
    async with home(tmp_path):
        peer = await victim.attach(liar)
        await peer.call("work")
        await peer.settle()
        victim.leave.clear()
        await peer.call("work", attempt=2)
        await soon(victim.entered.wait())
        await peer.send(cancel=handler_pb2.Cancel(call_id="call_1", attempt=1))
        assert (await peer.receive("cancel_ack")).outcome == handler_pb2.CANCEL_OUTCOME_NOT_STOPPED
        victim.leave.set()
        assert (await peer.settle()).output == "worked 2"
        assert victim.cancelled == []


# -- lies after which it attaches anew ---------------------------------------------------------------


async def end_without_status(peer: Lying) -> None:
    """End the stream with OK, though nobody drained."""
    peer.end()


async def reset_stream(peer: Lying) -> None:
    """End the stream as one that is cancelled."""
    peer.end(grpc.StatusCode.CANCELLED, "reset")


async def say_unavailable(peer: Lying) -> None:
    """End the stream as a server that goes."""
    peer.end(grpc.StatusCode.UNAVAILABLE, "gone")


async def send_too_much(peer: Lying) -> None:
    """Send a frame that is larger than any that the worker takes."""
    with suppress(grpc.aio.BaseError):  # it hangs up in the middle
        await peer.send(drain={"reason": "x" * (5 * MIB)})


async def send_garbage(peer: Lying) -> None:
    """Send bytes that are no frame."""
    await peer.send_bytes(b"\xff\xff\xff")


async def send_bad_slices(peer: Lying) -> None:
    """Send the second slice of a frame of which there was no first."""
    await peer.send(chunk=handler_pb2.Chunk(chunk_id=1, index=1, data=b"x"))


async def welcome_twice(peer: Lying) -> None:
    """Send a second Welcome, with another token."""
    await peer.send(welcome=handler_pb2.Welcome(worker_id="worker_2", resume_token="another"))


LEAVING: list[Lie] = [
    end_without_status, reset_stream, say_unavailable, send_too_much, send_garbage, send_bad_slices, welcome_twice,
]  # fmt: skip


@pytest.mark.parametrize("lie", LEAVING, ids=lambda lie: lie.__name__)
async def test_a_stream_that_ends_is_no_end(liar: Liar, victim: Victim, tmp_path: Path, lie: Lie) -> None:
    """It attaches anew with its token, names what it holds, and gives the result there, once."""
    victim.leave.clear()
    async with home(tmp_path):
        peer = await victim.attach(liar)
        await peer.call("work")
        await soon(victim.entered.wait())
        await lie(peer)
        second = await liar.attached()
        assert second.hello.resume_token in ("the token", "another")
        (held,) = second.hello.held
        assert (held.call_id, held.attempt, held.begun, held.finished) == ("call_1", 1, True, False)
        victim.leave.set()
        assert (await second.settle()).output == "worked 1"
        assert victim.begun == [("call_1", 1)]
        await second.lives("call_2")


async def test_a_server_that_falls_silent_is_left(liar: Liar, tmp_path: Path) -> None:
    """The connection stands and brings nothing: after three heartbeats the stream is given up, whatever comes later.

    A new stream goes over the same connection as long as gRPC takes it for good, hence the end of the silence.
    """
    liar.heartbeat_s = 0.2
    async with Proxy(liar.address) as proxy, home(tmp_path):
        victim = Victim(proxy.address)
        peer = await victim.attach(liar)
        await peer.lives("call_1")
        victim.leave.clear()
        await peer.call("work", call_id="call_2")
        await peer.receive("heartbeat")
        proxy.half_open(1.0)
        victim.leave.set()
        second = await liar.attached()
        (held,) = second.hello.held
        assert (held.call_id, held.finished) == ("call_2", True)
        assert (await second.settle()).output == "worked 1"
        await victim.stop()


async def test_a_server_that_drains_is_left_at_once(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """A new stream with the token begins beside the old one, which may bring a call that is given back unbegun."""
    victim.leave.clear()
    async with home(tmp_path):
        peer = await victim.attach(liar)
        await peer.call("work")
        await soon(victim.entered.wait())
        await peer.send(drain=handler_pb2.Drain(reason="away"))
        second = await liar.peer()
        hello = await second.receive("hello")
        assert (hello.resume_token, [held.call_id for held in hello.held]) == ("the token", ["call_1"])
        await peer.call("work", call_id="call_2")
        nack = await peer.receive("nack")
        assert (nack.call_id, nack.not_begun) == ("call_2", True)
        await second.send(welcome=handler_pb2.Welcome(resume_token="the token", attempts=[verdict("call_1")]))
        victim.leave.set()
        assert (await second.settle()).output == "worked 1"
        assert victim.begun == [("call_1", 1)]


async def test_a_call_before_the_welcome_does_no_harm(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """Its result is told once the worker is welcome."""
    async with home(tmp_path):
        starting = asyncio.ensure_future(victim.worker.start())
        peer = await liar.peer()
        await peer.call("work")
        await soon(victim.entered.wait())
        await peer.welcome()
        await soon(starting)
        await peer.lives("call_2")


async def test_a_verdict_that_takes_a_call_away_is_obeyed(liar: Liar, victim: Victim, tmp_path: Path) -> None:
    """It stops, and no result follows; verdicts about what it does not hold mean nothing."""
    victim.leave.clear()
    async with home(tmp_path):
        peer = await victim.attach(liar)
        await peer.call("work")
        await soon(victim.entered.wait())
        peer.end()
        abandon, other = handler_pb2.HELD_VERDICT_ABANDON, verdict("call_of_nobody", attempt=7)
        second = await liar.attached(attempts=[other, verdict("call_1", abandon), verdict("call_1", attempt=9)])
        await soon(victim.stopped.wait())
        victim.leave.set()
        await second.lives("call_2")
        assert [frame.WhichOneof("frame") for frame in second.passed_over if frame.HasField("result")] == []
        assert victim.cancelled == ["call_1"]


def verdict(
    call_id: str, what: handler_pb2.HeldVerdict.ValueType = handler_pb2.HELD_VERDICT_CONTINUE, attempt: int = 1
) -> handler_pb2.AttemptVerdict:
    """Make a verdict of Welcome."""
    return handler_pb2.AttemptVerdict(call_id=call_id, attempt=attempt, verdict=what)
