"""Settings that go beside a request's body, against the scripted server: headers, query, timeout, usage."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.model.asking import answer, asking, error_of, failure
from tests.support.model_server import ModelServer

from baton_server.core.errors import Reason
from baton_server.core.retries import Attempt
from baton_server.core.settings import ModelSettings
from baton_server.model.openai import OpenAIModel


@pytest.fixture
async def model(model_server: ModelServer) -> AsyncIterator[OpenAIModel]:
    """Connect to the scripted server."""
    model = OpenAIModel(api_key="test-key", base_url=model_server.base_url)
    yield model
    await model.close()


async def test_headers_and_a_query_are_added(model: OpenAIModel, model_server: ModelServer) -> None:
    """Beside the server's own, which stay."""
    name = model_server.load("more", {"text": "Hi"})
    settings = ModelSettings(extra_headers={"X-Tenant": "a b", "User-Agent": "mine"}, extra_query={"v": "1&2", "w": ""})

    await answer(model, asking(name, settings=settings))

    (request,) = model_server.requests("more")
    assert request.query == {"v": "1&2", "w": ""}
    assert (request.headers["x-tenant"], request.headers["user-agent"]) == ("a b", "mine")
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"extra_headers": {"AUTHORIZATION": "Bearer mine"}}, "extra_headers.AUTHORIZATION"),
        ({"extra_headers": {"Content-Length": "5"}}, "extra_headers.Content-Length"),
        ({"extra_headers": {"accept": "text/html"}}, "extra_headers.accept"),
        ({"extra_headers": {"X A": "mine"}}, "extra_headers.X A"),
        ({"extra_headers": {"": "mine"}}, "extra_headers."),
        ({"extra_headers": {"X-A": "mine\r\nX-B: 2"}}, "extra_headers.X-A"),
        ({"extra_headers": {"X-A": "miné"}}, "extra_headers.X-A"),
        ({"extra_body_json": '{"stream":false}'}, "extra_body_json.stream"),
        ({"top_p": 1.0, "extra_args_json": '{"top_p":0.5}'}, "extra_args_json.top_p"),
    ],
)
async def test_settings_that_make_no_request_are_refused_by_name(
    model: OpenAIModel, model_server: ModelServer, settings: dict[str, Any], param: str
) -> None:
    """Nothing is sent, and nothing secret is repeated."""
    name = model_server.load("refused", {"text": "Hi"})

    failed = await failure(model, asking(name, settings=ModelSettings(**settings)))

    assert (failed.reason, dict(failed.metadata)) == (
        Reason.MODEL_REQUEST_INVALID,
        {"provider": "openai", "param": param},
    )
    assert param in failed.message
    assert "mine" not in failed.message
    assert model_server.requests("refused") == []


async def test_settings_say_how_long_one_attempt_may_take(model: OpenAIModel, model_server: ModelServer) -> None:
    """It is told from a failure, and retries may be for it."""
    name = model_server.load("short", {"text": "one two", "pause_after_events": 5})

    error = await error_of(model, asking(name, settings=ModelSettings(timeout_s=0.2)))

    assert (error.failure.reason, dict(error.failure.metadata)) == (Reason.MODEL_TIMEOUT, {"timeout": "0.2s"})
    assert error.attempt == Attempt(network=True, suggested=True, begun=True)


async def test_settings_may_give_an_attempt_longer_than_the_server_does(model_server: ModelServer) -> None:
    """The server's timeout is for requests that say nothing."""
    model = OpenAIModel(api_key="k", base_url=model_server.base_url, timeout_s=0.001)
    name = model_server.load("long", {"text": "one two", "delay_ms": 50})

    _, reply = await answer(model, asking(name, settings=ModelSettings(timeout_s=60.0)))

    assert len(reply.items) == 1
    await model.close()


async def test_the_providers_usage_is_kept_where_it_is_asked_for(model: OpenAIModel, model_server: ModelServer) -> None:
    """As JSON, beside the counts."""
    usage = {"input_tokens": 3, "output_tokens": 2, "cost": 0.1}
    name = model_server.load("usage", {"text": "Hi", "response": {"usage": usage}})

    _, reply = await answer(model, asking(name, settings=ModelSettings(preserve_raw_usage=True)))

    assert json.loads(reply.usage.raw_json) == usage
