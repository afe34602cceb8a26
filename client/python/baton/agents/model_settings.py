"""How a model is asked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from baton.agents.model_retry import ModelRetrySettings, retry_to_pb
from baton.checks import check_bool, check_number, check_text, check_whole
from baton.errors import UserError
from baton.hooks.refs import RefOf, only_remote
from baton.options import options
from baton.v1 import agent_pb2

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "max_tokens": (1, 2**31 - 1),
    "top_logprobs": (0, 20),
    "timeout": (0.001, 24 * 3600.0),
}
"""Least and most of the settings that are numbers."""

_WHOLE = frozenset({"max_tokens", "top_logprobs"})

_BOOLS = ("parallel_tool_calls", "store", "include_usage", "preserve_raw_usage")
_TEXTS = ("tool_choice", "truncation", "verbosity", "prompt_cache_retention")
_MAPS = ("metadata", "extra_query", "extra_headers")
_OBJECTS = ("extra_body", "extra_args", "prompt_cache_options")


@options
@dataclass(frozen=True)
class Reasoning:
    """How hard a model thinks, and whether it tells. Names are the provider's; None: the model's default."""

    effort: str | None = None
    summary: str | None = None


@options
@dataclass(frozen=True)
class ModelSettings:
    """How a model is asked. None leaves it to the layer below: the agent's settings, then the model's own.

    `tool_choice` is "auto", "required", "none" or a tool's name. `truncation`: "auto" or "disabled". `max_tokens`: of
    one reply. `reasoning` is a `Reasoning`, or anything with its two attributes or keys. `verbosity`: "low", "medium"
    or "high". `store`: whether the provider keeps the reply. `prompt_cache_retention`: "in_memory" or "24h".
    `include_usage`: Chat Completions alone. `response_include`, `context_management`, `prompt_cache_options`: as the
    provider's API writes them. `extra_body` is merged into the request's body; `extra_args` are further arguments of
    the API. `retry`: a ModelRetrySettings, or a dict of its fields. `preserve_raw_usage`: keep the provider's own usage
    object. `timeout`: seconds of one attempt; None at last: the server's.
    """

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning: Reasoning | Mapping[str, Any] | None = None
    verbosity: str | None = None
    metadata: Mapping[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: str | None = None
    include_usage: bool | None = None
    response_include: Sequence[str] | None = None
    top_logprobs: int | None = None
    extra_query: Mapping[str, str] | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None
    extra_args: Mapping[str, Any] | None = None
    retry: ModelRetrySettings | Mapping[str, Any] | None = None
    context_management: Sequence[Mapping[str, Any]] | None = None
    prompt_cache_options: Mapping[str, Any] | None = None
    preserve_raw_usage: bool | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.retry, Mapping):
            object.__setattr__(self, "retry", ModelRetrySettings(**self.retry))
        if self.retry is not None and not isinstance(self.retry, ModelRetrySettings):
            raise TypeError(f"ModelSettings: retry must be a ModelRetrySettings or a dict, not {self.retry!r}")
        for name, (least, most) in _BOUNDS.items():
            check = check_whole if name in _WHOLE else check_number
            check(f"ModelSettings: {name}", getattr(self, name), least, most)  # type: ignore[arg-type]  # whole ones are
        for name in _BOOLS:
            check_bool(f"ModelSettings: {name}", getattr(self, name), none=True)
        for name in _TEXTS:
            check_text(f"ModelSettings: {name}", getattr(self, name))
        for names, kinds, words in (
            ((*_MAPS, *_OBJECTS), (Mapping,), "a dict"),
            (("response_include", "context_management"), (list, tuple), "a list"),
        ):
            for name in names:
                value = getattr(self, name)
                if value is not None and not isinstance(value, kinds):
                    raise TypeError(f"ModelSettings: {name} must be {words}, not {value!r}")

    def resolve(self, override: ModelSettings | Mapping[str, Any] | None) -> ModelSettings:
        """Lay others over these: what is None in them leaves what is here.

        Each is replaced whole, but `extra_args` by key, and `retry` and its backoff field by field.
        """
        over = read_settings("resolve", override)
        if over is None:
            return self
        said = {one.name: value for one in fields(over) if (value := getattr(over, one.name)) is not None}
        if self.extra_args and over.extra_args:
            said["extra_args"] = {**self.extra_args, **over.extra_args}
        if isinstance(self.retry, ModelRetrySettings) and isinstance(over.retry, ModelRetrySettings):
            said["retry"] = self.retry.resolve(over.retry)
        return replace(self, **said)


def read_settings(owner: str, given: object) -> ModelSettings | None:
    """Take settings as they may be given: an object, a dict of its fields, or none. Raises TypeError."""
    if given is None or isinstance(given, ModelSettings):
        return given
    if isinstance(given, Mapping):
        return ModelSettings(**given)
    raise TypeError(f"{owner}: model_settings must be a ModelSettings or a dict, not {given!r}")


def settings_to_pb(settings: ModelSettings, ref_of: RefOf = only_remote) -> agent_pb2.ModelSettings:
    """Write `baton.v1.ModelSettings`. Raises UserError for what has no JSON form."""
    made = agent_pb2.ModelSettings(
        temperature=settings.temperature,
        top_p=settings.top_p,
        frequency_penalty=settings.frequency_penalty,
        presence_penalty=settings.presence_penalty,
        tool_choice=settings.tool_choice or "",
        parallel_tool_calls=settings.parallel_tool_calls,
        truncation=settings.truncation or "",
        max_tokens=settings.max_tokens,
        verbosity=settings.verbosity or "",
        metadata=settings.metadata,
        store=settings.store,
        prompt_cache_retention=settings.prompt_cache_retention or "",
        include_usage=settings.include_usage,
        response_include=settings.response_include,
        top_logprobs=settings.top_logprobs,
        extra_query=settings.extra_query,
        extra_body_json=_json("extra_body", settings.extra_body),
        extra_headers=settings.extra_headers,
        extra_args_json=_json("extra_args", settings.extra_args),
        context_management_json=_json("context_management", settings.context_management),
        prompt_cache_options_json=_json("prompt_cache_options", settings.prompt_cache_options),
        preserve_raw_usage=settings.preserve_raw_usage,
    )
    if settings.reasoning is not None:
        made.reasoning.effort = _either(settings.reasoning, "effort")
        made.reasoning.summary = _either(settings.reasoning, "summary")
    if isinstance(settings.retry, ModelRetrySettings):
        made.retry.CopyFrom(retry_to_pb(settings.retry, ref_of))
    if settings.timeout is not None:
        made.timeout.FromTimedelta(timedelta(seconds=settings.timeout))
    return made


def _json(name: str, value: object) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"ModelSettings: {name} has no JSON form: {error}") from error


def _either(value: Reasoning | Mapping[str, Any], name: str) -> str:
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return found or ""
