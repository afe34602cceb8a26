"""The Responses API over real HTTP, against the scripted server: replies, streams, and how a call ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.model.asking import HELLO, answer, asking, error_of, failure
from tests.support.model_server import ModelServer

from baton_server.core.errors import Reason
from baton_server.core.items import FunctionCall, Message, TextPart, Usage
from baton_server.core.retries import Attempt
from baton_server.model.openai import OpenAIModel
from baton_server.ports.model import TextDelta

TEXT = "Grüße an 世界 🌍 und alle"
LONG_S = 60.0


@pytest.fixture
async def model(model_server: ModelServer) -> AsyncIterator[OpenAIModel]:
    """Connect to the scripted server."""
    model = OpenAIModel(api_key="test-key", base_url=model_server.base_url)
    yield model
    await model.close()


async def test_a_message_is_streamed_and_then_replied(model: OpenAIModel, model_server: ModelServer) -> None:
    """The deltas are the text, the reply is the terminal response."""
    usage = {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2, "reasoning_tokens": 1}
    name = model_server.load("message", {"text": TEXT, "usage": usage})

    deltas, reply = await answer(model, asking(name, round=2))

    assert [delta.text for delta in deltas] == ["Grüße ", "an ", "世界 ", "🌍 ", "und ", "alle"]
    assert reply.round == 2
    assert [item.body for item in reply.items] == [
        Message(role=reply.items[0].body.role, content=(TextPart(text=TEXT),))  # type: ignore[union-attr]
    ]
    assert (reply.response_id, reply.model, reply.incomplete_reason) == ("resp_message_1", name, "")
    assert reply.duration_ms >= 0
    assert reply.usage == Usage(
        requests=1, input_tokens=7, cached_input_tokens=2, output_tokens=3, reasoning_tokens=1, total_tokens=10
    )


async def test_calls_come_with_their_arguments_byte_for_byte(model: OpenAIModel, model_server: ModelServer) -> None:
    """White space, number formats and even broken JSON reach the handler as the model wrote them."""
    texts = ['{ "n" : 1.0, "big":123456789012345678901234567890 }', '{"broken": ']
    calls = [{"name": "f", "call_id": f"c{i}", "arguments": text} for i, text in enumerate(texts)]
    name = model_server.load("calls", {"text": "Wait.", "calls": calls})

    deltas, reply = await answer(model, asking(name))

    bodies = [item.body for item in reply.items]
    assert [(delta.output_index, delta.text) for delta in deltas] == [(0, "Wait.")]
    assert [body.arguments for body in bodies if isinstance(body, FunctionCall)] == texts


async def test_the_request_is_what_was_written(model: OpenAIModel, model_server: ModelServer) -> None:
    """The body reaches the server byte for byte, with the key and the kind of answer in the headers."""
    name = model_server.load("request", {"text": "Hi"})
    odd = '{ "type":"odd", "n":123456789012345678901234567890, "s":"\\ud83d" }'

    await answer(model, asking(name, items=(HELLO, odd)))

    (request,) = model_server.requests("request")
    assert request.raw.decode() == (
        f'{{"model":"{name}","instructions":"Be concise.","stream":true,"input":[{HELLO},{odd}]}}'
    )
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == "text/event-stream"


async def test_without_a_key_no_authorization_is_sent(model_server: ModelServer) -> None:
    """Compatible servers may want none, and must not get a made-up one."""
    model = OpenAIModel(base_url=model_server.base_url)

    await answer(model, asking(model_server.load("keyless", {"text": "Hi"})))
    await model.close()

    assert "authorization" not in model_server.requests("keyless")[0].headers


async def test_calls_one_after_another_keep_their_connection(model: OpenAIModel, model_server: ModelServer) -> None:
    """The end of each body is read, so that the next call needs no new handshake."""
    name = model_server.load("kept", *[{"text": TEXT, "end_delay_ms": 5}] * 3)

    for _ in range(3):
        await answer(model, asking(name))

    assert len({request.connection for request in model_server.requests("kept")}) == 1


@pytest.mark.parametrize("step", [{"chunk_bytes": 1}, {"chunk_bytes": 33, "line_end": "\r\n"}, {"delta_delay_ms": 1}])
async def test_a_stream_may_arrive_in_any_pieces(
    model: OpenAIModel, model_server: ModelServer, step: dict[str, object]
) -> None:
    """Over real HTTP as well as in the cutter's own tests."""
    name = model_server.load("pieces", {"text": TEXT, **step})

    deltas, reply = await answer(model, asking(name))

    assert "".join(delta.text for delta in deltas) == TEXT
    assert len(reply.items) == 1


