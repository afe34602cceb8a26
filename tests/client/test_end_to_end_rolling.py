"""Streams, workers and servers are replaced while calls run: no call is lost, none is executed twice."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import PATIENCE_S, default, program
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import Reply, ScriptedModel, calls, say
from tests.support.server import ServerProcess, server

from baton import Agent, Client, RemoteFunction, RunContext, Runner, RunResult, ToolCallOutputItem, Worker
from baton.v1 import session_pb2
from baton_server.ports.model import ModelRequest

__all__ = ["model_server"]

pytestmark = pytest.mark.slow

WORKERS = 3


def given(result: RunResult) -> list[Any]:
    """List what the functions of a run gave."""
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


# --- the stream's age ---------------------------------------------------------------------------------------

TURNS, LEAST_CALLS, RENEWALS = 6, 100, 9


class Renewals(logging.Handler):
    """Counts how often workers of this process have attached anew; calls wait for that."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0
        self._more = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the client's log."""
        assert "reconnecting" not in record.getMessage(), "a stream was lost, not replaced"
        if " again, serving" in record.getMessage():
            self.count += 1
            task = asyncio.get_running_loop().create_task(self._tell())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def reached(self, count: int) -> None:
        """Wait until there were so many."""
        async with self._more:
            await self._more.wait_for(lambda: self.count >= count)

    async def _tell(self) -> None:
        async with self._more:
            self._more.notify_all()


@pytest.fixture
def renewals() -> Iterator[Renewals]:
    """Listens to the client's log of its streams."""
    log, counting = logging.getLogger("baton.worker"), Renewals()
    level = log.level
    log.addHandler(counting)
    log.setLevel(logging.DEBUG)
    yield counting
    log.removeHandler(counting)
    log.setLevel(level)


async def test_calls_outlive_the_streams_on_which_they_came(tmp_path: Path, renewals: Renewals) -> None:
    """Streams are replaced again and again under load, while calls are held: each runs once and gives its result."""
    executed: Counter[str] = Counter()
    attempts: set[int] = set()

    def answer(request: ModelRequest) -> Reply:
        if request.round > LEAST_CALLS // TURNS // 2 + 1 and renewals.count >= RENEWALS:
            return say("Done.")
        return calls(("quick", "{}"), ("slow", "{}"))

    async def quick(context: RunContext[None]) -> str:
        executed[context.call_id] += 1
        attempts.add(context.attempt)
        return context.call_id

    async def slow(context: RunContext[None]) -> str:
        if renewals.count < RENEWALS and executed.total() % 5 == 0:
            await renewals.reached(renewals.count + WORKERS)
        return await quick(context)

    async with AsyncExitStack() as stack:
        baton = await stack.enter_async_context(server(tmp_path, ScriptedModel(answer), max_stream_age_s=1.0))
        await stack.enter_async_context(default(baton.address))
        for _ in range(WORKERS):
            worker = Worker()
            worker.function(quick)
            worker.function(slow)
            await stack.enter_async_context(worker)
        agent: Agent[None] = Agent(name="A", tools=[RemoteFunction("quick"), RemoteFunction("slow")])

        results = await asyncio.gather(*(Runner.run(agent, "Go.", max_turns=None) for _ in range(TURNS)))

    assert [result.final_output for result in results] == ["Done."] * TURNS
    told = [output for result in results for output in given(result)]
    assert len(told) >= LEAST_CALLS
    assert Counter(told) == executed and set(executed.values()) == {1}
    assert attempts == {1}


# --- a rolling restart --------------------------------------------------------------------------------------

SESSIONS, CALLS, CONCURRENCY = 12, 10, 4

WORKER = """
    import logging, os, sys
    from baton import RunContext, Worker

    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    worker = Worker(max_concurrency={concurrency})
    tickets = os.open({tickets!r}, os.O_RDONLY)

    @worker.function
    def work(context: RunContext[None], n: int, text: str) -> str:
        with open({executed!r}, "a") as executed:
            executed.write(f"{{context.session_id}} {{n}}\\n")
        os.read(tickets, 1)
        return f"worked {{n}}"

    worker.run_sync()
"""


