"""Whether a failed model request is made again, and when."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton_server.core.errors import Failure, Reason
from baton_server.core.hooks.answers import AnswerError
from baton_server.core.retries import (
    Attempt,
    HookSays,
    NeedsHook,
    after_hook,
    again,
    given_up,
    question,
    read_says,
)
from baton_server.core.settings import RetryKind, RetryRule, RetrySettings
from baton_server.core.tools import HookRef

DOWN = Failure(reason=Reason.MODEL_UNAVAILABLE, message="Down.", metadata={"provider": "openai"})
LOCKED = Failure(reason=Reason.CONVERSATION_LOCKED, message="In use.", metadata={"conversation_id": "conv_1"})

SUGGESTED = RetryRule(kind=RetryKind.PROVIDER_SUGGESTED)
NETWORK = RetryRule(kind=RetryKind.NETWORK_ERROR)
RETRY_AFTER = RetryRule(kind=RetryKind.RETRY_AFTER)
BUSY = RetryRule(kind=RetryKind.HTTP_STATUS, statuses=(429, 503))

FAILED_503 = Attempt(status=503, suggested=True)
CUT_OFF = Attempt(network=True, suggested=True, begun=True)


def hook(name: str) -> RetryRule:
    """Make a rule that asks a program."""
    return RetryRule(kind=RetryKind.HOOK, hook=HookRef(name=name))


def any_of(*rules: RetryRule) -> RetryRule:
    """Make a rule that fits where one of these does."""
    return RetryRule(kind=RetryKind.ANY, rules=rules)


def all_of(*rules: RetryRule) -> RetryRule:
    """Make a rule that fits where all of these do."""
    return RetryRule(kind=RetryKind.ALL, rules=rules)


def decide(
    rule: RetryRule | None,
    failed: Attempt = FAILED_503,
    failure: Failure = DOWN,
    *,
    attempts: int = 1,
    stateful: bool = False,
    chance: float = 0.5,
    settings: RetrySettings | None = None,
) -> float | NeedsHook | None:
    """Ask what follows a failed attempt."""
    given = replace(settings or RetrySettings(), rule=rule)
    return again(given, failed, failure, attempts=attempts, stateful=stateful, chance=chance)


def test_without_a_rule_nothing_is_retried() -> None:
    """A number alone says not which failures."""
    assert decide(None, settings=RetrySettings(max_retries=5)) is None


def test_a_rule_without_a_number_means_three_retries() -> None:
    """After a quarter of a second, then twice that, up to two seconds; a number says otherwise."""
    assert [decide(SUGGESTED, attempts=n) for n in range(1, 5)] == [0.25, 0.5, 1.0, None]

    five = RetrySettings(max_retries=5)
    assert [decide(SUGGESTED, attempts=n, settings=five) for n in range(1, 7)] == [0.25, 0.5, 1.0, 2.0, 2.0, None]


def test_no_retries_are_none_whatever_the_rule() -> None:
    """Zero is a number too."""
    assert decide(SUGGESTED, settings=RetrySettings(max_retries=0)) is None


RULES = [
    (SUGGESTED, Attempt(suggested=True), True),
    (SUGGESTED, Attempt(status=400), False),
    (NETWORK, Attempt(network=True), True),
    (NETWORK, FAILED_503, False),
    (RETRY_AFTER, Attempt(retry_after_s=0.25), True),
    (RETRY_AFTER, FAILED_503, False),
    (BUSY, FAILED_503, True),
    (BUSY, Attempt(status=500, suggested=True), False),
    (BUSY, Attempt(network=True), False),
    (any_of(NETWORK, BUSY), FAILED_503, True),
    (any_of(NETWORK, RETRY_AFTER), FAILED_503, False),
    (all_of(SUGGESTED, BUSY), FAILED_503, True),
    (all_of(SUGGESTED, NETWORK), FAILED_503, False),
    (any_of(all_of(NETWORK, SUGGESTED), all_of(BUSY, any_of(SUGGESTED))), FAILED_503, True),
]


@pytest.mark.parametrize(("rule", "failed", "fits"), RULES)
def test_a_rule_fits_or_does_not(rule: RetryRule, failed: Attempt, fits: bool) -> None:
    """Each kind looks at one thing of the attempt; lists join them."""
    assert decide(rule, failed) == (0.25 if fits else None)


def test_the_provider_says_how_long_to_wait() -> None:
    """Its Retry-After comes before the backoff, and may exceed the bound of one."""
    assert decide(SUGGESTED, Attempt(suggested=True, retry_after_s=20.0)) == 20.0
    assert decide(SUGGESTED, Attempt(suggested=True, retry_after_s=0.0)) == 0.0


def test_a_delay_grows_as_the_settings_say() -> None:
    """From its first value, by its factor, up to its bound."""
    settings = RetrySettings(max_retries=9, initial_delay_s=1.0, multiplier=3.0, max_delay_s=10.0)

    assert [decide(SUGGESTED, attempts=n, settings=settings) for n in (1, 2, 3, 4)] == [1.0, 3.0, 9.0, 10.0]


def test_a_delay_varies_by_an_eighth_at_the_most() -> None:
    """Unless the settings say that it does not; the bound holds all the same."""
    assert [decide(SUGGESTED, attempts=2, chance=chance) for chance in (0.0, 0.5, 1.0)] == [0.4375, 0.5, 0.5625]
    steady = RetrySettings(jitter=False)
    assert {decide(SUGGESTED, chance=chance, settings=steady) for chance in (0.0, 1.0)} == {0.25}
    assert decide(SUGGESTED, attempts=3, chance=1.0, settings=RetrySettings(max_delay_s=1.0)) == 1.0


@given(st.integers(1, 20), st.floats(1.0, 1e308), st.floats(0.0, 1.0))
def test_a_delay_is_bounded_whatever_it_grows_by(attempts: int, multiplier: float, chance: float) -> None:
    """A factor of the caller's cannot make a delay that nobody can wait for."""
    settings = RetrySettings(max_retries=20, multiplier=multiplier, max_delay_s=7.0)
    delay_s = decide(SUGGESTED, attempts=attempts, chance=chance, settings=settings)

    assert isinstance(delay_s, float)
    assert 0 <= delay_s <= 7.0