async def test_text_is_handed_on_as_it_comes(model: OpenAIModel, model_server: ModelServer) -> None:
    """The first words arrive while the model still thinks about the next ones."""
    name = model_server.load("paused", {"text": "one two three", "pause_after_events": 5})

    async with aclosing(model.stream(asking(name))) as parts:
        first = await anext(parts)
        model_server.resume("paused")
        rest = [part async for part in parts]

    assert first == TextDelta(output_index=0, part_index=0, text="one ")
    assert len(rest) == 3


async def test_a_slow_reader_gets_everything(model: OpenAIModel, model_server: ModelServer) -> None:
    """A reader that stops after each word holds the stream back and loses nothing."""
    words = ["word"] * 3000
    name = model_server.load("slow", {"text": " ".join(words)})
    texts = []

    async with aclosing(model.stream(asking(name))) as parts:
        async for part in parts:
            for _ in range(3):
                await asyncio.sleep(0)
            texts += [part.text] if isinstance(part, TextDelta) else []

    assert "".join(texts) == " ".join(words)


async def test_an_empty_output_is_filled_from_the_stream(model: OpenAIModel, model_server: ModelServer) -> None:
    """A server that ends with an empty response loses no items."""
    step = {"text": "Hi", "calls": [{"name": "f", "arguments": {}}], "response": {"output": []}}
    name = model_server.load("empty", step)

    _, reply = await answer(model, asking(name))

    assert [type(item.body) for item in reply.items] == [Message, FunctionCall]


async def test_an_incomplete_reply_is_a_reply(model: OpenAIModel, model_server: ModelServer) -> None:
    """It has its items and says why it ended."""
    details = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    name = model_server.load("cut", {"text": "Hi", **details})

    _, reply = await answer(model, asking(name))

    assert (len(reply.items), reply.incomplete_reason) == (1, "max_output_tokens")


async def test_closing_the_stream_ends_the_request(model: OpenAIModel, model_server: ModelServer) -> None:
    """A cancelled turn costs no more tokens: the server sees at once that nobody listens."""
    name = model_server.load("left", {"text": "one two three", "pause_after_events": 5})

    async with aclosing(model.stream(asking(name))) as parts:
        await anext(parts)

    assert await model_server.wait_for("left", lambda requests: requests[0].disconnected)


@pytest.mark.parametrize("step", [{"pause_after_events": 0}, {"pause_after_events": 5}])
async def test_cancelling_the_reader_ends_the_request(
    model: OpenAIModel, model_server: ModelServer, step: dict[str, int]
) -> None:
    """Before the first event and in the middle of the text."""
    name = model_server.load("cancelled", {"text": "one two three", **step})
    task = asyncio.create_task(answer(model, asking(name)))
    assert await model_server.wait_for("cancelled", lambda requests: len(requests) == 1)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert await model_server.wait_for("cancelled", lambda requests: requests[0].disconnected)


async def test_other_calls_go_on_when_one_is_closed(model: OpenAIModel, model_server: ModelServer) -> None:
    """Streams of one model do not share their end."""
    held = model_server.load("held", {"text": "one two", "pause_after_events": 5})
    async with aclosing(model.stream(asking(held))) as parts:
        await anext(parts)
        other = asyncio.create_task(answer(model, asking(model_server.load("other", {"text": TEXT}))))
    deltas, _ = await other

    assert "".join(delta.text for delta in deltas) == TEXT


