"""Workers and calls as HandlerService tells of them."""

from baton.v1 import event_pb2, handler_pb2, item_pb2
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.items import Settlement
from baton_server.ports.frames import (
    Ack,
    CancelReason,
    Credit,
    Extended,
    Handler,
    Held,
    ResultVerdict,
    SideEffects,
    Stop,
)
from baton_server.ports.store import CallRow
from baton_server.ports.workers import Cause, CauseKind, Explanation, WorkerState, WorkerView
from baton_server.wire import workers
from baton_server.wire.frames import read_handler
from baton_server.wire.views import write_required_action

AT = 1_796_000_000.5

WEATHER = Handler(
    name="get_weather",
    version="2",
    description="the weather",
    parameters_json='{"type":"object"}',
    timeout_s=1.5,
    side_effects=SideEffects.ONCE,
    idempotency_fields=("/order/id",),
    max_concurrency=3,
)


def test_a_worker_is_told_with_all_that_is_known_of_it() -> None:
    """Who it is, where it stands, what it holds and how much more it takes."""
    view = WorkerView(
        worker_id="worker_1",
        instance_id="pod-7",
        state=WorkerState.LOST,
        attached_at=AT,
        last_heard_at=AT + 10,
        sdk=("baton-python", "0.0.1", "python 3.13"),
        scopes=("svc-7", ""),
        handlers=(WEATHER, Handler(name="no_pii", kind=HookKind.INPUT_GUARDRAIL)),
        credit=Credit(messages=2, bytes=-5),
        held=(Held(call_id="call_1", attempt=2, begun=True),),
        half_duplex=True,
        metadata={"k": "v"},
    )

    told = workers.write_worker(view)

    assert (told.worker_id, told.instance_id, told.scopes) == ("worker_1", "pod-7", ["svc-7", ""])
    assert (told.sdk.name, told.sdk.version, told.sdk.language) == view.sdk
    assert (told.state, told.half_duplex) == (handler_pb2.WORKER_STATE_LOST, True)
    assert (told.credit_messages, told.credit_bytes) == (2, -5)
    assert [(h.call_id, h.attempt, h.begun, h.finished) for h in told.held] == [("call_1", 2, True, False)]
    assert (told.attached_at.seconds, told.last_heard_at.seconds) == (1_796_000_000, 1_796_000_010)
    assert told.metadata == {"k": "v"}
    assert [(h.kind, h.name) for h in told.handlers] == [
        (event_pb2.HANDLER_KIND_FUNCTION, "get_weather"),
        (event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, "no_pii"),
    ]


def test_a_handler_is_told_without_its_schema() -> None:
    """Schemas of hundreds of handlers are megabytes; all else is as it was declared."""
    told = workers.write_handler(WEATHER)

    assert told.parameters_json == ""
    told.parameters_json = WEATHER.parameters_json
    assert read_handler(told) == WEATHER
    assert not workers.write_handler(Handler(name="f")).HasField("execution")


def test_a_call_that_does_not_run_is_told_with_its_causes() -> None:
    """In their order, with the worker and the time where there is one."""
    call = CallRow(
        call_id="call_1", session_id="sess_1", turn_id="turn_1", name="f", agent="A", arguments="{}", scopes=()
    )
    causes = (
        Cause(kind=CauseKind.NO_CREDIT, text="busy", worker_id="worker_1"),
        Cause(kind=CauseKind.DELAYED, text="later", until=AT),
    )

    action = write_required_action(call, "QUEUED")
    told = workers.write_explanation(Explanation(call=call, causes=causes), action)

    assert told.required_action == action
    assert told.settlement == item_pb2.SETTLEMENT_UNSPECIFIED
    assert [(c.kind, c.text, c.worker_id, c.HasField("until")) for c in told.causes] == [
        (handler_pb2.CAUSE_KIND_NO_CREDIT, "busy", "worker_1", False),
        (handler_pb2.CAUSE_KIND_DELAYED, "later", "", True),
    ]


def test_a_call_that_was_settled_is_told_with_what_settled_it() -> None:
    """And has nothing open."""
    told = workers.write_explanation(Explanation(settlement=Settlement.TIMEOUT), None)

    assert told.settlement == item_pb2.SETTLEMENT_TIMEOUT
    assert not told.HasField("required_action")
    assert not told.causes


def test_who_has_no_stream_is_answered_by_acks_and_extensions() -> None:
    """One ack for each thing settled; an extension with what somebody wants to stop."""
    stale = Failure(reason=Reason.ATTEMPT_STALE, message="replaced")
    acks = [
        Ack(call_id="call_1", attempt=1, verdict=ResultVerdict.DURABLE),
        Ack(call_id="hook_1", attempt=2, verdict=ResultVerdict.DISCARDED, failure=stale),
    ]
    extended = Extended(call_id="call_1", attempt=1, until=AT)

    settled = workers.write_settled(acks)
    quiet = workers.write_extended(extended, None)
    stopped = workers.write_extended(extended, Stop(call_id="call_1", attempt=1, reason=CancelReason.TURN_ENDED))

    assert [(ack.call_id, ack.attempt, ack.HasField("error")) for ack in settled.acks] == [
        ("call_1", 1, False),
        ("hook_1", 2, True),
    ]
    assert (quiet.until.seconds, quiet.HasField("cancel")) == (1_796_000_000, False)
    assert stopped.cancel.reason == handler_pb2.CANCEL_REASON_TURN_ENDED
