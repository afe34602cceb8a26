"""Sessions by the Agents SDK's protocol, and the thin client beside it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.client.scripted import Failing, ScriptedServer, soon
from tests.client.turns import Log, call, message, output, user

from baton import Agent, Client, FunctionError, Session, SQLiteSession, UserError
from baton.v1 import event_pb2, item_pb2, session_pb2


def found(_request: object) -> session_pb2.GetSessionResponse:
    """Answer GetSession."""
    return session_pb2.GetSessionResponse(session=session_pb2.Session(session_id="sess_1", key="user-7"))


def missing(_request: object) -> None:
    """Answer that there is no such session."""
    raise Failing(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


async def test_items_come_back_as_the_api_writes_them(server: ScriptedServer) -> None:
    """Under the model's own ids, whatever order and pages they were listed in."""
    thought = item_pb2.Item(
        agent="Assistant",
        model_item_id="rs_1",
        reasoning=item_pb2.Reasoning(summary=["hm"], encrypted_content="sealed"),
    )
    hosted = item_pb2.Item(hosted=item_pb2.HostedItem(type="web_search_call", item_json='{"type":"web_search_call"}'))
    image = item_pb2.ContentPart(image=item_pb2.ImagePart(url="https://x", detail="low"))
    seen = item_pb2.Item(function_call_output=item_pb2.FunctionCallOutput(call_id="own", output=[image]))
    log = [user("Hi"), thought, call("f", 1, '{"a": 1}'), output("x", 1), hosted, seen, message("Done.", 2)]
    pages = iter(
        [
            session_pb2.ListItemsResponse(items=log[:3:-1], next_page_token="more"),
            session_pb2.ListItemsResponse(items=log[3::-1]),
        ]
    )
    server.sessions.answers = {"GetSession": found, "ListItems": lambda _request: next(pages)}

    items = await soon(SQLiteSession("user-7").get_items())

    assert items == [
        {"content": "Hi", "role": "user"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "sealed",
        },
        {"type": "function_call", "call_id": "fc_1", "name": "f", "arguments": '{"a": 1}', "status": "completed"},
        {"type": "function_call_output", "call_id": "fc_1", "output": "x"},
        {"type": "web_search_call"},
        {
            "type": "function_call_output",
            "call_id": "own",
            "output": [{"type": "input_image", "image_url": "https://x", "detail": "low"}],
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
        },
    ]
    asked = server.sessions.requests[1]
    assert asked.history_only and asked.newest_first


async def test_a_limit_takes_the_newest_and_still_knows_their_calls(server: ScriptedServer) -> None:
    """The call of the oldest output lies beyond the limit: it is looked up, not shown."""
    newest_first = [message("Done.", 2), output("x", 1), call("f", 1), user("Hi")]
    server.sessions.answers = {
        "GetSession": found,
        "ListItems": lambda _request: session_pb2.ListItemsResponse(items=newest_first),
    }

    items = await soon(Session("user-7").get_items(limit=2))

    assert [item.get("call_id") for item in items] == ["fc_1", None]
    assert await Session("user-7").get_items(limit=0) == []
    assert await soon(Session("user-7", session_settings={"limit": 2}).get_items()) == items


async def test_a_session_that_is_not_there_is_empty(server: ScriptedServer) -> None:
    """Reading makes nothing; adding does, and asks for the same session whoever is first."""
    made = session_pb2.CreateSessionResponse(session=session_pb2.Session(session_id="sess_1"))
    server.sessions.answers = {
        "GetSession": missing,
        "CreateSession": lambda _request: made,
        "AddItems": lambda _request: session_pb2.AddItemsResponse(),
    }
    session = Session("user-7")

    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.clear_session()
    await session.add_items([])
    await session.add_items([{"role": "user", "content": "é"}])

    create, add = server.sessions.requests[-2:]
    assert (create.key, create.get_or_create) == ("user-7", True)
    assert (add.session_id, json.loads(add.items_json)) == ("sess_1", [{"role": "user", "content": "é"}])


async def test_pop_and_clear_take_items_out(server: ScriptedServer) -> None:
    """An output takes its call with it; the output is what is returned."""
    removed = session_pb2.RemoveItemsResponse(items=[call("f", 1), output("x", 1)])
    server.sessions.answers = {"GetSession": found, "RemoveItems": lambda _request: removed}
    session = Session("user-7")

    popped = await session.pop_item()
    await session.clear_session()

    assert popped == {"type": "function_call_output", "call_id": "fc_1", "output": "x"}
    pop, clear = server.sessions.requests[1:]
    assert (pop.last, clear.all) == (1, True) and pop.request_id != clear.request_id


def test_a_file_for_a_session_is_refused() -> None:
    """The server keeps the session; a path that is ignored would look as if it did not."""
    with pytest.raises(TypeError, match="leave the file out"):
        SQLiteSession("user-7", "conversations.db")
    with pytest.raises(ValueError, match="key"):
        Session("")


