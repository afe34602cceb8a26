"""Runs side by side at a real server: each is asked in its own context, and none waits for another's answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import Reply, calls, say

from baton import (
    Agent,
    GuardrailFunctionOutput,
    MaxTurnsExceeded,
    RunHooks,
    Runner,
    UserError,
    function_tool,
    handoff,
    input_guardrail,
)
from baton_server.ports.model import ModelRequest

__all__ = ["serve"]


def script(request: ModelRequest) -> Reply:
    """Look, then hand over, then answer, for whoever asks."""
    kinds = [json.loads(item).get("type") for item in request.items]
    steps = kinds.count("function_call_output")
    if steps == 0:
        return calls(("look", "{}"))
    return calls(("transfer_to_billing", "{}")) if steps == 1 else say(f"Done, {request.instructions}.")


async def test_runs_of_one_agent_are_asked_in_their_own_contexts(serve: Serve) -> None:
    """Twelve at once, whose hooks have the same names; each hears of itself alone."""
    heard: dict[str, list[str]] = {}

    def note(ctx: Any, what: str) -> None:
        heard.setdefault(ctx.context, []).append(what)

    @input_guardrail(run_in_parallel=False)
    async def guard(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        note(ctx, f"guard {given}")
        return GuardrailFunctionOutput(None, False)

    @function_tool
    async def look() -> str:
        return "seen"

    class Hooks(RunHooks[Any]):
        def __init__(self, name: str) -> None:
            self.name = name

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            note(context, f"{self.name} {tool.name}")

    billing: Agent[Any] = Agent(name="Billing", instructions=lambda ctx, agent: ctx.context)
    agent: Agent[Any] = Agent(
        name="Triage",
        instructions="Ask.",
        tools=[look],
        input_guardrails=[guard],
        handoffs=[handoff(billing, on_handoff=lambda ctx: note(ctx, "handoff"))],
    )
    names = [f"user {number}" for number in range(12)]
    async with serve() as served:
        served.model._script = script
        runs = [Runner.run(agent, f"I am {name}", context=name, hooks=Hooks(name)) for name in names]
        results = await asyncio.gather(*runs)

        assert [result.final_output for result in results] == [f"Done, {name}." for name in names]
        for name in names:
            assert heard[name] == [f"guard I am {name}", f"{name} look", "handoff"]


async def test_a_run_that_waits_for_its_program_keeps_no_other_from_going_on(serve: Serve) -> None:
    """One guardrail does not answer; a run that begins later ends first."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    @input_guardrail(run_in_parallel=False)
    async def slow(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        if ctx.context == "slow":
            reached.set()
            await go_on.wait()
        return GuardrailFunctionOutput(None, False)

    agent: Agent[Any] = Agent(name="A", input_guardrails=[slow])
    async with serve(say("First."), say("Second.")):
        waiting = asyncio.create_task(Runner.run(agent, "Hi", context="slow"))
        await reached.wait()
        first = await Runner.run(agent, "Hi", context="quick")
        assert not waiting.done()
        go_on.set()
        second = await waiting

        assert (first.final_output, second.final_output) == ("First.", "Second.")


async def test_a_run_that_fails_takes_no_other_along(serve: Serve) -> None:
    """Half of them raise in a hook; the other half has its outputs."""

    class Fails(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            if context.context % 2:
                raise LookupError(str(context.context))

    async with serve() as served:
        served.model._script = lambda request: say("Done.")
        runs = [Runner.run(Agent[Any](name="A"), "Hi", context=number, hooks=Fails()) for number in range(8)]
        ends = await asyncio.gather(*runs, return_exceptions=True)

        assert [getattr(end, "final_output", None) for end in ends[::2]] == ["Done."] * 4
        assert [(type(end), str(end)) for end in ends[1::2]] == [(LookupError, str(n)) for n in (1, 3, 5, 7)]


async def test_a_function_may_run_an_agent_itself(serve: Serve) -> None:
    """A run within a function of a run: its own session, context and limit."""

    @function_tool
    async def delegate(task: str) -> str:
        try:
            result = await Runner.run(Agent[Any](name="Inner", tools=[delegate]), task, max_turns=1, context="inner")
        except MaxTurnsExceeded as error:
            return f"gave up: {error.reason}"
        return str(result.final_output)

    def answer(request: ModelRequest) -> Reply:
        asked = json.loads(request.items[0])["content"]
        last = json.loads(request.items[-1])
        if asked == "outer":
            return say(f"It {last['output']}.") if "output" in last else calls(("delegate", '{"task":"loop"}'))
        return calls(("delegate", '{"task":"easy"}')) if asked == "loop" else say("done")

    async with serve() as served:
        served.model._script = answer
        result = await Runner.run(Agent[Any](name="Outer", tools=[delegate]), "outer")

        assert result.final_output == "It gave up: MAX_TURNS_EXCEEDED."


@pytest.mark.parametrize("handled", [True, False])
async def test_siblings_of_a_call_that_ends_the_run_keep_their_outputs(serve: Serve, handled: bool) -> None:
    """What was done is told in the exception; a failure that is told to the model ends nothing."""
    words: Any = (lambda ctx, error: f"sorry: {error}") if handled else None

    @function_tool(failure_error_function=words)
    async def breaks() -> str:
        await done.wait()
        raise OSError("no disk")

    @function_tool
    async def works() -> str:
        done.set()
        return "worked"

    done = asyncio.Event()
    async with serve(calls(("works", "{}"), ("breaks", "{}")), say("All right.")) as served:
        agent: Agent[Any] = Agent(name="A", tools=[breaks, works])
        if handled:
            assert (await Runner.run(agent, "Hi")).final_output == "All right."
            assert served.outputs() == ["worked", "sorry: no disk"]
            return
        with pytest.raises(UserError, match="no disk") as caught:
            await Runner.run(agent, "Hi")

        data = caught.value.run_data
        assert len(served.model.requests) == 1 and data is not None
        assert [getattr(item, "output", None) for item in data.new_items] == [None, "worked"]
