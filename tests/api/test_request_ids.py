"""request_id: a write that is sent again gives its first answer and happens once, over restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from tests.api.calling import (
    Client,
    fresh,
    helper,
    kinds,
    refused,
    run_request,
    soon,
    streamed_request,
    submit_request,
)
from tests.api.conftest import Serve
from tests.support.scripted_model import say

from baton.v1 import agent_pb2, runner_pb2
from baton.v1 import session_pb2 as pb

Send = Callable[[Client, Message], Awaitable[Any]]


def update(session_id: str, team: str) -> pb.UpdateSessionRequest:
    """Make an update of one label."""
    request = pb.UpdateSessionRequest(request_id="w", session_id=session_id, metadata={"team": team})
    request.update_mask.paths.append("metadata")
    return request


WRITES: dict[str, tuple[Send, Callable[[str, str], Message], Callable[[str, str], Message]]] = {
    "CreateSession": (
        lambda client, request: client.sessions.CreateSession(request),
        lambda _s, _a: pb.CreateSessionRequest(request_id="w", key="k", metadata={"team": "a"}),
        lambda _s, _a: pb.CreateSessionRequest(request_id="w", key="k", metadata={"team": "b"}),
    ),
    "UpdateSession": (
        lambda client, request: client.sessions.UpdateSession(request),
        lambda session, _a: update(session, "a"),
        lambda session, _a: update(session, "b"),
    ),
    "DeleteSession": (
        lambda client, request: client.sessions.DeleteSession(request),
        lambda session, _a: pb.DeleteSessionRequest(request_id="w", session_id=session),
        lambda _s, _a: pb.DeleteSessionRequest(request_id="w", session_id="sess_other"),
    ),
    "SubmitInput": (
        lambda client, request: client.sessions.SubmitInput(request),
        lambda session, _a: pb.SubmitInputRequest(request_id="w", session_id=session, inputs=[{"text": "a"}]),
        lambda session, _a: pb.SubmitInputRequest(request_id="w", session_id=session, inputs=[{"text": "b"}]),
    ),
    "AddItems": (
        lambda client, request: client.sessions.AddItems(request),
        lambda session, _a: pb.AddItemsRequest(request_id="w", session_id=session, items_json=ITEMS % "a"),
        lambda session, _a: pb.AddItemsRequest(request_id="w", session_id=session, items_json=ITEMS % "b"),
    ),
    "RemoveItems": (
        lambda client, request: client.sessions.RemoveItems(request),
        lambda session, _a: pb.RemoveItemsRequest(request_id="w", session_id=session, last=1),
        lambda session, _a: pb.RemoveItemsRequest(request_id="w", session_id=session, last=2),
    ),
    "Run": (
        lambda client, request: client.runner.Run(request),
        lambda session, _a: run_request(request_id="w", session_id=session, text="a"),
        lambda session, _a: run_request(request_id="w", session_id=session, text="b"),
    ),
    "CreateAgent": (
        lambda client, request: client.agents.CreateAgent(request),
        lambda _s, _a: agent_pb2.CreateAgentRequest(request_id="w", agent=helper(model="a")),
        lambda _s, _a: agent_pb2.CreateAgentRequest(request_id="w", agent=helper(model="b")),
    ),
    "UpdateAgent": (
        lambda client, request: client.agents.UpdateAgent(request),
        lambda _s, agent: agent_pb2.UpdateAgentRequest(request_id="w", agent_id=agent, agent=helper(model="a")),
        lambda _s, agent: agent_pb2.UpdateAgentRequest(request_id="w", agent_id=agent, agent=helper(model="b")),
    ),
    "DeleteAgent": (
        lambda client, request: client.agents.DeleteAgent(request),
        lambda _s, agent: agent_pb2.DeleteAgentRequest(request_id="w", agent_id=agent),
        lambda _s, _a: agent_pb2.DeleteAgentRequest(request_id="w", agent_id="agent_other"),
    ),
}
"""Every write: how it is sent, a body, and another body under the same request_id."""

ITEMS = '[{"role":"user","content":"%s"},{"role":"user","content":"more"}]'


def test_every_write_of_the_contract_is_here() -> None:
    """An rpc that takes a request_id gets a row; Converse carries SubmitInput, RunStreamed is Run."""
    files = (agent_pb2, pb, runner_pb2)
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    writes = {m.name for service in services for m in service.methods if "request_id" in m.input_type.fields_by_name}

    assert writes - {"RunStreamed"} == WRITES.keys()


@pytest.mark.parametrize("rpc", WRITES)
async def test_a_write_that_is_sent_again_happens_once(serve: Serve, rpc: str) -> None:
    """At once, later and after a restart the same body gets the first answer; another one is refused."""
    send, first, second = WRITES[rpc]
    served = await serve(say("one"))
    client = served.client
    session = (await client.session()).session_id
    await client.sessions.AddItems(pb.AddItemsRequest(request_id=fresh(), session_id=session, items_json=ITEMS % "0"))
    agent = (await client.agents.CreateAgent(agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper()))).revision

    at_once = await asyncio.gather(*(send(client, first(session, agent.agent_id)) for _ in range(5)))
    if rpc in ("Run", "SubmitInput"):
        await client.rest(session)
    before = await _state(client, session)
    later = await send(client, first(session, agent.agent_id))
    told = await refused(send(client, second(session, agent.agent_id)))
    client = (await serve()).client
    after_restart = await send(client, first(session, agent.agent_id))

    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert told.metadata.keys() == {"request_id", "first_seen"}
    assert told.metadata["request_id"] == "w"
    assert told.metadata["first_seen"].endswith("Z")
    for answer in (*at_once, later, after_restart):
        assert answer == at_once[0]
    assert await _state(client, session) == before, "nothing happened twice"


async def test_the_first_answer_of_items_stays_when_more_follows(serve: Serve) -> None:
    """What a repeated write answers is about itself, not about what came later."""
    client = (await serve()).client
    session = (await client.session()).session_id
    adding = pb.AddItemsRequest(request_id="a", session_id=session, items_json=ITEMS % "a")
    removing = pb.RemoveItemsRequest(request_id="r", session_id=session, last=1)
    added = await client.sessions.AddItems(adding)
    removed = await client.sessions.RemoveItems(removing)
    await client.sessions.AddItems(pb.AddItemsRequest(request_id="b", session_id=session, items_json=ITEMS % "b"))

    assert await client.sessions.AddItems(adding) == added
    assert await client.sessions.RemoveItems(removing) == removed


async def test_a_request_id_is_of_its_rpc_and_session(serve: Serve) -> None:
    """The same id in another session or rpc is another request."""
    client = (await serve(lambda _: say("hello"))).client
    one, two = await client.session(request_id="x"), await client.session(request_id="y")

    answers = [await client.submit(session.session_id, "a", request_id="x") for session in (one, two)]
    adding = pb.AddItemsRequest(request_id="x", session_id=one.session_id, items_json=ITEMS % "a")
    await client.sessions.AddItems(adding)
    runs = [await client.run(request_id="x", session_id=session.session_id) for session in (one, two)]
    await client.run(request_id="x")

    turns = {answer.turn_id for answer in answers} | {run.turn.turn_id for run in runs}
    assert len(turns) == 4


async def test_run_and_run_streamed_share_their_requests(serve: Serve) -> None:
    """A run that was begun one way is attached to the other way, by the same request."""
    served = await serve(say("hello"))
    first = await served.client.run(request_id="x", text="hi")

    streamed = served.client.runner.RunStreamed(streamed_request(request_id="x", text="hi", deltas=1, after_sequence=3))
    started = await soon(streamed.read())

    assert (started.started.turn_id, started.started.created) == (first.turn.turn_id, False)
    assert len(served.model.requests) == 1


async def test_a_run_whose_caller_leaves_is_whole_or_not_there(serve: Serve) -> None:
    """Whenever the caller goes away, the same request finds a turn that goes its whole way, exactly once."""
    client = (await serve(lambda _: say("hello"))).client
    sessions = [(await client.session()).session_id for _ in range(30)]
    requests = [run_request(request_id="x", session_id=session, text="hi") for session in sessions]

    for moment, request in enumerate(requests):
        call = client.runner.Run(request)
        for _ in range(moment):
            await asyncio.sleep(0)
        call.cancel()
    answers = await asyncio.gather(*(soon(client.runner.Run(request)) for request in requests))

    assert [answer.turn.output for answer in answers] == ["hello"] * len(sessions)
    for session in sessions:
        assert kinds(await client.rest(session)).count("turn_completed") == 1


async def test_an_input_whose_sender_leaves_is_whole_or_not_there(serve: Serve) -> None:
    """A batch that was taken is acted upon, though nobody is there to hear that it was taken."""
    client = (await serve(lambda _: say("hello"))).client
    sessions = [(await client.session()).session_id for _ in range(30)]

    for moment, session in enumerate(sessions):
        call = client.sessions.SubmitInput(submit_request(session, "hi", request_id="x"))
        for _ in range(moment):
            await asyncio.sleep(0)
        call.cancel()

    for session in sessions:
        answer = await client.submit(session, "hi", request_id="x")
        assert [outcome.status for outcome in answer.outcomes] == [pb.INPUT_STATUS_STARTED]
        assert kinds(await client.rest(session)).count("turn_completed") == 1


async def _state(client: Client, session_id: str) -> list[bytes]:
    """Read all that could have changed: the session's log, all sessions, all agents."""
    sessions = await client.sessions.ListSessions(pb.ListSessionsRequest())
    agents = await client.agents.ListAgents(agent_pb2.ListAgentsRequest())
    there = any(session.session_id == session_id for session in sessions.sessions)
    events = await client.events(session_id) if there else []
    return [message.SerializeToString(deterministic=True) for message in (sessions, agents, *events)]
