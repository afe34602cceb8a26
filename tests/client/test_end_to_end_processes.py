"""Programs that use the client, as processes of their own, at one real server."""

from __future__ import annotations

import signal

import pytest
from tests.client.end_to_end import Serve, ended, line_of, program, serve
from tests.support.scripted_model import Gate, Reply, calls, say

from baton import Agent, Client, RemoteFunction, Runner, ToolCallOutputItem
from baton.v1 import session_pb2

__all__ = ["serve"]

pytestmark = pytest.mark.slow

WHOAMI = """
    from baton import Agent, Runner, ToolCallOutputItem, function_tool

    @function_tool
    def whoami() -> str:
        return "{who}"

    result = Runner.run_sync(Agent(name="{who}", tools=[whoami]), "Who am I?")
    print([item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)])
"""


async def test_two_processes_with_a_function_of_one_name_get_their_own_calls(serve: Serve) -> None:
    """Both run at once: the model answers neither before both have asked."""
    gate = Gate()
    asked = calls(("whoami", "{}"), before=gate)
    async with (
        serve(asked, asked, say("Known."), say("Known.")) as served,
        program(served.baton.address, WHOAMI.format(who="Ann")) as ann,
        program(served.baton.address, WHOAMI.format(who="Bo")) as bo,
    ):
        await served.model.asked(2)
        gate.open()

        assert await ended(ann) == (0, "['Ann']\n", "")
        assert await ended(bo) == (0, "['Bo']\n", "")


async def test_a_worker_in_another_process_serves_a_remote_function(serve: Serve) -> None:
    """Its name is enough: description and parameters are the worker's. SIGTERM ends it in good order."""
    worker = """
        import asyncio, signal
        from baton import RunContext, Worker

        worker = Worker()

        @worker.function
        def get_weather(context: RunContext[None], city: str) -> str:
            '''Get the weather of a city.'''
            return f"rain in {city}, says attempt {context.attempt}, {context.context}"

        async def main():
            stop = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
            async with worker:
                print("attached", flush=True)
                await stop.wait()

        asyncio.run(main())
    """
    async with (
        serve(calls(("get_weather", '{"city":"Kyoto"}')), say("Rain.")) as served,
        program(served.baton.address, worker) as process,
    ):
        assert await line_of(process) == "attached"
        agent: Agent[None] = Agent(name="Assistant", tools=[RemoteFunction("get_weather")])

        result = await Runner.run(agent, "Well?")

        given = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert given == ["rain in Kyoto, says attempt 1, None"]
        (function,) = served.model.requests[0].tools
        assert function.description == "Get the weather of a city."
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == (0, "", "")


@pytest.mark.parametrize("function", ["", "time.sleep(0)", "stay.wait()"], ids=["model", "function", "stuck function"])
async def test_an_interrupt_ends_run_sync_and_cancels_the_turn(serve: Serve, function: str) -> None:
    """Ctrl-C while the model writes, or while a function runs: the program ends, and so does the turn."""
    text = f"""
        import threading, time
        from baton import Agent, Runner, SQLiteSession, function_tool

        stay = threading.Event()

        @function_tool
        def work() -> str:
            print("works", flush=True)
            {function or "pass"}
            return "worked"

        try:
            Runner.run_sync(Agent(name="Assistant", tools=[work]), "Hi", session=SQLiteSession("s"))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            stay.set()
    """
    gate = Gate()
    async with serve(*_interrupted(function, gate)) as served, program(served.baton.address, text) as process:
        if function:
            assert await line_of(process) == "works"
        if function != "stay.wait()":
            await gate.reached()

        process.send_signal(signal.SIGINT)

        assert await ended(process) == (0, "interrupted\n", "")
        session = await Client().get_session(key="s")
        kinds = [part.event.WhichOneof("event") async for part in Client().watch(session.session_id)]
        assert "turn_cancelled" in kinds


@pytest.mark.parametrize("wait_s", [0, 600], ids=["waiting for an event", "with an event"])
async def test_an_interrupt_ends_a_streamed_run_and_cancels_the_turn(serve: Serve, wait_s: int) -> None:
    """Ctrl-C ends the event loop, wherever the program stands in it: nobody pays for the rest of the reply."""
    text = f"""
        import asyncio
        from baton import Agent, Runner, SQLiteSession

        async def main():
            run = Runner.run_streamed(Agent(name="Assistant"), "Hi", session=SQLiteSession("s"))
            async for event in run.stream_events():
                if event.type == "raw_response_event":
                    print("told", flush=True)
                    await asyncio.sleep({wait_s})

        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    gate = Gate()
    async with serve(say("It ", gate, "rains.")) as served, program(served.baton.address, text) as process:
        assert await line_of(process) == "told"

        process.send_signal(signal.SIGINT)

        assert await ended(process) == (0, "interrupted\n", "")
        session = await Client().get_session(key="s")
        told = Client().watch(session.session_id, follow_until=session_pb2.FOLLOW_NONE)
        kinds = [part.event.WhichOneof("event") async for part in told]
        assert "turn_cancelled" in kinds


async def test_a_program_may_run_one_event_loop_after_another(serve: Serve) -> None:
    """Beside that of `run_sync`, and closing nothing: no loop hears of calls of one that has ended."""
    loops = 20
    text = f"""
        import asyncio
        from baton import Agent, Runner, function_tool

        @function_tool
        def work() -> str:
            return "worked"

        agent = Agent(name="Assistant", tools=[work])
        print(Runner.run_sync(agent, "Hi").final_output)
        for _ in range({loops}):
            asyncio.run(Runner.run(agent, "Hi"))
        print(Runner.run_sync(agent, "Hi").final_output)
    """
    replies = [calls(("work", "{}")), say("Done.")] * (loops + 2)
    async with serve(*replies) as served, program(served.baton.address, text) as process:
        assert await ended(process) == (0, "Done.\nDone.\n", "")


def _interrupted(function: str, gate: Gate) -> list[Reply]:
    waits = say("It ", gate, "rains.")
    return [calls(("work", "{}")), waits] if function else [waits]