def test_a_reply_that_began_is_retried_only_where_nobody_kept_it() -> None:
    """Text that was streamed is taken back; a conversation at the provider cannot be."""
    assert decide(NETWORK, CUT_OFF) == 0.25
    assert decide(NETWORK, CUT_OFF, stateful=True) is None
    assert decide(NETWORK, replace(CUT_OFF, begun=False), stateful=True) == 0.25
    assert decide(hook("ask"), CUT_OFF, stateful=True) is None


@pytest.mark.parametrize("stateful", [True, False])
def test_a_locked_conversation_is_retried_without_a_rule(stateful: bool) -> None:
    """After one, two and four seconds, and then no more."""
    locked = Attempt(status=400, locked=True)

    delays = [decide(None, locked, LOCKED, attempts=n, stateful=stateful, chance=0.9) for n in (1, 2, 3, 4)]

    assert delays == [1.0, 2.0, 4.0, None]


def test_a_locked_conversation_is_not_retried_where_retries_are_off() -> None:
    """Zero means zero."""
    locked = Attempt(status=400, locked=True)

    assert decide(None, locked, LOCKED, settings=RetrySettings(max_retries=0)) is None
    assert decide(None, locked, LOCKED, settings=RetrySettings(max_retries=1), attempts=3) == 4.0


def test_a_rule_may_go_on_where_the_lock_stays() -> None:
    """A caller who wants more retries of it gets them, by its rule."""
    rule = RetryRule(kind=RetryKind.HTTP_STATUS, statuses=(400,))
    settings = RetrySettings(max_retries=4)
    locked = Attempt(status=400, locked=True)

    assert decide(rule, locked, LOCKED, attempts=4, settings=settings) == 2.0
    assert decide(rule, locked, LOCKED, attempts=5, settings=settings) is None


