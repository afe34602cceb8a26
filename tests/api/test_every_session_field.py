"""Every field of SessionService's requests; `test_every_field` counts them with the others."""

from typing import Any

import pytest
from tests.api.calling import (
    events_in,
    everything,
    frames,
    fresh,
    helper,
    kinds,
    refused,
    result_for,
    soon,
    submit_request,
    text_of,
    told,
)
from tests.api.conftest import Serve
from tests.api.sending import sends
from tests.support.scripted_model import calls, say

from baton.v1 import agent_pb2, event_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
PIXEL = "data:image/png;base64,iVBORw0KGgo="
DIGEST = "0" * 64
AT_REST: Any = {"unserved_grace": {"seconds": 0}}


@sends("""
    CreateSessionRequest: request_id key get_or_create agent agent_ref run_config scopes metadata expires_after
    AgentRef: agent_id revision
    GetSessionRequest: session_id key
    ListSessionsRequest: page_size page_token statuses metadata
    UpdateSessionRequest: request_id session_id update_mask agent agent_ref run_config scopes metadata expires_after
    DeleteSessionRequest: request_id session_id
""")
async def test_sessions_by_every_field(noting: Serve) -> None:
    """A session is made, found, listed, changed and deleted."""
    client = (await noting()).client
    kept = await client.agents.CreateAgent(agent_pb2.CreateAgentRequest(request_id=fresh(), agent=helper()))
    ref: Any = {"agent_id": kept.revision.agent_id, "revision": 1}
    made = await client.session(
        key="user-7", run_config=AT_REST, scopes=["s"], metadata={"t": "a"}, expires_after={"seconds": 60}
    )
    again = pb.CreateSessionRequest(request_id=fresh(), key="user-7", get_or_create=True, agent_ref=ref)
    found = await client.sessions.CreateSession(again)
    other = await client.session(agent_ref=ref, metadata={"t": "a"})

    assert (found.created, found.session.session_id) == (False, made.session_id)
    assert (other.agent.agent_id, other.agent.revision) == (ref["agent_id"], 1)
    assert (await client.sessions.GetSession(pb.GetSessionRequest(key="user-7"))).session == await client.get(
        made.session_id
    )
    listing = pb.ListSessionsRequest(page_size=1, statuses=[pb.SESSION_STATUS_IDLE], metadata={"t": "a"})
    page = await client.sessions.ListSessions(listing)
    listing.page_token = page.next_page_token
    rest = await client.sessions.ListSessions(listing)
    assert [s.session_id for s in (*page.sessions, *rest.sessions)] == [other.session_id, made.session_id]
    update = pb.UpdateSessionRequest(
        request_id=fresh(),
        session_id=made.session_id,
        agent_ref=ref,
        run_config={"max_turns": 2},
        scopes=["t"],
        metadata={"t": "b"},
        expires_after={"seconds": 90},
    )
    update.update_mask.paths.extend(["agent", "run_config", "scopes", "metadata", "expires_after"])
    changed = (await client.sessions.UpdateSession(update)).session
    assert (changed.agent.agent_id, changed.run_config.max_turns) == (ref["agent_id"], 2)
    assert (list(changed.scopes), dict(changed.metadata)) == (["t"], {"t": "b"})
    assert changed.expires_at.seconds - changed.last_active_at.seconds == 90
    update = pb.UpdateSessionRequest(request_id=fresh(), session_id=made.session_id, agent=helper(model="m"))
    update.update_mask.paths.append("agent")
    assert (await client.sessions.UpdateSession(update)).session.agent.agent.model == "m"
    await client.sessions.DeleteSession(pb.DeleteSessionRequest(request_id=fresh(), session_id=made.session_id))
    assert (await refused(client.get(made.session_id))).reason == "SESSION_NOT_FOUND"


