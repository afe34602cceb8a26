"""How functions are executed at a real server: their time, their versions, how many at once, one for equal calls."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from tests.client.end_to_end import Serve, line_of, program, serve
from tests.support.scripted_model import Gate, calls, say

from baton import (
    Agent,
    Client,
    RemoteFunction,
    RunContext,
    Runner,
    RunResult,
    SQLiteSession,
    ToolCallOutputItem,
    ToolTimeoutError,
    Worker,
    function_tool,
)
from baton.v1 import session_pb2

__all__ = ["serve"]


def given(result: RunResult) -> list[Any]:
    """List what the functions of a run gave."""
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


# --- timeout ------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_function_that_takes_too_long_is_told_to_the_model(serve: Serve) -> None:
    """The function learns why it is given up; the turn goes on."""
    reasons: list[str] = []
    over = asyncio.Event()

    @function_tool(timeout=0.3)
    async def work(context: RunContext[None]) -> str:
        try:
            return "late" if await context.cancelled else ""
        finally:
            reasons.append(context.cancelled.reason)
            over.set()

    async with serve(calls(("work", "{}")), say("Too slow.")) as served:
        result = await Runner.run(Agent[None](name="A", tools=[work]), "Hi")
        await over.wait()

        (told,) = served.outputs()
        assert (result.final_output, reasons) == ("Too slow.", ["timeout"])
        assert "late" not in told and "time" in told.lower()


@pytest.mark.slow
async def test_a_function_that_takes_too_long_fails_the_run_where_that_is_wanted(serve: Serve) -> None:
    """The error names the function, and the model is not asked again."""
    never = asyncio.Event()

    @function_tool(timeout=0.3, timeout_behavior="raise_exception")
    async def work() -> str:
        await never.wait()
        return "late"

    async with serve(calls(("work", "{}"))) as served:
        with pytest.raises(ToolTimeoutError) as caught:
            await Runner.run(Agent[None](name="A", tools=[work]), "Hi")

        assert (caught.value.tool_name, len(served.model.requests)) == ("work", 1)


# --- equal calls --------------------------------------------------------------------------------------------


async def test_equal_calls_of_a_session_are_executed_once(serve: Serve) -> None:
    """Two of one turn and one of the next pay one order; another order is paid by itself."""
    paid: list[str] = []

    @function_tool(idempotency_fields=["/order"])
    def pay(order: str, note: str) -> str:
        paid.append(order)
        return f"receipt {len(paid)} for {order}"

    def paying(order: str, note: str) -> tuple[str, str]:
        return "pay", f'{{"order":"{order}","note":"{note}"}}'

    first = calls(paying("a", "please"), paying("a", "now"))
    second = calls(paying("a", "again"), paying("b", "too"))
    async with serve(first, say("Paid."), second, say("Paid.")):
        agent: Agent[None] = Agent(name="A", tools=[pay])

        one = await Runner.run(agent, "Pay.", session=SQLiteSession("s"))
        two = await Runner.run(agent, "Pay.", session=SQLiteSession("s"))

        assert given(one) == ["receipt 1 for a", "receipt 1 for a"]
        assert given(two) == ["receipt 1 for a", "receipt 2 for b"]
        assert paid == ["a", "b"]


async def test_equal_calls_of_two_sessions_are_two(serve: Serve) -> None:
    """The key is the session's own: nobody gets another one's output."""
    paid: list[str] = []

    @function_tool(idempotency_fields=["/order"])
    def pay(order: str) -> str:
        paid.append(order)
        return f"receipt {len(paid)}"

    asked = calls(("pay", '{"order":"a"}'))
    async with serve(asked, say("Paid."), asked, say("Paid.")):
        agent: Agent[None] = Agent(name="A", tools=[pay])

        results = [await Runner.run(agent, "Pay.", session=SQLiteSession(key)) for key in ("s", "t")]

        assert [given(result) for result in results] == [["receipt 1"], ["receipt 2"]]


# --- versions -----------------------------------------------------------------------------------------------


async def test_two_versions_of_a_name_stand_beside_each_other(serve: Serve) -> None:
    """An agent that names one gets it; one that names none gets the newest, and the parameters of that one."""
    worker = Worker()

    @worker.function(version="1", name_override="greet")
    def first(name: str) -> str:
        return f"Hello, {name}"

    @worker.function(version="2", name_override="greet")
    def second(name: str, language: str) -> str:
        return f"Hi, {name}, in {language}"

    old, new = calls(("greet", '{"name":"Ann"}')), calls(("greet", '{"name":"Ann","language":"en"}'))
    async with serve(old, say("So."), new, say("So.")) as served, worker:
        one = await Runner.run(Agent[None](name="A", tools=[RemoteFunction("greet", version="1")]), "Hi")
        two = await Runner.run(Agent[None](name="A", tools=[RemoteFunction("greet")]), "Hi")

        assert (given(one), given(two)) == (["Hello, Ann"], ["Hi, Ann, in en"])
        declared = [request.tools[0].parameters_json for request in served.model.requests]
        assert ["language" in parameters for parameters in declared] == [False, False, True, True]


async def test_a_call_of_a_version_waits_for_a_worker_that_has_it(serve: Serve) -> None:
    """A worker with another version does not get it; one that comes later does."""
    old, new = Worker(), Worker()

    @old.function(version="1", name_override="greet")
    def first(name: str) -> str:
        return f"Hello, {name}"

    @new.function(version="2", name_override="greet")
    def second(name: str) -> str:
        return f"Hi, {name}"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    wanted = RemoteFunction("greet", version="2", params_json_schema=schema)
    async with serve(calls(("greet", '{"name":"Ann"}')), say("So.")) as served, old:
        client = Client()
        session = await client.create_session(agent=Agent(name="A", tools=[wanted]))
        await client.submit(session.session_id, "Hi")
        await _until(session.session_id, "session_requires_action")
        async with new:
            await _until(session.session_id, "turn_completed")

        assert served.outputs() == ["Hi, Ann"]


async def _until(session_id: str, arm: str, gate: Gate | None = None) -> list[str | None]:
    """Watch a session from its beginning until an event or a fragment of this kind; list the kinds.

    `gate`: opened once the watch has seen the turn begin, so that it misses no fragment.
    """
    kinds: list[str | None] = []
    async for part in Client().watch(session_id, follow_until=session_pb2.FOLLOW_FOREVER):
        kinds.append(part.event.WhichOneof("event") or part.delta.WhichOneof("delta"))
        if gate is not None and kinds[-1] == "turn_in_progress":
            gate.open()
        if kinds[-1] == arm:
            return kinds
    raise AssertionError(f"the watch ended; there was no {arm}")


# --- at once ------------------------------------------------------------------------------------------------


async def test_a_function_has_no_more_calls_than_it_says(serve: Serve) -> None:
    """Six calls of one reply, two at a time; another function of the worker is not held up by them."""
    worker = Worker()
    running, most = 0, 0
    pair = asyncio.Barrier(2)
    other = asyncio.Event()

    @worker.function(max_concurrency=2)
    async def narrow(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await other.wait()
        await pair.wait()  # the two that run leave together: with one at a time nobody would
        running -= 1
        return n

    @worker.function
    async def wide() -> str:
        other.set()
        return "wide"

    asked = calls(*(("narrow", f'{{"n":{n}}}') for n in range(6)), ("wide", "{}"))
    async with serve(asked, say("Done.")), worker:
        tools = [RemoteFunction("narrow"), RemoteFunction("wide")]

        result = await Runner.run(Agent[None](name="A", tools=tools), "Hi")

        assert (given(result), most) == ([*map(str, range(6)), "wide"], 2)


# --- while it runs ------------------------------------------------------------------------------------------


async def test_who_watches_sees_how_a_function_gets_on(serve: Serve) -> None:
    """Words, data and the last report before the end; the model is told the result alone."""
    seen = asyncio.Queue[Any]()
    worker = Worker()

    @worker.function
    async def work(context: RunContext[None]) -> str:
        context.progress("begun")
        assert await seen.get() == "begun"
        context.progress({"done": 1, "of": 2})
        assert await seen.get() == '{"done":1,"of":2}'
        context.progress(output_so_far="half")
        context.progress(output_so_far="all")
        return "all of it"

    gate = Gate()
    async with serve(calls(("work", "{}"), before=gate), say("Done.")) as served, worker:
        client = Client()
        session = await client.create_session(agent=Agent(name="A", tools=[RemoteFunction("work")]))
        await client.submit(session.session_id, "Hi")
        reports = []
        async for part in client.watch(session.session_id):
            if part.event.HasField("turn_in_progress"):
                gate.open()
            if part.delta.HasField("progress"):
                progress = part.delta.progress
                reports.append(progress)
                seen.put_nowait(progress.text or progress.progress_json or progress.output_so_far)

        assert reports[-1].output_so_far == "all"
        assert {report.call_id for report in reports} == {reports[0].call_id} != {""}
        assert served.outputs() == ["all of it"]


FROZEN = """
    import asyncio, signal
    from baton import RunContext, Worker

    worker, go_on = Worker(), asyncio.Event()

    @worker.function
    async def {name}(context: RunContext[None]) -> str:
        if {extends}:
            context.extend(60)
        context.progress("works")
        await go_on.wait()
        return f"attempt {{context.attempt}}"

    async def main():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, go_on.set)
        async with worker:
            print("attached", flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_function_that_asked_for_time_keeps_its_call_while_its_worker_is_silent(serve: Serve) -> None:
    """Two processes stand still for longer than a silent worker is waited for; the one that asked is not missed."""
    quick = {"heartbeat_s": 0.2, "lease_s": 0.6, "registration_grace_s": 0.3}
    gates = {"patient": Gate(), "hasty": Gate()}
    asked = [calls((name, "{}"), before=gate) for name, gate in gates.items()]
    async with serve(*asked, say("Done."), say("Done."), **quick) as served:
        address = served.baton.address
        async with (
            program(address, FROZEN.format(name="patient", extends=True)) as patient,
            program(address, FROZEN.format(name="hasty", extends=False)) as hasty,
        ):
            processes, sessions = (patient, hasty), []
            for (name, gate), process in zip(gates.items(), processes, strict=True):
                assert await line_of(process) == "attached"
                session = await Client().create_session(agent=Agent(name="A", tools=[RemoteFunction(name)]))
                await Client().submit(session.session_id, "Hi")
                await _until(session.session_id, "progress", gate)
                sessions.append(session.session_id)

            for process in processes:
                process.send_signal(signal.SIGSTOP)
            await _until(sessions[1], "attempt_lost")
            for process in processes:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGUSR1)
            kept, lost = [await _until(session_id, "turn_completed") for session_id in sessions]

        assert ("attempt_lost" in kept, "attempt_lost" in lost) == (False, True)
        outputs = [served.outputs(request)[0] for request in (2, 3)]
        assert sorted(outputs) == ["attempt 1", "attempt 2"]
