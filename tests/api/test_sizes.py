"""Sizes: results at their limit, texts that travel apart, and no message larger than its reader takes."""

import hashlib
import json
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from tests.api.calling import (
    Client,
    events_in,
    everything,
    fresh,
    helper,
    refused,
    result_for,
    run_request,
    soon,
    text_of,
    told,
)
from tests.api.conftest import Serve, Served
from tests.support.scripted_model import calls, say

from baton.v1 import agent_pb2, item_pb2
from baton.v1 import session_pb2 as pb

KYOTO = ("get_weather", '{"city":"Kyoto"}')
LIMIT = 4_194_304
DEFAULT_BYTES, SMALL_BYTES = 3 * 1024 * 1024, 65_536
PIXEL = "data:image/png;base64,"


async def waiting(served: Served) -> pb.Session:
    """Bring a session to where its turn waits for a call."""
    made = await served.client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    await served.client.submit(made.session_id, "weather?")
    await served.client.rest(made.session_id)
    return await served.client.get(made.session_id)


async def content(client: Client, session_id: str, sha256: str, **fields: Any) -> bytes:
    """Read an omitted text."""
    request = pb.ReadContentRequest(session_id=session_id, sha256=sha256, **fields)
    slices = await everything(client.sessions.ReadContent(request))
    data = b""
    for slice_ in slices:
        assert slice_.offset == request.offset + len(data)
        data += slice_.data
    return data