@sends("""
    SubmitInputRequest: request_id session_id inputs if_busy
    Input: text message items_json
    MessageInput: content
    ContentPart: text image file other_json
    ImagePart: url file_id detail
    FilePart: url file_id filename
""")
async def test_messages_by_every_field(noting: Serve) -> None:
    """Every kind of input, and of part, reaches the model as its API writes it."""
    served = await noting(say("ok"))
    made = await served.client.session()
    parts = [
        {"text": "t"},
        {"image": {"url": PIXEL, "detail": "low"}},
        {"image": {"file_id": "file_1"}},
        {"file": {"url": "https://example.com/a.pdf", "filename": "a.pdf"}},
        {"file": {"file_id": "file_2"}},
        {"other_json": '{"type":"input_audio","data":"x"}'},
    ]

    await served.client.submit(
        made.session_id,
        *("hi", {"message": {"content": parts}}, {"items_json": '[{"role":"user","content":"raw"}]'}),
        if_busy=pb.IF_BUSY_REJECT,
    )
    await served.client.rest(made.session_id)

    assert [item["content"] for item in served.model.input_of(0)] == [
        "hi",
        [
            {"type": "input_text", "text": "t"},
            {"type": "input_image", "image_url": PIXEL, "detail": "low"},
            {"type": "input_image", "file_id": "file_1"},
            {"type": "input_file", "filename": "a.pdf", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "file_id": "file_2"},
            {"type": "input_audio", "data": "x"},
        ],
        "raw",
    ]


@sends("""
    ContentPart: refusal omitted_text annotations_json is_json
    ImagePart: omitted_url
    FilePart: omitted_url
    Omitted: omitted_bytes sha256
""")
@pytest.mark.parametrize("place", ["message", "output_parts"])
async def test_parts_that_only_the_server_sends_are_refused_by_name(noting: Serve, place: str) -> None:
    """What stands for something else, or is a model's alone, cannot be put in."""
    served = await noting()
    made = await served.client.session()
    omitted = {"omitted_bytes": 1, "sha256": DIGEST}
    parts = [
        ({"refusal": "no"}, "refusal"),
        ({"omitted_text": omitted}, "omitted_text"),
        ({"text": "t", "annotations_json": "[]"}, "annotations_json"),
        ({"text": "1", "is_json": True}, "is_json"),
        ({"image": {"omitted_url": omitted}}, "image.omitted_url"),
        ({"file": {"omitted_url": omitted}}, "file.omitted_url"),
    ]
    given = [part for part, _ in parts]
    result = {"turn_id": "turn_1", "call_id": "call_1", "output_parts": {"parts": given}}
    made_input = {"message": {"content": given}} if place == "message" else {"tool_result": result}

    refusal = await refused(served.client.submit(made.session_id, made_input))

    base = "inputs[0].message.content" if place == "message" else "inputs[0].tool_result.output_parts.parts"
    assert refusal.paths == [f"{base}[{n}].{name}" for n, (_, name) in enumerate(parts)]


@sends("""
    Input: tool_result cancel
    ToolResult: turn_id call_id success output output_json output_parts error
    ContentParts: parts
    CancelInput: turn_id mode reason grace
""")
async def test_results_and_cancels_by_every_field(noting: Serve) -> None:
    """Calls are settled in each way there is, and the last turn is cancelled with a reason."""
    served = await noting(calls(*[KYOTO] * 1, *[("get_weather", f'{{"city":"{n}"}}') for n in range(4)]), say("x"))
    client = served.client
    made = await client.session(agent=helper("get_weather"), run_config=AT_REST)
    turn_id = (await client.submit(made.session_id, "hi")).turn_id
    await client.rest(made.session_id)
    actions = (await client.get(made.session_id)).required_actions
    outcomes: list[dict[str, Any]] = [
        {"output": "o", "success": True},
        {"output_json": "1"},
        {"output_parts": {"parts": [{"text": "p"}]}},
        {"error": "e", "success": False},
    ]
    results = [result_for(action, **outcome) for action, outcome in zip(actions, outcomes, strict=False)]
    cancel = {"cancel": {"turn_id": turn_id, "mode": "CANCEL_MODE_NOW", "reason": "why", "grace": {"seconds": 1}}}

    await client.submit(made.session_id, *results, cancel)
    events = await client.rest(made.session_id)

    outputs = [item for item in await client.items(made.session_id) if item.HasField("function_call_output")]
    assert [text_of(item) for item in outputs][:4] == ["o", "1", "p", "e"]
    assert [item.function_call_output.settlement for item in outputs] == [4, 4, 4, 5, 10]
    assert [(one.mode, one.reason) for one in told(events, "cancel_requested")] == [(1, "why")]


