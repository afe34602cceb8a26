"""Frames to a worker: each says what it is given, on Connect and on WatchCalls alike."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.items import Usage
from baton_server.ports.frames import (
    Ack,
    Ask,
    CancelReason,
    Deliver,
    Extended,
    HeldVerdict,
    Leave,
    Question,
    ResultVerdict,
    Stop,
)
from baton_server.ports.store import CallRow
from baton_server.wire import frames

AT = 1_796_000_000.5
STALE = Failure(reason=Reason.ATTEMPT_STALE, message="replaced")

CALL = CallRow(
    call_id="call_1", session_id="sess_1", turn_id="turn_1", name="f", agent="A",
    arguments='{ "n": 9007199254740993.0 }', scopes=("svc-7",), attempt=2, may_have_run=True,
)  # fmt: skip
DELIVER = Deliver(call=CALL, scope="svc-7", version="2", deadline=AT)

QUESTION = Question(
    hook_id="hook_1", attempt=1, kind=HookKind.INPUT_GUARDRAIL, name="no_pii", payload_json='{"input":[]}', deadline=AT
)
ASK = Ask(
    batch_id="batch_1", session_id="sess_1", turn_id="turn_1", agent="A", round=3, questions=(QUESTION,)
)  # fmt: skip

Write = Callable[[], bytes]


def welcome() -> bytes:
    """Welcomes a worker with two handlers and two attempts."""
    conflict = Failure(reason=Reason.HANDLER_CONFLICT, message="other parameters", metadata={"name": "g"})
    guardrail = handler_pb2.HandlerSpec(kind=event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, name="g")
    return frames.welcome_frame(
        worker_id="worker_1",
        resume_token="secret",
        server_version="0.0.1",
        lease_s=30,
        heartbeat_s=10,
        grace_s=0.5,
        handlers=[(handler_pb2.HandlerSpec(name="f", version="2"), None), (guardrail, conflict)],
        attempts=[("call_1", 1, HeldVerdict.CONTINUE), ("call_2", 3, HeldVerdict.ALREADY_SETTLED)],
    )


def test_a_worker_is_welcomed_with_what_it_must_know() -> None:
    """Its token, clocks, limits, and a verdict for each handler and each held attempt, in order."""
    told = read(welcome()).welcome

    assert (told.worker_id, told.resume_token) == ("worker_1", "secret")
    assert (told.protocol_version, told.server_version) == (1, "0.0.1")
    assert (told.lease.seconds, told.heartbeat_interval.seconds) == (30, 10)
    assert told.registration_grace.nanos == 500_000_000
    assert (told.max_message_bytes, told.max_result_bytes) == (16_777_216, 4_194_304)
    assert [(h.kind, h.name, h.version, h.HasField("error")) for h in told.handlers] == [
        (event_pb2.HANDLER_KIND_FUNCTION, "f", "2", False),
        (event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, "g", "", True),
    ]
    assert told.handlers[1].error.reason == error_pb2.ERROR_REASON_HANDLER_CONFLICT
    assert [(a.call_id, a.attempt, a.verdict) for a in told.attempts] == [
        ("call_1", 1, handler_pb2.HELD_VERDICT_CONTINUE),
        ("call_2", 3, handler_pb2.HELD_VERDICT_ALREADY_SETTLED),
    ]


def test_a_call_carries_the_models_arguments_byte_for_byte() -> None:
    """Big integers and spacing arrive as the model wrote them, beside who chose the handler and until when."""
    call = read(frames.call_frame(DELIVER)).call

    assert call.arguments_json == CALL.arguments
    assert (call.call_id, call.attempt, call.name, call.agent) == ("call_1", 2, "f", "A")
    assert (call.session_id, call.turn_id, call.scope, call.version) == ("sess_1", "turn_1", "svc-7", "2")
    assert (call.idempotency_key, call.may_have_run) == ("call_1", True)
    assert (call.deadline.seconds, call.deadline.nanos) == (1_796_000_000, 500_000_000)


def test_a_call_has_the_key_of_its_fields_and_no_deadline_unless_it_has_one() -> None:
    """A handler that looks for the key in the outside world finds what an equal call did."""
    keyed = Deliver(call=replace(CALL, idempotency_key="idem_1"), scope="")

    call = read(frames.call_frame(keyed)).call

    assert call.idempotency_key == "idem_1"
    assert not call.HasField("deadline")


def test_calls_and_hooks_come_with_what_their_turn_has_used() -> None:
    """A call without it where that is not known."""
    used = {"requests": 2, "input_tokens": 14, "cached_input_tokens": 1, "output_tokens": 6, "total_tokens": 20}

    call = read(frames.call_frame(replace(DELIVER, usage=Usage(**used)))).call
    batch = read(frames.ask_frame(replace(ASK, usage=Usage(**used)))).hook_batch

    assert call.usage == batch.usage == item_pb2.Usage(**used)
    assert not read(frames.call_frame(DELIVER)).call.HasField("usage")


def test_a_hook_is_asked_with_its_moment() -> None:
    """Whose moment it is, and until when an answer is of use."""
    batch = read(frames.ask_frame(ASK)).hook_batch

    assert (batch.batch_id, batch.session_id, batch.turn_id) == ("batch_1", "sess_1", "turn_1")
    assert (batch.agent, batch.round, batch.shared_payload_json) == ("A", 3, "")
    (hook,) = batch.hooks
    assert (hook.hook_id, hook.attempt, hook.name) == ("hook_1", 1, "no_pii")
    assert (hook.kind, hook.payload_json) == (event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, '{"input":[]}')
    assert (hook.deadline.seconds, hook.notification) == (1_796_000_000, False)


@pytest.mark.parametrize("kind", HookKind)
def test_a_hook_of_any_kind_is_asked_by_its_name(kind: HookKind) -> None:
    """A worker finds its program by kind and name, as it declared them."""
    (hook,) = read(frames.ask_frame(replace(ASK, questions=(replace(QUESTION, kind=kind),)))).hook_batch.hooks

    assert event_pb2.HandlerKind.Name(hook.kind) == f"HANDLER_KIND_{kind.name}"


def test_a_notification_has_no_deadline() -> None:
    """No answer is owed, and the worker is told so."""
    told = replace(QUESTION, kind=HookKind.LIFECYCLE, deadline=None)

    (hook,) = read(frames.ask_frame(replace(ASK, questions=(told,)))).hook_batch.hooks

    assert hook.notification
    assert not hook.HasField("deadline")


def test_a_payload_that_all_hooks_share_travels_once() -> None:
    """Ten guardrails that judge a long history do not send it ten times."""
    history = '{"input":["' + "x" * 100_000 + '"]}'
    several = tuple(replace(QUESTION, hook_id=f"hook_{n}", payload_json=history) for n in range(10))

    frame = frames.ask_frame(replace(ASK, questions=several))

    batch = read(frame).hook_batch
    assert batch.shared_payload_json == history
    assert {hook.payload_json for hook in batch.hooks} == {"{}"}
    assert len(frame) < 110_000


def test_payloads_that_differ_travel_with_their_hooks() -> None:
    """Nothing is merged that was not the same."""
    several = tuple(replace(QUESTION, hook_id=f"hook_{n}", payload_json=f'{{"n":{n}}}') for n in range(2))

    batch = read(frames.ask_frame(replace(ASK, questions=several))).hook_batch

    assert batch.shared_payload_json == ""
    assert [hook.payload_json for hook in batch.hooks] == ['{"n":0}', '{"n":1}']


def test_a_result_is_acked_by_its_verdict() -> None:
    """DURABLE without an error, the others with one."""
    ack = Ack(call_id="call_1", attempt=1, verdict=ResultVerdict.DURABLE)

    durable = read(frames.result_ack_frame(ack)).result_ack
    discarded = read(frames.result_ack_frame(replace(ack, verdict=ResultVerdict.DISCARDED, failure=STALE))).result_ack

    assert durable.verdict == handler_pb2.RESULT_VERDICT_DURABLE
    assert not durable.HasField("error")
    assert discarded.verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    assert discarded.error.reason == error_pb2.ERROR_REASON_ATTEMPT_STALE


def test_an_extension_says_until_when_or_why_not() -> None:
    """A worker without a lease must not believe that it has one."""
    until = read(frames.extend_ack_frame(Extended(call_id="call_1", attempt=2, until=AT))).extend_ack
    none = read(frames.extend_ack_frame(Extended(call_id="call_1", attempt=1, until=0, failure=STALE))).extend_ack

    assert (until.call_id, until.attempt, until.until.seconds) == ("call_1", 2, 1_796_000_000)
    assert not until.HasField("error")
    assert none.error.reason == error_pb2.ERROR_REASON_ATTEMPT_STALE
    assert not none.HasField("until")


@pytest.mark.parametrize("reason", CancelReason)
def test_a_cancel_says_why_and_how_long(reason: CancelReason) -> None:
    """A handler cleans up differently after a timeout than after a lost lease."""
    stop = read(frames.cancel_frame(Stop(call_id="call_1", attempt=2, reason=reason, grace_s=1.5))).cancel

    assert (stop.call_id, stop.attempt) == ("call_1", 2)
    assert handler_pb2.CancelReason.Name(stop.reason) == f"CANCEL_REASON_{reason.name}"
    assert (stop.grace.seconds, stop.grace.nanos) == (1, 500_000_000)


def test_the_other_frames_say_what_they_are_given() -> None:
    """Registered, ProtocolError, Drain and the heartbeat."""
    wrong = Failure(reason=Reason.FRAME_INVALID, message="no", metadata={"field": "nack.delay"})

    registered = read(frames.registered_frame([(handler_pb2.HandlerSpec(name="f"), None)])).registered
    assert registered.handlers[0].name == "f"
    error = read(frames.protocol_error_frame(17, wrong)).protocol_error
    assert (error.frame_number, error.error.metadata["field"]) == (17, "nack.delay")
    drain = read(frames.drain_frame(Leave(reason="restart", deadline=AT))).drain
    assert (drain.reason, drain.deadline.seconds) == ("restart", 1_796_000_000)
    assert not read(frames.drain_frame(Leave(reason="restart"))).drain.HasField("deadline")
    assert read(frames.heartbeat_frame(AT)).heartbeat.now.nanos == 500_000_000


@pytest.mark.parametrize(
    "write",
    [
        welcome,
        lambda: frames.call_frame(DELIVER),
        lambda: frames.ask_frame(ASK),
        lambda: frames.cancel_frame(Stop(call_id="call_1", attempt=2, reason=CancelReason.NOT_NEEDED)),
        lambda: frames.heartbeat_frame(AT),
        lambda: frames.drain_frame(Leave(reason="restart", deadline=AT)),
    ],
    ids=["welcome", "call", "hook_batch", "cancel", "heartbeat", "drain"],
)
def test_a_frame_is_the_same_for_a_half_duplex_worker(write: Write) -> None:
    """WatchCalls sends the very bytes that Connect does."""
    frame = write()

    watched = handler_pb2.WatchCallsResponse.FromString(frame)

    arm = watched.WhichOneof("frame")
    assert arm is not None
    assert arm == read(frame).WhichOneof("frame")
    assert getattr(watched, arm) == getattr(read(frame), arm)


def test_arms_of_the_twin_are_those_of_the_stream() -> None:
    """Neither number nor message of a shared arm differs, or one writer would not do."""
    stream = handler_pb2.ConnectResponse.DESCRIPTOR.fields_by_name
    twin = handler_pb2.WatchCallsResponse.DESCRIPTOR.fields_by_name

    assert twin.keys() <= stream.keys()
    for name, field in twin.items():
        assert (field.number, field.message_type) == (stream[name].number, stream[name].message_type)


def read(frame: bytes) -> handler_pb2.ConnectResponse:
    """Reads a frame as a worker does."""
    return handler_pb2.ConnectResponse.FromString(frame)