@pytest.mark.parametrize(
    ("outcome", "too_large"),
    [
        ({"output": "x" * LIMIT}, {"output": "x" * (LIMIT + 1)}),
        ({"output": "é" * (LIMIT // 2)}, {"output": "é" * (LIMIT // 2) + "x"}),
        (
            {"output_parts": {"parts": [{"text": "x" * 100}, {"image": {"url": PIXEL + "A" * (LIMIT - 122)}}]}},
            {"output_parts": {"parts": [{"text": "x" * 101}, {"image": {"url": PIXEL + "A" * (LIMIT - 122)}}]}},
        ),
    ],
    ids=["text", "two bytes a character", "parts"],
)
async def test_a_result_at_the_limit_passes_and_one_byte_more_does_not(
    serve: Serve, outcome: dict[str, Any], too_large: dict[str, Any]
) -> None:
    """Refused, the call stays open for a smaller result; taken, the session stays readable for default clients."""
    served = await serve(calls(KYOTO), say("done"))
    client = served.client
    session = await waiting(served)
    (action,) = session.required_actions

    told_ = await refused(client.submit(session.session_id, result_for(action, **too_large)))
    assert (told_.code, told_.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "RESULT_TOO_LARGE")
    assert told_.metadata == {"size": str(LIMIT + 1), "limit": str(LIMIT)}
    assert await client.get(session.session_id) == session

    await client.submit(session.session_id, result_for(action, **outcome))
    messages = await everything(client.sessions.Watch(pb.WatchRequest(session_id=session.session_id)))
    turns = await client.sessions.ListTurns(pb.ListTurnsRequest(session_id=session.session_id))
    items = await client.items(session.session_id)
    await client.get(session.session_id)

    assert turns.turns[0].output == "done"
    assert max(message.ByteSize() for message in messages) <= DEFAULT_BYTES
    assert await client.events(session.session_id) == events_in(messages)
    parts = items[2].function_call_output.output
    read = [await _part(client, session.session_id, part) for part in parts]
    given = [outcome["output"]] if "output" in outcome else ["x" * 100, PIXEL + "A" * (LIMIT - 122)]
    assert read == given
    sent = json.loads(served.model.requests[1].items[-1])["output"]
    assert len(sent) == len(given[0]) if "output" in outcome else sent[1]["image_url"] == given[1]


async def test_a_large_text_is_read_back_from_any_byte(serve: Serve) -> None:
    """Slices of an omitted text follow one another, from an offset inside a character as well."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)
    text = "wörter " * 200_000
    whole = text.encode()
    await served.client.submit(session.session_id, result_for(session.required_actions[0], output=text))
    await served.client.rest(session.session_id)
    omitted = (await served.client.items(session.session_id))[2].function_call_output.output[0].omitted_text

    assert (omitted.omitted_bytes, omitted.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    for offset in (0, 1, 2, len(whole) // 2, len(whole) - 1, len(whole)):
        assert await content(served.client, session.session_id, omitted.sha256, offset=offset) == whole[offset:]
    small = pb.ReadContentRequest(session_id=session.session_id, sha256=omitted.sha256, max_message_bytes=SMALL_BYTES)
    slices = await everything(served.client.sessions.ReadContent(small))
    assert max(slice_.ByteSize() for slice_ in slices) <= SMALL_BYTES
    assert b"".join(slice_.data for slice_ in slices) == whole
    assert {slice_.total_bytes for slice_ in slices} == {len(whole)}


async def test_content_that_is_not_there_is_told(serve: Serve) -> None:
    """A digest of nothing, or of another session's text, is no content of this one."""
    served = await serve(calls(KYOTO), say("done"))
    session = await waiting(served)
    text = "x" * 300_000
    await served.client.submit(session.session_id, result_for(session.required_actions[0], output=text))
    other = await served.client.session()
    digest = hashlib.sha256(text.encode()).hexdigest()
    for session_id, sha256 in ((session.session_id, "0" * 64), (other.session_id, digest)):
        told_ = await refused(content(served.client, session_id, sha256))

        assert (told_.code, told_.reason) == (grpc.StatusCode.NOT_FOUND, "CONTENT_NOT_FOUND")
        assert told_.metadata == {"sha256": sha256}
    behind = await refused(content(served.client, session.session_id, digest, offset=300_001))
    assert (behind.reason, behind.paths) == ("INVALID_REQUEST", ["offset"])


async def test_large_texts_of_every_kind_are_omitted_and_found(serve: Serve) -> None:
    """Input, pictures, arguments, answers and outputs above 256 KiB stand in the log by their digest."""
    big = "b" * 300_000
    arguments = json.dumps({"city": "c" * 300_000})
    served = await serve(calls(("get_weather", arguments)), say("a" * 300_000))
    client = served.client
    made = await client.session(agent=helper("get_weather"), run_config={"unserved_grace": {"seconds": 0}})
    message = {"message": {"content": [{"text": big}, {"image": {"url": PIXEL + "A" * 300_000}}]}}
    await client.submit(made.session_id, message)
    await client.rest(made.session_id)
    (action,) = (await client.get(made.session_id)).required_actions
    (again,) = (await client.sessions.ListRequiredActions(pb.ListRequiredActionsRequest())).required_actions
    await client.submit(made.session_id, result_for(action, output="o" * 300_000))
    events = await client.rest(made.session_id)
    items = await client.items(made.session_id)
    ended = told(events, "turn_completed")[0].turn

    omitted = [
        items[0].message.content[0].omitted_text,
        items[0].message.content[1].image.omitted_url,
        items[1].function_call.arguments_omitted,
        items[2].function_call_output.output[0].omitted_text,
        items[3].message.content[0].omitted_text,
        ended.output_omitted,
        action.arguments_omitted,
        again.arguments_omitted,
    ]
    texts = [big, PIXEL + "A" * 300_000, arguments, "o" * 300_000, "a" * 300_000, "a" * 300_000, arguments, arguments]
    for one, text in zip(omitted, texts, strict=True):
        assert (await content(client, made.session_id, one.sha256)).decode() == text
    assert max(event.ByteSize() for event in events) < 10_000
    assert [len(item) > 300_000 for item in served.model.requests[1].items] == [True] * 3, "the model gets all of it"


@pytest.mark.parametrize("limit", [0, SMALL_BYTES])
async def test_no_message_is_larger_than_its_reader_takes(serve: Serve, limit: int) -> None:
    """Many items just under the size that is omitted at rest: pages close early, and the rest is omitted."""
    served = await serve(lambda _: say("w" * 250_000))
    client = served.client
    made = await client.session()
    for number in range(4):
        big = json.dumps([{"role": "user", "content": f"{number}" * 250_000}] * 4)
        request = pb.AddItemsRequest(request_id=fresh(), session_id=made.session_id, items_json=big)
        await client.sessions.AddItems(request)
    sizes = Sizes()
    for _ in range(2):
        run = run_request(session_id=made.session_id, text="t" * 250_000, max_message_bytes=limit, with_next_items=True)
        answer = sizes.note(await soon(client.runner.Run(run)))
        assert answer.next_items_omitted.omitted_bytes > 4 * 4 * 250_000

    watch = pb.WatchRequest(session_id=made.session_id, max_message_bytes=limit)
    messages = [sizes.note(message) for message in await everything(client.sessions.Watch(watch))]
    assert sizes.largest <= (limit or DEFAULT_BYTES)
    assert [event.sequence for event in events_in(messages)] == list(range(1, len(events_in(messages)) + 1))
    items = await client.items(made.session_id, page_size=100)
    listed = await client.events(made.session_id, page_size=1000)
    assert len(items) == 16 + 4
    assert len(listed) == len(events_in(messages))
    removed = await client.sessions.RemoveItems(
        pb.RemoveItemsRequest(request_id=fresh(), session_id=made.session_id, all=True)
    )
    assert len(removed.items) == 20
    assert removed.ByteSize() <= DEFAULT_BYTES
    if limit:
        seen = told(events_in(messages), "item_added")[0].item.message.content[0].omitted_text
        assert await content(client, made.session_id, seen.sha256) == b"0" * 250_000


async def test_a_page_of_items_closes_before_it_is_too_large(serve: Serve) -> None:
    """Each page fits a default client, and the token leads on without a gap."""
    served = await serve()
    made = await served.client.session()
    texts = [f"{number:02}" * 100_000 for number in range(30)]
    items = json.dumps([{"role": "user", "content": text} for text in texts])
    request = pb.AddItemsRequest(request_id=fresh(), session_id=made.session_id, items_json=items)
    await served.client.sessions.AddItems(request)

    first = await served.client.sessions.ListItems(pb.ListItemsRequest(session_id=made.session_id, page_size=100))
    listed = await served.client.items(made.session_id, page_size=100)

    assert first.ByteSize() <= DEFAULT_BYTES
    assert 1 < len(first.items) < 30
    assert [text_of(item) for item in listed] == texts


async def test_the_largest_agent_can_be_kept_and_read(serve: Serve) -> None:
    """A definition at its limit passes through every answer that carries it, to a client with default limits."""
    served = await serve(say("ok"))
    client = served.client
    agent = helper(instructions="i" * (DEFAULT_BYTES - 20))
    assert DEFAULT_BYTES - 20 <= agent.ByteSize() <= DEFAULT_BYTES
    kept = await client.agents.CreateAgent(agent_pb2.CreateAgentRequest(request_id=fresh(), agent=agent))
    made = await client.session(agent_ref={"agent_id": kept.revision.agent_id})
    answer = await client.run(session_id=made.session_id)
    turn = await client.sessions.GetTurn(
        pb.GetTurnRequest(session_id=made.session_id, turn_id=answer.turn.turn_id, with_pinned=True)
    )
    listed = await client.agents.ListAgents(agent_pb2.ListAgentsRequest())

    assert made.agent.agent == turn.agent == listed.revisions[0].agent == agent


@pytest.mark.slow
async def test_one_message_may_have_16_mib(serve: Serve) -> None:
    """Up to the limit a message is read; above it the reason and both figures are told."""
    served = await serve()
    made = await served.client.session()
    cases = [("a" * (16 * 1024 * 1024 - 300), None), ("a" * (16 * 1024 * 1024), "MESSAGE_TOO_LARGE")]
    for text, reason in cases:
        items = json.dumps([{"role": "user", "content": text}])
        request = pb.AddItemsRequest(request_id="x", session_id=made.session_id, items_json=items)
        call = served.client.sessions.AddItems(request)
        if reason is None:
            await soon(call)
            continue
        told_ = await refused(call)
        assert (told_.code, told_.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, reason)
        assert told_.metadata == {"size": str(request.ByteSize()), "limit": str(16 * 1024 * 1024)}
    assert len(await served.client.items(made.session_id)) == 1


async def test_many_open_calls_fit_into_a_session(serve: Serve) -> None:
    """A session with more open arguments than a message holds is still read, turn and all."""
    arguments = json.dumps({"city": "c" * 200_000})
    served = await serve(
        calls(*[("get_weather", arguments)] * 1, *[("get_weather", arguments[:-1] + f',"n":{n}}}') for n in range(24)])
    )
    client = served.client
    agent = agent_pb2.Agent(
        name="Helper", tools=[{"function": {"name": "get_weather", "parameters_json": '{"type":"object"}'}}]
    )
    made = await client.session(agent=agent, run_config={"unserved_grace": {"seconds": 0}})
    await client.submit(made.session_id, "hi")
    messages = await everything(client.sessions.Watch(pb.WatchRequest(session_id=made.session_id)))
    session = await client.get(made.session_id)
    turn = await client.sessions.GetTurn(pb.GetTurnRequest(session_id=made.session_id, turn_id=session.active_turn_id))
    pages = await client.sessions.ListRequiredActions(pb.ListRequiredActionsRequest(page_size=100))

    assert len(session.required_actions) == len(turn.required_actions) == 25
    assert pages.next_page_token
    for message in (*messages, session, turn, pages):
        assert message.ByteSize() <= DEFAULT_BYTES
    omitted = [action.arguments_omitted.sha256 for action in session.required_actions if not action.arguments_json]
    assert omitted
    data = await content(client, made.session_id, omitted[0])
    assert data.startswith(b'{"city": "ccc')


class Sizes:
    """Notes how large messages are."""

    def __init__(self) -> None:
        self.largest = 0

    def note(self, message: Any) -> Any:
        """Note one, and give it back."""
        assert isinstance(message, Message)
        self.largest = max(self.largest, message.ByteSize())
        return message


async def _part(client: Client, session_id: str, part: item_pb2.ContentPart) -> str:
    omitted = part.omitted_text if part.HasField("omitted_text") else part.image.omitted_url
    if not omitted.sha256:
        return part.text or part.image.url
    return (await content(client, session_id, omitted.sha256)).decode()
