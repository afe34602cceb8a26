"""How functions of a run are executed: two at a time, and their guardrails before anybody is asked to allow them."""

import asyncio

from baton import (
    Agent,
    RunConfig,
    Runner,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)

pair = asyncio.Barrier(2)
running = most = 0


@function_tool
async def measure(place: str) -> str:
    global running, most
    running += 1
    most = max(most, running)
    await pair.wait()
    running -= 1
    return f"{place}: 3 m"


@tool_input_guardrail
def not_the_harbour(data):
    print("looked at", data.context.tool_arguments)
    return ToolGuardrailFunctionOutput.reject_content("The harbour stays as it is.")


@function_tool(needs_approval=True, tool_input_guardrails=[not_the_harbour])
def drain(place: str) -> str:
    return f"{place} is dry"


agent = Agent(name="Surveyor", tools=[measure, drain])


async def main():
    result = await Runner.run(
        agent,
        "Measure four places, and drain the harbour.",
        run_config=RunConfig(
            tool_execution=ToolExecutionConfig(
                max_function_tool_concurrency=2,
                pre_approval_tool_input_guardrails=True,
            ),
        ),
    )
    print(result.final_output, result.interruptions, "at most", most)
