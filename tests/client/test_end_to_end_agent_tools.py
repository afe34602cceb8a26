"""Agents as tools at a real server: nested runs, what they are given, what they give, and who sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

import baton
from baton import Agent, AgentToolResult, Client, RunItemStreamEvent, Runner, RunState, function_tool

__all__ = ["serve"]

KYOTO = ("weather", '{"city":"Kyoto"}')
ASKS = calls(("forecast", '{"input":"Kyoto?"}'))


class Trip(BaseModel):
    """Arguments of an agent tool."""

    city: str
    days: int = 1


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def guide(**options: Any) -> Agent[Any]:
    """Make an agent with another one as its tool."""
    forecaster: Agent[Any] = Agent(name="Forecaster", instructions="Forecast.", tools=[weather])
    return Agent(name="Guide", tools=[forecaster.as_tool("forecast", "Forecasts the weather.", **options)])


async def test_a_nested_run_begins_with_what_it_was_asked_alone(serve: Serve) -> None:
    """The inner agent sees no outer history, the outer one the inner output; usage is of both."""
    async with serve(ASKS, calls(KYOTO), say("Wet."), say("Take a coat.")) as served:
        result = await Runner.run(guide(), "What shall I wear?")

        assert result.final_output == "Take a coat."
        assert [request.instructions for request in served.model.requests] == [None, "Forecast.", "Forecast.", None]
        assert served.model.input_of(1) == [{"role": "user", "content": "Kyoto?"}]
        assert served.outputs() == ["Wet."]
        assert [item.type for item in result.new_items] == [
            *("tool_call_item", "tool_call_output_item", "message_output_item"),
        ]
        assert result.usage.requests == 4


async def test_arguments_of_a_type_become_the_nested_input(serve: Serve) -> None:
    """The builder gets them read, defaults filled in; the model was told their schema."""
    seen: list[Any] = []

    async def build(given: Any) -> str:
        seen.append(given)
        return f"{given['params']['city']} for {given['params']['days']} days"

    agent = guide(parameters=Trip, input_builder=build, include_input_schema=True)
    async with serve(calls(("forecast", '{"city":"Nara","days":2}')), say("Dry."), say("Go.")) as served:
        await Runner.run(agent, "Hi")

        assert served.model.input_of(1) == [{"role": "user", "content": "Nara for 2 days"}]
        assert seen[0]["params"] == {"city": "Nara", "days": 2}
        assert sorted(seen[0]["json_schema"]["properties"]) == ["city", "days"]


async def test_an_extractor_sees_the_nested_run(serve: Serve) -> None:
    """Its output, what it made, and the context that all of them share."""

    def extract(result: AgentToolResult) -> str:
        made = [item.type for item in result.new_items]
        return json.dumps([result.context_wrapper.context, result.final_output, len(made)])

    async with serve(ASKS, calls(KYOTO), say("Wet."), say("Take a coat.")) as served:
        await Runner.run(guide(custom_output_extractor=extract), "Hi", context="user-7")

        assert json.loads(served.outputs()[0]) == ["user-7", "Wet.", 3]


async def test_a_nested_run_that_fails_is_told_to_the_outer_model(serve: Serve) -> None:
    """By a sentence that says nothing of the cause, in words of the program's, or it ends the run with what it was."""
    loops = [ASKS, calls(KYOTO), say("Sorry.")]

    async with serve(*loops, *loops, *loops[:2]) as served:
        await Runner.run(guide(max_turns=1), "Hi")
        await Runner.run(guide(max_turns=1, failure_error_function=lambda ctx, error: f"No: {error}"), "Hi")
        with pytest.raises(baton.MaxTurnsExceeded, match="nested run"):
            await Runner.run(guide(max_turns=1, failure_error_function=None), "Hi")

        (default,), (own,) = served.outputs(2), served.outputs(5)
        assert default and "1" not in default
        assert own.startswith("No: ")


