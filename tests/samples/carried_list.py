"""Two runs, the second of which begins with the list of what the first one saw and made."""

from baton import Agent, Runner, trace


async def main():
    agent = Agent(name="Guide", instructions="One word, if it does.")

    thread_id = "walk-7"
    with trace(workflow_name="Walk", group_id=thread_id):
        result = await Runner.run(agent, "Which river flows through Basel?")
        print(result.final_output)

        new_input = result.to_input_list() + [{"role": "user", "content": "Into which sea?"}]  # noqa: RUF005 - as programs have it
        result = await Runner.run(agent, new_input)
        print(result.final_output)
