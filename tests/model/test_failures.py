"""HTTP errors of a provider, through the scripted server: what each means, and what its message holds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.model.asking import asking, error_of, failure
from tests.support.model_server import ModelServer

from baton_server.core.errors import Failure, Reason
from baton_server.core.retries import Attempt
from baton_server.model.openai import OpenAIModel

KEY = "my-secret-key"


@pytest.fixture
async def model(model_server: ModelServer) -> AsyncIterator[OpenAIModel]:
    """Connect to the scripted server."""
    model = OpenAIModel(api_key=KEY, base_url=model_server.base_url)
    yield model
    await model.close()


async def fails(model: OpenAIModel, server: ModelServer, **step: Any) -> Failure:
    """Ask a model whose one step is this."""
    return await failure(model, asking(server.load("failing", step), conversation_id="conv_7"))


async def attempt(model: OpenAIModel, server: ModelServer, **step: Any) -> Attempt:
    """Ask a model whose one step is this, and return what retries go by."""
    return (await error_of(model, asking(server.load("failing", step)))).attempt


CASES = [
    (401, "invalid_api_key", Reason.MODEL_AUTHENTICATION, {"provider": "openai"}),
    (403, "forbidden", Reason.MODEL_AUTHENTICATION, {"provider": "openai"}),
    (404, "not_found", Reason.MODEL_NOT_FOUND, {"model": "script:failing", "provider": "openai"}),
    (400, "model_not_found", Reason.MODEL_NOT_FOUND, {"model": "script:failing", "provider": "openai"}),
    (403, "model_not_found", Reason.MODEL_NOT_FOUND, {"model": "script:failing", "provider": "openai"}),
    (
        429,
        "insufficient_quota",
        Reason.MODEL_QUOTA_EXCEEDED,
        {"provider": "openai", "code": "insufficient_quota"},
    ),
    (429, "rate_limit_exceeded", Reason.MODEL_RATE_LIMITED, {"provider": "openai"}),
    (429, None, Reason.MODEL_RATE_LIMITED, {"provider": "openai"}),
    (400, "context_length_exceeded", Reason.CONTEXT_LENGTH_EXCEEDED, {"model": "script:failing"}),
    (
        400,
        "invalid_value",
        Reason.MODEL_REQUEST_INVALID,
        {"provider": "openai", "code": "invalid_value", "param": "temperature"},
    ),
    (422, None, Reason.MODEL_REQUEST_INVALID, {"provider": "openai", "param": "temperature"}),
    (408, None, Reason.MODEL_TIMEOUT, {"timeout": "unknown"}),
    (400, "conversation_locked", Reason.CONVERSATION_LOCKED, {"conversation_id": "conv_7"}),
    (500, "server_error", Reason.MODEL_UNAVAILABLE, {"provider": "openai", "status": "500"}),
    (503, None, Reason.MODEL_UNAVAILABLE, {"provider": "openai", "status": "503"}),
]


@pytest.mark.parametrize(("status", "code", "reason", "facts"), CASES)
async def test_a_status_and_code_have_one_reason(
    model: OpenAIModel, model_server: ModelServer, status: int, code: str, reason: Reason, facts: dict[str, str]
) -> None:
    """With the facts that the reason documents and no others."""
    error = {"status": status, "code": code, "message": "Words of the provider.", "param": "temperature"}

    failed = await fails(model, model_server, error=error)

    assert (failed.reason, dict(failed.metadata)) == (reason, facts)
    if reason is not Reason.MODEL_AUTHENTICATION:
        assert "Words of the provider." in failed.message
    assert f"HTTP {status}" in failed.message


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "20"}, "20s"),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "1.5s"),
        ({"retry-after": "Mon, 30 Nov 2026 10:01:00 GMT", "date": "Mon, 30 Nov 2026 10:00:00 GMT"}, "60s"),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon"}, None),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(
    model: OpenAIModel, model_server: ModelServer, headers: dict[str, str], wait: str | None
) -> None:
    """Where the provider says it."""
    error = {"status": 429, "code": "rate_limit_exceeded", "message": "Slow.", "headers": headers}

    failed = await fails(model, model_server, error=error)

    assert (failed.metadata.get("retry_after"), failed.retryable) == (wait, True)


@pytest.mark.parametrize(
    ("status", "code", "headers", "suggested"),
    [
        (400, "odd", {}, False),
        (401, "invalid_api_key", {}, False),
        (404, None, {}, False),
        (408, None, {}, True),
        (409, None, {}, True),
        (429, None, {}, True),
        (429, "insufficient_quota", {}, False),
        (500, None, {}, True),
        (503, None, {}, True),
        (503, None, {"x-should-retry": "false"}, False),
        (400, "odd", {"x-should-retry": "true"}, True),
        (503, None, {"x-should-retry": "maybe"}, True),
        (400, "conversation_locked", {}, False),
    ],
)
async def test_a_retry_is_suggested_by_status_or_by_the_provider(
    model: OpenAIModel, model_server: ModelServer, status: int, code: str, headers: dict[str, str], suggested: bool
) -> None:
    """The provider's own word comes first, and a budget that is used up does not fill again."""
    error = {"status": status, "code": code, "message": "No.", "headers": headers}

    tried = await attempt(model, model_server, error=error)

    assert tried == Attempt(status=status, suggested=suggested, locked=code == "conversation_locked")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "-5"}, 0.0),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "soon"}, None),
    ],
)
async def test_retries_know_how_long_to_wait(
    model: OpenAIModel, model_server: ModelServer, headers: dict[str, str], wait_s: float | None
) -> None:
    """In seconds, and never for ever."""
    tried = await attempt(model, model_server, error={"status": 503, "message": "No.", "headers": headers})

    assert tried.retry_after_s == wait_s


