"""What must be refused, over a real stream: by the right code and reason, naming every field, changing nothing."""

import base64
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.message import Message
from tests.api.calling import (
    Client,
    Refusal,
    client_of,
    everything,
    frames,
    fresh,
    helper,
    refused,
    result_for,
    run_request,
    soon,
)
from tests.support.scripted_model import ScriptedModel, calls
from tests.support.server import server
from tests.wire.bad_calls import BAD_CALLS
from tests.wire.bad_requests import BAD
from tests.wire.good_requests import Bad, rows

from baton.v1 import agent_pb2, event_pb2, runner_pb2
from baton.v1 import session_pb2 as pb

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAMED = ("Watch", "ReadContent", "RunStreamed", "WatchCalls")

TABLES = (
    *("sessions", "turns", "events", "items", "contents", "documents", "calls"),
    *("inbox", "timers", "requests", "agents", "grants"),
)


class Standing:
    """A server with something in it, shared by all tests of this file, and what its tables hold."""

    def __init__(self, client: Client, store: Path) -> None:
        self.client, self._store = client, store
        self.session_id = self.idle_id = self.deleted_id = self.agent_id = ""
        self.action = event_pb2.RequiredAction()
        self.settled = event_pb2.RequiredAction()

    async def fill(self) -> None:
        """Make a turn that waits for a call, with another one settled; an idle session, a deleted one, an agent."""
        client = self.client
        config = {"unserved_grace": {"seconds": 0}}
        self.session_id = (await client.session(agent=helper("get_weather"), key="taken", run_config=config)).session_id
        await client.submit(self.session_id, "hi", request_id="used")
        await client.rest(self.session_id)
        self.settled, self.action, _ = (await client.get(self.session_id)).required_actions
        await client.submit(self.session_id, result_for(self.settled, output="18"))
        self.idle_id = (await client.session()).session_id
        self.deleted_id = (await client.session()).session_id
        await client.sessions.DeleteSession(pb.DeleteSessionRequest(request_id=fresh(), session_id=self.deleted_id))
        await client.submit(self.session_id, "queued", if_busy=pb.IF_BUSY_QUEUE)
        for _ in range(2):
            kept = await client.agents.CreateAgent(agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper()))
        self.agent_id = kept.revision.agent_id
        await client.agents.UpdateAgent(
            agent_pb2.UpdateAgentRequest(request_id=fresh(), agent_id=self.agent_id, agent=helper())
        )

    def counts(self) -> Mapping[str, int]:
        """Count the rows of each table, as another process reads them."""
        with closing(sqlite3.connect(f"file:{self._store}?mode=ro", uri=True)) as connection:
            return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Standing]:
    """Run one server for the whole file."""
    folder = tmp_path_factory.mktemp("bad")
    cities = [("get_weather", f'{{"city":"{name}"}}') for name in ("Kyoto", "Nara", "Osaka")]
    model = ScriptedModel(lambda _: calls(*cities))
    async with server(folder, model) as baton, client_of(baton) as client:
        made = Standing(client, folder / "baton.db")
        await made.fill()
        yield made


async def test_the_tables_that_are_counted_are_all_there_are(standing: Standing) -> None:
    """A table that is added is counted too; health and the schema's version are no state of ours."""
    with closing(sqlite3.connect(f"file:{standing._store}?mode=ro", uri=True)) as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    own = {name for name in found if not name.startswith(("sqlite_", "alembic"))}
    assert own - {"health"} == set(TABLES)


@pytest.mark.parametrize("bad", rows((*BAD, *BAD_CALLS)))
async def test_a_bad_request_is_refused_by_name_and_changes_nothing(standing: Standing, bad: Bad) -> None:
    """The status tells the reason and every wrong field, and the store is as it was."""
    before = standing.counts()

    told = await _send(standing.client, bad.rpc, bad.message)

    assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, bad.reason)
    assert sorted(told.paths) == sorted(bad.paths)
    assert 0 < len(told.message.encode()) <= 1024
    if bad.reason == "INVALID_REQUEST":
        assert told.metadata == {"fields": str(len(bad.paths))}
    assert standing.counts() == before


