"""Workers of the client library at a real server, while connections break, grow old, or are not there yet."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.api.calling import kinds
from tests.client.end_to_end import default
from tests.faults.proxy import Proxy
from tests.peers.hosting import AT_ONCE, Course, hosting, soon
from tests.support.server import free_port
from tests.support.stage import Stage, eventually

from baton import Agent, BatonConnectionError, Runner, Worker, close_connections
from baton.server.connection import connection_for
from baton.transport.retry import Timing

# -- connections ---------------------------------------------------------------------------------


async def test_a_worker_that_was_given_up_attaches_anew_and_says_why(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The server has not heard of it for too long, although it lives: it is served again without anybody's help."""
    course = Course()
    course.go.set()
    caplog.set_level(logging.INFO, "baton.worker")
    async with hosting(stage.baton.address, course.tool):
        stage.pass_time(31)

        await eventually(lambda: any("again" in line for line in caplog.messages))
        turn = await stage.call("f")
        await turn.completed()

    (lost,) = [line for line in caplog.messages if line.startswith("lost")]
    assert stage.baton.address in lost and "31.0 s" in lost


async def test_a_connection_that_is_reset_ends_no_worker(stage: Stage) -> None:
    """The function goes on, its result is told over the next connection, and nothing is executed twice."""
    course = Course()
    async with Proxy(stage.baton.address) as proxy, hosting(proxy.address, course.tool):
        turn = await stage.call("f")
        await course.runs(stage)

        assert proxy.reset() >= 1
        course.go.set()

        assert "attempt_lost" not in kinds(await turn.completed())
        assert [attempt for _, attempt in course.begun] == [1]


@pytest.mark.slow
async def test_a_worker_may_be_started_before_its_server(empty_stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It does not hang silently: it says which address does not answer, and serves as soon as somebody does."""
    address = f"127.0.0.1:{free_port()}"
    course = Course()
    course.go.set()
    caplog.set_level(logging.WARNING, "baton.worker")
    connection_for(address, AT_ONCE)
    worker = Worker(address)
    worker.add(course.tool)
    starting = asyncio.create_task(worker.start())
    await eventually(lambda: any(f"no answer from {address} yet" in line for line in caplog.messages))

    stage = await empty_stage.start(address=address)

    await soon(starting)
    turn = await stage.call("f")
    await turn.completed()
    await worker.stop()
    await close_connections()


@pytest.mark.parametrize("timing", [Timing(connect_s=0.1), Timing(refused_s=0.5)], ids=["no answer", "refused"])
async def test_a_run_without_a_server_fails_soon_and_says_what_to_do(timing: Timing) -> None:
    """With the address, although functions of its own wait to be registered there."""
    address = f"127.0.0.1:{free_port()}"
    agent: Agent[None] = Agent(name="Assistant", tools=[Course().tool])
    async with default(address):
        connection_for(address, timing)

        with pytest.raises(BatonConnectionError, match=rf"no Baton server at {address}.*BATON_ADDRESS"):
            await soon(Runner.run(agent, "Hi"))


@pytest.mark.slow
async def test_an_old_stream_is_left_in_good_order_while_a_function_runs(
    empty_stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The server asks for it; it is no break, and the function notices nothing."""
    stage = await empty_stage.start(max_stream_age_s=20.0)
    course = Course()
    caplog.set_level(logging.DEBUG, "baton.worker")
    async with hosting(stage.baton.address, course.tool):
        turn = await stage.call("f")
        await course.runs(stage)

        stage.pass_time(23)
        await eventually(lambda: any("again" in line for line in caplog.messages))
        stage.pass_time(11)
        course.go.set()

        assert "attempt_lost" not in kinds(await turn.completed())
        assert [attempt for _, attempt in course.begun] == [1]
    assert not [line for line in caplog.messages if line.startswith("lost") or "does not answer" in line]


# -- calls ---------------------------------------------------------------------------------------


async def test_calls_that_wait_for_a_place_do_not_grow_old(stage: Stage) -> None:
    """A worker that takes one at a time gets one at a time: nothing lies in its hands until the ack is overdue."""
    course = Course()
    async with hosting(stage.baton.address, course.tool, max_concurrency=1):
        turns = [await stage.call("f") for _ in range(3)]
        for turn in turns:
            await turn.waiting()
        for number, _ in enumerate(turns):
            await course.runs(stage)
            stage.pass_time(6)
            stage.pass_time(6)
            states = [await turn.state() for turn in turns[number:]]
            assert states == ["LEASED", *["QUEUED"] * (2 - number)]
            course.entered.clear()
            course.go.set()
            course.go.clear()
            await turns[number].completed()
        assert [attempt for _, attempt in course.begun] == [1, 1, 1]


async def test_stopping_waits_until_the_last_result_is_on_disk(stage: Stage) -> None:
    """What was written and not acked would be lost with the process; `stop` says how much was given up."""
    course = Course()
    async with hosting(stage.baton.address, course.tool) as worker:
        turn = await stage.call("f")
        await course.runs(stage)
        came, go_on = stage.store.hold(lambda batch: bool(batch.calls_settled))
        stopping = asyncio.create_task(worker.stop())
        course.go.set()
        await came.wait()
        assert not stopping.done()

        go_on.set()

        assert await soon(stopping) == 0
        await turn.completed()
        assert [output.attempt for output in await turn.outputs()] == [1]
