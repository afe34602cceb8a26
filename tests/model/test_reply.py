"""What a stream says, read from its events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton_server.core.errors import Reason
from baton_server.core.inputs import ModelReplied
from baton_server.core.items import FunctionCall, Hosted, Message, Reasoning, Usage
from baton_server.core.retries import Attempt
from baton_server.model.failures import Provider
from baton_server.model.reply import ReplyReader
from baton_server.ports.model import ModelError, TextDelta

MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}


def reader() -> ReplyReader:
    """Make a reader of round 3."""
    return ReplyReader(Provider(name="openai", base_url="http://m/v1", api_key="secret-key"), "gpt", 3)


def event(kind: str, **fields: Any) -> bytes:
    """Write the data of an event."""
    return json.dumps({"type": kind, **fields}).encode()


def completed(output: list[Any], **fields: Any) -> bytes:
    """Write a terminal event."""
    return event("response.completed", response={"id": "resp_1", "model": "gpt-1", "output": output, **fields})


def replied(data: bytes) -> ModelReplied:
    """Read a terminal event."""
    read = reader()
    assert read.feed(data) is None
    assert read.reply is not None
    return read.reply


def test_text_deltas_carry_their_place() -> None:
    """A watcher puts texts of several messages and parts together by it."""
    data = event("response.output_text.delta", output_index=2, content_index=1, delta="Hé")

    assert reader().feed(data) == TextDelta(output_index=2, part_index=1, text="Hé")


def test_the_type_may_stand_last_and_spaced() -> None:
    """Compatible servers order and space their JSON in their own way."""
    data = b'{"delta" : "x", "output_index" : 0, "type" : "response.output_text.delta"}'

    assert reader().feed(data) == TextDelta(output_index=0, part_index=0, text="x")


@pytest.mark.parametrize("text", ["response.completed", "error", '{"type":"response.failed"}', '"type":"error"'])
def test_a_text_that_quotes_an_event_is_a_text(text: str) -> None:
    """What the model says cannot end the stream."""
    read = reader()

    delta = read.feed(event("response.output_text.delta", output_index=0, content_index=0, delta=text))

    assert delta == TextDelta(output_index=0, part_index=0, text=text)
    assert read.reply is None


@pytest.mark.parametrize(
    "data",
    [
        b"[DONE]",
        b"",
        b"no JSON at all",
        event("response.created", response={"error": None, "output": []}),
        event("response.function_call_arguments.delta", delta='{"type":"error"}'),
        event("response.refusal.delta", delta="No."),
        event("some.hosted.tool", item={"type": "error"}),
        event("response.output_text.delta", delta=None),
        event("response.output_text.delta", delta=""),
    ],
)
def test_other_events_are_passed_over(data: bytes) -> None:
    """Nothing but text and the end matters, and an unknown event is no fault."""
    read = reader()

    assert read.feed(data) is None
    assert read.reply is None


def test_the_terminal_response_is_the_reply() -> None:
    """Items with their texts, usage, ids and the model's own name."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{ "n":1.0 }'}
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }

    reply = replied(completed([{"type": "reasoning", "id": "rs_1", "summary": []}, MESSAGE, call], usage=usage))

    assert (reply.round, reply.response_id, reply.model, reply.incomplete_reason) == (3, "resp_1", "gpt-1", "")
    assert [type(item.body) for item in reply.items] == [Reasoning, Message, FunctionCall]
    body = reply.items[2].body
    assert isinstance(body, FunctionCall)
    assert (body.arguments, body.model_call_id) == ('{ "n":1.0 }', "c1")
    assert json.loads(reply.items[1].json) == MESSAGE
    assert reply.usage == Usage(
        requests=1, input_tokens=100, cached_input_tokens=60, output_tokens=20, reasoning_tokens=5, total_tokens=120
    )


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": None, "output_tokens": "5", "total_tokens": -1}, []])
def test_a_reply_without_usage_counts_as_one_request(usage: object) -> None:
    """Compatible servers leave it out."""
    assert replied(completed([MESSAGE], usage=usage)).usage == Usage(requests=1)


