"""Worker frames: results as the core's inputs, and the frames that a worker is sent, from plain values.

Frames of a worker pass `check.frames` before they are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from google.protobuf.message import Message

from baton.v1 import handler_pb2, item_pb2, session_pb2
from baton_server.core.errors import Failure, Reason
from baton_server.core.inputs import CallSettled
from baton_server.core.items import ContentPart, Settlement, TextPart
from baton_server.core.texts import FUNCTION_FAILED
from baton_server.ports.store import CallRow
from baton_server.wire.errors import CRASH_BYTES, write_failure
from baton_server.wire.items import read_parts
from baton_server.wire.texts import cut_front, utf8_size
from baton_server.wire.times import write_duration, write_time

RESULT_BYTES = 4_194_304
"""Largest payload of a result (PROTOCOL.md §5)."""

RECEIVED_BYTES = 16 * 1024 * 1024
"""Largest message that the server takes."""

PROTOCOL_VERSION = 1

Outcome = handler_pb2.Result | session_pb2.ToolResult


# -- what comes from a worker --------------------------------------------------------------------

_SETTLEMENTS: Mapping[str, Settlement] = {
    "output": Settlement.OUTPUT,
    "output_json": Settlement.OUTPUT,
    "output_parts": Settlement.OUTPUT,
    "failure": Settlement.FAILURE,
    "crash": Settlement.CRASH,
}


def read_result(result: handler_pb2.Result, worker_id: str = "") -> CallSettled:
    """Read what came of a call. Raises ValueError if it has no outcome, which `check` refuses."""
    arm = result.WhichOneof("outcome")
    if arm is None:
        raise ValueError(f"the result of {result.call_id!r} has no outcome")
    return CallSettled(
        call_id=result.call_id,
        settlement=_SETTLEMENTS[arm],
        output=read_outcome(result),
        attempt=result.attempt,
        worker_id=worker_id,
        error=_read_crash(result.crash) if arm == "crash" else None,
        digest=outcome_digest(result),
    )


def read_outcome(result: Outcome) -> tuple[ContentPart, ...]:
    """Read what the model is told. JSON is one text part; of a crash it is our default sentence."""
    match result.WhichOneof("outcome"):
        case "output_parts":
            return read_parts(result.output_parts.parts)
        case "crash" | None:
            return (TextPart(text=FUNCTION_FAILED),)
        case arm:
            return (TextPart(text=getattr(result, arm)),)


def outcome_digest(result: Outcome) -> str:
    """Digest a result's outcome, to recognise it when it comes again: of its bytes without the rest."""
    alone = type(result)()
    arm = result.WhichOneof("outcome")
    if arm in ("output_parts", "crash"):
        getattr(alone, arm).CopyFrom(getattr(result, arm))
    elif arm is not None:
        setattr(alone, arm, getattr(result, arm))
    return sha256(alone.SerializeToString(deterministic=True)).hexdigest()


def payload_bytes(result: Outcome) -> int:
    """Measure a result as its limit does: a text in UTF-8, or the sum of the parts' texts and URLs."""
    match result.WhichOneof("outcome"):
        case "output_parts":
            return sum(_part_bytes(part) for part in result.output_parts.parts)
        case "crash" | None:
            return 0
        case arm:
            return utf8_size(getattr(result, arm))


def _part_bytes(part: item_pb2.ContentPart) -> int:
    match part.WhichOneof("part"):
        case "image":
            return utf8_size(part.image.url)
        case "file":
            return utf8_size(part.file.url)
        case "text" | "refusal" | "other_json" as arm:
            return utf8_size(getattr(part, arm))
        case _:
            return 0


def _read_crash(crash: handler_pb2.Crash) -> Failure:
    """Record a crash: its type, its text and stack."""
    text = cut_front(crash.text, CRASH_BYTES)
    return Failure(
        reason=Reason.HANDLER_CRASHED,
        message=text or f"The handler raised {crash.type or 'an exception'}.",
        metadata={"type": crash.type},
    )


# -- what goes to a worker -----------------------------------------------------------------------


