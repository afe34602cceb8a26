"""What can go wrong, as data.

A failed turn, a refused result and a failed rpc carry the same `Failure`; its `Reason` is what programs
branch on. Values are those of `ErrorReason` in error.proto without the prefix, and a test holds the two
sets equal. Each comment there says whose fault it is and gives an example of the metadata.

    BatonError              a use case refuses; the api turns it into a status
    └── Refused             ... because of what the caller asked, nothing was changed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why something failed. The names of `baton.v1.ErrorReason`."""

    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"
    INVALID_REQUEST = "INVALID_REQUEST"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    PAGE_TOKEN_INVALID = "PAGE_TOKEN_INVALID"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    TURN_NOT_FOUND = "TURN_NOT_FOUND"
    CALL_NOT_FOUND = "CALL_NOT_FOUND"
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND"
    CONTENT_NOT_FOUND = "CONTENT_NOT_FOUND"
    SESSION_KEY_TAKEN = "SESSION_KEY_TAKEN"
    SESSION_BUSY = "SESSION_BUSY"
    AWAITING_DECISION = "AWAITING_DECISION"
    HISTORY_MIXED = "HISTORY_MIXED"
    TURN_NOT_CONTINUABLE = "TURN_NOT_CONTINUABLE"
    AGENT_MISSING = "AGENT_MISSING"
    AGENT_GRAPH_INVALID = "AGENT_GRAPH_INVALID"
    FUNCTION_UNDECLARED = "FUNCTION_UNDECLARED"
    SEQUENCE_AHEAD = "SEQUENCE_AHEAD"
    REVISION_CONFLICT = "REVISION_CONFLICT"
    TURN_RUNNING = "TURN_RUNNING"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"
    CALL_SETTLED = "CALL_SETTLED"
    ATTEMPT_STALE = "ATTEMPT_STALE"
    CALL_EXPIRED = "CALL_EXPIRED"
    WORKER_LOST = "WORKER_LOST"
    APPROVAL_STALE = "APPROVAL_STALE"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    DECISION_CONFLICT = "DECISION_CONFLICT"
    CALL_STATE = "CALL_STATE"
    HANDLER_CRASHED = "HANDLER_CRASHED"
    PROTOCOL_VERSION = "PROTOCOL_VERSION"
    HELLO_EXPECTED = "HELLO_EXPECTED"
    FRAME_UNKNOWN = "FRAME_UNKNOWN"
    FRAME_INVALID = "FRAME_INVALID"
    CHUNK_INVALID = "CHUNK_INVALID"
    HANDLER_CONFLICT = "HANDLER_CONFLICT"
    HANDLER_INVALID = "HANDLER_INVALID"
    WORKER_SILENT = "WORKER_SILENT"
    WORKER_REPLACED = "WORKER_REPLACED"
    HOOK_UNSERVED = "HOOK_UNSERVED"
    HOOK_TIMEOUT = "HOOK_TIMEOUT"
    HOOK_RAISED = "HOOK_RAISED"
    HOOK_ANSWER_INVALID = "HOOK_ANSWER_INVALID"
    MAX_TURNS_EXCEEDED = "MAX_TURNS_EXCEEDED"
    MODEL_BEHAVIOR_ERROR = "MODEL_BEHAVIOR_ERROR"
    MODEL_REFUSAL = "MODEL_REFUSAL"
    MODEL_TIMEOUT = "MODEL_TIMEOUT"
    USER_ERROR = "USER_ERROR"
    INPUT_GUARDRAIL_TRIPPED = "INPUT_GUARDRAIL_TRIPPED"
    OUTPUT_GUARDRAIL_TRIPPED = "OUTPUT_GUARDRAIL_TRIPPED"
    TOOL_INPUT_GUARDRAIL_TRIPPED = "TOOL_INPUT_GUARDRAIL_TRIPPED"
    TOOL_OUTPUT_GUARDRAIL_TRIPPED = "TOOL_OUTPUT_GUARDRAIL_TRIPPED"
    TOOL_TIMEOUT = "TOOL_TIMEOUT"
    TOOL_FAILED = "TOOL_FAILED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    MODEL_AUTHENTICATION = "MODEL_AUTHENTICATION"
    MODEL_RATE_LIMITED = "MODEL_RATE_LIMITED"
    MODEL_QUOTA_EXCEEDED = "MODEL_QUOTA_EXCEEDED"
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE"
    MODEL_REQUEST_INVALID = "MODEL_REQUEST_INVALID"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    CONVERSATION_LOCKED = "CONVERSATION_LOCKED"
    MODEL_RESPONSE_FAILED = "MODEL_RESPONSE_FAILED"


RETRYABLE = frozenset(
    {
        Reason.UNAVAILABLE,
        Reason.SESSION_BUSY,
        Reason.AWAITING_DECISION,
        Reason.FUNCTION_UNDECLARED,
        Reason.WORKER_SILENT,
        Reason.MODEL_TIMEOUT,
        Reason.MODEL_RATE_LIMITED,
        Reason.MODEL_UNAVAILABLE,
        Reason.CONVERSATION_LOCKED,
        Reason.MODEL_RESPONSE_FAILED,
    }
)
"""Reasons whose request may succeed later as it is (PROTOCOL.md §9, column "again")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong: `baton.v1.Error`.

    `message` says what happened and what to do, in English; `metadata` holds the facts by the keys that
    the reason documents in error.proto.
    """

    reason: Reason
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def retryable(self) -> bool:
        """Tell whether the same request, sent again later and unchanged, may succeed."""
        return self.reason in RETRYABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """One bad field of a request: its path, for example `agent.tools[2].function.name`, and what is wrong."""

    path: str
    problem: str


class BatonError(Exception):
    """A use case refuses. `failure` says why, for programs and for people."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Refused(BatonError):
    """The caller's request cannot be served as it is; nothing was changed.

    `violations` names every bad field where the reason is INVALID_REQUEST, otherwise it is empty.
    """

    def __init__(self, failure: Failure, violations: tuple[FieldViolation, ...] = ()) -> None:
        super().__init__(failure)
        self.violations = violations


def refuse(reason: Reason, message: str, **metadata: str) -> Refused:
    """Make a `Refused` from a reason, words and facts."""
    return Refused(Failure(reason=reason, message=message, metadata=metadata))


def clip(text: str, limit_bytes: int) -> str:
    """Cut a foreign text to so many bytes of UTF-8: the message of a failure stays under 1 KiB."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit_bytes else data[:limit_bytes].decode("utf-8", "ignore")
