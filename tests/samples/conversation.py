"""Two runs in one session, from the page on running agents; there the import leaves out `trace`."""

from baton import Agent, Runner, SQLiteSession, trace


async def main():
    agent = Agent(name="Assistant", instructions="Reply very concisely.")

    session = SQLiteSession("conversation_123")

    thread_id = "thread_123"
    with trace(workflow_name="Conversation", group_id=thread_id):
        result = await Runner.run(agent, "What city is the Golden Gate Bridge in?", session=session)
        print(result.final_output)

        result = await Runner.run(agent, "What state is it in?", session=session)
        print(result.final_output)
