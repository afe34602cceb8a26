"""How long a worker has a call, how many it has, and how many bytes: leases, credit, places."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import grpc
import pytest
from tests.client.scripted import FakeClock, ScriptedServer, soon
from tests.client.work import Work, ended, one_at_a_time, verdict

from baton import RunContext, function_tool
from baton.v1 import error_pb2, handler_pb2


async def test_a_lease_is_extended_and_again_on_a_new_stream(server: ScriptedServer, worker: Work) -> None:
    """A server that was restarted knows nothing of it."""
    longer(worker, 60)
    peer = await worker.begin(server)
    await peer.call("longer")
    asked = await peer.receive("extend")
    assert (asked.call_id, asked.attempt, asked.lease.ToTimedelta()) == ("call_1", 1, timedelta(seconds=60))
    peer.end(grpc.StatusCode.UNAVAILABLE)

    again = await (await server.attached()).receive("extend")

    assert 50 < again.lease.ToTimedelta().total_seconds() <= 60


async def test_a_call_without_a_lease_is_stopped(server: ScriptedServer, worker: Work) -> None:
    """The server says that it is somebody else's by now: going on would only run it twice."""
    longer(worker, 60)
    peer = await worker.begin(server)
    await peer.call("longer")
    await peer.receive("extend")
    stale = error_pb2.Error(reason=error_pb2.ERROR_REASON_ATTEMPT_STALE, message="attempt 2 runs")
    await peer.send(extend_ack=handler_pb2.ExtendAck(call_id="call_1", attempt=1, error=stale))

    await soon(worker.attachment.wait_idle())
    await peer.call("quick", call_id="call_2")
    await peer.settle()

    assert not any(frame.HasField("nack") for frame in peer.passed_over)


@pytest.mark.parametrize("seconds", [0.5, 3601])
async def test_a_lease_has_bounds(server: ScriptedServer, worker: Work, seconds: float) -> None:
    """Of the contract; the function learns it where it asks."""
    longer(worker, seconds)
    peer = await worker.begin(server)
    await peer.call("longer")

    assert f"not {seconds}" in (await peer.receive("result")).crash.text


# --- credit and places --------------------------------------------------------------------------------------


async def test_bytes_of_arguments_are_granted_and_given_back(server: ScriptedServer, clock: FakeClock) -> None:
    """The sum that may be held at a time; a new stream begins with what is free."""
    worker = Work(server, clock, max_argument_bytes=1000, max_concurrency=8)
    peer = await worker.begin(server)
    assert peer.hello.credit.bytes == 1000
    await peer.call("slow", "{}" + " " * 598, call_id="call_1")
    await soon(worker.entered.wait())
    peer.end(grpc.StatusCode.UNAVAILABLE)
    again = await server.attached()
    assert again.hello.credit.bytes == 400

    await again.call("quick", "{}" + " " * 398, call_id="call_2")
    await again.settle()
    credit = await again.receive("credit")

    assert (credit.messages, credit.bytes) == (1, 400)
    await ended(worker)


async def test_a_call_that_came_twice_costs_its_credit_once(server: ScriptedServer, worker: Work) -> None:
    """The server has paid for both."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    await peer.call("slow")

    assert (await peer.receive("credit")).messages == 1


async def test_a_place_that_is_free_before_the_welcome_is_granted_after_it(
    server: ScriptedServer, clock: FakeClock
) -> None:
    """What Hello grants is fixed when it is said; what comes free behind it is not lost."""
    worker = Work(server, clock, max_concurrency=2)
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    peer.end(grpc.StatusCode.UNAVAILABLE)
    second = await server.peer()
    hello = await second.receive("hello")
    assert hello.credit.messages == 1
    worker.let_go.set()
    await soon(worker.over.wait())
    await second.send(welcome=handler_pb2.Welcome(attempts=[verdict("call_1", handler_pb2.HELD_VERDICT_CONTINUE)]))
    await second.settle()

    granted = [frame.credit.messages for frame in second.passed_over if frame.HasField("credit")]
    assert granted == [1] or (await second.receive("credit")).messages == 1
    await ended(worker)


async def test_a_function_runs_no_more_often_at_once_than_it_says(server: ScriptedServer, clock: FakeClock) -> None:
    """A second call waits, acked, not begun, and runs when the first has ended."""
    worker = Work(server, clock, ack_after_s=0.0)
    one_at_a_time(worker)
    peer = await worker.begin(server)
    await peer.call("alone", call_id="call_1")
    await peer.call("alone", call_id="call_2")
    acked = {(await peer.receive("call_ack")).call_id, (await peer.receive("call_ack")).call_id}
    peer.end()
    again = await server.attached()

    begun = {one.call_id: one.begun for one in again.hello.held}
    worker.let_go.set()
    results = [(await again.settle()).call_id, (await again.settle()).call_id]

    assert acked == {"call_1", "call_2"} and begun == {"call_1": True, "call_2": False}
    assert results == ["call_1", "call_2"]
    await ended(worker)


async def test_a_thread_that_goes_on_keeps_its_place(server: ScriptedServer, clock: FakeClock) -> None:
    """The server gave it up; still no second one may run beside it."""
    worker = Work(server, clock)
    threads = one_thread_at_a_time(worker)
    peer = await worker.begin(server)
    await peer.call("alone", call_id="call_1")
    await soon(worker.entered.wait())
    peer.end()
    again = await server.attached(attempts=[verdict("call_1", handler_pb2.HELD_VERDICT_ABANDON)])
    await again.call("alone", call_id="call_2")
    await again.call("quick", call_id="call_3")
    await again.settle()
    assert worker.begun == [("call_1", 1), ("call_3", 1)]

    threads.set()

    assert (await again.settle()).call_id == "call_2"
    await ended(worker)


# --- small makers ---------------------------------------------------------------------------------------


def longer(worker: Work, seconds: float) -> None:
    """Give a worker a function that asks for a longer lease, and then waits."""

    @function_tool
    async def longer(ctx: RunContext[None]) -> str:
        ctx.extend(seconds)
        await worker.let_go.wait()
        return "done"

    worker.tools["longer"] = longer


def one_thread_at_a_time(worker: Work) -> threading.Event:
    """The same in a thread, which does not listen to anyone; returns what lets it go."""

    let_go, loop = threading.Event(), asyncio.get_running_loop()

    @function_tool(max_concurrency=1)
    def alone(ctx: RunContext[None]) -> str:
        worker.begun.append((ctx.call_id, ctx.attempt))
        loop.call_soon_threadsafe(worker.entered.set)
        assert let_go.wait(5)
        return "alone"

    worker.tools["alone"] = alone
    return let_go