async def test_bytes_that_are_no_message_are_refused(standing: Standing) -> None:
    """A client that speaks something else is told so, and not that the server failed."""
    for rpc in ("RunnerService/Run", "SessionService/SubmitInput", "SessionService/GetSession"):
        call = standing.client.channel.unary_unary(f"/baton.v1.{rpc}", request_serializer=bytes)

        told = await refused(call(b"\xff\xff\xff\xff"))

        assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


async def test_an_arm_that_the_server_does_not_know_is_refused(standing: Standing) -> None:
    """A newer client's input is refused whole, and never taken for none."""
    unknown = bytes([15 << 3 | 2, 1, ord("x")])  # field 15 of Input: kept for what is to come
    inputs = bytes([3 << 3 | 2, len(unknown)]) + unknown
    request = pb.SubmitInputRequest(request_id=fresh(), session_id=standing.idle_id)
    before = standing.counts()

    request.MergeFromString(inputs)
    told = await refused(standing.client.sessions.SubmitInput(request))

    assert (told.reason, told.paths) == ("INVALID_REQUEST", ["inputs[0].input"])
    assert standing.counts() == before


def _sessions_rpcs(session_id: str) -> dict[str, Message]:
    """Name a session in every request that has one."""
    update = pb.UpdateSessionRequest(request_id=fresh(), session_id=session_id)
    update.update_mask.paths.append("metadata")
    return {
        "SessionService/GetSession": pb.GetSessionRequest(session_id=session_id),
        "SessionService/UpdateSession": update,
        "SessionService/DeleteSession": pb.DeleteSessionRequest(request_id=fresh(), session_id=session_id),
        "SessionService/SubmitInput": pb.SubmitInputRequest(
            request_id=fresh(), session_id=session_id, inputs=[{"text": "hi"}]
        ),
        "SessionService/Watch": pb.WatchRequest(session_id=session_id),
        "SessionService/Converse": pb.ConverseRequest(watch=pb.WatchRequest(session_id=session_id)),
        "SessionService/ListItems": pb.ListItemsRequest(session_id=session_id),
        "SessionService/AddItems": pb.AddItemsRequest(
            request_id=fresh(), session_id=session_id, items_json='[{"role":"user","content":"a"}]'
        ),
        "SessionService/RemoveItems": pb.RemoveItemsRequest(request_id=fresh(), session_id=session_id, last=1),
        "SessionService/ListTurns": pb.ListTurnsRequest(session_id=session_id),
        "SessionService/GetTurn": pb.GetTurnRequest(session_id=session_id, turn_id="turn_1"),
        "SessionService/ListEvents": pb.ListEventsRequest(session_id=session_id),
        "SessionService/ReadContent": pb.ReadContentRequest(session_id=session_id, sha256="0" * 64),
        "RunnerService/Run": run_request(session_id=session_id, agent=helper()),
        "RunnerService/RunStreamed": runner_pb2.RunStreamedRequest.FromString(
            run_request(session_id=session_id, agent=helper()).SerializeToString()
        ),
    }


async def test_every_rpc_that_names_a_session_is_tried() -> None:
    """An rpc that is added comes here by itself, or fails this."""
    services = [
        pb.DESCRIPTOR.services_by_name["SessionService"],
        runner_pb2.DESCRIPTOR.services_by_name["RunnerService"],
    ]
    named = {
        f"{service.name}/{method.name}"
        for service in services
        for method in service.methods
        if "session_id" in method.input_type.fields_by_name or method.name == "Converse"
    }

    assert _sessions_rpcs("sess_1").keys() == named


