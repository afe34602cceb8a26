"""Kept agents: revisions that never change, and updates that do not overwrite each other."""

import asyncio
import base64
import json
from typing import Any

import grpc
from tests.api.calling import Client, fresh, helper, refused, soon
from tests.api.conftest import Serve
from tests.support.scripted_model import say

from baton.v1 import agent_pb2 as pb


async def create(client: Client, **fields: Any) -> pb.AgentRevision:
    """Keep an agent."""
    request = pb.CreateAgentRequest(**{"request_id": fresh(), "agent": helper(), **fields})
    return (await soon(client.agents.CreateAgent(request))).revision


async def update(client: Client, agent_id: str, **fields: Any) -> pb.AgentRevision:
    """Make a new revision."""
    request = pb.UpdateAgentRequest(**{"request_id": fresh(), "agent_id": agent_id, "agent": helper(), **fields})
    return (await soon(client.agents.UpdateAgent(request))).revision


async def get(client: Client, agent_id: str, **fields: Any) -> pb.AgentRevision:
    """Read a revision."""
    return (await soon(client.agents.GetAgent(pb.GetAgentRequest(agent_id=agent_id, **fields)))).revision


async def test_an_agent_is_kept_whole(serve: Serve) -> None:
    """What was given comes back, with the first revision's number, a digest and a time."""
    client = (await serve()).client
    agent = helper("get_weather", instructions="Help.", model_settings={"temperature": 0.5, "top_p": 0.0})

    kept = await create(client, agent=agent, metadata={"team": "a"})

    assert kept == await get(client, kept.agent_id) == await get(client, kept.agent_id, revision=1)
    assert kept.agent == agent
    assert kept.agent_id.startswith("agent_")
    assert (kept.revision, dict(kept.metadata), len(kept.digest)) == (1, {"team": "a"}, 64)
    assert kept.created_at.ToNanoseconds() > 0


async def test_equal_agents_have_equal_digests(serve: Serve) -> None:
    """The digest is of the definition alone, whoever keeps it under whatever labels."""
    client = (await serve()).client

    one, two, other = (
        await create(client),
        await create(client, metadata={"team": "a"}),
        await create(client, agent=helper(model="gpt-5")),
    )
    session = await client.session()

    assert one.digest == two.digest == session.agent.digest != other.digest
    assert one.agent_id != two.agent_id


async def test_an_update_makes_a_revision_and_leaves_the_old_ones(serve: Serve) -> None:
    """Each revision can be read for ever; labels are replaced whole."""
    client = (await serve()).client
    kept = await create(client, agent=helper(instructions="v1"), metadata={"team": "a"})

    second = await update(client, kept.agent_id, agent=helper(instructions="v2"), metadata={"tier": "1"})
    third = await update(client, kept.agent_id, agent=helper(instructions="v3"))

    assert [second.revision, third.revision] == [2, 3]
    assert [dict(one.metadata) for one in (kept, second, third)] == [{"team": "a"}, {"tier": "1"}, {}]
    assert await get(client, kept.agent_id) == third
    for revision in (kept, second, third):
        assert await get(client, kept.agent_id, revision=revision.revision) == revision


async def test_an_update_of_an_old_revision_is_refused(serve: Serve) -> None:
    """Who read before someone else wrote is told the revision that is there now."""
    client = (await serve()).client
    kept = await create(client)
    await update(client, kept.agent_id, expected_revision=1)

    told = await refused(update(client, kept.agent_id, expected_revision=1))

    assert (told.code, told.reason) == (grpc.StatusCode.ABORTED, "REVISION_CONFLICT")
    assert told.metadata == {"revision": "2"}
    assert (await update(client, kept.agent_id, expected_revision=2)).revision == 3


