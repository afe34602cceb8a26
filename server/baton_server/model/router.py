"""Which provider serves a model: by the prefix of its name, or by default."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace

from baton_server.core.errors import Failure, Reason, clip
from baton_server.core.inputs import ModelReplied
from baton_server.model.demo import DEMO, WORD_DELAY_S, DemoModel
from baton_server.model.openai import TIMEOUT_S, OpenAIModel
from baton_server.ports.clock import Clock
from baton_server.ports.model import Model, ModelError, ModelRequest, TextDelta

OPENAI = "openai"
"""The provider that speaks the Responses API, and its prefix."""

MAX_NAME_BYTES = 128
"""Of a name that somebody made up, in a failure."""


class ModelRouter:
    """Asks the provider that a model's name chooses. A `ports.model.Model`.

    "openai/NAME" asks the provider "openai" for NAME, "demo" asks the provider of that name. Any other name
    goes whole to the provider that the request names, or to `default_provider`, since the names of compatible servers
    hold slashes themselves. `providers`: by prefix; closing the router closes them. `default_model`: for a request that
    names none.
    """

    def __init__(self, providers: Mapping[str, Model], *, default_provider: str, default_model: str = "") -> None:
        if default_provider not in providers:
            raise ValueError(f"no provider {default_provider!r}: there are {_listed(providers)}")
        self._providers = dict(providers)
        self._default_provider, self._default_model = default_provider, default_model

    def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Ask the provider of the request's model. See `Model.stream`."""
        provider, model = self.route(request.model, request.provider)
        if model != request.model:
            request = replace(request, model=model)
        return self._providers[provider].stream(request)

    def route(self, model: str, provider: str = "") -> tuple[str, str]:
        """Tell which provider serves a name, and what the model is called there.

        `provider`: for names without a prefix; empty: the default. Raises ModelError where there is no such provider.
        """
        name = model or self._default_model
        if provider and provider not in self._providers:
            raise self._unknown(provider, name)
        prefix, slash, rest = name.partition("/")
        if slash and prefix in self._providers:
            return prefix, rest
        if name == DEMO and DEMO in self._providers:
            return DEMO, DEMO
        return provider or self._default_provider, name

    def _unknown(self, provider: str, model: str) -> ModelError:
        message = (
            f"This server has no model provider {clip(provider, MAX_NAME_BYTES)!r}: it has {_listed(self._providers)}. "
            "Name one of these, or none for the server's default."
        )
        facts = {"model": clip(model, MAX_NAME_BYTES), "provider": clip(provider, MAX_NAME_BYTES)}
        return ModelError(Failure(reason=Reason.MODEL_NOT_FOUND, message=message, metadata=facts))

    async def close(self) -> None:
        """Close every provider."""
        for provider in self._providers.values():
            await provider.close()


class Unconfigured:
    """Stands for a provider that the server has no access to: every request fails and says what is missing.

    A `ports.model.Model`. It keeps "openai/NAME" from being answered by something else.
    """

    def __init__(self, provider: str, what_to_do: str) -> None:
        self._provider, self._what_to_do = provider, what_to_do

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Raise ModelError."""
        message = f"The provider {self._provider!r} is not configured on this server. {self._what_to_do}"
        raise ModelError(
            Failure(reason=Reason.MODEL_AUTHENTICATION, message=message, metadata={"provider": self._provider})
        )
        yield  # an iterator, like that of every model

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


def _listed(providers: Mapping[str, Model]) -> str:
    return ", ".join(map(repr, providers))


def open_models(
    clock: Clock,
    *,
    api_key: str = "",
    base_url: str = "",
    timeout_s: float = TIMEOUT_S,
    default_model: str = "",
    demo_delay_s: float = WORD_DELAY_S,
) -> ModelRouter:
    """Make the models of a server: the demo, and a server of the Responses API where there is access to one.

    `api_key` and `base_url` empty: the demo is the default. One alone is enough for the provider "openai":
    OpenAI itself needs no URL, and many compatible servers need no key. `demo_delay_s`: between two words of
    the demo.
    """
    demo = DemoModel(clock, word_delay_s=demo_delay_s)
    if not (api_key or base_url):
        missing = Unconfigured(OPENAI, "Set OPENAI_API_KEY of the server, or the base URL of a compatible one.")
        return ModelRouter({OPENAI: missing, DEMO: demo}, default_provider=DEMO, default_model=default_model)
    openai = OpenAIModel(api_key=api_key, base_url=base_url, timeout_s=timeout_s)
    return ModelRouter({OPENAI: openai, DEMO: demo}, default_provider=OPENAI, default_model=default_model)