def test_the_providers_own_usage_is_kept_where_it_is_asked_for() -> None:
    """Whatever it counts besides; elsewhere it would only be dead weight."""
    usage = {"input_tokens": 3, "output_tokens": 2, "cost": {"eur": 0.1}, "total_tokens": 5}
    keeping = ReplyReader(Provider(name="openai", base_url=""), "gpt", 1, raw_usage=True)
    keeping.feed(completed([MESSAGE], usage=usage))

    assert keeping.reply is not None
    assert json.loads(keeping.reply.usage.raw_json) == usage
    assert replied(completed([MESSAGE], usage=usage)).usage.raw_json == ""


def test_items_of_hosted_tools_are_carried_whole() -> None:
    """A search for deferred functions is the API's own affair, and what it found goes back with the history."""
    search = {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {"paths": ["crm"]}}
    found = {"type": "tool_search_output", "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "namespace": "crm", "arguments": "{}"}

    items = replied(completed([search, found, call])).items

    assert [item.body for item in items[:2]] == [Hosted(type="tool_search_call"), Hosted(type="tool_search_output")]
    assert [json.loads(item.json) for item in items] == [search, found, call]


@pytest.mark.parametrize(
    ("events", "begun"),
    [
        ([], False),
        ([event("response.created", response={"output": []}), event("response.in_progress", response={})], False),
        ([event("response.created", response={}), event("response.output_item.added", item=MESSAGE)], True),
        ([event("response.output_text.delta", delta="Hi")], True),
        ([event("response.hosted.thinking")], True),
    ],
)
def test_a_reply_has_begun_with_its_first_own_event(events: list[bytes], begun: bool) -> None:
    """Those that open the stream are none of it."""
    read = reader()

    for data in events:
        read.feed(data)

    assert read.begun is begun


def test_a_failure_is_no_beginning() -> None:
    """A stream that only says that it fails has brought nothing."""
    read = reader()
    read.feed(event("response.created", response={}))
    with pytest.raises(ModelError):
        read.feed(event("response.failed", response={"error": {"code": "server_error", "message": "Oops."}}))

    assert not read.begun


@pytest.mark.parametrize(
    ("code", "attempt"),
    [
        ("server_error", Attempt()),
        ("rate_limit_exceeded", Attempt()),
        ("insufficient_quota", Attempt()),
        ("invalid_prompt", Attempt()),
        ("conversation_locked", Attempt(locked=True)),
    ],
)
def test_a_failure_in_the_stream_tells_retries_what_they_need(code: str, attempt: Attempt) -> None:
    """It has no status and no header with which the provider suggests to ask again, whatever its code says."""
    with pytest.raises(ModelError) as caught:
        reader().feed(event("error", code=code, message="So."))

    assert caught.value.attempt == attempt


def test_big_numbers_and_lone_surrogates_are_kept() -> None:
    """A hosted item goes back to the model with the values that it came with."""
    text = '{"type":"odd","n":123456789012345678901234567890,"f":1.0,"s":"\\ud83d","u":"é"}'

    reply = replied(f'{{"type":"response.completed","response":{{"output":[{text}]}}}}'.encode())

    assert reply.items[0].body == Hosted(type="odd")
    assert json.loads(reply.items[0].json) == json.loads(text)
    assert '"n":123456789012345678901234567890,"f":1.0' in reply.items[0].json
    reply.items[0].json.encode()


def test_a_delta_with_half_a_character_can_be_sent_on() -> None:
    """A text for people is valid Unicode."""
    delta = reader().feed(b'{"type":"response.output_text.delta","delta":"a\\ud83d"}')

    assert delta is not None
    assert delta.text.encode() == b"a?"


def test_an_empty_output_is_filled_from_the_items_that_were_done() -> None:
    """Some servers end with a response that repeats nothing."""
    read = reader()
    read.feed(event("response.output_item.done", output_index=0, item=MESSAGE))
    read.feed(completed([]))

    assert read.reply is not None
    assert [item.model_item_id for item in read.reply.items] == ["msg_1"]


def test_the_terminal_response_wins_over_the_items_that_were_done() -> None:
    """What was streamed before is a preview."""
    read = reader()
    read.feed(event("response.output_item.done", output_index=0, item={**MESSAGE, "id": "msg_0"}))
    read.feed(completed([MESSAGE]))

    assert read.reply is not None
    assert [item.model_item_id for item in read.reply.items] == ["msg_1"]


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ("incomplete", {"incomplete_details": None}, "unknown"),
        ("completed", {"status": "incomplete"}, "unknown"),
        ("completed", {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ("completed", {"status": "completed", "incomplete_details": None}, ""),
    ],
)
def test_an_incomplete_reply_says_why(kind: str, fields: dict[str, Any], reason: str) -> None:
    """It is a reply, not a failure; who reads it must know that it was cut."""
    reply = replied(event(f"response.{kind}", response={"output": [MESSAGE], **fields}))

    assert reply.incomplete_reason == reason


FAILURES = [
    (
        {"code": "server_error", "message": "Oops."},
        Reason.MODEL_RESPONSE_FAILED,
        {"provider": "openai", "code": "server_error"},
    ),
    ({"code": "rate_limit_exceeded", "message": "Slow."}, Reason.MODEL_RATE_LIMITED, {"provider": "openai"}),
    (
        {"code": "insufficient_quota", "message": "Pay."},
        Reason.MODEL_QUOTA_EXCEEDED,
        {"provider": "openai", "code": "insufficient_quota"},
    ),
    ({"code": "context_length_exceeded", "message": "Long."}, Reason.CONTEXT_LENGTH_EXCEEDED, {"model": "gpt"}),
    (
        {"code": "invalid_image_url", "message": "Bad.", "param": "input"},
        Reason.MODEL_REQUEST_INVALID,
        {"provider": "openai", "code": "invalid_image_url", "param": "input"},
    ),
    (
        {"code": "never_heard_of", "message": "Hm."},
        Reason.MODEL_RESPONSE_FAILED,
        {"provider": "openai", "code": "never_heard_of"},
    ),
]


@pytest.mark.parametrize(("error", "reason", "facts"), FAILURES)
@pytest.mark.parametrize("form", ["failed", "flat", "nested", "completed"])
def test_a_failure_in_the_stream_is_told_by_its_code(
    error: dict[str, str], reason: Reason, facts: dict[str, str], form: str
) -> None:
    """`response.failed`, an `error` event in both of its forms, and a failed response in a `completed` event."""
    data = {
        "failed": event("response.failed", response={"error": error}),
        "flat": event("error", **error),
        "nested": event("error", error=error),
        "completed": event("response.completed", response={"status": "failed", "error": error}),
    }[form]

    with pytest.raises(ModelError) as caught:
        reader().feed(data)

    failure = caught.value.failure
    assert (failure.reason, dict(failure.metadata)) == (reason, facts)
    assert error["message"] in failure.message


def test_a_failure_without_a_code_is_told_by_its_type() -> None:
    """Compatible servers often give no code."""
    with pytest.raises(ModelError) as caught:
        reader().feed(event("error", error={"type": "invalid_request_error", "message": "No."}))

    assert caught.value.failure.reason is Reason.MODEL_REQUEST_INVALID


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"response.completed","response":{"output":[{"type":"message"',
        b'{"type":"response.completed"}',
        b'{"type":"response.completed","response":[]}',
        b'{"type":"response.completed","response":{"output":{"a":1}}}',
        b'{"type":"response.completed","response":{"output":[7]}}',
        b'{"type":"response.completed","response":{"output":[{"type":"function_call"}]}}',
        b'{"type":"response.completed","response":{"output":[{"type":"x","n":1e999}]}}',
        b'{"type":"response.completed","response":{"output":[{"type":"x","n":NaN}]}}',
        b'{"type":"response.completed","response":' + b"[" * 100_000,
        b'{"type":"response.failed"}',
    ],
)
def test_a_malformed_end_is_a_failed_call(data: bytes) -> None:
    """What cannot be read, or could not be sent again, is refused as a whole."""
    with pytest.raises(ModelError) as caught:
        reader().feed(data)

    assert caught.value.failure.reason is Reason.MODEL_UNAVAILABLE
    assert len(caught.value.failure.message) < 1024


def test_a_failure_says_nothing_secret() -> None:
    """Neither the server's key nor a credential that a provider repeats."""
    error = {"code": "x", "message": "key secret-key, Bearer abcdefgh.ij, sk-proj-abc*def and Basic dXNlcjpwYXNz"}

    with pytest.raises(ModelError) as caught:
        reader().feed(event("error", **error))

    message = caught.value.failure.message
    assert not any(secret in message for secret in ("secret-key", "abcdefgh", "sk-proj", "dXNl"))
    assert message.count("[key]") == 4
