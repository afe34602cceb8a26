"""What `print` shows of a run: a summary that can be read, as in the Agents SDK."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

from baton import Agent, MaxTurnsExceeded, Runner, function_tool

__all__ = ["serve"]


class Recipe(BaseModel):
    """A final output."""

    title: str


@function_tool(needs_approval=True)
def bake(title: str) -> str:
    """Bake."""
    return f"{title}, baked"


BAKER: Agent[Any] = Agent(name="Baker", output_type=Recipe)


async def test_a_result_prints_what_came_of_the_run(serve: Serve) -> None:
    """An object of pydantic as JSON, everything else by how much of it there is."""
    async with serve(say('{"title":"Bread"}')):
        result = await Runner.run(BAKER, "Well?")

    assert str(result).splitlines() == [
        "RunResult:",
        '- Last agent: Agent(name="Baker", ...)',
        "- Final output (Recipe):",
        "    {",
        '      "title": "Bread"',
        "    }",
        "- 1 new item(s)",
        "- 1 raw response(s)",
        "- 0 input guardrail result(s)",
        "- 0 output guardrail result(s)",
        "(See `RunResult` for more details)",
    ]


async def test_a_run_that_waits_prints_how_many_decisions_it_waits_for(serve: Serve) -> None:
    """An interruption shows the call, on one line."""
    async with serve(calls(("bake", '{"title":"Bread"}'))):
        result = await Runner.run(Agent(name="Baker", tools=[bake]), "Bake.")

    assert "- Final output (None):\n    None\n" in str(result)
    assert "- 1 interruption(s)\n" in str(result)
    (asked,) = result.interruptions
    assert """'arguments': '{"title":"Bread"}'""" in repr(asked)
    assert "\n" not in repr(asked)


async def test_a_streamed_run_prints_where_it_stands(serve: Serve) -> None:
    """Before its end and after it."""
    async with serve(say("Bread.")):
        run = Runner.run_streamed(Agent(name="Baker"), "Well?", max_turns=3)
        begun = str(run)
        _ = [event async for event in run.stream_events()]

    assert "- Is complete: False\n- Final output (None):\n    None\n- 0 new item(s)\n" in begun
    assert str(run).splitlines()[:7] == [
        "RunResultStreaming:",
        '- Current agent: Agent(name="Baker", ...)',
        "- Current turn: 1",
        "- Max turns: 3",
        "- Is complete: True",
        "- Final output (str):",
        "    Bread.",
    ]


async def test_what_a_failed_run_had_made_is_printed_too(serve: Serve) -> None:
    """It has no output."""
    async with serve():
        with pytest.raises(MaxTurnsExceeded) as caught:
            await Runner.run(Agent(name="Baker"), "Well?", max_turns=0)

    shown = str(caught.value.run_data).splitlines()
    assert shown[:3] == ["RunErrorDetails:", '- Last agent: Agent(name="Baker", ...)', "- 0 new item(s)"]


def test_a_streamed_run_says_that_it_needs_an_event_loop() -> None:
    """And what does without one."""
    with pytest.raises(RuntimeError, match=r"needs a running event loop: call it in a coroutine, or use .*run_sync"):
        Runner.run_streamed(Agent(name="Baker"), "Well?")
