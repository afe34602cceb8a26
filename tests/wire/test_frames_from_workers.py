"""Frames from a worker, as plain values: all that it says, and what is meant where it says nothing."""

from typing import Any

import pytest
from google.protobuf import json_format

from baton.v1 import event_pb2, handler_pb2
from baton_server.core.events import HookKind
from baton_server.ports.bus import Progress
from baton_server.ports.frames import (
    CancelOutcome,
    Credit,
    Handler,
    HandlerKey,
    Held,
    HookReply,
    Introduction,
    SideEffects,
)
from baton_server.wire import frames

WHOLE: dict[str, Any] = {
    "name": "get_weather",
    "version": "2",
    "description": "the weather",
    "parameters_json": '{"type":"object"}',
    "execution": {
        "timeout": "1.5s",
        "side_effects": "SIDE_EFFECTS_ONCE",
        "idempotency_fields": ["/order/id", "/"],
    },
    "max_concurrency": 3,
}


def spec(**fields: Any) -> handler_pb2.HandlerSpec:
    """Makes a declaration."""
    return json_format.ParseDict(fields, handler_pb2.HandlerSpec())


def test_a_handler_is_read_with_all_that_it_says() -> None:
    """What an agent leaves out is taken from here."""
    assert frames.read_handler(spec(**WHOLE)) == Handler(
        name="get_weather",
        version="2",
        description="the weather",
        parameters_json='{"type":"object"}',
        timeout_s=1.5,
        side_effects=SideEffects.ONCE,
        idempotency_fields=("/order/id", "/"),
        max_concurrency=3,
    )


def test_a_handler_that_says_its_name_alone_is_a_function() -> None:
    """Absent is not said: neither no timeout nor no side effects."""
    plain = frames.read_handler(spec(name="f"))

    assert plain == Handler(name="f")
    assert frames.read_handler(spec(name="f", kind="HANDLER_KIND_FUNCTION")) == plain
    assert (plain.timeout_s, plain.side_effects, plain.idempotency_fields) == (None, None, ())


@pytest.mark.parametrize("kind", HookKind)
def test_a_hook_is_read_with_its_kind(kind: HookKind) -> None:
    """A function and a hook of one name are two handlers."""
    declared = spec(name="f", kind=f"HANDLER_KIND_{kind.name}")

    assert frames.read_handler(declared) == Handler(name="f", kind=kind)
    assert frames.read_key(declared) == HandlerKey(kind=kind, name="f") == frames.read_handler(declared).key


def test_a_handler_that_is_taken_back_is_meant_by_its_key_alone() -> None:
    """Whatever else is said."""
    assert frames.read_key(spec(**WHOLE)) == HandlerKey(kind=None, name="get_weather", version="2")


HELLO: dict[str, Any] = {
    "instance_id": "pod-7",
    "sdk": {"name": "by hand", "version": "1", "language": "none"},
    "scopes": ["svc-7", ""],
    "resume_token": "secret",
    "held": [{"call_id": "call_1", "attempt": 2, "begun": True}, {"call_id": "call_2", "attempt": 1, "finished": True}],
    "credit": {"messages": 4, "bytes": 1024},
    "metadata": {"k": "v"},
    "max_hook_batches": 3,
}


def hello(**fields: Any) -> handler_pb2.Hello:
    """Makes a Hello."""
    return json_format.ParseDict(fields, handler_pb2.Hello())


def test_a_worker_is_read_with_all_that_it_says() -> None:
    """And with those of its handlers that are in order."""
    assert frames.read_introduction(hello(**HELLO), [spec(name="f")]) == Introduction(
        instance_id="pod-7",
        scopes=("svc-7", ""),
        handlers=(Handler(name="f"),),
        held=(
            Held(call_id="call_1", attempt=2, begun=True),
            Held(call_id="call_2", attempt=1, finished=True),
        ),
        resume_token="secret",
        credit=Credit(messages=4, bytes=1024),
        metadata={"k": "v"},
        sdk=("by hand", "1", "none"),
        max_hook_batches=3,
    )


def test_a_worker_that_says_nothing_has_no_credit_and_the_usual_window() -> None:
    """As the contract's defaults are."""
    plain = frames.read_introduction(hello(), [])

    assert (plain.credit, plain.max_hook_batches, plain.half_duplex) == (Credit(), 16, False)


