"""Streamed runs at a real server: which events come in which order, and how a stream ends that does not end well."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import Gate, calls, say

import baton
from baton import (
    Agent,
    AgentUpdatedStreamEvent,
    GuardrailFunctionOutput,
    RunConfig,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    SQLiteSession,
    function_tool,
    handoff,
    handoff_filters,
    input_guardrail,
    output_guardrail,
)

__all__ = ["serve"]

KYOTO, TO_BILLING = ("weather", '{"city":"Kyoto"}'), ("transfer_to_billing", "{}")


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


async def told(streamed: RunResultStreaming) -> list[str]:
    """Read a run to its end; returns its items by name, and its agents."""
    found: list[str] = []
    async for event in streamed.stream_events():
        if isinstance(event, RunItemStreamEvent):
            found.append(event.name)
        elif isinstance(event, AgentUpdatedStreamEvent):
            found.append(event.new_agent.name)
    return found


async def test_a_handoff_is_told_between_its_agents(serve: Serve) -> None:
    """Requested, taken, then the receiver and what it says; the items are those of the result."""
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[Agent(name="Billing")])
    async with serve(calls(KYOTO), calls(TO_BILLING), say("Paid.")):
        streamed = Runner.run_streamed(triage, "Hi")
        events = await told(streamed)
        waited = [item.type for item in streamed.new_items]

        assert events[:3] == ["Triage", "tool_called", "tool_output"]
        assert events[3:6] == ["handoff_requested", "handoff_occured", "Billing"]
        assert events[6:] == ["message_output_created"]
        assert waited == [
            *("tool_call_item", "tool_call_output_item", "handoff_call_item", "handoff_output_item"),
            "message_output_item",
        ]
        assert (streamed.last_agent.name, streamed.final_output) == ("Billing", "Paid.")


async def test_waited_for_and_streamed_runs_make_the_same(serve: Serve) -> None:
    """Items, replies, list of inputs, usage, last agent: whatever way a run is looked at."""
    way = handoff(Agent(name="Billing"), input_filter=handoff_filters.remove_all_tools)
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[way])
    script = [calls(KYOTO), calls(TO_BILLING), say("Paid.")]
    async with serve(*script, *script):
        waited = await Runner.run(triage, "Hi", session=SQLiteSession("a"))
        streamed = Runner.run_streamed(triage, "Hi", session=SQLiteSession("b"))
        await told(streamed)

        def seen(result: Any) -> list[Any]:
            raw = [{k: v for k, v in item.raw_item.items() if k not in ("call_id", "id")} for item in result.new_items]
            counted = (result.usage.requests, result.usage.total_tokens, len(result.raw_responses))
            return [raw, counted, len(result.to_input_list()), result.final_output, result.last_agent.name]

        assert seen(waited) == seen(streamed)


async def test_a_guardrail_that_trips_ends_the_events_with_its_exception(serve: Serve) -> None:
    """What was told before stays told; the result is complete, and has no output."""

    @input_guardrail
    async def trips(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        await gate.reached()
        return GuardrailFunctionOutput("no", True)

    gate = Gate()
    async with serve(say("It ", gate, "rains.")):
        streamed = Runner.run_streamed(Agent[None](name="A", input_guardrails=[trips]), "Hi")
        with pytest.raises(baton.InputGuardrailTripwireTriggered):
            await told(streamed)

        assert (streamed.is_complete, streamed.final_output) == (True, None)
        assert [one.output.output_info for one in streamed.input_guardrail_results] == ["no"]
        assert isinstance(streamed.run_loop_exception, baton.InputGuardrailTripwireTriggered)


async def test_an_output_that_trips_ends_the_events_with_its_exception(serve: Serve) -> None:
    """After the message was told, which no list of inputs has."""

    @output_guardrail
    def trips(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput("no", True)

    async with serve(say("Darn.")):
        streamed = Runner.run_streamed(Agent[None](name="A", output_guardrails=[trips]), "Hi")
        with pytest.raises(baton.OutputGuardrailTripwireTriggered):
            await told(streamed)

        assert (streamed.is_complete, streamed.final_output) == (True, None)


@pytest.mark.parametrize("behavior", ["raise_error", "return_error_to_model"])
async def test_an_unknown_function_in_a_stream(serve: Serve, behavior: Any) -> None:
    """Ends the events with an exception, or is told as a call with an output."""
    config = RunConfig(tool_not_found_behavior=behavior)
    async with serve(calls(("nope", "{}")), say("Sorry.")):
        streamed = Runner.run_streamed(Agent[None](name="A"), "Hi", run_config=config)
        if behavior == "raise_error":
            with pytest.raises(baton.ModelBehaviorError, match="nope"):
                await told(streamed)
            return

        assert await told(streamed) == ["A", "tool_called", "tool_output", "message_output_created"]


async def test_a_stream_that_nobody_reads_goes_on(serve: Serve) -> None:
    """The run does not wait for a reader, who finds everything later."""
    done: list[str] = []

    @output_guardrail
    def ends(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        done.append(output)
        return GuardrailFunctionOutput(None, False)

    async with serve(calls(KYOTO), say("Wet.")) as served:
        agent: Agent[None] = Agent(name="A", tools=[weather], output_guardrails=[ends])
        streamed = Runner.run_streamed(agent, "Hi")
        await served.model.asked(2)

        assert await told(streamed) == ["A", "tool_called", "tool_output", "message_output_created"]
        assert (done, streamed.final_output) == (["Wet."], "Wet.")
