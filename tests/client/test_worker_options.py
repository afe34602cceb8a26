"""What a worker says of its functions and of itself; and how signals end it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from datetime import timedelta
from typing import Any

import pytest
from tests.client.end_to_end import line_of, program
from tests.client.scripted import ScriptedServer, soon

from baton import RunContext, Worker
from baton.v1 import handler_pb2


async def test_a_function_says_how_it_is_executed(server: ScriptedServer) -> None:
    """In its registration, where agents elsewhere may say otherwise; the worker's own labels and limits beside it."""
    worker = Worker(max_argument_bytes=1000, metadata={"zone": "b"})

    @worker.function(
        version="2", timeout=30, side_effects="idempotent", idempotency_fields=["/order/id"], max_concurrency=4
    )
    def pay(order: str) -> str:
        return "paid"

    hello = (await started(server, worker)).hello
    (spec,) = hello.handlers
    assert (spec.name, spec.version, spec.max_concurrency) == ("pay", "2", 4)
    assert spec.execution.timeout.ToTimedelta() == timedelta(seconds=30)
    assert spec.execution.side_effects == handler_pb2.SIDE_EFFECTS_IDEMPOTENT
    assert list(spec.execution.idempotency_fields) == ["/order/id"]
    assert dict(hello.metadata) == {"zone": "b"}
    assert (hello.credit.bytes, hello.credit.messages) == (1000, 64)


async def test_a_function_that_says_nothing_leaves_it_to_agents(server: ScriptedServer) -> None:
    """Absent is not zero."""
    worker = Worker()

    @worker.function
    def plain() -> str:
        return "x"

    hello = (await started(server, worker)).hello
    assert not hello.handlers[0].HasField("execution")
    assert (hello.handlers[0].max_concurrency, hello.credit.bytes) == (0, 0)


async def test_versions_of_a_name_stand_beside_one_another(server: ScriptedServer) -> None:
    """The server chooses; the call says which."""
    worker = Worker()

    @worker.function(version="1", name_override="greet")
    def first() -> str:
        return "Hello"

    @worker.function(version="2", name_override="greet")
    def second() -> str:
        return "Hi"

    with pytest.raises(ValueError, match="'greet' in version '2' already"):
        worker.add(second)
    peer = await started(server, worker)
    await peer.call("greet", version="1")
    assert (await peer.settle()).output == "Hello"
    await peer.call("greet", version="2", call_id="call_2")
    assert (await peer.settle()).output == "Hi"
    await peer.call("greet", version="3", call_id="call_3")
    gone = await peer.receive("unregister")
    assert [(spec.name, spec.version) for spec in gone.handlers] == [("greet", "3")]
    await peer.call("greet", version="2", call_id="call_4")
    assert (await peer.settle()).output == "Hi"


@pytest.mark.parametrize("wrong", [{"max_argument_bytes": 0}, {"max_argument_bytes": 2**41}])
def test_limits_of_a_worker_are_checked(wrong: dict[str, Any]) -> None:
    """With the value."""
    with pytest.raises(ValueError, match=f"not {next(iter(wrong.values()))}"):
        Worker(**wrong)


async def test_a_signal_says_how_many_calls_are_finished_first(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits in front of a terminal knows what for."""
    worker, entered, let_go = Worker(), asyncio.Event(), asyncio.Event()
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    @worker.function
    async def slow(ctx: RunContext[None]) -> str:
        entered.set()
        await let_go.wait()
        return "done"

    running = asyncio.create_task(worker.run(handle_signals=True))
    peer = await server.attached()
    await peer.call("slow")
    await soon(entered.wait())
    with caplog.at_level(logging.INFO, "baton.worker"):
        os.kill(os.getpid(), signal.SIGTERM)
        await peer.receive("drain")
    let_go.set()
    await peer.settle()
    await peer.ended()
    await soon(running)

    assert "stopping; 1 call is finished first; a second signal ends at once" in caplog.messages
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


BLOCKED = """
    import signal, time
    from baton import Worker

    worker = Worker()

    @worker.function
    async def blocked() -> str:
        print("begun", flush=True)
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            time.sleep(0.01)
        print("asked", flush=True)
        while True:
            time.sleep(0.01)

    worker.run_sync()
"""

WAITING = """
    import asyncio
    from baton import Worker

    worker = Worker()

    @worker.function
    def thread() -> str:
        import threading
        print("begun", flush=True)
        threading.Event().wait()
        return ""

    worker.run_sync()
"""


@pytest.mark.slow
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_at_once(server: ScriptedServer, second: signal.Signals) -> None:
    """A thread that never ends keeps nobody here."""
    async with program(server.address, WAITING) as process:
        peer = await server.attached()
        await peer.call("thread")
        assert await line_of(process) == "begun"
        process.send_signal(signal.SIGTERM)
        await peer.receive("drain")

        process.send_signal(second)

        assert await soon(process.wait()) == -second


@pytest.mark.slow
async def test_a_second_signal_ends_a_worker_that_does_not_even_hear_the_first(server: ScriptedServer) -> None:
    """A coroutine that does not let go of the event loop."""
    async with program(server.address, BLOCKED) as process:
        peer = await server.attached()
        await peer.call("blocked")
        assert await line_of(process) == "begun"

        process.send_signal(signal.SIGTERM)
        assert await line_of(process) == "asked"
        process.send_signal(signal.SIGTERM)

        assert await soon(process.wait()) == -signal.SIGTERM


async def started(server: ScriptedServer, worker: Worker) -> Any:
    """Start a worker that the end of the server ends."""
    starting = asyncio.create_task(worker.start())
    peer = await server.attached()
    await soon(starting)
    return peer