def test_a_half_duplex_worker_takes_one_call_at_once_where_it_says_nothing() -> None:
    """What it says counts, none included."""
    unsaid = frames.read_introduction(hello(), [], half_duplex=True)
    none = frames.read_introduction(hello(credit={}), [], half_duplex=True)

    assert unsaid.half_duplex
    assert (unsaid.credit, none.credit) == (Credit(messages=1), Credit())


@pytest.mark.parametrize("arm", ["text", "progress_json", "output_so_far"])
def test_a_report_is_read_with_its_number(arm: str) -> None:
    """An empty one is one too."""
    for said in ("half", ""):
        report = event_pb2.CallProgress(call_id="call_1", attempt=2, number=3, **{arm: said})

        assert frames.read_progress(report) == Progress(call_id="call_1", attempt=2, number=3, **{arm: said})


def test_what_a_worker_asks_for_is_read_in_seconds() -> None:
    """A longer lease, and a delay before a call that it gives back."""
    extend = handler_pb2.Extend(call_id="call_1", attempt=1)
    extend.lease.FromMilliseconds(1500)
    nack = handler_pb2.Nack(call_id="call_1", attempt=1, not_begun=True)
    nack.delay.FromMilliseconds(250)

    assert frames.read_extend(extend) == 1.5
    assert frames.read_nack(nack) == (0.25, True)
    assert frames.read_nack(handler_pb2.Nack()) == (0.0, False)


@pytest.mark.parametrize("outcome", CancelOutcome)
def test_a_cancel_ack_says_whether_the_code_was_entered(outcome: CancelOutcome) -> None:
    """A call that must not run twice hangs on it."""
    ack = json_format.ParseDict({"outcome": f"CANCEL_OUTCOME_{outcome.name}"}, handler_pb2.CancelAck())

    assert frames.read_cancel_outcome(ack) is outcome


def answer(**said: Any) -> HookReply:
    """Reads one answer."""
    given = handler_pb2.HookAnswer(hook_id="hook_1", attempt=2, **said)
    (reply,) = frames.read_hook_answers(handler_pb2.HookAnswers(batch_id="batch_1", answers=[given]))
    return reply


def test_an_answer_keeps_its_very_text() -> None:
    """What a filter says goes to the model as it came."""
    assert answer(answer_json='{ "n": 1.10 }') == HookReply(hook_id="hook_1", attempt=2, answer_json='{ "n": 1.10 }')


def test_a_failure_and_a_crash_are_told_apart() -> None:
    """One was said on purpose, the other has a type, even where its library does not say it."""
    assert answer(failure="no such list") == HookReply(hook_id="hook_1", attempt=2, failure="no such list")
    crash = handler_pb2.Crash(type="KeyError", text="Traceback …")
    assert answer(crash=crash) == HookReply(hook_id="hook_1", attempt=2, failure="Traceback …", crash_type="KeyError")
    assert answer(crash=handler_pb2.Crash()).crash_type


def test_of_long_words_the_beginning_is_kept_and_of_a_long_stack_the_end() -> None:
    """Both fit into the message of an error."""
    failed, crashed = answer(failure="why: " + "é" * 2000), answer(crash=handler_pb2.Crash(text="é" * 2000 + "the end"))

    assert failed.failure is not None
    assert crashed.failure is not None
    assert failed.failure.startswith("why: é")
    assert crashed.failure.endswith("é" + "the end")
    assert all(700 < len(words.encode()) <= 768 for words in (failed.failure, crashed.failure))


def test_answers_keep_their_order() -> None:
    """One value for each, so that what counted can be told one by one."""
    given = [handler_pb2.HookAnswer(hook_id=f"hook_{n}", attempt=1, answer_json="{}") for n in range(3)]

    replies = frames.read_hook_answers(handler_pb2.HookAnswers(answers=given))

    assert [reply.hook_id for reply in replies] == ["hook_0", "hook_1", "hook_2"]


def test_what_the_checks_refuse_is_not_read() -> None:
    """It would be our mistake, and no empty report or answer."""
    with pytest.raises(ValueError, match="call_1"):
        frames.read_progress(event_pb2.CallProgress(call_id="call_1"))
    with pytest.raises(ValueError, match="hook_1"):
        answer()
