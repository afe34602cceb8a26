"""A worker's streams follow one another without a gap: nothing is begun twice, nothing that may have run is hidden."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest
from tests.client.scripted import FakeClock, ScriptedServer, soon
from tests.client.test_attachment import cancelling
from tests.client.work import Work, ended, one_at_a_time, verdict

from baton.v1 import handler_pb2


async def test_the_token_of_the_last_welcome_resumes(server: ScriptedServer, worker: Work) -> None:
    """The first Hello has none, so that the worker is a new one; each later one has the last that was given."""
    first = await worker.begin(server, resume_token="one")
    first.end(grpc.StatusCode.UNAVAILABLE)
    second = await server.attached(resume_token="two")
    second.end(grpc.StatusCode.UNAVAILABLE)
    third = await server.attached()

    assert [peer.hello.resume_token for peer in (first, second, third)] == ["", "one", "two"]


@pytest.mark.parametrize("code", [None, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN])
async def test_an_end_that_says_nothing_is_a_break(
    server: ScriptedServer, worker: Work, code: grpc.StatusCode | None
) -> None:
    """OK that nobody asked for and CANCELLED come from proxies and dying servers: the worker attaches again."""
    peer = await worker.begin(server)

    peer.end(code)
    again = await server.attached()

    await again.call("quick")
    assert (await again.settle()).output == "done"


# --- a server that drains -----------------------------------------------------------------------------------


async def test_the_old_stream_serves_until_the_new_one_is_welcomed(server: ScriptedServer, worker: Work) -> None:
    """A result goes over the old one while the new one waits for its Welcome; then all goes over the new one."""
    old = await worker.begin(server, resume_token="secret")
    await old.call("slow")
    await soon(worker.entered.wait())
    await old.send(drain=handler_pb2.Drain(reason="the stream is old"))
    new = await server.peer()
    hello = await new.receive("hello")
    assert (hello.resume_token, [one.call_id for one in hello.held]) == ("secret", ["call_1"])

    worker.let_go.set()
    assert (await old.settle()).output == "attempt 1"
    new.hello = hello
    await new.send(welcome=handler_pb2.Welcome(attempts=[verdict("call_1", handler_pb2.HELD_VERDICT_ALREADY_SETTLED)]))
    with pytest.raises(EOFError):  # it is left, whether the server ends it or not
        while True:
            await old.next_frame()
    await new.call("quick", call_id="call_2")

    assert (await new.settle()).call_id == "call_2"
    assert worker.attachment.failure is None and worker.attachment.attached.is_set()


async def test_an_old_stream_that_is_replaced_ends_nothing(server: ScriptedServer, worker: Work) -> None:
    """The status that ends an attachment for good, where it meets the only stream, is what is expected here."""
    old = await worker.begin(server)
    await old.send(drain=handler_pb2.Drain(reason="restart"))
    new = await server.peer()
    await new.receive("hello")
    old.end(grpc.StatusCode.ABORTED, "WORKER_REPLACED")
    await new.send(welcome=handler_pb2.Welcome())
    await new.call("quick")

    assert (await new.settle()).output == "done"
    assert worker.attachment.failure is None


async def test_a_call_that_the_new_hello_does_not_name_does_not_begin(server: ScriptedServer, worker: Work) -> None:
    """The server takes what is not named for not begun: so it must stay so, and is given back as such."""
    old = await worker.begin(server)
    await old.send(drain=handler_pb2.Drain(reason="restart"))
    new = await server.peer()
    await new.receive("hello")

    await old.call("quick")
    nack = await old.receive("nack")

    assert (nack.call_id, nack.not_begun) == ("call_1", True)
    assert worker.begun == []


async def test_a_drain_costs_no_wait(server: ScriptedServer, clock: FakeClock, worker: Work) -> None:
    """The next stream begins at once, while the old one still works; its end is no failure."""
    old = await worker.begin(server)
    await clock.advance(10)  # older than the least age
    await old.send(drain=handler_pb2.Drain(reason="restart"))
    await server.attached()

    assert clock.asked == []


async def test_a_server_that_takes_nobody_new_keeps_the_old_stream(server: ScriptedServer, worker: Work) -> None:
    """A restart: new streams are refused for a while; what the old one brings is finished over it."""
    old = await worker.begin(server)
    await old.call("slow")
    await soon(worker.entered.wait())
    await old.send(drain=handler_pb2.Drain(reason="restart"))
    for _ in range(3):
        refused = await server.peer()
        refused.end(grpc.StatusCode.UNAVAILABLE)
    worker.let_go.set()

    assert (await old.settle()).output == "attempt 1"
    assert worker.attachment.attached.is_set()


async def test_a_worker_that_stops_does_not_attach_anew(server: ScriptedServer, worker: Work) -> None:
    """It finishes on the stream that it has, which is why the server waits."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    stopping = asyncio.create_task(worker.attachment.stop(5))
    await peer.receive("drain")
    await peer.send(drain=handler_pb2.Drain(reason="restart"))
    await peer.call("quick", call_id="call_2")
    assert (await peer.receive("nack")).not_begun  # so the Drain was read
    worker.let_go.set()
    await peer.settle()
    await peer.ended()
    await soon(stopping)

    assert server.handlers.peers.empty()