@pytest.mark.parametrize(
    "step", [{"hang_up": True}, {"drop_after_events": 0}, {"drop_after_events": 3}, {"drop_after_events": 6}]
)
async def test_a_broken_connection_is_a_failed_call(
    model: OpenAIModel, model_server: ModelServer, step: dict[str, Any]
) -> None:
    """Whatever was streamed before; and it is no timeout."""
    name = model_server.load("dropped", {"text": "one two three", **step})

    failed = await failure(model, asking(name))

    assert (failed.reason, failed.retryable) == (Reason.MODEL_UNAVAILABLE, True)
    assert failed.metadata == {"provider": "openai"}
    assert "timed out" not in failed.message


@pytest.mark.parametrize(
    ("step", "attempt"),
    [
        ({"hang_up": True}, Attempt(network=True, suggested=True)),
        ({"drop_after_events": 2}, Attempt(network=True, suggested=True)),
        ({"drop_after_events": 3}, Attempt(network=True, suggested=True, begun=True)),
        ({"end_after_events": 2}, Attempt(network=True, suggested=True)),
        ({"end_after_events": 6}, Attempt(network=True, suggested=True, begun=True)),
        ({"fail_after_events": 2}, Attempt()),
        ({"fail_after_events": 5}, Attempt(begun=True)),
        ({"error_after_events": 5, "fail_with": {"code": "invalid_prompt"}}, Attempt(begun=True)),
        ({"answer": {"content_type": "text/html", "text": "<html>Welcome</html>"}}, Attempt()),
    ],
)
async def test_retries_know_how_far_a_reply_came(
    model: OpenAIModel, model_server: ModelServer, step: dict[str, Any], attempt: Attempt
) -> None:
    """Whether the connection was to blame, and whether something of the reply had come."""
    name = model_server.load("broken", {"text": "one two three", **step})

    error = await error_of(model, asking(name))

    assert error.attempt == attempt


async def test_a_stream_without_its_end_is_a_failed_call(model: OpenAIModel, model_server: ModelServer) -> None:
    """Text that was streamed is no reply."""
    name = model_server.load("endless", {"text": "one two three", "end_after_events": 6})

    failed = await failure(model, asking(name))

    assert failed.reason is Reason.MODEL_UNAVAILABLE
    assert "response.completed" in failed.message


async def test_a_stream_that_fails_says_why(model: OpenAIModel, model_server: ModelServer) -> None:
    """By `response.failed` and by an `error` event."""
    why = {"code": "rate_limit_exceeded", "message": "Slow down."}
    name = model_server.load(
        "failing",
        {"text": "one two", "fail_after_events": 5},
        {"text": "one two", "fail_after_events": 5, "fail_with": why},
        {"text": "one two", "error_after_events": 5, "fail_with": why},
    )

    failed = [await failure(model, asking(name)) for _ in range(3)]

    reasons = [Reason.MODEL_RESPONSE_FAILED, Reason.MODEL_RATE_LIMITED, Reason.MODEL_RATE_LIMITED]
    assert [one.reason for one in failed] == reasons
    assert "Slow down." in failed[1].message


async def test_a_web_page_is_no_reply(model: OpenAIModel, model_server: ModelServer) -> None:
    """A wrong base URL often leads to a page that says 200; the message says where to look."""
    page = {"content_type": "text/html", "text": "<html>Welcome</html>"}
    name = model_server.load("page", {"answer": page})

    failed = await failure(model, asking(name))

    assert failed.reason is Reason.MODEL_UNAVAILABLE
    assert "text/html" in failed.message
    assert model_server.base_url in failed.message
    assert "Welcome" not in failed.message


