"""How a model is asked, as data: `baton.v1.ModelSettings` and when a failed request is sent again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from baton_server.core.jsontext import dump, members
from baton_server.core.tools import HookRef

DEFAULT_RETRIES = 3
"""Retries of a failed model request where there is a rule and no number (agent.proto, `RetrySettings`)."""


class RetryKind(StrEnum):
    """Which failures a rule is for: the arms of `baton.v1.RetryRule`."""

    PROVIDER_SUGGESTED = "provider_suggested"
    NETWORK_ERROR = "network_error"
    RETRY_AFTER = "retry_after"
    HTTP_STATUS = "http_status"
    ANY = "any"
    ALL = "all"
    HOOK = "hook"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Which failures of a model request are retried: `baton.v1.RetryRule`.

    `statuses`: of HTTP_STATUS; `rules`: of ANY and ALL; `hook`: of HOOK.
    """

    kind: RetryKind
    statuses: tuple[int, ...] = ()
    rules: tuple[RetryRule, ...] = ()
    hook: HookRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """When a failed model request is sent again: `baton.v1.RetrySettings`. None: the layer below decides."""

    max_retries: int | None = None
    initial_delay_s: float | None = None
    max_delay_s: float | None = None
    multiplier: float | None = None
    jitter: bool | None = None
    rule: RetryRule | None = None

    def under(self, over: RetrySettings) -> RetrySettings:
        """Lay `over` on these settings, field by field."""
        said = {f.name: value for f in fields(over) if (value := getattr(over, f.name)) is not None}
        return replace(self, **said) if said else self

    @property
    def retries(self) -> int:
        """Say how many retries a rule may allow."""
        if self.rule is None:
            return 0
        return DEFAULT_RETRIES if self.max_retries is None else self.max_retries


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is asked: `baton.v1.ModelSettings`. None or empty leaves it to the layer below.

    Fields that end in `_json` are JSON texts. `timeout_s`: of one attempt.
    """

    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    truncation: str | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    reasoning_summary: str | None = None
    verbosity: str | None = None
    metadata: Mapping[str, str] | None = None
    store: bool | None = None
    prompt_cache_retention: str | None = None
    include_usage: bool | None = None
    response_include: tuple[str, ...] = ()
    top_logprobs: int | None = None
    extra_query: Mapping[str, str] | None = None
    extra_body_json: str = ""
    extra_headers: Mapping[str, str] | None = None
    extra_args_json: str = ""
    retry: RetrySettings = field(default_factory=RetrySettings)
    context_management_json: str = ""
    prompt_cache_options_json: str = ""
    preserve_raw_usage: bool | None = None
    timeout_s: float | None = None

    def under(self, over: ModelSettings) -> ModelSettings:
        """Lay `over` on these settings: what it says wins, field by field; extra arguments by key.

        Reasoning is one thing of two fields: where `over` says one of them, the other one is its own too.
        """
        if over == NOTHING_SAID:
            return self
        said = {f.name: value for f in fields(over) if _is_said(value := getattr(over, f.name))}
        said["retry"] = self.retry.under(over.retry)
        if over.reasoning_effort is not None or over.reasoning_summary is not None:
            said |= {"reasoning_effort": over.reasoning_effort, "reasoning_summary": over.reasoning_summary}
        if self.extra_args_json and over.extra_args_json:
            said["extra_args_json"] = _merged(self.extra_args_json, over.extra_args_json)
        return replace(self, **said)


NOTHING_SAID = ModelSettings()
"""What most runs say of how the model is asked."""


def _is_said(value: Any) -> bool:
    # 0, 0.0 and False are said; an empty text, list or no labels are not.
    return value is not None and value not in ("", (), {})


def _merged(below: str, over: str) -> str:
    """Lay the members of one JSON object over those of another, each as the text that it came as."""
    texts = {name: text for source in (below, over) for name, _, text in members(source)}
    return "{" + ",".join(f"{dump(name)}:{text}" for name, text in texts.items()) + "}"
