"""Agents that a server keeps, by `Client`; and the turns of a session."""

from __future__ import annotations

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

from baton import Agent, Client, InvalidRequestError, NotFoundError, RemoteFunction, StateError
from baton.v1 import agent_pb2, event_pb2, session_pb2

__all__ = ["serve"]


async def test_an_agent_is_kept_changed_and_removed(serve: Serve) -> None:
    """Each change is a revision; who names none gets the newest."""
    async with serve():
        client = Client()

        made = await client.create_agent(Agent(name="Guide", instructions="Be brief."), metadata={"team": "a"})
        changed = await client.update_agent(
            made.agent_id, agent_pb2.Agent(name="Guide", model="demo"), expected_revision=1, metadata=made.metadata
        )

        assert (made.revision, changed.revision) == (1, 2)
        assert dict(changed.metadata) == {"team": "a"}
        assert (await client.get_agent(made.agent_id)).agent.model == "demo"
        assert (await client.get_agent(made.agent_id, 1)).agent.instructions == "Be brief."
        assert [one.revision async for one in client.list_agent_revisions(made.agent_id)] == [2, 1]
        await client.delete_agent(made.agent_id)
        with pytest.raises(NotFoundError, match=made.agent_id):
            await client.get_agent(made.agent_id)


async def test_what_cannot_be_kept_is_refused(serve: Serve) -> None:
    """Fields are named; an agent that was changed meanwhile is not overwritten."""
    async with serve():
        client = Client()
        made = await client.create_agent(Agent(name="Guide"))
        await client.update_agent(made.agent_id, Agent(name="Guide", model="demo"))

        with pytest.raises(InvalidRequestError) as refused:
            await client.create_agent(agent_pb2.Agent(name=""))
        with pytest.raises(StateError) as conflict:
            await client.update_agent(made.agent_id, Agent(name="Guide"), expected_revision=1)

        assert [one.field for one in refused.value.violations] == ["agent.name"]
        assert (conflict.value.reason, conflict.value.metadata) == ("REVISION_CONFLICT", {"revision": "2"})


@pytest.mark.slow
async def test_a_list_goes_on_over_its_pages(serve: Serve) -> None:
    """Newest first, none twice, none left out."""
    async with serve():
        client = Client()
        made = [(await client.create_agent(Agent(name=f"A{number}"))).agent_id for number in range(101)]

        assert [one.agent_id async for one in client.list_agents()] == made[::-1]


async def test_turns_and_items_of_a_session_are_read_from_the_newest(serve: Serve) -> None:
    """A turn with what is open in it, and with the agent that it pinned if that is asked for."""
    async with serve(say("One."), calls(("f", "{}"))):
        client = Client()
        tool = RemoteFunction("f", params_json_schema={"type": "object"})
        session = await client.create_session(agent=Agent(name="Guide", tools=[tool]), scopes=["svc"])
        first = (await client.submit(session.session_id, "First.")).turn_id
        await _until(client, session.session_id, "session_idle")
        second = (await client.submit(session.session_id, "Second.")).turn_id
        await _until(client, session.session_id, "session_requires_action")

        bare = await client.get_turn(session.session_id, second)
        pinned = await client.get_turn(session.session_id, second, with_pinned=True)

        assert [turn.turn_id async for turn in client.list_turns(session.session_id)] == [second, first]
        newest = [item.turn_id async for item in client.list_newest_items(session.session_id)]
        assert newest == [second, second, first, first]
        assert [action.name for action in bare.required_actions] == ["f"]
        assert not bare.HasField("agent")
        assert (pinned.agent.name, list(pinned.run_config.scopes)) == ("Guide", ["svc"])
        with pytest.raises(NotFoundError, match="turn_x"):
            await client.get_turn(session.session_id, "turn_x")


async def test_sessions_are_listed_by_status(serve: Serve) -> None:
    """Only those that are asked for."""
    async with serve(calls(("f", "{}"))):
        client = Client()
        tool = RemoteFunction("f", params_json_schema={"type": "object"})
        idle = await client.create_session()
        waiting = await client.create_session(agent=Agent(name="Guide", tools=[tool]))
        await client.submit(waiting.session_id, "Go.")
        await _until(client, waiting.session_id, "session_requires_action")

        async def ids(*statuses: session_pb2.SessionStatus.ValueType) -> list[str]:
            return [one.session_id async for one in client.list_sessions(statuses=statuses)]

        assert await ids(session_pb2.SESSION_STATUS_IDLE) == [idle.session_id]
        assert await ids(session_pb2.SESSION_STATUS_REQUIRES_ACTION) == [waiting.session_id]
        assert await ids() == [waiting.session_id, idle.session_id]


async def _until(client: Client, session_id: str, arm: str) -> event_pb2.Event:
    async for part in client.watch(session_id, follow_until=session_pb2.FOLLOW_FOREVER):
        if part.event.WhichOneof("event") == arm:
            return part.event
    raise AssertionError(f"the watch ended; there was no {arm}")
