"""Frames to a worker, from plain values: the bytes of `baton.v1.ConnectResponse`.

They are those of `baton.v1.WatchCallsResponse` as well, whose arms have the same numbers and messages.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message

from baton.v1 import event_pb2, handler_pb2
from baton_server.core.errors import Failure
from baton_server.ports.frames import Ack, Ask, Deliver, Extended, HeldVerdict, Leave, Question, Stop
from baton_server.wire.errors import write_failure
from baton_server.wire.frames.results import RESULT_BYTES
from baton_server.wire.items import write_usage
from baton_server.wire.names import CANCEL_REASONS, HELD_VERDICTS, HOOK_KINDS, RESULT_VERDICTS
from baton_server.wire.times import write_duration, write_time

RECEIVED_BYTES = 16 * 1024 * 1024
"""Largest message that the server takes."""

PROTOCOL_VERSION = 1

EMPTY_PAYLOAD = "{}"
"""What a hook is asked beside a payload that its batch shares."""

Verdict = tuple[handler_pb2.HandlerSpec, Failure | None]
"""A handler as it was declared, and why it was refused; None: it was registered."""


def welcome_frame(
    *,
    worker_id: str,
    resume_token: str,
    server_version: str,
    lease_s: float,
    heartbeat_s: float,
    grace_s: float,
    handlers: Iterable[Verdict],
    attempts: Iterable[tuple[str, int, HeldVerdict]],
) -> bytes:
    """Answer Hello. `handlers` and `attempts` (call, attempt, verdict) in the order of Hello."""
    welcome = handler_pb2.Welcome(
        worker_id=worker_id,
        resume_token=resume_token,
        protocol_version=PROTOCOL_VERSION,
        server_version=server_version,
        lease=write_duration(lease_s),
        heartbeat_interval=write_duration(heartbeat_s),
        registration_grace=write_duration(grace_s),
        max_message_bytes=RECEIVED_BYTES,
        max_result_bytes=RESULT_BYTES,
        handlers=_verdicts(handlers),
        attempts=[
            handler_pb2.AttemptVerdict(call_id=call_id, attempt=attempt, verdict=HELD_VERDICTS.to_wire[verdict])
            for call_id, attempt, verdict in attempts
        ],
    )
    return _bytes(handler_pb2.ConnectResponse(welcome=welcome))


def registered_frame(handlers: Iterable[Verdict]) -> bytes:
    """Answer Register, in its order."""
    registered = handler_pb2.Registered(handlers=_verdicts(handlers))
    return _bytes(handler_pb2.ConnectResponse(registered=registered))


def call_frame(deliver: Deliver) -> bytes:
    """Hand a call to a worker, as attempt `deliver.call.attempt`."""
    row = deliver.call
    call = handler_pb2.Call(
        call_id=row.call_id,
        attempt=row.attempt,
        name=row.name,
        version=deliver.version,
        arguments_json=row.arguments,
        deadline=None if deliver.deadline is None else write_time(deliver.deadline),
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=row.agent,
        idempotency_key=row.key,
        may_have_run=row.may_have_run,
        scope=deliver.scope,
        usage=None if deliver.usage is None else write_usage(deliver.usage),
    )
    return _bytes(handler_pb2.ConnectResponse(call=call))


def ask_frame(ask: Ask) -> bytes:
    """Ask hooks. A payload that all of several have travels once."""
    payloads = {question.payload_json for question in ask.questions}
    shared = len(ask.questions) > 1 and len(payloads) == 1
    batch = handler_pb2.HookBatch(
        batch_id=ask.batch_id,
        session_id=ask.session_id,
        turn_id=ask.turn_id,
        agent=ask.agent,
        round=ask.round,
        hooks=[_hook(one, EMPTY_PAYLOAD if shared else one.payload_json) for one in ask.questions],
        shared_payload_json=payloads.pop() if shared else "",
        usage=write_usage(ask.usage),
    )
    return _bytes(handler_pb2.ConnectResponse(hook_batch=batch))


def _hook(question: Question, payload_json: str) -> handler_pb2.Hook:
    return handler_pb2.Hook(
        hook_id=question.hook_id,
        attempt=question.attempt,
        kind=HOOK_KINDS.to_wire[question.kind],
        name=question.name,
        payload_json=payload_json,
        deadline=None if question.deadline is None else write_time(question.deadline),
        notification=question.deadline is None,
    )


def result_ack_frame(ack: Ack) -> bytes:
    """Answer a result."""
    return _bytes(handler_pb2.ConnectResponse(result_ack=write_ack(ack)))


def write_ack(ack: Ack) -> handler_pb2.ResultAck:
    """Write what became of a result, or of a hook's answer."""
    return handler_pb2.ResultAck(
        call_id=ack.call_id,
        attempt=ack.attempt,
        verdict=RESULT_VERDICTS.to_wire[ack.verdict],
        error=None if ack.failure is None else write_failure(ack.failure),
    )


def extend_ack_frame(extended: Extended) -> bytes:
    """Say until when a lease lasts now, or why there is none."""
    failure = extended.failure
    ack = handler_pb2.ExtendAck(
        call_id=extended.call_id,
        attempt=extended.attempt,
        until=write_time(extended.until) if failure is None else None,
        error=None if failure is None else write_failure(failure),
    )
    return _bytes(handler_pb2.ConnectResponse(extend_ack=ack))


def cancel_frame(stop: Stop) -> bytes:
    """Stop a call or a hook."""
    return _bytes(handler_pb2.ConnectResponse(cancel=write_stop(stop)))


def write_stop(stop: Stop) -> handler_pb2.Cancel:
    """Write that an attempt is to stop."""
    return handler_pb2.Cancel(
        call_id=stop.call_id,
        attempt=stop.attempt,
        reason=CANCEL_REASONS.to_wire[stop.reason],
        grace=write_duration(stop.grace_s),
    )


def protocol_error_frame(frame_number: int, failure: Failure) -> bytes:
    """Say that a frame was not taken. `frame_number` counts the worker's frames from 1."""
    error = handler_pb2.ProtocolError(frame_number=frame_number, error=write_failure(failure))
    return _bytes(handler_pb2.ConnectResponse(protocol_error=error))


def drain_frame(leave: Leave) -> bytes:
    """Ask a worker to attach anew."""
    deadline = None if leave.deadline is None else write_time(leave.deadline)
    return _bytes(handler_pb2.ConnectResponse(drain=handler_pb2.Drain(reason=leave.reason, deadline=deadline)))


def heartbeat_frame(now: float) -> bytes:
    """Say that the server lives; `now` in seconds since the epoch."""
    beat = handler_pb2.WorkerHeartbeat(now=write_time(now))
    return _bytes(handler_pb2.ConnectResponse(heartbeat=beat))


def _verdicts(handlers: Iterable[Verdict]) -> list[handler_pb2.HandlerVerdict]:
    return [
        handler_pb2.HandlerVerdict(
            kind=spec.kind or event_pb2.HANDLER_KIND_FUNCTION,
            name=spec.name,
            version=spec.version,
            error=None if failure is None else write_failure(failure),
        )
        for spec, failure in handlers
    ]


def _bytes(frame: Message) -> bytes:
    return frame.SerializeToString()
