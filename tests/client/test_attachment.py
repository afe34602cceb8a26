"""Calls on the worker stream: nothing is executed twice, no result is lost, whatever breaks."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from datetime import timedelta

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from tests.client.scripted import FakeClock, ScriptedServer, soon
from tests.client.work import Work

from baton import function_tool
from baton.hosting.own import Bringing
from baton.server.connection import Connection
from baton.v1 import error_pb2, handler_pb2


async def test_a_call_is_executed_and_its_result_is_the_ack(server: ScriptedServer, worker: Work) -> None:
    """A fast call costs one frame each way: no CallAck, and credit goes back with the result."""
    peer = await worker.begin(server)
    hello = peer.hello
    assert (list(hello.scopes), hello.credit.messages, len(hello.held)) == (["scope-1"], 2, 0)
    assert hello.sdk.name == "baton-python" and hello.instance_id

    await peer.call("quick")
    result = await peer.settle()
    credit = await peer.receive("credit")

    assert (result.call_id, result.attempt, result.output) == ("call_1", 1, "done")
    assert credit.messages == 1
    assert peer.passed_over == []


async def test_a_slow_call_is_acked_by_itself(server: ScriptedServer, clock: FakeClock) -> None:
    """After ACK_AFTER_S, here none at all, the server learns that the call has arrived."""
    worker = Work(server, clock, ack_after_s=0.0)
    peer = await worker.begin(server)

    await peer.call("slow")
    ack = await peer.receive("call_ack")

    assert (ack.call_id, ack.attempt) == ("call_1", 1)
    await worker.attachment.close()
    await worker.connection.close()


async def test_a_call_that_times_out_is_acked_at_once(server: ScriptedServer, worker: Work) -> None:
    """Its time runs from there, so it waits less than other acks, here an hour."""
    peer = await worker.begin(server)

    await peer.call("slow", deadline=Timestamp(seconds=1_800_000_000))

    assert (await peer.receive("call_ack")).call_id == "call_1"
    worker.let_go.set()
    assert (await peer.settle()).output == "attempt 1"


async def test_a_result_is_sent_again_until_it_is_acked(server: ScriptedServer, worker: Work) -> None:
    """The stream breaks before the ack: Hello names the attempt as finished, and the result comes again."""
    peer = await worker.begin(server)
    await peer.call("quick")
    await peer.receive("result")
    peer.end(grpc.StatusCode.UNAVAILABLE)

    second = await server.attached()
    (held,) = second.hello.held
    assert (held.call_id, held.attempt, held.begun, held.finished) == ("call_1", 1, True, True)
    assert second.hello.instance_id == peer.hello.instance_id
    assert {spec.name for spec in second.hello.handlers} == set(worker.tools)
    assert (await second.settle()).output == "done"
    second.end(grpc.StatusCode.INTERNAL)

    third = await server.attached()
    assert len(third.hello.held) == 0
    assert worker.begun == [("call_1", 1)]


async def test_a_call_goes_on_over_a_break(server: ScriptedServer, worker: Work) -> None:
    """It finishes while there is no stream, and its result is told on the next one."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    peer.end()

    second = await server.peer()
    hello = await second.receive("hello")
    assert [(one.begun, one.finished) for one in hello.held] == [(True, False)]
    assert hello.credit.messages == 1  # the other slot is taken
    worker.let_go.set()
    going_on = handler_pb2.AttemptVerdict(call_id="call_1", attempt=1, verdict=handler_pb2.HELD_VERDICT_CONTINUE)
    await second.send(welcome=handler_pb2.Welcome(attempts=[going_on]))

    assert (await second.settle()).output == "attempt 1"


async def test_abandoned_and_settled_attempts_are_forgotten(server: ScriptedServer, worker: Work) -> None:
    """ABANDON stops what runs, ALREADY_SETTLED drops a result; neither is spoken of again."""
    peer = await worker.begin(server)
    await peer.call("slow", call_id="call_1")
    await peer.call("quick", call_id="call_2")
    await peer.receive("result")
    peer.end(grpc.StatusCode.UNAVAILABLE)

    verdicts = [
        handler_pb2.AttemptVerdict(call_id="call_1", attempt=1, verdict=handler_pb2.HELD_VERDICT_ABANDON),
        handler_pb2.AttemptVerdict(call_id="call_2", attempt=1, verdict=handler_pb2.HELD_VERDICT_ALREADY_SETTLED),
    ]
    second = await server.attached(attempts=verdicts)
    await second.call("quick", call_id="call_3")
    await second.settle()

    assert [frame.WhichOneof("frame") for frame in second.passed_over] in ([], ["credit"])
    await soon(worker.attachment.wait_idle())


