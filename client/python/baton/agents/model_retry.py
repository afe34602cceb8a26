"""When a failed request of a model is sent again: by rules that are data, or as a function says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from baton.checks import check_bool, check_number, check_whole
from baton.errors import AgentsException, UserError
from baton.hooks import RemoteHook
from baton.hooks.answers import RetryDecision
from baton.hooks.data import ModelRetryData
from baton.hooks.refs import RefOf, hook_use
from baton.options import options
from baton.v1 import agent_pb2

MOST_RETRIES, MOST_DEPTH = 20, 4
"""After the first attempt; and of rules within rules (agent.proto, RetrySettings, RetryRules)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Which failures are retried, as data; make it with `retry_policies`. `kind`: an arm of `baton.v1.RetryRule`.

    `statuses`: of "http_status". `rules`: of "any" and "all", rules or functions.
    """

    kind: str
    statuses: tuple[int, ...] = ()
    rules: tuple[RetryPolicy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizedError:
    """A failed request, whatever provider it was. `retry_after`: seconds that the provider asks to wait; None: none."""

    status_code: int | None
    error_code: str | None
    message: str
    retry_after: float | None
    is_network_error: bool
    is_timeout: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAdvice:
    """What the provider says. `suggested`: that the request may succeed if it is sent again."""

    suggested: bool
    retry_after: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicyContext:
    """What a policy of your own decides by. `attempt` from 1. `max_retries`: of the settings; None: not said there."""

    error: AgentsException
    attempt: int
    max_retries: int | None
    normalized: NormalizedError
    provider_advice: RetryAdvice


PolicyFunction = Callable[[RetryPolicyContext], bool | RetryDecision | Awaitable[bool | RetryDecision]]
RetryPolicy = RetryRule | PolicyFunction | RemoteHook


class _RetryPolicies:
    """Makes rules. They are data: the server applies them and asks nobody."""

    def never(self) -> RetryRule:
        """No failure: none has two statuses."""
        return RetryRule(kind="all", rules=tuple(RetryRule(kind="http_status", statuses=(one,)) for one in (400, 401)))

    def provider_suggested(self) -> RetryRule:
        """Failures for which the provider suggests it: by a header, a status, a connection that broke."""
        return RetryRule(kind="provider_suggested")

    def network_error(self) -> RetryRule:
        """Failures of the network."""
        return RetryRule(kind="network_error")

    def retry_after(self) -> RetryRule:
        """Failures with a Retry-After, which is obeyed."""
        return RetryRule(kind="retry_after")

    def http_status(self, statuses: Iterable[int]) -> RetryRule:
        """Failures with one of these statuses, each 400 to 599."""
        listed = tuple(statuses)
        for status in listed:
            check_whole("retry_policies.http_status: a status", status, 400, 599)
        return RetryRule(kind="http_status", statuses=listed) if listed else self.never()

    def any(self, *policies: RetryPolicy) -> RetryRule:
        """Failures that fit one of these."""
        return RetryRule(kind="any", rules=_checked(policies)) if policies else self.never()

    def all(self, *policies: RetryPolicy) -> RetryRule:
        """Failures that fit all of these."""
        return RetryRule(kind="all", rules=_checked(policies)) if policies else self.never()


retry_policies = _RetryPolicies()


@options
@dataclass(frozen=True)
class ModelRetryBackoffSettings:
    """How long is waited before a retry, in seconds; None: the layer below, at last 0.25, 2, 2 and True.

    The n-th delay is `initial_delay` times `multiplier` to the n-1, at most `max_delay`; `jitter` varies it by an
    eighth. A Retry-After of the provider may exceed it.
    """

    initial_delay: float | None = None
    max_delay: float | None = None
    multiplier: float | None = None
    jitter: bool | None = None

    def __post_init__(self) -> None:
        for name, least in (("initial_delay", 0), ("max_delay", 0), ("multiplier", 1)):
            check_number(f"ModelRetryBackoffSettings: {name}", getattr(self, name), least)
        check_bool("ModelRetryBackoffSettings: jitter", self.jitter, none=True)


@options
@dataclass(frozen=True)
class ModelRetrySettings:
    """When a failed request of the model is sent again. That step alone is repeated: no function runs twice.

    `max_retries`: 0 to 20; None: the layer below, at last 3 where there is a policy. `backoff`: a
    ModelRetryBackoffSettings, or a dict of its fields. `policy`: of `retry_policies`; a function of a
    `RetryPolicyContext` that gives a bool or a `RetryDecision`, sync or async; or a `RemoteHook`. None: the layer
    below, at last never.
    """

    max_retries: int | None = None
    backoff: ModelRetryBackoffSettings | Mapping[str, Any] | None = None
    policy: RetryPolicy | None = None

    def __post_init__(self) -> None:
        if isinstance(self.backoff, Mapping):
            object.__setattr__(self, "backoff", ModelRetryBackoffSettings(**self.backoff))
        if self.backoff is not None and not isinstance(self.backoff, ModelRetryBackoffSettings):
            raise TypeError(
                f"ModelRetrySettings: backoff must be a ModelRetryBackoffSettings or a dict, not {self.backoff!r}"
            )
        check_whole("ModelRetrySettings: max_retries", self.max_retries, 0, MOST_RETRIES)
        if self.policy is not None:
            _checked((self.policy,))

    def resolve(self, override: ModelRetrySettings | None) -> ModelRetrySettings:
        """Lay others over these, field by field."""
        if override is None:
            return self
        mine, its = self.backoff, override.backoff
        both = (mine, its) if isinstance(mine, ModelRetryBackoffSettings) else None
        made: ModelRetrySettings = _laid(self, override)
        if both is not None and isinstance(its, ModelRetryBackoffSettings):
            made = replace(made, backoff=_laid(both[0], its))
        return made


def retry_to_pb(settings: ModelRetrySettings, ref_of: RefOf) -> agent_pb2.RetrySettings:
    """Write `baton.v1.RetrySettings`."""
    made = agent_pb2.RetrySettings(max_retries=settings.max_retries)
    backoff = settings.backoff
    if isinstance(backoff, ModelRetryBackoffSettings):
        if backoff.initial_delay is not None:
            made.initial_delay.FromTimedelta(timedelta(seconds=backoff.initial_delay))
        if backoff.max_delay is not None:
            made.max_delay.FromTimedelta(timedelta(seconds=backoff.max_delay))
        if backoff.multiplier is not None:
            made.multiplier = backoff.multiplier
        if backoff.jitter is not None:
            made.jitter = backoff.jitter
    if settings.policy is not None:
        made.rule.CopyFrom(_rule_to_pb(settings.policy, settings.max_retries, ref_of))
    return made


def _rule_to_pb(policy: RetryPolicy, max_retries: int | None, ref_of: RefOf) -> agent_pb2.RetryRule:
    if not isinstance(policy, RetryRule):

        def arguments(data: ModelRetryData[Any]) -> tuple[Any, ...]:
            return (_context(data, max_retries),)

        return agent_pb2.RetryRule(hook=ref_of(hook_use("model_retry", policy, arguments)))
    match policy.kind:
        case "http_status":
            return agent_pb2.RetryRule(http_status=agent_pb2.HttpStatuses(codes=policy.statuses))
        case "any" | "all":
            inner = agent_pb2.RetryRules(rules=[_rule_to_pb(one, max_retries, ref_of) for one in policy.rules])
            return agent_pb2.RetryRule(any=inner) if policy.kind == "any" else agent_pb2.RetryRule(all=inner)
        case kind:
            made = agent_pb2.RetryRule()
            setattr(made, kind, True)
            return made


def _context(data: ModelRetryData[Any], max_retries: int | None) -> RetryPolicyContext:
    error = data.error
    status = error.metadata.get("status", "")
    return RetryPolicyContext(
        error=error,
        attempt=data.attempt,
        max_retries=max_retries,
        normalized=NormalizedError(
            status_code=int(status) if status.isdigit() else None,
            error_code=error.metadata.get("code"),
            message=error.message,
            retry_after=data.retry_after,
            is_network_error=error.reason == "MODEL_UNAVAILABLE" and not status,
            is_timeout=error.reason == "MODEL_TIMEOUT",
        ),
        provider_advice=RetryAdvice(suggested=data.provider_suggests, retry_after=data.retry_after),
    )


def _checked(policies: tuple[RetryPolicy, ...]) -> tuple[RetryPolicy, ...]:
    for one in policies:
        if not isinstance(one, RetryRule | RemoteHook) and not callable(one):
            raise TypeError(f"a retry policy is one of retry_policies, a function or a RemoteHook, not {one!r}")
        if isinstance(one, RetryRule) and _depth(one) > MOST_DEPTH:
            raise UserError(f"retry policies are nested at most {MOST_DEPTH} deep, not {_depth(one)}")
    return policies


def _depth(policy: RetryPolicy) -> int:
    return 1 + max(map(_depth, policy.rules), default=0) if isinstance(policy, RetryRule) else 1


def _laid(under: Any, over: Any) -> Any:
    """Lay settings over others of their class: what is None leaves what is below."""
    said = {one.name: value for one in fields(over) if (value := getattr(over, one.name)) is not None}
    return replace(under, **said)
