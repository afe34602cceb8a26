"""What a run has used so far: in its functions and hooks, and beside its events."""

from __future__ import annotations

from typing import Any

from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import Gate, calls, say

from baton import Agent, RunContextWrapper, RunHooks, Runner, function_tool

__all__ = ["serve"]

Told = list[tuple[str, int, int]]


class Counting(RunHooks[Told]):
    """Notes the usage at each moment in the run's own context."""

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        note(context, "start")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        note(context, "asked")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        note(context, "replied")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        note(context, "end")


def note(context: RunContextWrapper[Told], what: str) -> None:
    """Note what a moment is told."""
    context.context.append((what, context.usage.requests, context.usage.total_tokens))


@function_tool
def work(context: RunContextWrapper[Told]) -> str:
    """Work."""
    note(context, "work")
    return "worked"


async def test_functions_and_hooks_know_what_the_run_has_used_so_far(serve: Serve) -> None:
    """Each moment what was used by then, the reply that it follows included."""
    told: Told = []
    agent: Agent[Told] = Agent(name="A", tools=[work])
    async with serve(calls(("work", "{}")), calls(("work", "{}")), say("Done.")):
        result = await Runner.run(agent, "Hi", context=told, hooks=Counting())

    assert told == [
        *[("start", 0, 0), ("asked", 0, 0), ("replied", 1, 10), ("work", 1, 10)],
        *[("asked", 1, 10), ("replied", 2, 20), ("work", 2, 20)],
        *[("asked", 2, 20), ("replied", 3, 30), ("end", 3, 30)],
    ]
    assert (result.usage.requests, result.usage.total_tokens) == (3, 30)


async def test_what_nested_runs_use_counts(serve: Serve) -> None:
    """In their own functions, and in those of the run around them once they are over."""
    told: Told = []
    inner: Agent[Told] = Agent(name="Inner", tools=[work])
    outer: Agent[Told] = Agent(name="Outer", tools=[inner.as_tool("ask", "Asks."), work])
    asks, works = calls(("ask", '{"input":"?"}')), calls(("work", "{}"))
    async with serve(asks, works, say("Inner."), works, say("Done.")):
        await Runner.run(outer, "Hi", context=told)

    assert told == [("work", 2, 20), ("work", 4, 40)]


async def test_a_streamed_run_counts_as_it_goes(serve: Serve) -> None:
    """By the reply, before the run has ended."""
    gate = Gate()
    agent: Agent[Told] = Agent(name="A", tools=[work])
    async with serve(calls(("work", "{}")), say(gate, "Done.")):
        stream = Runner.run_streamed(agent, "Hi", context=[])
        before = stream.usage.requests
        await gate.reached()
        async for event in stream.stream_events():
            if event.type == "run_item_stream_event" and event.name == "tool_output":
                assert (stream.usage.requests, stream.context_wrapper.usage.total_tokens) == (1, 10)
                assert [entry.total_tokens for entry in stream.usage.request_usage_entries] == [10]
                gate.open()

        assert (before, stream.usage.requests) == (0, 2)
