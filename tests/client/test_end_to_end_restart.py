"""The server is killed in the middle of a run and started again; the client notices, and its user does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import PATIENCE_S, default
from tests.support.model_server import ModelServer, model_server
from tests.support.server import ServerProcess

from baton import (
    Agent,
    FunctionTool,
    RawResponsesStreamEvent,
    ResponseResetEvent,
    ResponseTextDeltaEvent,
    RunItemStreamEvent,
    Runner,
    RunResult,
    function_tool,
)
from baton.server.loop_thread import background_loop

__all__ = ["model_server"]

pytestmark = pytest.mark.slow

CUT_OFF = {"text": "This reply is never finished", "pause_after_events": 7}
CALLS_WORK = {"calls": [{"name": "work", "arguments": {}, "call_id": "c1"}]}


@pytest.fixture
async def doomed(tmp_path: Path, model_server: ModelServer) -> AsyncIterator[ServerProcess]:
    """A server in a process of its own, the client's default, asking the scripted model."""
    environment = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "test", "BATON_DRAIN_S": "0.2"}
    async with ServerProcess(tmp_path / "baton.db", environment) as process, default(process.address):
        yield process


async def killed_and_started(process: ServerProcess) -> None:
    """Kill the server, and start it again on the same file and port."""
    await process.kill()
    await process.start()


async def test_run_sync_outlives_the_server(doomed: ServerProcess, model_server: ModelServer) -> None:
    """The reply that was under way is asked for again, and the caller gets one answer."""
    model = model_server.load("restart_sync", CUT_OFF, {"text": "Done."})
    agent: Agent[None] = Agent(name="Assistant", model=model)

    def run() -> RunResult:
        try:
            return Runner.run_sync(agent, "Hi")
        finally:
            background_loop.close()

    running = asyncio.create_task(asyncio.to_thread(run))
    assert await model_server.wait_for("restart_sync", lambda asked: len(asked) == 1)
    await killed_and_started(doomed)
    result = await running

    assert result.final_output == "Done."
    assert [item.type for item in result.new_items] == ["message_output_item"]
    first, second = (request.body["input"] for request in model_server.requests("restart_sync"))
    assert first == second == [{"role": "user", "content": "Hi"}]


async def test_streamed_events_outlive_the_server(doomed: ServerProcess, model_server: ModelServer) -> None:
    """Text that was told and is void is said to be so; each item is told once; the rest adds up to the answer."""
    model = model_server.load("restart_stream", CALLS_WORK, CUT_OFF, {"text": "Done, at last."})
    result = Runner.run_streamed(Agent[None](name="Assistant", model=model, tools=[work_of(lambda: "worked")]), "Hi")
    names: list[str] = []
    texts = [""]

    async for event in result.stream_events():
        match event:
            case RawResponsesStreamEvent(data=ResponseTextDeltaEvent(delta=delta)):
                first = not texts[-1] and len(texts) == 1
                texts[-1] += delta
                if first:
                    await killed_and_started(doomed)
            case RawResponsesStreamEvent(data=ResponseResetEvent()):
                texts.append("")
            case RunItemStreamEvent(name=name):
                names.append(name)
            case _:
                pass

    assert names == ["tool_called", "tool_output", "message_output_created"]
    assert result.final_output == texts[-1] == "Done, at last."
    assert "This reply is never finished".startswith(texts[0]) and texts[0]
    assert len(texts) == 2


async def test_a_function_that_ends_while_the_server_is_away_is_not_lost(
    doomed: ServerProcess, model_server: ModelServer
) -> None:
    """It is called once, and its result is kept until a server takes it."""
    model = model_server.load("restart_function", CALLS_WORK, {"text": "Done."})
    begun, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    times: list[int] = []

    @function_tool
    async def work() -> str:
        times.append(1)
        begun.set()
        await go_on.wait()
        over.set()
        return "worked"

    running = asyncio.create_task(Runner.run(Agent[None](name="Assistant", model=model, tools=[work]), "Hi"))
    await begun.wait()
    await doomed.kill()
    go_on.set()
    await over.wait()
    await doomed.start()
    result = await running

    assert (result.final_output, len(times)) == ("Done.", 1)
    assert outputs(model_server, "restart_function") == ["worked"]


async def test_a_function_in_a_thread_outlives_the_server(doomed: ServerProcess, model_server: ModelServer) -> None:
    """A function that is no coroutine cannot be stopped anyway; it is not begun a second time."""
    model = model_server.load("restart_thread", CALLS_WORK, {"text": "Done."})
    begun, go_on, times = threading.Event(), threading.Event(), []

    def work() -> str:
        times.append(1)
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return "worked"

    running = asyncio.create_task(Runner.run(Agent[None](name="A", model=model, tools=[work_of(work)]), "Hi"))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    await killed_and_started(doomed)
    go_on.set()
    result = await running

    assert (result.final_output, len(times)) == ("Done.", 1)
    assert outputs(model_server, "restart_thread") == ["worked"]


def work_of(function: Callable[[], str]) -> FunctionTool:
    """Make a function named "work"."""
    return function_tool(name_override="work")(function)


def outputs(model_server: ModelServer, name: str) -> list[Any]:
    """List the function outputs that the last request carried."""
    last = model_server.requests(name)[-1].body["input"]
    return [item["output"] for item in last if item.get("type") == "function_call_output"]
