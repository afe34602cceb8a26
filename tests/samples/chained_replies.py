"""A chat in which each run goes on from the reply of the one before it."""

from baton import Agent, Runner


async def main():
    agent = Agent(name="Guide", instructions="One word, if it does.")

    previous_response_id = None

    while True:
        user_input = input("> ")  # noqa: ASYNC250 - as programs have it

        result = await Runner.run(
            agent,
            user_input,
            previous_response_id=previous_response_id,
            auto_previous_response_id=True,
        )
        previous_response_id = result.last_response_id
        print(f"Guide: {result.final_output}")