@pytest.mark.parametrize("rpc", _sessions_rpcs("sess_1"))
@pytest.mark.parametrize("which", ["unknown", "deleted"])
async def test_a_session_that_is_not_there_is_told_by_every_rpc(standing: Standing, rpc: str, which: str) -> None:
    """Whether it never was or was deleted, it is not made again by accident."""
    session_id = "sess_none" if which == "unknown" else standing.deleted_id
    before = standing.counts()

    told = await _send(standing.client, rpc, _sessions_rpcs(session_id)[rpc])

    assert (told.code, told.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    assert told.metadata == {"session_id": session_id}
    assert standing.counts() == before


LISTS: dict[str, Any] = {
    "SessionService/ListSessions": lambda _: pb.ListSessionsRequest(page_size=1),
    "SessionService/ListItems": lambda s: pb.ListItemsRequest(session_id=s.session_id, page_size=1),
    "SessionService/ListTurns": lambda s: pb.ListTurnsRequest(session_id=s.session_id, page_size=1),
    "SessionService/ListRequiredActions": lambda _: pb.ListRequiredActionsRequest(page_size=1),
    "AgentService/ListAgents": lambda _: agent_pb2.ListAgentsRequest(page_size=1),
    "AgentService/ListAgentRevisions": lambda s: agent_pb2.ListAgentRevisionsRequest(agent_id=s.agent_id, page_size=1),
}


@pytest.mark.parametrize("rpc", LISTS)
async def test_a_page_token_is_of_its_list_and_filters(standing: Standing, rpc: str) -> None:
    """A token that was made up, or comes from another list or other filters, would skip what nobody saw."""
    others = [
        (await _answer(standing.client, other, LISTS[other](standing))).next_page_token
        for other in LISTS
        if other != rpc
    ]
    filtered = await standing.client.sessions.ListItems(
        pb.ListItemsRequest(session_id=standing.session_id, page_size=1, newest_first=True)
    )
    tokens = [token for token in (*others, filtered.next_page_token) if token]
    assert len(tokens) == len(LISTS)
    for token in (
        *tokens,
        "x",
        "é",
        "W10=",
        "WyJhIiwxXQ==",
        "W" * 40_000,
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        "bnVsbA==",
    ):
        request = LISTS[rpc](standing)
        request.page_token = token

        told = await _send(standing.client, rpc, request)

        assert (told.code, told.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"), token[:64]
        assert told.metadata["token"] == token[:64]


async def test_a_second_result_for_a_settled_call_changes_no_call(standing: Standing) -> None:
    """It is answered by its own outcome, and only the trace of it is added to the log."""
    before = standing.counts()

    answer = await standing.client.submit(standing.session_id, result_for(standing.settled, output="other"))

    assert answer.outcomes[0].status == pb.INPUT_STATUS_DISCARDED
    after = standing.counts()
    assert {table for table in TABLES if after[table] != before[table]} == {"events", "requests"}


@pytest.mark.parametrize("at", ["first", "last"])
async def test_a_refused_batch_leaves_nothing_of_its_good_inputs(standing: Standing, at: str) -> None:
    """A result that could be taken is not, where another input of the batch cannot be."""
    good = [{"text": "hi"}, result_for(standing.action, output="18"), {"cancel": {"turn_id": standing.action.turn_id}}]
    bad = {"tool_result": {"turn_id": standing.action.turn_id, "call_id": "call_none", "output": "18"}}
    before = standing.counts()

    told = await refused(
        standing.client.submit(standing.session_id, *([bad, *good] if at == "first" else [*good, bad]))
    )

    assert told.reason == "CALL_NOT_FOUND"
    assert standing.counts() == before
    assert (await standing.client.get(standing.session_id)).required_actions[0].call_id == standing.action.call_id


async def test_a_used_request_id_changes_nothing(standing: Standing) -> None:
    """Another body under it is refused whole, whatever it asks for."""
    before = standing.counts()

    told = await refused(standing.client.submit(standing.session_id, "other", request_id="used"))

    assert (told.code, told.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert standing.counts() == before


async def _send(client: Client, rpc: str, message: Message) -> Refusal:
    return await refused(_answer(client, rpc, message))


async def _answer(client: Client, rpc: str, message: Message) -> Any:
    """Call an rpc by its name; of a stream, read all."""
    service, _, method = rpc.partition("/")
    stub = {
        "AgentService": client.agents,
        "SessionService": client.sessions,
        "RunnerService": client.runner,
        "HandlerService": client.handlers,
    }[service]
    call = getattr(stub, method)
    if method == "Converse":
        stream = call()
        await stream.write(message)
        return await everything(frames(stream))
    return await (everything(call(message)) if method in STREAMED else soon(call(message)))
