"""A chat whose history the model's API keeps, under a name that another client of that API has made."""

from openai import AsyncOpenAI

from baton import Agent, Runner

client = AsyncOpenAI()


async def main():
    agent = Agent(name="Guide", instructions="One word, if it does.")

    conversation = await client.conversations.create()
    conv_id = conversation.id

    while True:
        user_input = input("> ")  # noqa: ASYNC250 - as programs have it
        result = await Runner.run(agent, user_input, conversation_id=conv_id)
        print(f"Guide: {result.final_output}")
