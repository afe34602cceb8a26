"""A run without functions."""

from baton import Agent, Runner


async def main():
    agent = Agent(name="Poet", instructions="You write short verse")

    result = await Runner.run(agent, "Four lines about a lighthouse, please.")
    print(result.final_output)
