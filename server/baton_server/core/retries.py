"""Whether a failed model request is made again, and when. Pure: chance comes as a number, and nothing waits here.

    again(…) ─► None          it is not
             ─► seconds       it is, after them
             ─► NeedsHook     a rule asks a program ─► after_hook(its answer) ─► one of the three again

All failed attempts of a request count together, whatever each failed of. What a rule can say without a program is
worked out first, so that nobody is asked for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from baton_server.core.errors import Failure, Reason
from baton_server.core.hooks.answers import AnswerError, members, required
from baton_server.core.jsontext import dump
from baton_server.core.settings import RetryKind, RetryRule, RetrySettings
from baton_server.core.tools import HookRef

LOCKED_DELAYS_S = (1.0, 2.0, 4.0)
"""Before each retry of a request whose conversation is in use: those of the Agents SDK."""

INITIAL_DELAY_S = 0.25
MAX_DELAY_S = 2.0
MULTIPLIER = 2.0
"""Of a backoff where nobody says otherwise (agent.proto, `RetrySettings`)."""

LONGEST_DELAY_S = 3600.0
"""Before a retry, whatever a provider or a hook says: a turn must not sleep for days over one answer."""

JITTER = 0.125
"""By which part a delay varies, up and down (agent.proto, `RetrySettings.jitter`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How a request failed, for whoever decides whether it is made again.

    `status`: of HTTP, 0: none came. `network`: the connection failed, or the time passed. `suggested`: the provider
    says, or its kind of failure means, that the same request may succeed. `retry_after_s`: as the provider asks;
    None: it does not. `begun`: something of the reply had come. `locked`: the conversation is in use.
    """

    status: int = 0
    network: bool = False
    suggested: bool = False
    retry_after_s: float | None = None
    begun: bool = False
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsHook:
    """The rule needs the answer of a program: a hook of kind MODEL_RETRY.

    `rule`: what the answer leaves open. `delay_s`: before the retry, where the hook says nothing else.
    """

    hook: HookRef
    rule: RetryRule
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSays:
    """What a hook of kind MODEL_RETRY answers. `delay_s` None: as the rule would have it."""

    retry: bool
    delay_s: float | None = None


def again(
    settings: RetrySettings,
    failed: Attempt,
    failure: Failure,
    *,
    attempts: int,
    stateful: bool,
    chance: float,
) -> float | NeedsHook | None:
    """Say in how many seconds a request is made again; None: not.

    `attempts`: failed ones, this one among them. `stateful`: the model's API keeps the history. `chance`: 0 to 1, from
    which a delay varies; the same for the same attempt, if the answer is to be found a second time.
    """
    if failed.begun and stateful:  # the model's API may have kept what began
        return None
    locked = failed.locked or failure.reason is Reason.CONVERSATION_LOCKED
    if locked and settings.max_retries != 0 and attempts <= len(LOCKED_DELAYS_S):
        return LOCKED_DELAYS_S[attempts - 1]
    if settings.rule is None or attempts > settings.retries:
        return None
    asked = failed.retry_after_s
    delay_s = _backoff(settings, attempts, chance) if asked is None else asked
    return _outcome(_judged(settings.rule, failed), delay_s)


def after_hook(needs: NeedsHook, says: HookSays) -> float | NeedsHook | None:
    """Go on with the answer of the hook that `needs` names: another hook of the rule may have to be asked then."""
    delay_s = says.delay_s if says.retry and says.delay_s is not None else needs.delay_s
    return _outcome(_answered(needs.rule, says.retry), delay_s)


def question(failed: Attempt, failure: Failure, attempts: int) -> str:
    """Ask a hook of kind MODEL_RETRY."""
    asked_s = failed.retry_after_s
    return dump(
        {
            "model_attempt": attempts,
            "error": {"reason": failure.reason.value, "message": failure.message, "metadata": dict(failure.metadata)},
            "provider_suggests": failed.suggested,
            "retry_after_ms": None if asked_s is None else round(asked_s * 1000),
        }
    )


def read_says(answer_json: str) -> HookSays:
    """Read what a hook of kind MODEL_RETRY answers: `{"retry": true, "delay_ms": 500}`. Raises AnswerError."""
    answer = members(answer_json)
    retry = required(answer, "retry")[0]
    if not isinstance(retry, bool):
        raise AnswerError("$.retry", "must be true or false")
    value, text = answer.get("delay_ms", (None, "null"))
    if value is None:
        return HookSays(retry=retry)
    delay_ms = float(text) if isinstance(value, str) and not text.startswith('"') else math.nan
    if not 0 <= delay_ms < math.inf:
        raise AnswerError("$.delay_ms", f"is {text[:40]}, must be a number of milliseconds from 0, or null")
    return HookSays(retry=retry, delay_s=delay_ms / 1000)


def given_up(failure: Failure, attempts: int) -> Failure:
    """Word the failure of a request that is not made again: that of a locked conversation says how often it was."""
    if failure.reason is not Reason.CONVERSATION_LOCKED:
        return failure
    retries = attempts - 1
    message = f"{failure.message} It was still locked after {retries} {'retry' if retries == 1 else 'retries'}."
    return replace(failure, message=message, metadata={**failure.metadata, "retries": str(retries)})


def _outcome(judged: bool | RetryRule, delay_s: float) -> float | NeedsHook | None:
    if isinstance(judged, bool):
        return min(delay_s, LONGEST_DELAY_S) if judged else None
    return NeedsHook(hook=_first_hook(judged), rule=judged, delay_s=delay_s)


def _backoff(settings: RetrySettings, attempts: int, chance: float) -> float:
    delay = _said(settings.initial_delay_s, INITIAL_DELAY_S)
    bound = _said(settings.max_delay_s, MAX_DELAY_S)
    for _ in range(attempts - 1):  # not by power, which raises where this is infinite
        delay *= _said(settings.multiplier, MULTIPLIER)
    delay = min(delay, bound)
    if settings.jitter is not False:
        delay *= 1 - JITTER + 2 * JITTER * chance
    return min(delay, bound)


def _said(value: float | None, default: float) -> float:
    return default if value is None else value


# -- rules: true, false, or what is left of one that hangs on hooks --------------------------------


def _judged(rule: RetryRule, failed: Attempt) -> bool | RetryRule:
    match rule.kind:
        case RetryKind.PROVIDER_SUGGESTED:
            return failed.suggested
        case RetryKind.NETWORK_ERROR:
            return failed.network
        case RetryKind.RETRY_AFTER:
            return failed.retry_after_s is not None
        case RetryKind.HTTP_STATUS:
            return failed.status in rule.statuses
        case RetryKind.HOOK:
            return rule if rule.hook is not None else False
        case RetryKind.ANY | RetryKind.ALL:
            return _joined(rule, [_judged(inner, failed) for inner in rule.rules])


def _joined(rule: RetryRule, judged: list[bool | RetryRule]) -> bool | RetryRule:
    decisive = rule.kind is RetryKind.ANY
    if decisive in judged:
        return decisive
    left = tuple(each for each in judged if isinstance(each, RetryRule))
    return replace(rule, rules=left) if left else not decisive


def _first_hook(rule: RetryRule) -> HookRef:
    while rule.hook is None:
        rule = rule.rules[0]
    return rule.hook


def _answered(rule: RetryRule, retry: bool) -> bool | RetryRule:
    """Put an answer in the place of the first hook."""
    if rule.kind is RetryKind.HOOK:
        return retry
    first, *others = rule.rules
    return _joined(rule, [_answered(first, retry), *others])
