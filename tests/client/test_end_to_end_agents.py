"""Definitions at a real server: whatever a program says of agents and runs is asked of it, and obeyed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, message, say

import baton
from baton import (
    Agent,
    AgentHooks,
    AgentToolResult,
    DenyTerms,
    FunctionToolResult,
    GuardrailFunctionOutput,
    HandoffInputData,
    ModelSettings,
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    RunHooks,
    Runner,
    RunResult,
    ToolErrorFormatterArgs,
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrailData,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    handoff_filters,
    output_guardrail,
    tool_output_guardrail,
)

__all__ = ["serve"]


class Recipe(BaseModel):
    """An output type."""

    ingredients: list[str]


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


KYOTO = ("weather", '{"city":"Kyoto"}')


def outputs(result: RunResult) -> list[Any]:
    """List what the functions of a run gave."""
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_what_an_agent_is_told_and_has_is_asked_each_round(serve: Serve) -> None:
    """Instructions and functions of the moment, by functions of this process."""
    rounds: list[int] = []

    def words(ctx: Any, agent: Agent[Any]) -> str:
        rounds.append(ctx.round)
        return f"{agent.name} in {ctx.context['city']}, round {ctx.round}"

    @function_tool(is_enabled=lambda ctx, agent: ctx.round == 1)
    def once() -> str:
        return "done"

    async with serve(calls(("once", "{}")), say("Bye.")) as served:
        agent: Agent[Any] = Agent(name="Guide", instructions=words, tools=[once, weather])

        result = await Runner.run(agent, "Hi", context={"city": "Kyoto"})

        assert (result.final_output, rounds) == ("Bye.", [1, 2])
        first, second = served.model.requests
        assert (first.instructions, second.instructions) == (
            "Guide in Kyoto, round 1",
            "Guide in Kyoto, round 2",
        )


async def test_a_handoff_is_heard_filtered_and_taken(serve: Serve) -> None:
    """The receiver sees what the filter leaves, and ends the run."""
    heard: list[Any] = []

    async def less(data: HandoffInputData) -> HandoffInputData:
        cleaned = handoff_filters.remove_all_tools(data)
        return cleaned.clone(input_history=cleaned.input_history[-1:])

    billing: Agent[Any] = Agent(name="Billing", output_type=Recipe)
    way = handoff(
        billing,
        on_handoff=lambda ctx, given: heard.append((ctx.context, given)),
        input_type=Recipe,
        input_filter=less,
    )
    triage: Agent[Any] = Agent(name="Triage", tools=[weather], handoffs=[way])
    billing.handoffs.append(triage)
    script = [
        calls(KYOTO),
        calls(("transfer_to_billing", '{"ingredients":["egg"]}')),
        say('{"ingredients":["flour"]}'),
    ]

    async with serve(*script) as served:
        result = await Runner.run(triage, [{"role": "user", "content": word} for word in ("One", "Two")], context="c")

        assert heard == [("c", Recipe(ingredients=["egg"]))]
        assert (result.final_output, result.last_agent) == (Recipe(ingredients=["flour"]), billing)
        assert result.new_items[-1].agent is billing
        assert len(served.model.requests[2].items) == 1


async def test_an_agent_as_a_tool_gives_what_its_extractor_makes(serve: Serve) -> None:
    """Its own functions run inside; the outer one is told the output alone."""

    async def extract(result: AgentToolResult) -> str:
        kinds = [item.type for item in result.new_items]
        return f"{result.last_agent.name}: {result.final_output} after {kinds.count('tool_call_output_item')} call"

    forecaster: Agent[Any] = Agent(name="Forecaster", tools=[weather])
    as_tool = forecaster.as_tool("forecast", "Forecasts.", custom_output_extractor=extract)
    guide: Agent[Any] = Agent(name="Guide", tools=[as_tool])

    async with serve(calls(("forecast", '{"input":"Kyoto?"}')), calls(KYOTO), say("Wet."), say("Take a coat.")):
        result = await Runner.run(guide, "Hi")

        assert result.final_output == "Take a coat."
        assert outputs(result) == ["Forecaster: Wet. after 1 call"]


async def test_outputs_of_functions_are_judged_and_may_end_the_run(serve: Serve) -> None:
    """A guardrail puts words in place of one; a behaviour makes the final output of it."""

    @tool_output_guardrail
    def no_rain(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content(data.output.replace("rain", "sun"))

    @function_tool(tool_output_guardrails=[no_rain])
    def forecast(city: str) -> str:
        return f"rain in {city}"

    async def judge(ctx: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(True, f"{results[0].tool.name}: {results[0].output}")

    async with serve(calls(("forecast", '{"city":"Kyoto"}'))) as served:
        agent: Agent[Any] = Agent(name="Guide", tools=[forecast], tool_use_behavior=judge)

        result = await Runner.run(agent, "Hi")

        assert result.final_output == "forecast: sun in Kyoto"
        assert len(served.model.requests) == 1 and len(result.tool_output_guardrail_results) == 1


@pytest.mark.parametrize("guardrail", ["function", "terms"])
async def test_a_final_output_may_be_held_back(serve: Serve, guardrail: str) -> None:
    """By a function of this process, or by terms that the server looks for itself."""

    @output_guardrail
    async def polite(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"said": output}, "darn" in output)

    given = polite if guardrail == "function" else DenyTerms(["DARN"], "polite")
    async with serve(say("Well, darn.")):
        with pytest.raises(baton.OutputGuardrailTripwireTriggered) as caught:
            await Runner.run(Agent(name="Guide", output_guardrails=[given]), "Hi")

        result = caught.value.guardrail_result
        assert result is not None and result.guardrail is given and result.output.tripwire_triggered


async def test_failures_are_told_in_words_of_ones_own(serve: Serve) -> None:
    """Of unknown functions by the run's formatter, of exceptions by the function's own."""

    @function_tool(failure_error_function=lambda ctx, error: f"{ctx.tool_name} raised {type(error).__name__}")
    def broken() -> str:
        raise KeyError("secret")

    def words(args: ToolErrorFormatterArgs[Any]) -> str | None:
        return f"no {args.tool_name} here" if args.kind == "tool_not_found" else None

    config = RunConfig(tool_error_formatter=words, tool_not_found_behavior="return_error_to_model")
    async with serve(calls(("broken", "{}"), ("nope", "{}")), say("Sorry.")):
        result = await Runner.run(Agent[Any](name="Guide", tools=[broken]), "Hi", run_config=config)

        assert outputs(result) == ["broken raised KeyError", "no nope here"]


async def test_an_error_handler_gives_the_final_output(serve: Serve) -> None:
    """In place of the exception, with what the run had made before its eyes."""

    def too_long(data: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
        assert isinstance(data.error, baton.MaxTurnsExceeded)
        names = [item.type for item in data.run_data.new_items]
        return RunErrorHandlerResult(f"{data.context.context}: gave up after {len(names)} items", False)

    async with serve(calls(KYOTO)):
        result = await Runner.run(
            Agent[Any](name="Guide", tools=[weather]),
            "Hi",
            context="c",
            max_turns=1,
            error_handlers={"max_turns": too_long},
        )

        assert result.final_output == "c: gave up after 2 items"


async def test_hooks_of_run_and_agent_are_told_and_waited_for(serve: Serve) -> None:
    """In the order of things."""
    heard: list[str] = []

    class Run(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            heard.append(f"run: {agent.name} starts")

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            heard.append(f"run: asks with {len(input_items)}")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            heard.append(f"run: {agent.name} says {output}")

    class Own(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            heard.append(f"own: {tool.name} {context.tool_arguments}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(f"own: {tool.name} gave {result}")

    async with serve(calls(KYOTO), say("Wet.")):
        await Runner.run(Agent[Any](name="Guide", tools=[weather], hooks=Own()), "Hi", hooks=Run())

        assert heard == [
            "run: Guide starts",
            "run: asks with 1",
            'own: weather {"city":"Kyoto"}',
            "own: weather gave rain in Kyoto",
            "run: asks with 3",
            "run: Guide says Wet.",
        ]


async def test_a_hook_that_raises_fails_the_run_with_its_own_exception(serve: Serve) -> None:
    """The program knows the class; nothing of it is wrapped."""

    class Broken(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            raise LookupError("no ledger")

    async with serve(say("Hi.")) as served:
        with pytest.raises(LookupError, match="no ledger"):
            await Runner.run(Agent(name="Guide"), "Hi", hooks=Broken())
        assert served.model.requests == []


async def test_a_session_of_the_applications_own_is_read_and_told(serve: Serve) -> None:
    """The server keeps the turn, the application its history."""

    class Store:
        def __init__(self) -> None:
            self.items: list[Any] = [message("Before.")]

        async def get_items(self, limit: int | None = None) -> list[Any]:
            return self.items[-limit:] if limit else list(self.items)

        async def add_items(self, items: list[Any]) -> None:
            self.items += items

    store = Store()
    async with serve(say("Hello.")) as served:
        await Runner.run(Agent(name="Guide"), "Hi", session=store)

        assert '"Before."' in served.model.requests[0].items[0]
        assert [one["role"] for one in store.items] == ["assistant", "user", "assistant"]


async def test_settings_of_a_run_lie_over_those_of_its_agent(serve: Serve) -> None:
    """Field by field, as far as the model is asked."""
    async with serve(say("Hi.")) as served:
        agent: Agent[Any] = Agent(name="Guide", model_settings=ModelSettings(temperature=1, top_p=0.5))
        await Runner.run(agent, "Hi", run_config=RunConfig(model_settings=ModelSettings(temperature=0)))

        settings = served.model.requests[0].settings
        assert (settings.temperature, settings.top_p) == (0, 0.5)
