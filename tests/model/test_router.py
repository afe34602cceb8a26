"""Which provider a model's name chooses."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from tests.model.asking import answer, asking, failure
from tests.model.clock import InstantClock
from tests.support.model_server import ModelServer

from baton_server.core.errors import Reason
from baton_server.core.inputs import ModelReplied
from baton_server.model.router import ModelRouter, open_models
from baton_server.ports.model import ModelRequest, TextDelta


class Echo:
    """A provider that replies with its own name and the model's, as it was asked."""

    def __init__(self, name: str) -> None:
        self.name, self.is_closed = name, False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Reply."""
        yield ModelReplied(round=request.round, items=(), model=f"{self.name}:{request.model}")

    async def close(self) -> None:
        """Remember it."""
        self.is_closed = True


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("openai/gpt-5", "openai:gpt-5"),
        ("gpt-5", "openai:gpt-5"),
        ("demo", "demo:demo"),
        ("demo/x", "demo:x"),
        ("meta-llama/Llama-3-8B", "openai:meta-llama/Llama-3-8B"),
        ("openai/meta-llama/Llama-3-8B", "openai:meta-llama/Llama-3-8B"),
        ("vllm/llama", "vllm:llama"),
        ("/x", "openai:/x"),
        ("", "vllm:llama"),
    ],
)
async def test_a_prefix_chooses_the_provider(model: str, asked: str) -> None:
    """A known prefix is taken off; any other name goes whole to the default provider."""
    providers = {name: Echo(name) for name in ("openai", "demo", "vllm")}
    router = ModelRouter(providers, default_provider="openai", default_model="vllm/llama")

    _, reply = await answer(router, asking(model))

    assert reply.model == asked


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-5", "vllm:gpt-5"),
        ("meta-llama/Llama-3-8B", "vllm:meta-llama/Llama-3-8B"),
        ("", "vllm:small"),
        ("openai/gpt-5", "openai:gpt-5"),
        ("demo", "demo:demo"),
    ],
)
async def test_a_run_may_choose_the_provider_of_names_without_a_prefix(model: str, asked: str) -> None:
    """A prefix says more."""
    providers = {name: Echo(name) for name in ("openai", "demo", "vllm")}
    router = ModelRouter(providers, default_provider="openai", default_model="small")

    _, reply = await answer(router, asking(model, provider="vllm"))

    assert reply.model == asked


@pytest.mark.parametrize("model", ["gpt-5", "openai/gpt-5"])
async def test_a_provider_that_the_server_does_not_have_is_named(model: str) -> None:
    """Beside those that it has."""
    router = ModelRouter({name: Echo(name) for name in ("openai", "demo")}, default_provider="openai")

    failed = await failure(router, asking(model, provider="litellm"))

    assert (failed.reason, dict(failed.metadata)) == (
        Reason.MODEL_NOT_FOUND,
        {"model": model, "provider": "litellm"},
    )
    assert all(name in failed.message for name in ("'litellm'", "'openai'", "'demo'"))


async def test_closing_the_router_closes_its_providers() -> None:
    """The server holds one model."""
    providers = {name: Echo(name) for name in ("a", "b")}

    await ModelRouter(providers, default_provider="a").close()

    assert all(provider.is_closed for provider in providers.values())


def test_a_default_that_is_not_there_is_refused() -> None:
    """At once, not at the first turn."""
    with pytest.raises(ValueError, match="no provider 'openai'"):
        ModelRouter({"demo": Echo("demo")}, default_provider="openai")


@pytest.mark.parametrize("model", ["", "gpt-5", "demo", "some/model"])
async def test_without_a_key_and_a_url_the_demo_answers(model: str) -> None:
    """And says so."""
    router = open_models(InstantClock())

    deltas, reply = await answer(router, asking(model))
    await router.close()

    assert "".join(delta.text for delta in deltas).startswith("[demo]")
    assert reply.model == "demo"


async def test_a_provider_named_without_access_to_it_fails() -> None:
    """Nobody gets the demo who asked for OpenAI by name."""
    router = open_models(InstantClock())

    failed = await failure(router, asking("openai/gpt-5"))
    await router.close()

    assert (failed.reason, dict(failed.metadata)) == (Reason.MODEL_AUTHENTICATION, {"provider": "openai"})
    assert "OPENAI_API_KEY" in failed.message


@pytest.mark.parametrize("prefix", ["", "openai/"])
async def test_with_a_base_url_the_server_there_answers(model_server: ModelServer, prefix: str) -> None:
    """A key is not needed; the demo is there by its name."""
    router = open_models(InstantClock(), base_url=model_server.base_url)

    _, reply = await answer(router, asking(prefix + model_server.load("routed", {"text": "Hi"})))
    _, demo = await answer(router, asking("demo"))
    await router.close()

    assert (reply.model, demo.model) == ("script:routed", "demo")


async def test_an_unknown_model_is_named_as_the_provider_knows_it(model_server: ModelServer) -> None:
    """The default model is asked where none is named."""
    router = open_models(InstantClock(), base_url=model_server.base_url, default_model="openai/gpt-9")

    failed = await failure(router, asking(""))
    await router.close()

    assert (failed.reason, failed.metadata["model"]) == (Reason.MODEL_NOT_FOUND, "gpt-9")