async def test_a_reply_is_bounded(model_server: ModelServer) -> None:
    """A peer that never ends cannot fill the server's memory, and its connection is given up."""
    model = OpenAIModel(api_key="k", base_url=model_server.base_url, max_reply_bytes=200_000)
    name = model_server.load("flood", {"text": "Hi", "flood_after_events": 5})

    failed = await failure(model, asking(name))

    assert failed.reason is Reason.MODEL_UNAVAILABLE
    assert "200000 bytes" in failed.message
    assert await model_server.wait_for("flood", lambda requests: requests[0].disconnected)
    await model.close()


@pytest.mark.parametrize("step", [{"pause_after_events": 0}, {"pause_after_events": 5}, {"delay_ms": LONG_S * 1000}])
async def test_a_request_has_a_timeout_of_its_own(model_server: ModelServer, step: dict[str, float]) -> None:
    """Whether no byte comes, no event, or no end."""
    model = OpenAIModel(api_key="k", base_url=model_server.base_url, timeout_s=0.2)
    name = model_server.load("late", {"text": "one two", **step})

    failed = await failure(model, asking(name))

    assert (failed.reason, dict(failed.metadata)) == (Reason.MODEL_TIMEOUT, {"timeout": "0.2s"})
    assert await model_server.wait_for("late", lambda requests: requests[0].disconnected)
    await model.close()


async def test_a_server_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    """The message holds the address."""
    model = OpenAIModel(api_key="k", base_url=f"http://127.0.0.1:{unused_tcp_port}/v1")

    failed = await failure(model, asking("gpt"))
    await model.close()

    assert (failed.reason, dict(failed.metadata)) == (Reason.MODEL_UNAVAILABLE, {"provider": "openai"})
    assert f"http://127.0.0.1:{unused_tcp_port}/v1" in failed.message


async def test_a_server_that_takes_no_connection_is_a_timeout_of_its_own() -> None:
    """It is told from a model that thinks for long."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(3):  # more than the backlog: the next one is not answered
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        base_url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        model = OpenAIModel(api_key="k", base_url=base_url, connect_timeout_s=0.1)

        failed = await failure(model, asking("gpt"))
        await model.close()

    assert (failed.reason, dict(failed.metadata)) == (Reason.MODEL_TIMEOUT, {"timeout": "0.1s"})
    assert f"no connection at {base_url}" in failed.message


async def test_a_request_without_a_model_says_what_to_set() -> None:
    """Neither the agent nor the server names one."""
    model = OpenAIModel(api_key="k")

    failed = await failure(model, asking(""))
    await model.close()

    assert failed.reason is Reason.MODEL_NOT_FOUND
    assert "default model (OPENAI_DEFAULT_MODEL)" in failed.message


async def test_the_default_model_is_asked_where_none_is_named(model_server: ModelServer) -> None:
    """The provider sees its name."""
    name = model_server.load("default", {"text": "Hi"})
    model = OpenAIModel(api_key="k", base_url=model_server.base_url, default_model=name)

    await answer(model, asking(""))
    await model.close()

    assert json.loads(model_server.requests("default")[0].raw)["model"] == name


@pytest.mark.parametrize("key", ["ключ", "a\nb", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_at_once(key: str) -> None:
    """The server does not start with it, and does not show it."""
    with pytest.raises(ValueError, match="API key holds characters") as caught:
        OpenAIModel(api_key=key)

    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("api.example.com/v1", "is none"),
        ("ftp://api.example.com/v1", "is none"),
        ("https:///v1", "is none"),
        ("https://api.example.com/v1?token=secret", "query"),
        ("https://user:secret@api.example.com/v1", "use an API key"),
    ],
)
def test_a_base_url_that_cannot_work_is_refused_at_once(url: str, problem: str) -> None:
    """Not at the first turn; and what may be secret in it is not shown."""
    with pytest.raises(ValueError, match=problem) as caught:
        OpenAIModel(api_key="k", base_url=url)

    assert "secret" not in str(caught.value)
