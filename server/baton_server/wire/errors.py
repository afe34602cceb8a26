"""Failures on the wire: `baton.v1.Error` in frames and events, a gRPC status with typed details for an rpc.

A status has the same reason as text in `ErrorInfo`, and where it fits BadRequest, RetryInfo, ResourceInfo.
Details stay under 4 KiB and the message under 1 KiB, since they travel as HTTP/2 headers, which peers bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from baton.v1 import error_pb2
from baton_server.core.errors import BatonError, Failure, FieldViolation, Reason, Refused
from baton_server.core.responses import unicode
from baton_server.wire.names import REASONS
from baton_server.wire.texts import cut

DOMAIN = "baton.v1"
"""`ErrorInfo.domain` of every failure that this server tells of."""

DETAILS_KEY = "grpc-status-details-bin"
"""Trailer that carries `google.rpc.Status`."""

DETAILS_BYTES = 4096
MESSAGE_BYTES = 1024
METADATA_BYTES = 2048
"""Keys and values of a failure together (error.proto, `Error.metadata`)."""
VALUE_BYTES = 512
HEADERS_BYTES = 7168
"""Message and details as headers: peers of gRPC bound all of them at 8 KiB by default."""
CRASH_BYTES = 16_384
"""A handler's crash keeps so much of its text and stack (handler.proto, `Crash.text`)."""

RETRY_AFTER_S = 1
"""Seconds in RetryInfo: about what a restart takes; clients add their own jitter and growth."""

CODES: Mapping[Reason, grpc.StatusCode] = dict.fromkeys(Reason, grpc.StatusCode.INTERNAL) | {
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.REQUEST_ID_REUSED: grpc.StatusCode.ALREADY_EXISTS,
    Reason.MESSAGE_TOO_LARGE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.PAGE_TOKEN_INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.SESSION_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.TURN_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.CALL_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.AGENT_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.CONTENT_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.SESSION_KEY_TAKEN: grpc.StatusCode.ALREADY_EXISTS,
    Reason.SESSION_BUSY: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.AWAITING_DECISION: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.HISTORY_MIXED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.TURN_NOT_CONTINUABLE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.AGENT_MISSING: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.AGENT_GRAPH_INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.FUNCTION_UNDECLARED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.SEQUENCE_AHEAD: grpc.StatusCode.OUT_OF_RANGE,
    Reason.REVISION_CONFLICT: grpc.StatusCode.ABORTED,
    Reason.TURN_RUNNING: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.CALL_STATE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.RESULT_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.CALL_SETTLED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.ATTEMPT_STALE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.APPROVAL_STALE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.USER_ERROR: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.PROTOCOL_VERSION: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.HELLO_EXPECTED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.WORKER_SILENT: grpc.StatusCode.UNAVAILABLE,
    Reason.WORKER_REPLACED: grpc.StatusCode.ABORTED,
}
"""The code of each reason: the brackets of error.proto. One that never ends an rpc would be our fault."""

_RESOURCES: Mapping[Reason, tuple[str, str]] = {
    Reason.SESSION_NOT_FOUND: ("baton.v1.Session", "session_id"),
    Reason.TURN_NOT_FOUND: ("baton.v1.Turn", "turn_id"),
    Reason.CALL_NOT_FOUND: ("baton.v1.FunctionCall", "call_id"),
    Reason.AGENT_NOT_FOUND: ("baton.v1.Agent", "agent_id"),
    Reason.CONTENT_NOT_FOUND: ("baton.v1.Omitted", "sha256"),
}


def write_failure(failure: Failure) -> error_pb2.Error:
    """Write a failure for a frame, an event or a turn; what is above the bounds of error.proto is cut."""
    return error_pb2.Error(
        reason=REASONS.to_wire[failure.reason],
        message=cut(unicode(failure.message), CRASH_BYTES),
        metadata=_bounded(failure.metadata, METADATA_BYTES),
        retryable=failure.retryable,
    )


def read_failure(message: error_pb2.Error) -> Failure:
    """Read a failure; a reason of a later release reads as INTERNAL."""
    return Failure(
        reason=REASONS.to_core.get(message.reason, Reason.INTERNAL),
        message=message.message,
        metadata=dict(message.metadata),
    )


Status = tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]
"""Code, message and trailing metadata, as `context.abort` takes them."""


def to_status(error: BatonError) -> Status:
    """Make the status of a failed rpc. BadRequest names the fields that fit; the message has their count."""
    failure = error.failure
    violations = error.violations if isinstance(error, Refused) else ()
    code = CODES[failure.reason]
    text = cut(unicode(violations_message(violations) if violations else failure.message), MESSAGE_BYTES)
    status = status_pb2.Status(code=code.value[0], message=text)
    _add(status, _info(failure))
    if code is grpc.StatusCode.UNAVAILABLE:
        _add(status, error_details_pb2.RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_S)))
    if failure.reason in _RESOURCES:
        kind, key = _RESOURCES[failure.reason]
        name = cut(failure.metadata.get(key, ""), VALUE_BYTES)
        _add(status, error_details_pb2.ResourceInfo(resource_type=kind, resource_name=name))
    if violations:
        _add_violations(status, violations)
    return code, text, ((DETAILS_KEY, status.SerializeToString()),)


def violations_message(violations: Sequence[FieldViolation]) -> str:
    """Say how many fields are wrong, and what is wrong with each, as far as a message holds it."""
    count = "1 field is wrong" if len(violations) == 1 else f"{len(violations)} fields are wrong"
    # Each of these says something, so no more of them fit than the message has bytes.
    shown = violations[: MESSAGE_BYTES // 4]
    return cut(f"{count}: " + "; ".join(f"{v.path}: {v.problem[:MESSAGE_BYTES]}" for v in shown), MESSAGE_BYTES)


def _info(failure: Failure) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(
        reason=failure.reason.value, domain=DOMAIN, metadata=_bounded(failure.metadata, METADATA_BYTES // 2)
    )


def _add(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def _add_violations(status: status_pb2.Status, violations: tuple[FieldViolation, ...]) -> None:
    """Add as many violations as the details have room for; at least one, cut."""
    envelope = 64
    room = _details_bytes(status.message) - envelope - status.ByteSize()
    detail = error_details_pb2.BadRequest()
    for violation in violations:
        added = detail.field_violations.add(
            field=cut(violation.path, VALUE_BYTES), description=cut(violation.problem, VALUE_BYTES)
        )
        if detail.ByteSize() > room:
            detail.field_violations.remove(added)
            break
    _add(status, detail)


def _details_bytes(text: str) -> int:
    """Say how large details may be beside a message, whose characters beyond ASCII a header triples."""
    header = len(text) if text.isascii() else 3 * len(text.encode())
    # Binary headers travel in base64, 4 bytes for 3.
    return min(DETAILS_BYTES, (HEADERS_BYTES - header) * 3 // 4)


def _bounded(metadata: Mapping[str, str], limit: int) -> dict[str, str]:
    """Keep what fits: values are cut, and pairs beyond the limit are dropped."""
    kept: dict[str, str] = {}
    room = limit
    for key, value in metadata.items():
        value = cut(unicode(value), VALUE_BYTES)
        room -= len(key.encode()) + len(value.encode())
        if room < 0:
            break
        kept[key] = value
    return kept