@sends("""
    WatchRequest: session_id after_sequence follow deltas turn_id max_message_bytes
    ConverseRequest: watch create submit
    ListEventsRequest: session_id after_sequence page_size turn_id
    ReadContentRequest: session_id sha256 offset max_message_bytes
""")
async def test_streams_and_logs_by_every_field(noting: Serve) -> None:
    """What a reader asks for is what it gets, in messages of its size."""
    served = await noting(say("a" * 300_000), say("b"))
    client = served.client
    talk = client.sessions.Converse()
    await talk.write(pb.ConverseRequest(create=pb.CreateSessionRequest(request_id=fresh(), agent=helper())))
    session_id = (await soon(talk.read())).session.session_id
    await talk.write(pb.ConverseRequest(submit=submit_request("", "hi")))
    await talk.done_writing()
    whole = events_in(await everything(frames(talk)))
    turn_id = told(whole, "turn_completed")[0].turn.turn_id
    watch = pb.WatchRequest(
        session_id=session_id,
        after_sequence=2,
        follow=pb.FOLLOW_NONE,
        deltas=event_pb2.DELTA_LEVEL_NONE,
        turn_id=turn_id,
        max_message_bytes=65_536,
    )
    second = client.sessions.Converse()
    await second.write(pb.ConverseRequest(watch=watch))
    await second.done_writing()

    watched = await everything(client.sessions.Watch(watch))
    listed = await client.events(session_id, after_sequence=2, page_size=2, turn_id=turn_id)
    conversed = await everything(frames(second))

    assert events_in(watched) == listed == events_in(conversed)
    assert kinds(listed) == [kind for kind in kinds(whole)[2:] if kind != "session_idle"]
    assert max(message.ByteSize() for message in (*watched, *conversed)) <= 65_536
    digest = told(listed, "item_done")[0].item.message.content[0].omitted_text.sha256
    reading = pb.ReadContentRequest(session_id=session_id, sha256=digest, offset=1, max_message_bytes=65_536)
    slices = await everything(client.sessions.ReadContent(reading))
    assert b"".join(one.data for one in slices) == b"a" * 299_999
    assert len(slices) > 4


@sends("""
    ListItemsRequest: session_id page_size page_token turn_id history_only newest_first
    AddItemsRequest: request_id session_id items_json
    RemoveItemsRequest: request_id session_id last all
    ListTurnsRequest: session_id page_size page_token
    GetTurnRequest: session_id turn_id with_pinned
    ListRequiredActionsRequest: page_size page_token states names scopes
""")
async def test_items_turns_and_actions_by_every_field(noting: Serve) -> None:
    """Lists are filtered, ordered and paged as their requests say."""
    served = await noting(say("one"), calls(KYOTO, ("get_weather", '{"city":"Nara"}')))
    client = served.client
    made = await client.session(agent=helper("get_weather"), run_config=AT_REST, scopes=["s"])
    items = '[{"role":"user","content":"x"},{"role":"user","content":"y"}]'
    adding = pb.AddItemsRequest(request_id=fresh(), session_id=made.session_id, items_json=items)
    await client.sessions.AddItems(adding)
    first = (await client.run(session_id=made.session_id)).turn.turn_id
    removing = pb.RemoveItemsRequest(request_id=fresh(), session_id=made.session_id, last=1)
    assert [text_of(item) for item in (await client.sessions.RemoveItems(removing)).items] == ["one"]
    removing = pb.RemoveItemsRequest(request_id=fresh(), session_id=made.session_id, all=True)
    assert len((await client.sessions.RemoveItems(removing)).items) == 3
    await client.run(session_id=made.session_id)

    listed = await client.items(made.session_id, page_size=1, turn_id=first, newest_first=True)
    kept = await client.items(made.session_id, page_size=1, history_only=True)
    turns = pb.ListTurnsRequest(session_id=made.session_id, page_size=1)
    turns.page_token = (await client.sessions.ListTurns(turns)).next_page_token
    older = await client.sessions.ListTurns(turns)
    reading = pb.GetTurnRequest(session_id=made.session_id, turn_id=first, with_pinned=True)
    listing = pb.ListRequiredActionsRequest(page_size=1, states=[3], names=["get_weather"], scopes=["s"])
    one = await client.sessions.ListRequiredActions(listing)
    listing.page_token = one.next_page_token
    two = await client.sessions.ListRequiredActions(listing)

    assert [text_of(item) for item in listed] == ["one", "hello"]
    assert [item.WhichOneof("item") for item in kept] == ["message", "function_call", "function_call"]
    assert [turn.turn_id for turn in older.turns] == [first]
    assert (await client.sessions.GetTurn(reading)).agent.tools[0].function.name == "get_weather"
    found = [action.arguments_json for answer in (one, two) for action in answer.required_actions]
    assert found == ['{"city":"Kyoto"}', '{"city":"Nara"}']
