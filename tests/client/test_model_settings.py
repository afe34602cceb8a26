"""How a model is asked, and when a failed request is sent again: what is written, laid over one another, refused."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from tests.client.own_hooks import ask

from baton import (
    Agent,
    ModelRetryBackoffSettings,
    ModelRetrySettings,
    ModelSettings,
    ModelUnavailableError,
    Reasoning,
    RemoteHook,
    RetryDecision,
    RetryPolicyContext,
    UserError,
    retry_policies,
)
from baton.agents.model_settings import settings_to_pb
from baton.v1 import agent_pb2

EVERY: dict[str, Any] = {
    "temperature": 0.1,
    "top_p": 0.2,
    "frequency_penalty": -1,
    "presence_penalty": 1,
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "truncation": "auto",
    "max_tokens": 9,
    "reasoning": Reasoning(effort="low", summary="auto"),
    "verbosity": "low",
    "metadata": {"k": "v"},
    "store": True,
    "prompt_cache_retention": "24h",
    "include_usage": True,
    "response_include": ["reasoning.encrypted_content"],
    "top_logprobs": 3,
    "extra_query": {"q": "1"},
    "extra_body": {"b": [1]},
    "extra_headers": {"X-H": "1"},
    "extra_args": {"a": "京都"},
    "retry": ModelRetrySettings(max_retries=2),
    "context_management": [{"type": "compaction"}],
    "prompt_cache_options": {"mode": "explicit"},
    "preserve_raw_usage": True,
    "timeout": 1.5,
}


def test_every_setting_has_its_field() -> None:
    """None of the contract's is forgotten, and none is said that was not."""
    assert set(EVERY) == {one.name for one in fields(ModelSettings)}

    made = settings_to_pb(ModelSettings(**EVERY))

    assert [field.name for field, _ in made.ListFields()] == [field.name for field in made.DESCRIPTOR.fields]
    assert (made.reasoning.effort, made.reasoning.summary) == ("low", "auto")
    assert (
        json.loads(made.extra_args_json) == {"a": "京都"} and made.context_management_json == '[{"type":"compaction"}]'
    )
    assert made.timeout.ToTimedelta() == timedelta(seconds=1.5)
    assert settings_to_pb(ModelSettings()) == agent_pb2.ModelSettings()


def test_settings_are_laid_over_one_another() -> None:
    """None leaves what is below; arguments are joined by key, retries field by field; all else is replaced whole."""
    under = ModelSettings(
        temperature=1,
        metadata={"a": "1"},
        extra_args={"a": 1, "b": 2},
        retry=ModelRetrySettings(max_retries=2, backoff=ModelRetryBackoffSettings(initial_delay=1, jitter=False)),
    )
    over = {"metadata": {"b": "2"}, "extra_args": {"b": 3}, "retry": {"backoff": {"initial_delay": 5}}}

    made = under.resolve(over)

    assert (made.temperature, made.metadata, made.extra_args) == (1, {"b": "2"}, {"a": 1, "b": 3})
    assert made.retry == ModelRetrySettings(
        max_retries=2, backoff=ModelRetryBackoffSettings(initial_delay=5, jitter=False)
    )
    assert under.resolve(None) is under


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (retry_policies.provider_suggested(), agent_pb2.RetryRule(provider_suggested=True)),
        (retry_policies.network_error(), agent_pb2.RetryRule(network_error=True)),
        (retry_policies.retry_after(), agent_pb2.RetryRule(retry_after=True)),
        (
            retry_policies.http_status([429, 503]),
            agent_pb2.RetryRule(http_status=agent_pb2.HttpStatuses(codes=[429, 503])),
        ),
        (
            retry_policies.any(retry_policies.network_error(), RemoteHook("mine")),
            agent_pb2.RetryRule(
                any=agent_pb2.RetryRules(
                    rules=[
                        agent_pb2.RetryRule(network_error=True),
                        agent_pb2.RetryRule(hook=agent_pb2.HookRef(name="mine")),
                    ]
                )
            ),
        ),
        (
            retry_policies.all(retry_policies.retry_after()),
            agent_pb2.RetryRule(all=agent_pb2.RetryRules(rules=[agent_pb2.RetryRule(retry_after=True)])),
        ),
    ],
)
def test_policies_are_data(policy: Any, rule: agent_pb2.RetryRule) -> None:
    """The server applies them, and asks nobody."""
    assert settings_to_pb(ModelSettings(retry=ModelRetrySettings(policy=policy))).retry.rule == rule