class Crew:
    """Workers in processes of their own. A call takes a ticket of its worker before it ends, so that the test paces it.

    `begun`: calls that have begun so far.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self._folder, self._address = folder, address
        self._tickets: list[int] = []
        self._stacks: dict[int, AsyncExitStack] = {}
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._changed = asyncio.Condition()
        self._attached: Counter[int] = Counter()
        self.executed = folder / "executed"
        self.begun = 0

    async def hire(self) -> None:
        """Start one more worker, and wait until it is attached."""
        number = len(self._tickets)
        os.mkfifo(self._folder / f"tickets_{number}")
        self._tickets.append(os.open(self._folder / f"tickets_{number}", os.O_RDWR))
        await self._start(number)

    async def replace(self, number: int) -> None:
        """Ask a worker to stop by SIGTERM while it holds calls, let these end, and start another in its place."""
        self._processes[number].send_signal(signal.SIGTERM)
        self.pay(number, CONCURRENCY)
        async with asyncio.timeout(PATIENCE_S):
            assert await self._processes[number].wait() == 0
        await self._stacks.pop(number).aclose()
        await self._start(number)

    def pay(self, number: int, tickets: int) -> None:
        """Let so many calls of a worker end."""
        os.write(self._tickets[number], b"." * tickets)

    def pay_all(self, tickets: int) -> None:
        """Let so many calls of each worker end."""
        for number in range(len(self._tickets)):
            self.pay(number, tickets)

    async def has_begun(self, calls_: int) -> None:
        """Wait until so many calls have begun."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self.begun >= calls_)

    async def dismiss(self) -> None:
        """End all workers."""
        for stack in self._stacks.values():
            await stack.aclose()
        for ticket in self._tickets:
            os.close(ticket)

    async def _start(self, number: int) -> None:
        text = WORKER.format(
            concurrency=CONCURRENCY, tickets=str(self._folder / f"tickets_{number}"), executed=str(self.executed)
        )
        stack = self._stacks[number] = AsyncExitStack()
        process = self._processes[number] = await stack.enter_async_context(program(self._address, text))
        before = self._attached[number]
        stack.push_async_callback(_ended, asyncio.create_task(self._listen(number, process)))
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self._attached[number] > before)

    async def _listen(self, number: int, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            async with self._changed:
                self.begun += line.startswith(b"work begun")
                self._attached[number] += line.startswith(b"attached to")
                self._changed.notify_all()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def crew(folder: Path, address: str) -> AsyncIterator[Crew]:
    """Run WORKERS workers."""
    made = Crew(folder, address)
    try:
        for _ in range(WORKERS):
            await made.hire()
        yield made
    finally:
        await made.dismiss()


async def test_a_rolling_restart_of_workers_and_server_under_load_costs_no_call(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """Each is stopped by SIGTERM while calls are held, workers one after another, the server between them, twice."""
    environment = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "test", "BATON_DRAIN_S": "0.2"}
    agent: Agent[None] = Agent(
        name="A", model=f"rule:calls={CALLS},parallel=2,name=work,words=1,checked=1", tools=[RemoteFunction("work")]
    )
    async with (
        ServerProcess(tmp_path / "baton.db", environment) as process,
        default(process.address),
        crew(tmp_path, process.address) as workers,
    ):
        sessions = [(await Client().create_session(agent=agent)).session_id for _ in range(SESSIONS)]
        turns = [asyncio.create_task(_turn(session_id)) for session_id in sessions]
        await workers.has_begun(WORKERS * CONCURRENCY)
        for restarted in (0, None, 1, None, 2):
            begun = workers.begun
            if restarted is None:
                assert await process.terminate() == 0
                await process.start()
            else:
                await workers.replace(restarted)
            workers.pay_all(CONCURRENCY)
            await workers.has_begun(begun + CONCURRENCY)
        assert not all(turn.done() for turn in turns)  # there was load until the last restart
        workers.pay_all(SESSIONS * CALLS)
        results = await asyncio.gather(*turns)

        assert results == [[f"worked {number}" for number in range(CALLS)]] * SESSIONS
        executed = Counter(workers.executed.read_text().splitlines())
        assert executed == {f"{session_id} {number}": 1 for session_id in sessions for number in range(CALLS)}


async def _turn(session_id: str) -> list[str]:
    """Run a turn to its end, though it may rest while no worker is back from a restart; list its outputs."""
    turn_id = (await Client().submit(session_id, "Go.")).turn_id
    async for part in Client().watch(session_id, turn_id=turn_id, follow_until=session_pb2.FOLLOW_FOREVER):
        if part.event.HasField("turn_completed"):
            break
    items = [item async for item in Client().list_items(session_id)]
    assert items[-1].HasField("message")
    return [item.function_call_output.output[0].text for item in items if item.HasField("function_call_output")]
