"""A worker's process is killed in the middle of a call: what a real server makes of it, and what a journal saves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import PATIENCE_S, Serve, Served, line_of, program, serve
from tests.client.held_line import held_line
from tests.support.scripted_model import calls, say

from baton import (
    Agent,
    Client,
    Effect,
    EffectCheckData,
    EffectUnknownError,
    RemoteFunction,
    RunContext,
    Runner,
    RunResult,
    TookEffect,
    ToolCallOutputItem,
    Worker,
)
from baton.v1 import event_pb2, session_pb2

__all__ = ["serve"]

pytestmark = pytest.mark.slow

PAY = """
    import asyncio, pathlib, threading
    from baton import Worker

    worker = Worker({settings})

    @worker.function(side_effects={side_effects!r})
    def pay(order: str) -> str:
        with pathlib.Path({paid!r}).open("a") as paid:
            paid.write(order + "\\n")
        print("paid", flush=True)
        if {stays}:
            threading.Event().wait()
        return "receipt of the first"

    async def main():
        async with worker:
            print("attached", flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
"""

QUICK = {"registration_grace_s": 0.3}
"""A lost worker is not waited for."""

ASKED = calls(("pay", '{"order":"a"}'))
AGENT: Agent[None] = Agent(name="A", tools=[RemoteFunction("pay")])


def pay_program(paid: Path, *, side_effects: str | None = None, stays: bool = True, settings: str = "") -> str:
    """Write a worker that notes what it pays in a file, and then, if it `stays`, never comes back from that."""
    return PAY.format(paid=str(paid), side_effects=side_effects, stays=stays, settings=settings)


def given(result: RunResult) -> list[Any]:
    """List what the functions of a run gave."""
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def second_worker(attempts: list[tuple[int, bool]], **options: Any) -> Worker:
    """Make a worker in this process that pays at once."""
    worker = Worker()

    @worker.function(**options)
    def pay(context: RunContext[None], order: str) -> str:
        attempts.append((context.attempt, context.may_have_run))
        return f"receipt of the second for {order}"

    return worker


async def killed(process: asyncio.subprocess.Process) -> None:
    """Kill a worker in the middle of what it does."""
    process.kill()
    await process.wait()


# --- side effects: once -------------------------------------------------------------------------------------


@asynccontextmanager
async def in_doubt(serve: Serve, paid: Path) -> AsyncIterator[tuple[Served, event_pb2.RequiredAction]]:
    """A turn that rests because a call may have been paid that must not be paid twice."""
    async with serve(ASKED, say("Done."), **QUICK) as served:
        async with program(served.baton.address, pay_program(paid, side_effects="once")) as process:
            assert await line_of(process) == "attached"
            run = asyncio.create_task(Runner.run(AGENT, "Pay."))
            assert await line_of(process) == "paid"
            await killed(process)
            with pytest.raises(EffectUnknownError) as caught:
                await run
        (action,) = caught.value.required_actions
        assert (action.name, action.state) == ("pay", event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN)
        yield served, action


async def ending(action: event_pb2.RequiredAction) -> list[str | None]:
    """Wait for the end of a turn; list the kinds of its events."""
    kinds: list[str | None] = []
    async for part in Client().watch(action.session_id, follow_until=session_pb2.FOLLOW_FOREVER):
        kinds.append(part.event.WhichOneof("event"))
        if kinds[-1] == "turn_completed":
            return kinds
    raise AssertionError(f"the watch ended after {kinds}")


async def test_a_call_that_must_not_run_twice_is_asked_about_and_delivered_again(serve: Serve, tmp_path: Path) -> None:
    """Though a worker that serves it is there, it gets the call only once somebody has said so."""
    attempts: list[tuple[int, bool]] = []
    async with in_doubt(serve, tmp_path / "paid") as (served, action):
        async with second_worker(attempts, side_effects="once"):
            assert attempts == []

            outcome = await Client().redeliver(action, decided_by="Ann")

            kinds = await ending(action)
        assert not outcome.HasField("error")
        assert [kind for kind in kinds if kind in ("attempt_lost", "effect_unknown", "effect_decided")] == [
            *("attempt_lost", "effect_unknown", "effect_decided")
        ]
        assert attempts == [(2, True)]
        assert served.outputs() == ["receipt of the second for a"]


async def test_who_knows_what_came_of_a_call_settles_it(serve: Serve, tmp_path: Path) -> None:
    """It is not executed again: the file has one line."""
    attempts: list[tuple[int, bool]] = []
    async with in_doubt(serve, tmp_path / "paid") as (served, action), second_worker(attempts, side_effects="once"):
        await Client().settle(action, "receipt 7, by telephone")

        await ending(action)
        assert served.outputs() == ["receipt 7, by telephone"]
    assert attempts == []
    assert (tmp_path / "paid").read_text() == "a\n"


# --- checks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "attempts", "output"),
    [
        ("none", [(2, True)], "receipt of the second for a"),
        (TookEffect("receipt 7"), [], "receipt 7"),
        (TookEffect({"receipt": 7}), [], '{"receipt":7}'),
    ],
    ids=["none", "took effect, text", "took effect, data"],
)
async def test_a_check_says_whether_a_lost_call_took_effect(
    serve: Serve, tmp_path: Path, says: Effect, attempts: list[tuple[int, bool]], output: str
) -> None:
    """It is asked with the key and the arguments; "none" has the call delivered again, an output settles it."""
    made: list[tuple[int, bool]] = []
    questions: list[EffectCheckData[None]] = []
    checking = second_worker(made, side_effects="once")

    @checking.check("pay")
    def check(data: EffectCheckData[None]) -> Effect:
        questions.append(data)
        return says

    async with serve(ASKED, say("Done."), **QUICK) as served:
        async with program(served.baton.address, pay_program(tmp_path / "paid", side_effects="once")) as process:
            assert await line_of(process) == "attached"
            run = asyncio.create_task(Runner.run(AGENT, "Pay."))
            assert await line_of(process) == "paid"
            async with checking:
                await killed(process)
                result = await run

        (question,) = questions
        assert (question.tool_name, question.tool_arguments, question.attempt) == ("pay", '{"order":"a"}', 1)
        assert question.idempotency_key
        assert (made, given(result), result.final_output) == (attempts, [output], "Done.")
    assert (tmp_path / "paid").read_text() == "a\n"


# --- a journal ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side_effects", [None, "once"])
async def test_a_result_in_the_journal_outlives_the_process(
    serve: Serve, tmp_path: Path, side_effects: str | None
) -> None:
    """Killed when the work is done and nothing of it has reached the server: the next process tells the result."""
    paid = tmp_path / "paid"
    text = pay_program(paid, side_effects=side_effects, stays=False, settings=f"journal={str(tmp_path / 'journal')!r}")
    async with serve(ASKED, say("Done.")) as served, held_line(served.baton.address) as line:
        async with program(line.address, text) as process:
            assert await line_of(process) == "attached"
            line.hold("receipt of the first")
            run = asyncio.create_task(Runner.run(AGENT, "Pay."))
            assert await line_of(process) == "paid"
            async with asyncio.timeout(PATIENCE_S):
                await line.seen.wait()
            await killed(process)
        assert not run.done()
        async with program(served.baton.address, text) as process:
            assert await line_of(process) == "attached"
            result = await run

    assert (given(result), result.final_output) == (["receipt of the first"], "Done.")
    assert paid.read_text() == "a\n"


async def test_a_call_that_had_begun_is_not_begun_again_unasked(serve: Serve, tmp_path: Path) -> None:
    """The next process knows by the journal that the call may have run: under "once" somebody is asked."""
    paid = tmp_path / "paid"
    text = pay_program(paid, side_effects="once", settings=f"journal={str(tmp_path / 'journal')!r}")
    async with serve(ASKED, say("Done.")) as served:
        async with program(served.baton.address, text) as process:
            assert await line_of(process) == "attached"
            run = asyncio.create_task(Runner.run(AGENT, "Pay."))
            assert await line_of(process) == "paid"
            await killed(process)
        async with program(served.baton.address, text) as process:
            assert await line_of(process) == "attached"

            with pytest.raises(EffectUnknownError):
                await run

    assert paid.read_text() == "a\n"
