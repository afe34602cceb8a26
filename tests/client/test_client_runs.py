"""Runs through `Client`, whose answers are the contract's messages; and what it tells of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from tests.client.end_to_end import Serve, serve
from tests.client.scripted import Failing, FakeClock, ScriptedServer, soon
from tests.client.turns import answer, delta, parts, result, started
from tests.support.scripted_model import Gate, calls, fail, say
from tests.support.server import free_port
from tests.support.server import server as running_server

from baton import (
    Agent,
    BatonConnectionError,
    Client,
    Worker,
    close_connections,
    set_default_address,
)
from baton.server.connection import Connection
from baton.transport.retry import CONNECT_S, Backoff, Timing
from baton.v1 import agent_pb2, event_pb2, runner_pb2, session_pb2
from baton_server.core.errors import Reason

__all__ = ["serve"]

Stream = AsyncIterator[runner_pb2.RunStreamedResponse]


def request(text: str = "Hi", **fields: object) -> runner_pb2.RunRequest:
    """Write a run of an agent with one function that nobody serves."""
    tool = agent_pb2.FunctionTool(name="f", parameters_json='{"type":"object"}')
    agent = agent_pb2.Agent(name="Assistant", tools=[agent_pb2.Tool(function=tool)])
    return runner_pb2.RunRequest(text=text, agent=agent, **fields)  # type: ignore[arg-type]  # what a test gives


FRAGMENTS = {"delta", "reset"}


def kinds(message: runner_pb2.RunStreamedResponse) -> set[str | None]:
    """Say what a message carries."""
    return {part.WhichOneof("part") for part in message.parts}


async def test_a_run_gives_the_turn_as_it_rests(serve: Serve) -> None:
    """Completed, or failed without an exception."""
    async with serve(say("Hello."), fail(Reason.MODEL_TIMEOUT)):
        good, bad = await Client().run(request()), await Client().run(request())

    assert good.turn.output == "Hello."
    assert bad.turn.status == event_pb2.TURN_STATUS_FAILED


@pytest.mark.slow
async def test_the_same_request_waits_again_for_the_same_turn(serve: Serve) -> None:
    """It rests at an open call; when that is answered, the same request gives the end."""
    async with serve(calls(("f", "{}")), say("Done.")):
        client = Client()
        asked = request(request_id="r-1")
        rests = await client.run(asked)
        await client.settle(rests.required_actions[0], "x")
        ended = await client.run(asked)

    assert rests.turn.status == event_pb2.TURN_STATUS_WAITING
    assert ended.turn.turn_id == rests.turn.turn_id
    assert ended.turn.output == "Done."


async def test_each_run_without_an_id_is_another_one(serve: Serve) -> None:
    """The request of the caller is left as it is."""
    async with serve(say("One."), say("Two.")):
        asked = request()
        first, second = await Client().run(asked), await Client().run(asked)

    assert (first.turn.output, second.turn.output) == ("One.", "Two.")
    assert asked.request_id == ""


async def test_a_streamed_run_begins_with_its_turn_and_ends_with_its_answer(serve: Serve) -> None:
    """In between come events and fragments; without deltas no fragments; from a sequence on only what is later."""
    gate = Gate()
    async with serve(say("Hel", gate, "lo.")):
        client = Client()
        asked = request(request_id="r-1")
        messages = []
        async for message in client.run_streamed(asked):
            messages.append(message)
            if kinds(message) & FRAGMENTS:
                gate.open()
        again = [message async for message in client.run_streamed(asked, deltas=event_pb2.DELTA_LEVEL_NONE)]
        last = messages[-1].result.turn.last_sequence
        rest = [message async for message in client.run_streamed(asked, after_sequence=last - 1)]

    assert messages[0].started.created and not again[0].started.created
    assert messages[-1].result.turn.output == "Hello."
    assert not any(kinds(message) & FRAGMENTS for message in again)
    assert [part.event.sequence for message in rest for part in message.parts if part.event.sequence] == [last]


async def test_a_caller_that_goes_away_leaves_the_turn_alone(serve: Serve) -> None:
    """Unlike `Runner.run`, which cancels it."""
    gate = Gate()
    async with serve(say("Hel", gate, "lo.")) as served:
        client = Client()
        asked = request(request_id="r-1", session_key="s")
        running = asyncio.create_task(client.run(asked))
        await gate.reached()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        gate.open()
        ended = await client.run(asked)

    assert ended.turn.output == "Hello."
    assert len(served.model.requests) == 1


async def test_a_break_is_told_once_and_so_is_its_end(server: ScriptedServer) -> None:
    """A stream that breaks twice before it goes on: lost, back, and no event twice."""
    opened: list[runner_pb2.RunStreamedRequest] = []
    told: list[bool] = []

    async def stream(given: runner_pb2.RunStreamedRequest) -> Stream:
        opened.append(given)
        if len(opened) in (2, 3):
            raise Failing(grpc.StatusCode.UNAVAILABLE)
        yield started()
        if len(opened) == 1:
            yield parts(delta("Hel", 0))
            raise Failing(grpc.StatusCode.UNAVAILABLE)
        yield result(answer(text="Hello."))

    server.runner.on_stream = stream
    client = Client()
    client.on_connection_change(told.append)

    messages = await soon(asyncio.ensure_future(_all(client)))

    assert told == [False, True]
    assert messages[-1].result.turn.output == "Hello."
    assert len({given.request_id for given in opened}) == 1


async def _all(client: Client) -> list[runner_pb2.RunStreamedResponse]:
    return [message async for message in client.run_streamed(runner_pb2.RunRequest(text="Hi"))]


async def test_a_server_that_never_answered_is_not_lost(clock: FakeClock, tmp_path: Path) -> None:
    """It is absent, after as long as the connection's timing says."""
    told: list[bool] = []
    connection = Connection(f"unix:{tmp_path}/nobody.sock", _passing_timing(clock, connect_s=3.0))
    connection.on_change(told.append)

    with pytest.raises(BatonConnectionError, match="no Baton server at"):
        await connection.unary(connection.sessions.GetSession, session_pb2.GetSessionRequest(key="x"))
    await connection.close()

    assert told == []
    assert clock.time == pytest.approx(3.0)