def test_a_lock_that_stayed_says_how_often_it_was_tried() -> None:
    """Other failures are as they were."""
    failure = given_up(LOCKED, 4)

    assert failure.metadata == {"conversation_id": "conv_1", "retries": "3"}
    assert "after 3 retries" in failure.message
    assert given_up(DOWN, 4) is DOWN


def asked(outcome: float | NeedsHook | None) -> NeedsHook:
    """Take what asks for a hook."""
    assert isinstance(outcome, NeedsHook)
    return outcome


def test_a_hook_decides_and_may_say_when() -> None:
    """Its delay comes before the Retry-After, that before the backoff."""
    needs = asked(decide(hook("ask"), Attempt(status=503, retry_after_s=9.0)))

    assert needs.hook == HookRef(name="ask")
    assert after_hook(needs, HookSays(retry=True, delay_s=0.5)) == 0.5
    assert after_hook(needs, HookSays(retry=True)) == 9.0
    assert after_hook(needs, HookSays(retry=False, delay_s=0.5)) is None
    assert after_hook(asked(decide(hook("ask"))), HookSays(retry=True)) == 0.25


def test_no_hook_is_asked_for_what_is_decided() -> None:
    """What a rule can say without a program comes first, in whatever order it stands."""
    assert decide(any_of(hook("ask"), BUSY)) == 0.25
    assert decide(all_of(hook("ask"), NETWORK)) is None
    assert decide(hook("ask"), attempts=4) is None


def test_several_hooks_are_asked_one_after_another() -> None:
    """Only as long as their answers leave it open; a delay that one said stands unless the next says another."""
    both = asked(decide(all_of(SUGGESTED, hook("first"), hook("second"))))
    assert both.hook.name == "first"
    assert after_hook(both, HookSays(retry=False)) is None
    second = asked(after_hook(both, HookSays(retry=True, delay_s=3.0)))
    assert second.hook.name == "second"
    assert after_hook(second, HookSays(retry=True)) == 3.0

    either = asked(decide(any_of(NETWORK, all_of(BUSY, hook("first")), hook("second"))))
    assert after_hook(either, HookSays(retry=True)) == 0.25
    assert asked(after_hook(either, HookSays(retry=False, delay_s=3.0))).delay_s == 0.25


def test_a_hook_is_told_what_happened() -> None:
    """The attempt's number, the error, and what the provider says."""
    told = json.loads(question(Attempt(status=429, suggested=True, retry_after_s=1.5), DOWN, 2))

    assert told == {
        "model_attempt": 2,
        "error": {"reason": "MODEL_UNAVAILABLE", "message": "Down.", "metadata": {"provider": "openai"}},
        "provider_suggests": True,
        "retry_after_ms": 1500,
    }
    assert json.loads(question(Attempt(), DOWN, 1))["retry_after_ms"] is None


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"retry":true}', HookSays(retry=True)),
        ('{"retry":false,"delay_ms":null,"why":"no"}', HookSays(retry=False)),
        ('{"retry":true,"delay_ms":1500}', HookSays(retry=True, delay_s=1.5)),
        ('{"retry":true,"delay_ms":0}', HookSays(retry=True, delay_s=0.0)),
    ],
)
def test_an_answer_is_read(answer: str, says: HookSays) -> None:
    """What is not known is passed over."""
    assert read_says(answer) == says


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ("[]", "$"),
        ("{}", "$.retry"),
        ('{"retry":"yes"}', "$.retry"),
        ('{"retry":true,"delay_ms":-1}', "$.delay_ms"),
        ('{"retry":true,"delay_ms":1e400}', "$.delay_ms"),
        ('{"retry":true,"delay_ms":"5"}', "$.delay_ms"),
        ('{"retry":true,"delay_ms":{}}', "$.delay_ms"),
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: str, path: str) -> None:
    """It says where."""
    with pytest.raises(AnswerError) as caught:
        read_says(answer)

    assert caught.value.path == path