async def test_who_streams_a_run_is_told_of_the_outer_one_alone(serve: Serve) -> None:
    """The nested run's items do not mix with the run's; who watches the session sees them, by the call's path."""
    async with serve(ASKS, calls(KYOTO), say("Wet."), say("Take a coat.")):
        streamed = Runner.run_streamed(guide(), "Hi")
        told = [event.name async for event in streamed.stream_events() if isinstance(event, RunItemStreamEvent)]
        watched = [part.event async for part in Client().watch(streamed.session_id) if part.HasField("event")]

        nested = [event for event in watched if event.run_path]
        calls_ = [event.item_added.item.function_call for event in nested if event.HasField("item_added")]
        assert told == ["tool_called", "tool_output", "message_output_created"]
        assert [call.name for call in calls_ if call.name] == ["weather"]
        assert {tuple(event.run_path) for event in nested} == {tuple(nested[0].run_path)}
        assert "nested_run_created" in [event.WhichOneof("event") for event in watched]


async def test_a_nested_call_that_must_be_allowed_pauses_the_whole_run(serve: Serve) -> None:
    """It interrupts the outer run, in its state's JSON too; approved, the nested run goes on where it was."""
    ran: list[str] = []

    @function_tool(needs_approval=True)
    def launch(balloon: str) -> str:
        ran.append(balloon)
        return "up"

    forecaster: Agent[Any] = Agent(name="Forecaster", tools=[launch])
    agent: Agent[Any] = Agent(name="Guide", tools=[forecaster.as_tool("forecast", "Forecasts.")])
    async with serve(ASKS, calls(("launch", '{"balloon":"B"}')), say("Wet."), say("Take a coat.")) as served:
        paused = await Runner.run(agent, "Hi")
        state = await RunState.from_string(agent, paused.to_state().to_string())
        (asked,) = state.get_interruptions()
        state.approve(asked)
        result = await Runner.run(agent, state)

        assert [one.call_id for one in paused.interruptions] == [asked.call_id]
        assert (asked.tool_name, asked.agent.name) == ("launch", "Forecaster")
        assert (paused.final_output, result.final_output, ran) == (None, "Take a coat.", ["B"])
        assert len(served.model.requests) == 4


async def test_an_agent_tool_may_need_to_be_allowed_itself(serve: Serve) -> None:
    """Rejected, its run does not begin."""
    async with serve(ASKS, say("As you like.")) as served:
        agent = guide(needs_approval=True)
        paused = await Runner.run(agent, "Hi")
        state = paused.to_state()
        state.reject(paused.interruptions[0], rejection_message="Not today.")
        result = await Runner.run(agent, state)

        assert result.final_output == "As you like."
        assert (served.outputs(), len(served.model.requests)) == (["Not today."], 2)


async def test_two_nested_runs_go_on_side_by_side(serve: Serve) -> None:
    """Each has a path of its own; outputs come back in call order."""
    both = calls(("forecast", '{"input":"Kyoto?"}'), ("forecast", '{"input":"Nara?"}'))

    def answer(request: Any) -> Any:
        said = [json.loads(item).get("content") for item in request.items]
        if said == ["Kyoto?"] or said == ["Nara?"]:
            return say(f"Rain in {said[0]}")
        return both if said == ["Hi"] else say("Stay.")

    async with serve() as served:
        served.model._script = answer
        result = await Runner.run(guide(), "Hi")

        assert result.final_output == "Stay."
        assert served.outputs() == ["Rain in Kyoto?", "Rain in Nara?"]


async def test_an_agent_tool_that_is_not_enabled_is_not_offered(serve: Serve) -> None:
    """As of a function: it is asked each round."""
    async with serve(say("Bye.")) as served:
        await Runner.run(guide(is_enabled=lambda ctx, agent: ctx.context == "member"), "Hi", context="guest")

        assert [tool.name for tool in served.model.requests[0].tools] == []
