"""Workers that misbehave cost nobody else anything."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import event_pb2, handler_pb2

EMPTY = b""
RESULT_OF_NOBODY = handler_pb2.ConnectRequest(
    result=handler_pb2.Result(call_id="call_of_nobody", attempt=1, output="x")
).SerializeToString()
BEATS = handler_pb2.ConnectRequest(heartbeat=handler_pb2.WorkerHeartbeat()).SerializeToString()
REGISTERS = handler_pb2.ConnectRequest(
    register=handler_pb2.Register(handlers=[handler_pb2.HandlerSpec(name="g")])
).SerializeToString()


async def a_run_completes(stage: Stage, *, rounds: int = 3) -> None:
    """Run a turn with a worker of its own, in a scope of its own."""
    worker = await stage.worker("f", scopes=["quiet"])
    turn = await stage.turn(*[[("f", f'{{"n":{n}}}')] for n in range(rounds)], scopes=["quiet"])
    for _ in range(rounds):
        await worker.finish(await worker.expect("call"))
    await turn.completed()


@asynccontextmanager
async def flood(worker: ScriptedWorker, data: bytes) -> AsyncIterator[Callable[[], int]]:
    """Send a frame again and again, as fast as the server takes it; gives what counts them."""
    sent = 0

    async def send() -> None:
        nonlocal sent
        while True:
            await worker.send_bytes(data)
            sent += 1

    task = asyncio.ensure_future(send())
    try:
        await eventually(lambda: sent > 100 or task.done())
        yield lambda: sent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, TimeoutError):
            await task


async def never_reading(stage: Stage, *names: str, credit: int = 10_000, **hello: Any) -> ScriptedWorker:
    """Attach a worker that reads nothing, not even its Welcome."""
    worker = stage.stream(reading=False)
    handlers = [{"name": name} for name in names]
    await worker.send(hello={"handlers": handlers, "credit": {"messages": credit}, **hello})
    return worker


@pytest.mark.parametrize(
    "data", [EMPTY, RESULT_OF_NOBODY, BEATS, REGISTERS], ids=["empty", "result", "heartbeat", "register"]
)
async def test_a_flood_of_frames_without_reading_disturbs_nobody(stage: Stage, data: bytes) -> None:
    """The server stops reading from whoever does not take its answers; others do not notice."""
    async with flood(await never_reading(stage, "g"), data):
        await a_run_completes(stage)


async def test_whoever_reads_again_gets_all_answers(stage: Stage) -> None:
    """Nothing is dropped on a stream that lives: a slow reader gets an answer to each of its frames."""
    worker = await stage.worker("f")

    for _ in range(3000):
        await worker.send_bytes(EMPTY)

    numbers = [error.frame_number for error in await worker.expect_all("protocol_error", 3000)]
    assert numbers == list(range(2, 3002))


async def test_many_late_results_are_all_answered(stage: Stage) -> None:
    """Each is looked up in the store; what waits for that is bounded, and none is forgotten."""
    worker = await stage.worker("f")

    for n in range(2500):
        await worker.send(result={"call_id": f"call_{n}", "attempt": 1, "output": "x"})

    acks = await worker.expect_all("result_ack", 2500)
    assert {ack.call_id for ack in acks} == {f"call_{n}" for n in range(2500)}


async def test_a_stream_that_never_reads_loses_its_calls_to_others(stage: Stage) -> None:
    """Calls that it never takes are given to somebody who does, once it has been silent for too long."""
    await never_reading(stage, "f")
    turn = await large_calls(stage)
    await a_run_completes(stage)
    stage.pass_time(29)
    reader = await stage.worker("f", credit=100)

    stage.pass_time(2)

    calls = await reader.expect_all("call", 100)
    assert len({call.call_id for call in calls}) == 100
    assert min(call.attempt for call in calls) > 1
    for call in calls:
        await reader.settle(call)
    await turn.completed()


async def test_a_call_that_is_not_written_yet_need_not_be_acked(stage: Stage) -> None:
    """On a slow way large calls queue up; the time for the ack begins when a call is on its way."""
    await never_reading(stage, "f")
    turn = await large_calls(stage)
    leases = stage.baton.dispatcher.leases
    await eventually(lambda: any(lease.written_at is not None for _, lease in leases))

    stage.pass_time(6)

    await eventually(lambda: not any(lease.leaving for _, lease in leases))
    standing = Counter((action.state, action.attempt) for action in await turn.actions())
    assert 0 < standing[event_pb2.REQUIRED_ACTION_STATE_LEASED, 1] < 100


async def large_calls(stage: Stage) -> Turn:
    """Start a turn with a hundred calls of 160 KB, more than a connection holds."""
    turn = await stage.turn([("f", f'{{"n":{n},"text":"{"x" * 160_000}"}}') for n in range(100)])
    await turn.waiting()
    return turn


async def test_a_stream_that_never_reads_is_given_up(stage: Stage) -> None:
    """Its registrations end with its silence and the grace, although its connection still stands."""
    await never_reading(stage, "f")
    turn = await large_calls(stage)

    stage.pass_time(31)
    stage.pass_time(11)

    await eventually(lambda: not list(stage.baton.dispatcher.leases))
    assert {action.state for action in await turn.actions()} == {event_pb2.REQUIRED_ACTION_STATE_UNSERVED}
    await a_run_completes(stage)


async def test_streams_that_never_say_hello_disturb_nobody(stage: Stage) -> None:
    """Two hundred of them; each ends by itself when its time is over."""
    streams = [stage.stream() for _ in range(200)]

    await a_run_completes(stage)

    for stream in streams:
        await stream.break_connection()
    await a_run_completes(stage)


async def test_silent_streams_end_when_their_time_is_over(empty_stage: Stage) -> None:
    """All of them, with the reason."""
    await empty_stage.start(hello_timeout_s=0.2)

    endings = await asyncio.gather(*(empty_stage.stream().ended() for _ in range(50)))

    assert {(ending.code, ending.reason) for ending in endings} == {
        (grpc.StatusCode.FAILED_PRECONDITION, "HELLO_EXPECTED")
    }


async def test_workers_that_come_and_go_leave_nothing_behind(stage: Stage) -> None:
    """Processes with scopes of their own, each for one run: afterwards nobody is registered."""
    for n in range(30):
        worker = await stage.worker("f", scopes=[f"process-{n}"])
        turn = await stage.call("f", scopes=[f"process-{n}"])
        await worker.finish(await worker.expect("call"))
        await turn.completed()
        await worker.half_close()
        assert (await worker.ended()).code == grpc.StatusCode.OK

    turn = await stage.call("f", scopes=["process-7"])
    await turn.waiting()
    assert await turn.state() == "UNSERVED"
