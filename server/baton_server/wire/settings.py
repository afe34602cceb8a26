"""How a model is asked: `baton.v1.ModelSettings` as the core's values, and back. Absent or empty is None.

Fields of one name on both sides are carried by their kind, from the tables below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baton.v1 import agent_pb2, run_config_pb2
from baton_server.core.settings import NOTHING_SAID, ModelSettings, RetryKind, RetryRule, RetrySettings
from baton_server.wire.refs import read_ref, unknown_arm, write_ref
from baton_server.wire.times import read_duration, write_duration

_OPTIONAL = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "parallel_tool_calls",
    "max_tokens",
    "store",
    "include_usage",
    "top_logprobs",
    "preserve_raw_usage",
)
"""Settings that have presence on the wire."""

_WORDS = ("tool_choice", "truncation", "verbosity", "prompt_cache_retention")
"""Texts that are None in the core where they are empty."""

_JSON = ("extra_body_json", "extra_args_json", "context_management_json", "prompt_cache_options_json")

_MAPS = ("metadata", "extra_query", "extra_headers")

_FLAGS = (RetryKind.PROVIDER_SUGGESTED, RetryKind.NETWORK_ERROR, RetryKind.RETRY_AFTER)
"""Rules that say nothing but that they hold."""

_NO_RETRY = RetrySettings()


def read_settings(message: agent_pb2.Agent | run_config_pb2.RunConfig) -> ModelSettings:
    """Read the model settings of an agent or a run."""
    return _read_settings(message.model_settings) if message.HasField("model_settings") else NOTHING_SAID


def _read_settings(message: agent_pb2.ModelSettings) -> ModelSettings:
    said: dict[str, Any] = {name: getattr(message, name) for name in _OPTIONAL if message.HasField(name)}  # type: ignore[arg-type]  # the stubs want a literal
    said |= {name: getattr(message, name) or None for name in _WORDS}
    said |= {name: getattr(message, name) for name in _JSON}
    said |= {name: dict(getattr(message, name)) or None for name in _MAPS}
    return ModelSettings(
        reasoning_effort=message.reasoning.effort or None,
        reasoning_summary=message.reasoning.summary or None,
        response_include=tuple(message.response_include),
        retry=_read_retry(message.retry),
        timeout_s=read_duration(message.timeout) if message.HasField("timeout") else None,
        **said,
    )


def write_settings(settings: ModelSettings) -> agent_pb2.ModelSettings:
    """Write model settings."""
    message = agent_pb2.ModelSettings(response_include=settings.response_include)
    for name in (*_OPTIONAL, *_WORDS, *_JSON):
        value = getattr(settings, name)
        if value is not None:
            setattr(message, name, value)
    for name in _MAPS:
        getattr(message, name).update(getattr(settings, name) or {})
    if settings.reasoning_effort or settings.reasoning_summary:
        message.reasoning.effort = settings.reasoning_effort or ""
        message.reasoning.summary = settings.reasoning_summary or ""
    if settings.retry != _NO_RETRY:
        _write_retry(settings.retry, message.retry)
    if settings.timeout_s is not None:
        message.timeout.CopyFrom(write_duration(settings.timeout_s))
    return message


# -- retries -------------------------------------------------------------------------------------


def _read_retry(message: agent_pb2.RetrySettings) -> RetrySettings:
    return RetrySettings(
        max_retries=message.max_retries if message.HasField("max_retries") else None,
        initial_delay_s=read_duration(message.initial_delay) if message.HasField("initial_delay") else None,
        max_delay_s=read_duration(message.max_delay) if message.HasField("max_delay") else None,
        multiplier=message.multiplier if message.HasField("multiplier") else None,
        jitter=message.jitter if message.HasField("jitter") else None,
        rule=_read_rule(message.rule) if message.HasField("rule") else None,
    )


def _write_retry(retry: RetrySettings, message: agent_pb2.RetrySettings) -> None:
    for name in ("max_retries", "multiplier", "jitter"):
        value = getattr(retry, name)
        if value is not None:
            setattr(message, name, value)
    if retry.initial_delay_s is not None:
        message.initial_delay.CopyFrom(write_duration(retry.initial_delay_s))
    if retry.max_delay_s is not None:
        message.max_delay.CopyFrom(write_duration(retry.max_delay_s))
    if retry.rule is not None:
        message.rule.CopyFrom(_write_rule(retry.rule))


def _read_rule(message: agent_pb2.RetryRule) -> RetryRule:
    arm = message.WhichOneof("rule")
    if arm is None:
        raise unknown_arm("a rule for retries")
    return _RULE_READERS[RetryKind(arm)](message)


def _read_flag(kind: RetryKind) -> Callable[[agent_pb2.RetryRule], RetryRule]:
    return lambda _message: RetryRule(kind=kind)


def _read_rules(kind: RetryKind) -> Callable[[agent_pb2.RetryRule], RetryRule]:
    def read(message: agent_pb2.RetryRule) -> RetryRule:
        rules: agent_pb2.RetryRules = getattr(message, kind.value)
        return RetryRule(kind=kind, rules=tuple(_read_rule(rule) for rule in rules.rules))

    return read


_RULE_READERS: Mapping[RetryKind, Callable[[agent_pb2.RetryRule], RetryRule]] = {
    **{kind: _read_flag(kind) for kind in _FLAGS},
    RetryKind.HTTP_STATUS: lambda message: RetryRule(
        kind=RetryKind.HTTP_STATUS, statuses=tuple(message.http_status.codes)
    ),
    RetryKind.ANY: _read_rules(RetryKind.ANY),
    RetryKind.ALL: _read_rules(RetryKind.ALL),
    RetryKind.HOOK: lambda message: RetryRule(kind=RetryKind.HOOK, hook=read_ref(message.hook)),
}


def _write_rule(rule: RetryRule) -> agent_pb2.RetryRule:
    message = agent_pb2.RetryRule()
    match rule.kind:
        case RetryKind.HTTP_STATUS:
            message.http_status.SetInParent()
            message.http_status.codes.extend(rule.statuses)
        case RetryKind.ANY | RetryKind.ALL:
            rules: agent_pb2.RetryRules = getattr(message, rule.kind.value)
            rules.SetInParent()
            rules.rules.extend(_write_rule(inner) for inner in rule.rules)
        case RetryKind.HOOK:
            if rule.hook is None:
                raise ValueError("a rule for retries of the kind hook names none")
            message.hook.CopyFrom(write_ref(rule.hook))
        case flag:
            setattr(message, flag.value, True)
    return message
