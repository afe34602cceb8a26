"""A worker that misbehaves: the server answers it, or ends its stream, and nobody beside it notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from baton.v1 import error_pb2, event_pb2, handler_pb2
from tests.faults.peers import UNKNOWN_ARM, beside
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage, empty_stage, eventually, stage

__all__ = ["empty_stage", "stage"]

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
MANY, A_CHANNEL = 1_000, 100


async def lives(worker: ScriptedWorker) -> None:
    """See that a stream still takes frames and answers them."""
    await worker.send(register={"handlers": [{"name": "still_there"}]})
    assert not (await worker.expect("registered")).handlers[0].HasField("error")


# -- frames ------------------------------------------------------------------------------------------


async def test_an_unknown_frame_is_answered(stage: Stage) -> None:
    """By its number; the worker that sent it goes on, and so do the others."""
    async with beside(stage):
        worker = await stage.worker("g")
        await worker.send_bytes(UNKNOWN_ARM)
        refused = await worker.expect_error()
        assert (refused.frame_number, refused.error.reason) == (2, error_pb2.ERROR_REASON_FRAME_UNKNOWN)
        await lives(worker)


async def test_an_oversized_frame_is_answered(stage: Stage) -> None:
    """One byte above the limit is refused alone."""
    async with beside(stage):
        worker = await stage.worker("g")
        frame = handler_pb2.ConnectRequest(drain=handler_pb2.Drain(reason="x")).SerializeToString()
        await worker.send_bytes(frame.ljust(16 * MIB + 1, b"\0"))
        assert (await worker.expect_error()).error.reason == error_pb2.ERROR_REASON_MESSAGE_TOO_LARGE
        await lives(worker)


async def test_a_frame_that_is_far_too_large_ends_its_stream_alone(stage: Stage) -> None:
    """gRPC hangs up on it; the call that its worker had goes to another one."""
    async with beside(stage):
        worker = await stage.worker("g")
        turn = await stage.call("g")
        call = await worker.expect("call")
        await worker.ack(call)
        await worker.nothing()
        await worker.send_bytes(b"x" * (18 * MIB))
        assert (await worker.ended()).code == grpc.StatusCode.RESOURCE_EXHAUSTED
        heir = await stage.worker("g")
        stage.pass_time(11)
        again = await heir.expect("call")
        assert (again.call_id, again.attempt) == (call.call_id, 2)
        await heir.finish(again)
        await turn.completed()


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"name": "no such name!"}, "name"),
        ({"name": "g", "parameters_json": "{"}, "parameters_json"),
        ({"name": "g", "kind": event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, "max_concurrency": 1}, "max_concurrency"),
    ],
)
async def test_a_bad_handler_of_hello_is_refused_alone(stage: Stage, spec: dict[str, Any], problem: str) -> None:
    """The others of the same Hello are registered."""
    async with beside(stage):
        worker = stage.stream()
        await worker.send(hello={"handlers": [spec, {"name": "good"}], "credit": {"messages": 1}})
        bad, good = (await worker.expect("welcome")).handlers
        assert bad.error.reason == error_pb2.ERROR_REASON_HANDLER_INVALID
        assert problem in str(dict(bad.error.metadata)) + bad.error.message
        assert not good.HasField("error")
        turn = await stage.call("good")
        await worker.finish(await worker.expect("call"))
        await turn.completed()


@pytest.mark.parametrize(
    "hello", [{"scopes": ["s"] * 9}, {"protocol_version": 7}, {"credit": {"messages": -1}}, {"instance_id": "x" * 257}]
)
async def test_a_wrong_hello_ends_its_stream_alone(stage: Stage, hello: dict[str, Any]) -> None:
    """With a status that says why."""
    async with beside(stage):
        worker = stage.stream()
        await worker.send(hello=hello)
        ending = await worker.ended()
        assert ending.code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION)
        assert ending.reason in ("INVALID_REQUEST", "PROTOCOL_VERSION")


async def test_a_result_with_nul_is_refused(stage: Stage) -> None:
    """The call stays the worker's, and its next result counts; an id with NUL is that of no call."""
    async with beside(stage):
        worker = await stage.worker("g")
        turn = await stage.call("g")
        call = await worker.expect("call")
        await worker.send(result={"call_id": f"{call.call_id}\0", "attempt": 1, "output": "x"})
        assert (await worker.expect_error()).error.reason == error_pb2.ERROR_REASON_FRAME_INVALID
        await worker.settle(call, output="a\0b")
        ack = await worker.expect("result_ack")
        assert (ack.verdict, ack.error.metadata["field"]) == (handler_pb2.RESULT_VERDICT_REFUSED, "result.output")
        await worker.finish(call, output="ab")
        await turn.completed()
        (output,) = await turn.outputs()
        assert output.output[0].text == "ab"


async def test_negative_credit_is_answered(stage: Stage) -> None:
    """Nothing of it counts."""
    async with beside(stage):
        worker = await stage.worker("g", credit=1)
        await worker.send(credit={"messages": -1})
        assert (await worker.expect_error()).error.reason == error_pb2.ERROR_REASON_FRAME_INVALID
        turn = await stage.call("g")
        await worker.finish(await worker.expect("call"))
        await turn.completed()