async def test_a_refused_key_is_not_shown(model: OpenAIModel, model_server: ModelServer) -> None:
    """Providers quote the key that they refuse; the message says instead what to set."""
    message = f"Incorrect API key provided: {KEY[:3]}***{KEY[-4:]}."

    failed = await fails(model, model_server, error={"status": 401, "code": "invalid_api_key", "message": message})

    assert "OPENAI_API_KEY" in failed.message
    assert KEY[-4:] not in failed.message
    assert "***" not in failed.message


async def test_the_key_is_cut_out_of_what_a_provider_says(model: OpenAIModel, model_server: ModelServer) -> None:
    """Whatever the status."""
    message = f"Header 'Authorization: Bearer {KEY}' or {KEY} is odd."

    failed = await fails(model, model_server, error={"status": 400, "code": "odd", "message": message})

    assert KEY not in failed.message
    assert "is odd" in failed.message


async def test_what_a_provider_says_is_cut(model: OpenAIModel, model_server: ModelServer) -> None:
    """A message stays under 1 KiB, in any script, and its facts under 2 KiB."""
    error = {"status": 400, "code": "c" * 3000, "message": "世" * 3000, "param": "p" * 3000}

    failed = await fails(model, model_server, error=error)

    assert len(failed.message.encode()) < 1024
    assert sum(len(key) + len(value.encode()) for key, value in failed.metadata.items()) < 2048
    assert "世" in failed.message


@pytest.mark.parametrize(
    ("content_type", "text", "quoted"),
    [
        ("text/html", "<html><body>Bad gateway at proxy-7</body></html>", None),
        ("application/json", '{"detail":"Input should be a list"}', "Input should be a list"),
        ("application/json", '{"error":"model is loading"}', "model is loading"),
        ("application/json", '{"error":{"message":{"a":1}}}', None),
        ("application/json", "[1,2,3]", None),
        ("text/plain", "", None),
    ],
)
async def test_errors_of_other_forms_are_read_too(
    model: OpenAIModel, model_server: ModelServer, content_type: str, text: str, quoted: str | None
) -> None:
    """Those of proxies and of compatible servers; a page is not repeated."""
    answer = {"status": 502, "content_type": content_type, "text": text}

    failed = await fails(model, model_server, answer=answer)

    assert (failed.reason, failed.metadata["status"]) == (Reason.MODEL_UNAVAILABLE, "502")
    assert (quoted or "HTTP 502") in failed.message
    assert "proxy-7" not in failed.message


async def test_a_huge_error_body_is_not_read(model: OpenAIModel, model_server: ModelServer) -> None:
    """The status tells enough; the rest of the body is left where it is, words and all."""
    text = json.dumps({"error": {"padding": "x" * 5_000_000, "message": "at the end"}})
    answer = {"status": 500, "content_type": "application/json", "text": text}

    failed = await fails(model, model_server, answer=answer)

    assert (failed.reason, failed.metadata["status"]) == (Reason.MODEL_UNAVAILABLE, "500")
    assert "at the end" not in failed.message
