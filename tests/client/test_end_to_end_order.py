"""The order in which the hooks of a run and of its agents hear of things, at a real server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

import baton
from baton import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    RunHooks,
    Runner,
    function_tool,
    input_guardrail,
    output_guardrail,
)

__all__ = ["serve"]

KYOTO, TO_BILLING = ("weather", '{"city":"Kyoto"}'), ("transfer_to_billing", "{}")


class Heard(RunHooks[Any]):
    """Writes down what a run's hooks hear."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.told.append(f"run: {agent.name} starts")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.told.append(f"run: {agent.name} ends with {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.told.append(f"run: {from_agent.name} to {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.told.append(f"run: {tool.name} starts")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.told.append(f"run: {tool.name} gave {result}")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.told.append(f"run: {agent.name} asks, {system_prompt}, {len(input_items)}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.told.append(f"run: {agent.name} got {[item['type'] for item in response.output]}")


class Own(AgentHooks[Any]):
    """Writes down what an agent's hooks hear."""

    def __init__(self, told: list[str], name: str) -> None:
        self.told, self.name = told, name

    async def on_start(self, context: Any, agent: Any) -> None:
        self.told.append(f"{self.name}: starts")

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.told.append(f"{self.name}: ends with {output}")

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.told.append(f"{self.name}: {source.name} to {agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.told.append(f"{self.name}: {tool.name} starts")

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.told.append(f"{self.name}: asks")


class Failing(RunHooks[Any]):
    """Raises at one moment."""

    def __init__(self, method: str) -> None:
        async def fail(*_: Any) -> None:
            raise LookupError(method)

        setattr(self, method, fail)


async def test_hooks_hear_of_a_run_with_a_function_and_a_handoff_in_order(serve: Serve) -> None:
    """Each hook by itself: its own moments, in the run's order, whoever is told beside it."""
    told: list[str] = []

    @function_tool
    async def weather(city: str) -> str:
        told.append("weather runs")
        return f"rain in {city}"

    @output_guardrail
    def judge(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        told.append("judged")
        return GuardrailFunctionOutput(None, False)

    billing: Agent[Any] = Agent(name="Billing", output_guardrails=[judge], hooks=Own(told, "Billing"))
    triage: Agent[Any] = Agent(
        name="Triage", instructions="Ask.", tools=[weather], handoffs=[billing], hooks=Own(told, "Triage")
    )
    async with serve(calls(KYOTO), calls(TO_BILLING), say("Paid.")):
        await Runner.run(triage, "Hi", hooks=Heard(told))

    assert [one for one in told if one.startswith("run: ")] == [
        "run: Triage starts",
        "run: Triage asks, Ask., 1",
        "run: Triage got ['function_call']",
        "run: weather starts",
        "run: weather gave rain in Kyoto",
        "run: Triage asks, Ask., 3",
        "run: Triage got ['function_call']",
        "run: Triage to Billing",
        "run: Billing starts",
        "run: Billing asks, None, 5",
        "run: Billing got ['message']",
        "run: Billing ends with Paid.",
    ]
    assert [one for one in told if one.startswith("Triage: ")] == [
        *("Triage: starts", "Triage: asks", "Triage: weather starts", "Triage: asks", "Triage: Triage to Billing"),
    ]
    assert [one for one in told if one.startswith("Billing: ")] == [
        *("Billing: starts", "Billing: asks", "Billing: ends with Paid."),
    ]
    assert (
        told.index("run: weather starts") < told.index("weather runs") < told.index("run: weather gave rain in Kyoto")
    )
    assert told[-1] == "judged"


async def test_a_blocking_guardrail_is_asked_before_any_hook_hears_of_the_agent(serve: Serve) -> None:
    """Where it trips nothing began."""
    told: list[str] = []

    @input_guardrail(run_in_parallel=False)
    def stop(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        told.append("judged")
        return GuardrailFunctionOutput(None, True)

    async with serve():
        with pytest.raises(baton.InputGuardrailTripwireTriggered):
            await Runner.run(Agent[Any](name="A", input_guardrails=[stop]), "Hi", hooks=Heard(told))

    assert told == ["judged"]


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("on_agent_start", 0),
        ("on_llm_start", 0),
        ("on_llm_end", 1),
        ("on_tool_start", 1),
        ("on_tool_end", 1),
        ("on_handoff", 2),
        ("on_agent_end", 3),
    ],
)
async def test_a_hook_that_raises_ends_the_run_where_it_is(serve: Serve, method: str, asked: int) -> None:
    """With its own exception; the model is not asked any more."""

    @function_tool
    async def weather(city: str) -> str:
        return f"rain in {city}"

    agent: Agent[Any] = Agent(name="Triage", tools=[weather], handoffs=[Agent(name="Billing")])
    async with serve(calls(KYOTO), calls(TO_BILLING), say("Paid.")) as served:
        with pytest.raises(LookupError, match=method):
            await Runner.run(agent, "Hi", hooks=Failing(method))

        assert len(served.model.requests) == asked


async def test_the_agent_of_a_nested_run_hears_of_that_run_alone(serve: Serve) -> None:
    """The outer run's hooks hear of the call and what it gave, as of any function."""
    told: list[str] = []
    inner: Agent[Any] = Agent(name="Inner", hooks=Own(told, "Inner"))
    outer: Agent[Any] = Agent(name="Outer", tools=[inner.as_tool("ask", "Asks.")], hooks=Own(told, "Outer"))
    async with serve(calls(("ask", '{"input":"x"}')), say("Within."), say("Done.")):
        await Runner.run(outer, "Hi", hooks=Heard(told))

    assert [one for one in told if one.startswith("Inner: ")] == [
        *("Inner: starts", "Inner: asks", "Inner: ends with Within."),
    ]
    assert [one for one in told if one.startswith("Outer: ")] == [
        *("Outer: starts", "Outer: asks", "Outer: ask starts", "Outer: asks", "Outer: ends with Done."),
    ]
    called = ("run: ask starts", "run: ask gave Within.", "run: Outer ends with Done.")
    assert [one for one in told if one in called] == list(called)