def test_never_fits_no_failure() -> None:
    """It is a rule like the others, so that it may stand within them."""
    made = settings_to_pb(ModelSettings(retry={"policy": retry_policies.never()})).retry.rule

    statuses = [list(rule.http_status.codes) for rule in made.all.rules]
    assert statuses == [[400], [401]]
    assert retry_policies.any() == retry_policies.all() == retry_policies.http_status([]) == retry_policies.never()


def test_a_backoff_is_written_in_seconds() -> None:
    """Only what is said."""
    backoff = {"initial_delay": 0.5, "max_delay": 8, "multiplier": 3, "jitter": False}
    made = settings_to_pb(ModelSettings(retry=ModelRetrySettings(max_retries=0, backoff=backoff))).retry

    assert made.initial_delay.ToTimedelta() == timedelta(seconds=0.5)
    assert (made.max_delay.ToTimedelta(), made.multiplier, made.jitter) == (timedelta(seconds=8), 3, False)
    assert made.HasField("max_retries") and not made.HasField("rule")


async def test_a_policy_of_ones_own_decides_by_the_failure() -> None:
    """Its class and status, the attempt, what the provider says; it answers with a bool or a delay."""
    seen: list[RetryPolicyContext] = []

    async def policy(context: RetryPolicyContext) -> RetryDecision:
        seen.append(context)
        return RetryDecision(context.attempt < 3, delay=context.normalized.retry_after)

    retry = ModelRetrySettings(max_retries=4, policy=retry_policies.any(policy, retry_policies.never()))
    agent: Agent[Any] = Agent(name="A", model_settings=ModelSettings(retry=retry))
    error = {"reason": "MODEL_UNAVAILABLE", "message": "overloaded", "metadata": {"status": "503"}}
    payload = {"model_attempt": 2, "error": error, "provider_suggests": True, "retry_after_ms": 1500}

    assert await ask("model_retry", payload, agent) == {"retry": True, "delay_ms": 1500}
    (context,) = seen
    assert isinstance(context.error, ModelUnavailableError) and context.error.message == "overloaded"
    assert (context.attempt, context.max_retries, context.normalized.status_code) == (2, 4, 503)
    assert (context.provider_advice.suggested, context.provider_advice.retry_after) == (True, 1.5)

    plain = agent.clone(model_settings={"retry": {"policy": lambda context: False}})
    assert await ask("model_retry", payload, plain) == {"retry": False, "delay_ms": None}


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"top_p": "1"}, TypeError, "ModelSettings: top_p must be a number, not '1'"),
        ({"max_tokens": 0}, UserError, "max_tokens must be 1 to"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens must be a whole number, not 1.5"),
        ({"store": "yes"}, TypeError, "store must be True, False or None, not 'yes'"),
        ({"tool_choice": {"type": "mcp"}}, TypeError, "tool_choice must be a text"),
        ({"timeout": float("nan")}, UserError, "timeout must be 0.001 to 86400, not nan"),
        ({"extra_body": [1]}, TypeError, "extra_body must be a dict, not [1]"),
        ({"response_include": "x"}, TypeError, "response_include must be a list, not 'x'"),
        ({"retry": 3}, TypeError, "retry must be a ModelRetrySettings or a dict, not 3"),
        ({"retry": {"tries": 3}}, TypeError, "ModelRetrySettings does not support tries"),
        ({"retry": {"max_retries": 21}}, UserError, "max_retries must be 0 to 20, not 21"),
        ({"retry": {"policy": "always"}}, TypeError, "one of retry_policies, a function or a RemoteHook, not 'always'"),
        ({"retry": {"backoff": {"multiplier": 0.5}}}, UserError, "multiplier must be at least 1, not 0.5"),
        ({"heat": 1, "cold": 2}, TypeError, "ModelSettings does not support heat, cold"),
    ],
)
def test_mistakes_in_settings_are_named(wrong: dict[str, Any], error: type[Exception], says: str) -> None:
    """With the value, and what would be right."""
    with pytest.raises(error) as caught:
        ModelSettings(**wrong)
    assert says in str(caught.value)


def test_mistakes_in_policies_are_named() -> None:
    """Statuses that are none, and too many rules within rules."""
    with pytest.raises(UserError, match="a status must be 400 to 599, not 200"):
        retry_policies.http_status([200])
    nested: Any = retry_policies.network_error()
    for _ in range(3):
        nested = retry_policies.any(nested)
    with pytest.raises(UserError, match="nested at most 4 deep, not 5"):
        retry_policies.all(retry_policies.any(nested))
    with pytest.raises(UserError, match="extra_args has no JSON form"):
        settings_to_pb(ModelSettings(extra_args={"a": object()}))
