"""Two runs of one session, which remembers by itself; the page leaves out the import of `trace`."""

from baton import Agent, Runner, SQLiteSession, trace


async def main():
    agent = Agent(name="Guide", instructions="One word, if it does.")

    session = SQLiteSession("walk_7")

    thread_id = "walk-7"
    with trace(workflow_name="Walk", group_id=thread_id):
        result = await Runner.run(agent, "Which river flows through Basel?", session=session)
        print(result.final_output)

        result = await Runner.run(agent, "Into which sea?", session=session)
        print(result.final_output)