async def test_of_updates_at_once_one_wins(serve: Serve) -> None:
    """With an expected revision exactly one gets through; without, all do, one after another."""
    client = (await serve()).client
    kept = await create(client)

    async def attempt(number: int) -> str:
        call = update(client, kept.agent_id, agent=helper(instructions=str(number)), expected_revision=1)
        try:
            return f"won {(await call).agent.instructions}"
        except grpc.aio.AioRpcError as error:
            return error.code().name

    outcomes = await asyncio.gather(*(attempt(number) for number in range(6)))
    free = await asyncio.gather(*(update(client, kept.agent_id) for _ in range(6)))

    assert sorted(outcome.split()[0] for outcome in outcomes) == ["ABORTED"] * 5 + ["won"]
    assert f"won {(await get(client, kept.agent_id, revision=2)).agent.instructions}" in outcomes
    assert sorted(revision.revision for revision in free) == list(range(3, 9))


async def test_agents_and_revisions_are_listed_to_the_end(serve: Serve) -> None:
    """Newest first: of all agents their newest revision, of one agent all of them."""
    client = (await serve()).client
    kept = [(await create(client)).agent_id for _ in range(5)]
    for _ in range(4):
        await update(client, kept[1])

    agents = await _pages(client.agents.ListAgents, pb.ListAgentsRequest(page_size=2))
    revisions = await _pages(
        client.agents.ListAgentRevisions, pb.ListAgentRevisionsRequest(agent_id=kept[1], page_size=2)
    )

    assert [one.agent_id for one in agents] == kept[::-1]
    assert [one.revision for one in agents] == [1, 1, 1, 5, 1]
    assert [one.revision for one in revisions] == [5, 4, 3, 2, 1]


async def test_a_deleted_agent_is_gone_and_its_sessions_keep_it(serve: Serve) -> None:
    """No revision is found any more; what had pinned one goes on with it."""
    served = await serve(say("ok"))
    client = served.client
    kept = await create(client, agent=helper(instructions="Help."))
    made = await client.session(agent_ref={"agent_id": kept.agent_id})
    await client.agents.DeleteAgent(pb.DeleteAgentRequest(request_id=fresh(), agent_id=kept.agent_id))

    answer = await client.run(session_id=made.session_id)

    assert answer.turn.output == "ok"
    assert served.model.requests[0].instructions == "Help."
    assert (await client.get(made.session_id)).agent.agent_id == kept.agent_id
    for call in (
        get(client, kept.agent_id),
        get(client, kept.agent_id, revision=1),
        update(client, kept.agent_id),
        _pages(client.agents.ListAgentRevisions, pb.ListAgentRevisionsRequest(agent_id=kept.agent_id)),
        soon(client.agents.DeleteAgent(pb.DeleteAgentRequest(request_id=fresh(), agent_id=kept.agent_id))),
        client.session(agent_ref={"agent_id": kept.agent_id}),
        client.run(agent_ref={"agent_id": kept.agent_id}),
    ):
        told = await refused(call)
        assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND")
        assert told.metadata["agent_id"] == kept.agent_id
    assert not await _pages(client.agents.ListAgents, pb.ListAgentsRequest())


async def _pages(rpc: Any, request: Any) -> list[pb.AgentRevision]:
    found: list[pb.AgentRevision] = []
    while True:
        answer = await soon(rpc(request))
        found.extend(answer.revisions)
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


async def test_a_token_that_no_list_gave_is_refused(serve: Serve) -> None:
    """Whatever it holds: no revision, or nesting without end."""
    client = (await serve()).client
    kept = await create(client)
    await update(client, kept.agent_id)
    request = pb.ListAgentRevisionsRequest(agent_id=kept.agent_id, page_size=1)
    token = (await soon(client.agents.ListAgentRevisions(request))).next_page_token
    filters, after = json.loads(base64.urlsafe_b64decode(token))
    assert after == "2"

    for forged in (json.dumps([filters, "no number"]), json.dumps([filters, "-1"]), "[" * 60_000, "no JSON"):
        request.page_token = base64.urlsafe_b64encode(forged.encode()).decode()
        assert (await refused(client.agents.ListAgentRevisions(request))).reason == "PAGE_TOKEN_INVALID"