async def test_a_loss_is_told_when_the_old_stream_is_gone_too(
    server: ScriptedServer, worker: Work, caplog: pytest.LogCaptureFixture
) -> None:
    """Not while it still serves; then once, and once more when nobody answers."""
    caplog.set_level(logging.INFO, "baton.worker")
    old = await worker.begin(server)
    await old.call("slow")  # who holds something does not wait for long
    await soon(worker.entered.wait())
    await old.send(drain=handler_pb2.Drain(reason="restart"))
    for _ in range(3):
        (await server.peer()).end(grpc.StatusCode.UNAVAILABLE)
    refused = await server.peer()
    assert not any("lost" in message for message in caplog.messages)
    old.end()
    for _ in range(20):  # the end of the old one is seen somewhere between them
        refused.end(grpc.StatusCode.UNAVAILABLE)
        refused = await server.peer()

    told = [message.partition(" (")[0] for message in caplog.messages if "the server" in message]
    assert told == [
        "attached to the server, serving quick, slow, threaded in scope-1",
        "lost the server",
        "the server does not answer",
    ]


# --- what had begun and has no result -----------------------------------------------------------------------


async def test_a_stopped_attempt_is_named_until_a_welcome_has_answered(server: ScriptedServer, worker: Work) -> None:
    """Its CancelAck may be lost with the stream; not named, it would count as one that has not begun."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    await peer.send(cancel=cancelling("call_1"))
    await peer.receive("cancel_ack")
    await soon(worker.attachment.wait_idle())
    peer.end(grpc.StatusCode.UNAVAILABLE)

    second = await server.attached()
    (held,) = second.hello.held
    assert (held.call_id, held.begun, held.finished) == ("call_1", True, False)
    nack = await second.receive("nack")
    assert (nack.call_id, nack.attempt, nack.not_begun) == ("call_1", 1, False)
    second.end(grpc.StatusCode.UNAVAILABLE)
    third = await server.attached(attempts=[verdict("call_1", handler_pb2.HELD_VERDICT_ABANDON)])
    third.end(grpc.StatusCode.UNAVAILABLE)

    assert len((await server.attached()).hello.held) == 0


async def test_a_call_whose_result_nobody_takes_is_named_as_begun(server: ScriptedServer, worker: Work) -> None:
    """Refused twice it is given back; that may be lost with the stream, and it has run."""
    peer = await worker.begin(server)
    await peer.call("quick")
    await peer.settle(handler_pb2.RESULT_VERDICT_REFUSED)
    await peer.settle(handler_pb2.RESULT_VERDICT_REFUSED)
    assert not (await peer.receive("nack")).not_begun
    peer.end(grpc.StatusCode.UNAVAILABLE)

    (held,) = (await server.attached()).hello.held
    assert (held.call_id, held.begun, held.finished) == ("call_1", True, False)


async def test_an_attempt_that_never_began_is_not_named(server: ScriptedServer, clock: FakeClock) -> None:
    """It waited for its place, was cancelled, and that is what the server learns: it may go anywhere."""
    worker = Work(server, clock)
    one_at_a_time(worker)
    peer = await worker.begin(server)
    await peer.call("alone", call_id="call_1")
    await soon(worker.entered.wait())
    await peer.call("alone", call_id="call_2")
    await peer.send(cancel=cancelling("call_2"))

    ack = await peer.receive("cancel_ack")
    peer.end(grpc.StatusCode.UNAVAILABLE)
    again = await server.attached()

    assert (ack.call_id, ack.outcome) == ("call_2", handler_pb2.CANCEL_OUTCOME_NOT_BEGUN)
    assert [one.call_id for one in again.hello.held] == ["call_1"]
    await ended(worker)


async def test_a_next_attempt_ends_the_memory_of_the_last(server: ScriptedServer, worker: Work) -> None:
    """The server delivers again what was stopped here: now the new attempt is what is held."""
    peer = await worker.begin(server)
    await peer.call("slow")
    await soon(worker.entered.wait())
    await peer.send(cancel=cancelling("call_1"))
    await peer.receive("cancel_ack")
    worker.let_go.set()

    await peer.call("slow", attempt=2)
    await peer.settle()
    peer.end(grpc.StatusCode.UNAVAILABLE)

    assert len((await server.attached()).hello.held) == 0


async def test_a_call_that_nothing_serves_is_given_back_with_its_credit(server: ScriptedServer, worker: Work) -> None:
    """As one that has not begun: it may run elsewhere, also where it must not run twice."""
    peer = await worker.begin(server)
    del worker.tools["quick"]

    await peer.call("quick")

    assert (await peer.receive("nack")).not_begun
    assert (await peer.receive("credit")).messages == 1
