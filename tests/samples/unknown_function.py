"""The model is told of a function that there is not, and goes on."""

from baton import Agent, RunConfig, Runner, function_tool


@function_tool
def tide(port: str) -> str:
    return f"high tide in {port} at noon"


agent = Agent(name="Pilot", tools=[tide])


async def main():
    result = await Runner.run(
        agent,
        "When can we leave Brest?",
        run_config=RunConfig(tool_not_found_behavior="return_error_to_model"),
    )
    print(result.final_output)