async def test_what_is_no_key_and_no_limit_is_refused() -> None:
    """A number, above all, which is what many a database calls its users; with what to write."""
    with pytest.raises(TypeError, match="a session's key must be a text, not 7; write '7'"):
        SQLiteSession(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="get_items: limit must be a whole number, not '2'"):
        await Session("s").get_items("2")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="get_items: limit must be at least 0, not -1"):
        await Session("s").get_items(-1)


async def test_watch_goes_on_after_a_break(server: ScriptedServer) -> None:
    """No event twice, none left out; OK is the end."""
    log = Log()
    calls = 0

    async def watch(request: session_pb2.WatchRequest) -> AsyncIterator[session_pb2.WatchResponse]:
        nonlocal calls
        calls += 1
        if calls == 1:
            yield session_pb2.WatchResponse(parts=[log.item(user("Hi")), log.item(message("Done."))])
            raise Failing(grpc.StatusCode.UNAVAILABLE)
        assert request.after_sequence == 2
        log.sequence = 1
        yield session_pb2.WatchResponse(parts=[log.item(message("Done.")), log.agent()])

    server.sessions.answers = {"Watch": watch}

    async def read() -> list[int]:
        return [part.event.sequence async for part in Client().watch("sess_1")]

    assert await soon(read()) == [1, 2, 3]


async def test_an_inbox_settles_what_is_open(server: ScriptedServer) -> None:
    """Results become what a function's would; a FunctionError says that the call failed."""
    action = event_pb2.RequiredAction(session_id="sess_1", turn_id="turn_1", call_id="call_1", name="f")
    pages = iter(
        [
            session_pb2.ListRequiredActionsResponse(required_actions=[action], next_page_token="more"),
            session_pb2.ListRequiredActionsResponse(required_actions=[action]),
        ]
    )
    outcome = session_pb2.InputOutcome(status=session_pb2.INPUT_STATUS_SETTLED)
    server.sessions.answers = {
        "ListRequiredActions": lambda _request: next(pages),
        "SubmitInput": lambda _request: session_pb2.SubmitInputResponse(outcomes=[outcome]),
    }
    client = Client()

    open_actions = [one async for one in client.list_required_actions(names=["f"])]
    for value in ("text", {"a": 1}, FunctionError("no")):
        assert (await client.settle(open_actions[0], value)).status == session_pb2.INPUT_STATUS_SETTLED

    assert len(open_actions) == 2
    settled = [request.inputs[0].tool_result for request in server.sessions.requests[2:]]
    assert [one.WhichOneof("outcome") for one in settled] == ["output", "output_json", "error"]
    assert {(one.turn_id, one.call_id) for one in settled} == {("turn_1", "call_1")}


async def test_sessions_are_made_listed_and_deleted(server: ScriptedServer) -> None:
    """The requests are the contract's."""
    session = session_pb2.Session(session_id="sess_1")
    server.sessions.answers = {
        "CreateSession": lambda _request: session_pb2.CreateSessionResponse(session=session),
        "GetSession": found,
        "ListSessions": lambda _request: session_pb2.ListSessionsResponse(sessions=[session]),
        "DeleteSession": lambda _request: session_pb2.DeleteSessionResponse(),
        "SubmitInput": lambda _request: session_pb2.SubmitInputResponse(
            turn_id="turn_1", outcomes=[session_pb2.InputOutcome(status=session_pb2.INPUT_STATUS_CANCELLING)]
        ),
    }
    client = Client()

    made = await client.create_session(key="k", agent=Agent(name="A"), metadata={"a": "b"})
    assert (await client.get_session(key="k")).session_id == "sess_1"
    assert [one.session_id async for one in client.list_sessions()] == ["sess_1"]
    given: list[Any] = ["Hi", [{"role": "user", "content": "x"}], session_pb2.Input(text="y")]
    assert (await client.submit(made.session_id, *given)).turn_id == "turn_1"
    assert (await client.cancel("sess_1", "turn_1")).status == session_pb2.INPUT_STATUS_CANCELLING
    await client.delete_session("sess_1")
    with pytest.raises(ValueError, match="id or by its key"):
        await client.get_session("sess_1", key="k")

    create, submit = server.sessions.requests[0], server.sessions.requests[3]
    assert (create.key, create.agent.name, dict(create.metadata)) == ("k", "A", {"a": "b"})
    assert [one.WhichOneof("input") for one in submit.inputs] == ["text", "items_json", "text"]


async def test_an_omitted_text_is_read_whole(server: ScriptedServer) -> None:
    """Slices may split a character."""

    async def content(_request: session_pb2.ReadContentRequest) -> AsyncIterator[session_pb2.ReadContentResponse]:
        whole = "aé".encode()
        yield session_pb2.ReadContentResponse(offset=0, data=whole[:2])
        yield session_pb2.ReadContentResponse(offset=2, data=whole[2:])

    server.sessions.answers = {"ReadContent": content}

    assert await soon(Client().read_content("sess_1", item_pb2.Omitted(sha256="9" * 64))) == "aé"
