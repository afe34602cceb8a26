"""From the contract's errors to exceptions: by reason first, then by code."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from baton.errors import (
    AgentsException,
    BatonConnectionError,
    BatonError,
    BatonInternalError,
    BatonProtocolError,
    CallLostError,
    ContextLengthExceededError,
    ConversationLockedError,
    HandlerCrashedError,
    HandlerRefusedError,
    HookError,
    InputGuardrailTripwireTriggered,
    InvalidRequestError,
    MaxTurnsExceeded,
    ModelAuthenticationError,
    ModelBehaviorError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitedError,
    ModelRefusalError,
    ModelRequestInvalidError,
    ModelTimeoutError,
    ModelUnavailableError,
    NotFoundError,
    OutputGuardrailTripwireTriggered,
    RequestIdReusedError,
    SessionBusyError,
    SessionKeyTakenError,
    StateError,
    TooLargeError,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    ToolTimeoutError,
    UserError,
    Violation,
)
from baton.v1 import error_pb2

DOMAIN = "baton.v1"
"""ErrorInfo.domain of reasons that a Baton server gave."""

CLASSES: Mapping[str, type[AgentsException]] = {
    "INTERNAL": BatonInternalError,
    "UNAVAILABLE": BatonConnectionError,
    "INVALID_REQUEST": InvalidRequestError,
    "REQUEST_ID_REUSED": RequestIdReusedError,
    "MESSAGE_TOO_LARGE": TooLargeError,
    "PAGE_TOKEN_INVALID": InvalidRequestError,
    "SESSION_NOT_FOUND": NotFoundError,
    "TURN_NOT_FOUND": NotFoundError,
    "CALL_NOT_FOUND": NotFoundError,
    "AGENT_NOT_FOUND": NotFoundError,
    "CONTENT_NOT_FOUND": NotFoundError,
    "SESSION_KEY_TAKEN": SessionKeyTakenError,
    "SESSION_BUSY": SessionBusyError,
    "AWAITING_DECISION": StateError,
    "HISTORY_MIXED": UserError,
    "TURN_NOT_CONTINUABLE": StateError,
    "AGENT_MISSING": StateError,
    "AGENT_GRAPH_INVALID": UserError,
    "FUNCTION_UNDECLARED": StateError,
    "SEQUENCE_AHEAD": StateError,
    "REVISION_CONFLICT": StateError,
    "TURN_RUNNING": StateError,
    "RESULT_TOO_LARGE": TooLargeError,
    "CALL_SETTLED": CallLostError,
    "ATTEMPT_STALE": CallLostError,
    "CALL_EXPIRED": CallLostError,
    "WORKER_LOST": CallLostError,
    "APPROVAL_STALE": StateError,
    "APPROVAL_EXPIRED": StateError,
    "DECISION_CONFLICT": StateError,
    "CALL_STATE": StateError,
    "HANDLER_CRASHED": HandlerCrashedError,
    "PROTOCOL_VERSION": BatonProtocolError,
    "HELLO_EXPECTED": BatonProtocolError,
    "FRAME_UNKNOWN": BatonProtocolError,
    "FRAME_INVALID": BatonProtocolError,
    "CHUNK_INVALID": BatonProtocolError,
    "HANDLER_CONFLICT": HandlerRefusedError,
    "HANDLER_INVALID": HandlerRefusedError,
    "WORKER_SILENT": BatonConnectionError,
    "WORKER_REPLACED": StateError,
    "HOOK_UNSERVED": HookError,
    "HOOK_TIMEOUT": HookError,
    "HOOK_RAISED": HookError,
    "HOOK_ANSWER_INVALID": UserError,
    "MAX_TURNS_EXCEEDED": MaxTurnsExceeded,
    "MODEL_BEHAVIOR_ERROR": ModelBehaviorError,
    "MODEL_REFUSAL": ModelRefusalError,
    "MODEL_TIMEOUT": ModelTimeoutError,
    "USER_ERROR": UserError,
    "INPUT_GUARDRAIL_TRIPPED": InputGuardrailTripwireTriggered,
    "OUTPUT_GUARDRAIL_TRIPPED": OutputGuardrailTripwireTriggered,
    "TOOL_INPUT_GUARDRAIL_TRIPPED": ToolInputGuardrailTripwireTriggered,
    "TOOL_OUTPUT_GUARDRAIL_TRIPPED": ToolOutputGuardrailTripwireTriggered,
    "TOOL_TIMEOUT": ToolTimeoutError,
    "TOOL_FAILED": UserError,
    "MODEL_NOT_FOUND": ModelNotFoundError,
    "MODEL_AUTHENTICATION": ModelAuthenticationError,
    "MODEL_RATE_LIMITED": ModelRateLimitedError,
    "MODEL_QUOTA_EXCEEDED": ModelQuotaExceededError,
    "MODEL_UNAVAILABLE": ModelUnavailableError,
    "MODEL_REQUEST_INVALID": ModelRequestInvalidError,
    "CONTEXT_LENGTH_EXCEEDED": ContextLengthExceededError,
    "CONVERSATION_LOCKED": ConversationLockedError,
    "MODEL_RESPONSE_FAILED": ModelBehaviorError,
}
"""The class of each reason of error.proto."""

CODES: Mapping[grpc.StatusCode, type[AgentsException]] = {
    grpc.StatusCode.UNAVAILABLE: BatonConnectionError,
    grpc.StatusCode.CANCELLED: BatonConnectionError,
    grpc.StatusCode.INTERNAL: BatonConnectionError,
    grpc.StatusCode.UNKNOWN: BatonConnectionError,
    grpc.StatusCode.DEADLINE_EXCEEDED: BatonConnectionError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooLargeError,
    grpc.StatusCode.UNIMPLEMENTED: BatonProtocolError,
}
"""The class of a failed rpc that carries no reason of ours: gRPC itself, a proxy, or another server spoke."""


def error_from_pb(error: error_pb2.Error) -> AgentsException:
    """Make the exception of an error that came as data, in a turn or a frame."""
    try:
        reason = error_pb2.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")
    except ValueError:
        reason = str(error.reason)  # of a later version
    kind = CLASSES.get(reason, BatonError)
    return kind(error.message, reason=reason, metadata=error.metadata, retryable=error.retryable)


def error_from_rpc(failed: grpc.aio.AioRpcError, doing: str = "") -> AgentsException:
    """Make the exception of a failed rpc from its details, or from its code where it has none of ours.

    `doing` begins the message of an error that gRPC found out by itself, whose own text does not say.
    """
    info, violations, retry = details_of(failed)
    text = failed.details() or failed.code().name
    if info is None:
        kind = CODES.get(failed.code(), BatonError)
        return kind(f"{doing}: {text}" if doing else text)
    known = CLASSES.get(info.reason)
    made = (known or BatonError)(
        text,
        reason=info.reason,
        metadata=info.metadata,
        retryable=None if known else retry or failed.code() is grpc.StatusCode.UNAVAILABLE,
    )
    if isinstance(made, InvalidRequestError):
        made.violations = violations
    return made


def why_broken(failed: grpc.aio.AioRpcError) -> str:
    """Say why a call broke; of a failed connect the last error alone, without gRPC's list of addresses."""
    details = failed.details() or ""
    if details.startswith("failed to connect"):
        details = details.rpartition(": ")[2]
    return f"{failed.code().name}: {details}"


def details_of(
    failed: grpc.aio.AioRpcError,
) -> tuple[error_details_pb2.ErrorInfo | None, tuple[Violation, ...], bool]:
    """Read a failed rpc's trailers: our reason (None: it carries none), wrong fields, whether to try again."""
    try:
        status = rpc_status.from_call(failed)  # type: ignore[arg-type]  # reads the three methods that it has
    except ValueError:
        return None, (), False  # the trailers are another status's: gRPC replaced it on the way
    info: error_details_pb2.ErrorInfo | None = None
    violations: list[Violation] = []
    retry = False
    for detail in status.details if status is not None else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            found = error_details_pb2.ErrorInfo()
            detail.Unpack(found)
            info = found if found.domain == DOMAIN else info
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations += [Violation(field=one.field, description=one.description) for one in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = True
    return info, tuple(violations), retry