async def test_calls_of_others_are_out_of_reach(stage: Stage) -> None:
    """A worker that names a call which another one has can neither give it back, nor lengthen or stop it."""
    owner = await stage.worker("g")
    turn = await stage.call("g")
    call = await owner.expect("call")
    ids = {"call_id": call.call_id, "attempt": 1}
    async with beside(stage):
        thief = await stage.worker("h")
        await thief.send(call_ack=ids)
        await thief.send(nack=ids)
        await thief.send(progress={**ids, "number": 1, "text": "mine"})
        await thief.send(cancel_ack={**ids, "outcome": handler_pb2.CANCEL_OUTCOME_STOPPED})
        await thief.send(extend={**ids, "lease": {"seconds": 3600}})
        assert (await thief.expect("extend_ack")).error.reason == error_pb2.ERROR_REASON_ATTEMPT_STALE
        await thief.send(result={**ids, "output": "stolen"})
        assert (await thief.expect("result_ack")).verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    await owner.finish(call, output="mine")
    await turn.completed()
    (output,) = await turn.outputs()
    assert (output.attempt, output.output[0].text) == (1, "mine")


# -- floods and silence ------------------------------------------------------------------------------


@asynccontextmanager
async def flooding(worker: ScriptedWorker, data: bytes) -> AsyncIterator[None]:
    """Send a frame again and again, as fast as the server takes it."""
    sent = 0

    async def send() -> None:
        nonlocal sent
        with suppress(TimeoutError, grpc.aio.BaseError):
            while True:
                await worker.send_bytes(data)
                sent += 1

    task = asyncio.ensure_future(send())
    try:
        await eventually(lambda: sent > 200 or task.done())
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


RESULT = handler_pb2.Result(call_id="call_of_nobody", attempt=1, output="x" * 10_000)
FLOODS = {
    "results": handler_pb2.ConnectRequest(result=RESULT).SerializeToString(),
    "nothing": b"",
    "garbage": b"\xff\xff\xff",
}


@pytest.mark.parametrize("data", FLOODS.values(), ids=FLOODS)
async def test_a_flood_without_credit_disturbs_nobody(stage: Stage, data: bytes) -> None:
    """A worker that never granted any credit, and never stops sending; it reads what it is answered, or does not."""
    async with AsyncExitStack() as stack:
        reading = await stage.worker("g", credit=0)
        deaf = stage.stream(reading=False)
        await deaf.send(hello={"handlers": [{"name": "g"}]})
        await stack.enter_async_context(flooding(reading, data))
        await stack.enter_async_context(flooding(deaf, data))
        async with beside(stage):
            pass


async def test_a_stream_that_never_reads_disturbs_nobody(stage: Stage) -> None:
    """What it does not take goes to whoever does, once it has been silent for too long."""
    deaf = stage.stream(reading=False)
    await deaf.send(hello={"handlers": [{"name": "g"}], "credit": {"messages": 10_000}})
    turn = await stage.turn([("g", f'{{"n":{n},"text":"{"x" * 160_000}"}}') for n in range(60)])
    await turn.waiting()
    async with beside(stage):
        pass
    stage.pass_time(29)
    heir = await stage.worker("g", credit=100)
    async with beside(stage):
        stage.pass_time(2)
        for call in await heir.expect_all("call", 60):
            assert call.attempt > 1
            await heir.settle(call)
        await turn.completed()


async def test_a_thousand_streams_that_never_say_hello_disturb_nobody(empty_stage: Stage) -> None:
    """Each is told so when its time is over; meanwhile, and then, others work."""
    await empty_stage.start(hello_timeout_s=2.0)
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(empty_stage.baton.address, [("grpc.use_local_subchannel_pool", 1)])
            )
            for _ in range(MANY // A_CHANNEL)
        ]
        async with beside(empty_stage):
            path = "/baton.v1.HandlerService/Connect"
            streams: list[Any] = [channel.stream_stream(path)() for channel in channels for _ in range(A_CHANNEL)]
            waits = [asyncio.ensure_future(stream.wait_for_connection()) for stream in streams]
        async with beside(empty_stage):
            codes = await asyncio.gather(*(stream.code() for stream in streams))
            assert set(codes) == {grpc.StatusCode.FAILED_PRECONDITION}
        await asyncio.gather(*waits, return_exceptions=True)
    async with beside(empty_stage):
        pass


async def test_connections_that_speak_no_grpc_disturb_nobody(stage: Stage) -> None:
    """Some say nothing at all, some speak another protocol."""
    host, _, port = stage.baton.address.partition(":")
    opened = [await asyncio.open_connection(host, int(port)) for _ in range(50)]
    for _, writer in opened[::2]:
        writer.write(b"GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n" + b"\0" * 10_000)
    async with beside(stage):
        pass
    for _, writer in opened:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in opened), return_exceptions=True)