def welcome_frame(
    *,
    worker_id: str,
    server_version: str,
    lease_s: float,
    heartbeat_s: float,
    grace_s: float,
    handlers: Iterable[tuple[str, Failure | None]],
    attempts: Iterable[tuple[str, int, str]],
) -> bytes:
    """Answer Hello.

    `handlers`: (name, why it was refused or None), in order. `attempts`: (call_id, attempt, name of a
    `HeldVerdict`), in order.
    """
    welcome = handler_pb2.Welcome(
        worker_id=worker_id,
        protocol_version=PROTOCOL_VERSION,
        server_version=server_version,
        lease=write_duration(lease_s),
        heartbeat_interval=write_duration(heartbeat_s),
        registration_grace=write_duration(grace_s),
        max_message_bytes=RECEIVED_BYTES,
        max_result_bytes=RESULT_BYTES,
        handlers=_verdicts(handlers),
        attempts=[
            handler_pb2.AttemptVerdict(
                call_id=call_id,
                attempt=attempt,
                verdict=handler_pb2.HeldVerdict.Value(f"HELD_VERDICT_{verdict}"),
            )
            for call_id, attempt, verdict in attempts
        ],
    )
    return _bytes(handler_pb2.ConnectResponse(welcome=welcome))


def registered_frame(handlers: Iterable[tuple[str, Failure | None]]) -> bytes:
    """Answer Register; `handlers` as in `welcome_frame`."""
    registered = handler_pb2.Registered(handlers=_verdicts(handlers))
    return _bytes(handler_pb2.ConnectResponse(registered=registered))


def call_frame(row: CallRow, scope: str) -> bytes:
    """Hand a call to a worker, as attempt `row.attempt`. The call's id is its idempotency key."""
    call = handler_pb2.Call(
        call_id=row.call_id,
        attempt=row.attempt,
        name=row.name,
        arguments_json=row.arguments,
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=row.agent,
        idempotency_key=row.call_id,
        may_have_run=row.may_have_run,
        scope=scope,
    )
    return _bytes(handler_pb2.ConnectResponse(call=call))


def result_ack_frame(call_id: str, attempt: int, verdict: str, failure: Failure | None = None) -> bytes:
    """Answer a result. `verdict`: a name of `baton.v1.ResultVerdict`; `failure` None: DURABLE."""
    ack = handler_pb2.ResultAck(
        call_id=call_id,
        attempt=attempt,
        verdict=handler_pb2.ResultVerdict.Value(f"RESULT_VERDICT_{verdict}"),
        error=None if failure is None else write_failure(failure),
    )
    return _bytes(handler_pb2.ConnectResponse(result_ack=ack))


def cancel_frame(call_id: str, attempt: int, reason: str, grace_s: float) -> bytes:
    """Stop a call. `reason`: a name of `baton.v1.CancelReason`; `grace_s` 0: its result is of no use."""
    cancel = handler_pb2.Cancel(
        call_id=call_id,
        attempt=attempt,
        reason=handler_pb2.CancelReason.Value(f"CANCEL_REASON_{reason}"),
        grace=write_duration(grace_s),
    )
    return _bytes(handler_pb2.ConnectResponse(cancel=cancel))


def protocol_error_frame(frame_number: int, failure: Failure) -> bytes:
    """Say that a frame was not taken. `frame_number` counts the worker's frames from 1."""
    error = handler_pb2.ProtocolError(frame_number=frame_number, error=write_failure(failure))
    return _bytes(handler_pb2.ConnectResponse(protocol_error=error))


def drain_frame(reason: str, deadline: float | None = None) -> bytes:
    """Send a worker elsewhere. `deadline` in seconds since the epoch; None: when nothing is held."""
    drain = handler_pb2.Drain(reason=reason)
    if deadline is not None:
        drain.deadline.CopyFrom(write_time(deadline))
    return _bytes(handler_pb2.ConnectResponse(drain=drain))


def heartbeat_frame(now: float) -> bytes:
    """Say that the server lives; `now` in seconds since the epoch."""
    beat = handler_pb2.WorkerHeartbeat(now=write_time(now))
    return _bytes(handler_pb2.ConnectResponse(heartbeat=beat))


def _verdicts(handlers: Iterable[tuple[str, Failure | None]]) -> list[handler_pb2.HandlerVerdict]:
    return [
        handler_pb2.HandlerVerdict(name=name, error=None if failure is None else write_failure(failure))
        for name, failure in handlers
    ]


def _bytes(frame: Message) -> bytes:
    return frame.SerializeToString()