async def test_a_port_at_which_nobody_listens_is_told_in_about_a_second(clock: FakeClock) -> None:
    """The machine has answered: only a server that is just starting is worth a wait."""
    address = f"127.0.0.1:{free_port()}"
    connection = Connection(address, _passing_timing(clock))

    with pytest.raises(BatonConnectionError, match=rf"no Baton server at {address} \(.*refused.*baton serve"):
        await connection.unary(connection.sessions.GetSession, session_pb2.GetSessionRequest(key="x"))
    await connection.close()

    assert clock.time == pytest.approx(1.0)


async def test_a_server_that_has_answered_is_waited_for_though_it_refuses(
    server: ScriptedServer, clock: FakeClock
) -> None:
    """It may be starting again: a run that goes on, or begins, is none the wiser."""
    long = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await _passing(clock)(seconds)
        if clock.time > 2 * CONNECT_S:
            long.set()

    connection = Connection(server.address, replace(_passing_timing(clock), sleep=sleep))
    request = session_pb2.GetSessionRequest(key="x")
    server.sessions.answers["GetSession"] = lambda _: session_pb2.GetSessionResponse()
    await connection.unary(connection.sessions.GetSession, request)
    await server.stop()

    waiting = asyncio.ensure_future(connection.unary(connection.sessions.GetSession, request))
    await soon(long.wait())
    assert not waiting.done()

    waiting.cancel()
    await connection.close()


def _passing_timing(clock: FakeClock, connect_s: float = CONNECT_S) -> Timing:
    return Timing(sleep=_passing(clock), now=lambda: clock.time, uniform=clock.uniform, connect_s=connect_s)


def _passing(clock: FakeClock) -> Callable[[float], Awaitable[None]]:
    """Make a sleep in which the clock's time passes at once."""

    async def sleep(seconds: float) -> None:
        clock.time += seconds

    return sleep


def test_waits_between_two_tries_are_bounded() -> None:
    """By what the connection's timing says."""
    backoff = Backoff(Timing(uniform=lambda _low, high: high, max_delay_s=2.0))

    assert [backoff.next_delay() for _ in range(6)] == [0.2, 0.5, 1.0, 2.0, 2.0, 2.0]


async def test_a_session_is_made_with_an_agent_of_any_kind(serve: Serve) -> None:
    """As a program writes it, as the contract does, and a kept one."""
    async with serve():
        client = Client()
        kept = await client.create_agent(agent_pb2.Agent(name="Kept"))
        sources = [
            Agent[None](name="Mine"),
            agent_pb2.Agent(name="Written"),
            agent_pb2.AgentRef(agent_id=kept.agent_id),
        ]
        made = [await client.create_session(agent=source) for source in sources]

    assert [session.agent.agent.name for session in made] == ["Mine", "Written", "Kept"]


async def test_large_texts_of_items_are_completed(serve: Serve) -> None:
    """Those of a watch stand for themselves until then."""
    text = "é" * 200_000
    async with serve(say(text)):
        client = Client()
        done = await client.run(request())
        (item,) = done.new_items
        assert item.message.content[0].HasField("omitted_text")
        await client.complete(done.session_id, item)

    assert item.message.content[0].text == text


async def test_a_worker_tells_when_it_is_attached(tmp_path: Path) -> None:
    """Also again, after its server was away."""
    port = free_port()
    set_default_address(f"127.0.0.1:{port}")
    worker = Worker()

    @worker.function
    def f() -> str:
        """Do nothing."""
        return ""

    try:
        with pytest.raises(RuntimeError, match="not started"):
            await worker.wait_attached()
        async with running_server(tmp_path, address=f"127.0.0.1:{port}"):
            await worker.start()
            await soon(worker.wait_attached())
        async with running_server(tmp_path, address=f"127.0.0.1:{port}"):
            async with asyncio.timeout(30):
                await worker.wait_attached()
        await worker.stop(0)
    finally:
        set_default_address(None)
        await close_connections()