async def test_a_call_that_is_held_is_not_executed_twice(server: ScriptedServer, worker: Work) -> None:
    """The same attempt again is acked again; a higher one takes its place and runs anew."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())

    await peer.call("slow")
    assert (await peer.receive("call_ack")).attempt == 1
    worker.entered.clear()
    await peer.call("slow", attempt=2)
    await soon(worker.entered.wait())
    worker.let_go.set()
    result = await peer.settle()

    assert (result.attempt, result.output) == (2, "attempt 2")
    assert worker.begun == [("call_1", 1), ("call_1", 2)]


async def test_a_refused_result_becomes_words_for_the_model(server: ScriptedServer, worker: Work) -> None:
    """REFUSED keeps the call open: a failure that says why is sent; if that is refused too, the call goes back."""
    peer = await worker.begin(server)
    await peer.call("quick")

    await peer.receive("result")
    refusal = handler_pb2.ResultAck(
        call_id="call_1",
        attempt=1,
        verdict=handler_pb2.RESULT_VERDICT_REFUSED,
        error=error_pb2.Error(message="too strange"),
    )
    await peer.send(result_ack=refusal)
    assert "too strange" in (await peer.receive("result")).failure
    await peer.send(result_ack=refusal)
    assert (await peer.receive("nack")).call_id == "call_1"


async def test_a_result_above_the_limit_is_measured_before_it_is_sent(server: ScriptedServer, worker: Work) -> None:
    """The model is told size and limit, those of this server."""
    worker.value = "x" * 1001
    peer = await worker.begin(server, max_result_bytes=1000)

    await peer.call("quick")
    result = await peer.settle()

    assert "1001" in result.failure and "1000" in result.failure


async def test_a_cancelled_call_is_stopped(
    server: ScriptedServer, worker: Work, caplog: pytest.LogCaptureFixture
) -> None:
    """A coroutine is cancelled midway, and no result of it is sent; the log says why."""
    caplog.set_level(logging.INFO, "baton.worker.calls")
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())

    await peer.send(cancel=cancelling("call_1"))
    ack = await peer.receive("cancel_ack")

    assert (ack.call_id, ack.outcome) == ("call_1", handler_pb2.CANCEL_OUTCOME_STOPPED)
    assert "slow cancelled (call_1, attempt 1): turn_ended" in caplog.messages
    assert not any(frame.HasField("result") for frame in peer.passed_over)


async def test_a_thread_is_told_that_it_is_cancelled(server: ScriptedServer, worker: Work) -> None:
    """It cannot be stopped; it sees it in its context, and what it gives within the grace is sent."""
    peer = await worker.begin(server)
    await peer.call("threaded")
    await soon(worker.entered.wait())

    await peer.send(cancel=cancelling("call_1", grace_s=5))
    ack = await peer.receive("cancel_ack")
    result = await peer.receive("result")

    assert ack.outcome == handler_pb2.CANCEL_OUTCOME_NOT_STOPPED
    assert worker.seen.is_set() and result.output == "late"


async def test_a_cancel_for_what_is_not_held_is_answered(server: ScriptedServer, worker: Work) -> None:
    """Cancels cross results: the server gets its CancelAck all the same."""
    peer = await worker.begin(server)

    await peer.send(cancel=cancelling("call_gone"))

    assert (await peer.receive("cancel_ack")).outcome == handler_pb2.CANCEL_OUTCOME_NOT_STOPPED


async def test_a_draining_server_is_left_and_found_again(server: ScriptedServer, worker: Work) -> None:
    """What is held goes on over the new stream."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    await peer.send(drain=handler_pb2.Drain(reason="restart"))

    second = await server.attached()
    worker.let_go.set()

    assert [held.call_id for held in second.hello.held] == ["call_1"]
    assert (await second.settle()).output == "attempt 1"


async def test_a_worker_that_stops_finishes_what_it_holds(server: ScriptedServer, worker: Work) -> None:
    """Drain first, then the results, then the half-close; a call that comes meanwhile is given back."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())

    stopping = asyncio.create_task(worker.attachment.stop(5))
    await peer.receive("drain")
    await peer.call("quick", call_id="call_2")
    assert (await peer.receive("nack")).call_id == "call_2"
    worker.let_go.set()
    await peer.settle()
    with pytest.raises(EOFError):
        while True:
            await peer.next_frame()
    peer.end()

    await soon(stopping)
    assert worker.begun == [("call_1", 1)]


def cancelling(call_id: str, grace_s: float = 0) -> handler_pb2.Cancel:
    """Make a Cancel of a first attempt."""
    made = handler_pb2.Cancel(call_id=call_id, attempt=1, reason=handler_pb2.CANCEL_REASON_TURN_ENDED)
    made.grace.FromTimedelta(timedelta(seconds=grace_s))
    return made


async def test_credit_goes_back_for_several_calls_at_once(server: ScriptedServer, clock: FakeClock) -> None:
    """With room for many, a quarter of them gathers before a frame says so."""
    worker = Work(server, clock, max_concurrency=8)
    peer = await worker.begin(server)

    for number in range(4):
        await peer.call("quick", call_id=f"call_{number}")
        await peer.settle()
    await peer.call("quick", call_id="call_last")
    await peer.settle()

    granted = [frame.credit.messages for frame in peer.passed_over if frame.HasField("credit")]
    assert granted == [2, 2]
    await worker.attachment.close()
    await worker.connection.close()


async def test_functions_see_no_variables_of_the_run_that_began_the_stream(server: ScriptedServer) -> None:
    """Else every later run's functions would see the first one's."""
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="none")

    @function_tool
    async def say() -> str:
        return word.get()

    connection = Connection(server.address)
    word.set("first run")
    async with asyncio.TaskGroup() as group:
        peer_task = group.create_task(server.attached())
        async with connection.host.serving(Bringing(tools=[("Assistant", say)])) as hosted:
            peer = await peer_task
            await peer.call("say", scope=hosted.scope)
            assert (await peer.settle()).output == "none"
    await connection.close()
