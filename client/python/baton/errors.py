"""What goes wrong, as exceptions. Branch on the class, or on `reason`; never on the text.

    AgentsException                       everything that this package raises; .run_data where a run failed
    ├── MaxTurnsExceeded                  the limit of rounds was reached
    ├── ModelBehaviorError                the model did what it must not
    ├── ModelRefusalError                 the model refused; .refusal
    ├── ModelTimeoutError                 a model request took too long
    ├── UserError                         this program asked for what cannot be
    └── BatonError                        what the Agents SDK has no name for
        ├── BatonConnectionError          no server answers, or it is going down
        ├── BatonInternalError            a fault of the server; metadata["error_id"] finds it in its log
        ├── BatonProtocolError            this library and the server do not understand one another
        ├── InvalidRequestError           fields are missing or wrong; .violations
        ├── NotFoundError                 no such session, turn, call, agent or content
        ├── RequestIdReusedError          a request_id came again with another body
        ├── SessionKeyTakenError          another session has that key
        ├── SessionBusyError              a turn runs and the input said REJECT
        ├── StateError                    the request does not fit what is there now
        ├── TooLargeError                 a message or a result is above its limit
        ├── HandlerRefusedError           the server does not take a function
        ├── HandlerCrashedError           a function raised an exception that it did not expect
        ├── CallLostError                 a call was settled by another, or lost all its workers
        ├── UnservedError                 a run rests: nobody serves its functions; .required_actions
        ├── TurnCancelledError            somebody else cancelled the turn
        └── ModelProviderError            the model's provider failed; a class for each way below it

A class says whether the same thing may succeed later (`retryable`); a reason that this version does not
know is treated by what the server said about that, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from baton.v1 import error_pb2, event_pb2

if TYPE_CHECKING:
    from baton.agent import Agent
    from baton.items import RunItem
    from baton.usage import Usage

DOMAIN = "baton.v1"
"""ErrorInfo.domain of reasons that a Baton server gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """What a run had made when it failed. `new_items` in the order of `RunResult.new_items`."""

    input: str | Sequence[object]
    new_items: tuple[RunItem, ...]
    last_agent: Agent[Any]
    usage: Usage
    session_id: str
    turn_id: str


class AgentsException(Exception):
    """Anything that this package raises.

    `reason`: name of the `baton.v1.ErrorReason` without its prefix; empty: this side found out by itself.
    `metadata`: its facts, as text. `run_data`: what the run had made; None: it had not begun, or no run failed.
    """

    retryable: bool = False
    """The same, done again later and unchanged, may succeed."""

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.run_data: RunData | None = None
        if retryable is not None:
            self.retryable = retryable


class MaxTurnsExceeded(AgentsException):
    """The run reached its limit of rounds without a final output."""


class ModelBehaviorError(AgentsException):
    """The model did what it must not: an unknown function, an incomplete reply, a call id used twice."""


class ModelRefusalError(AgentsException):
    """The model refused to answer."""

    @property
    def refusal(self) -> str:
        """The model's words; the server cuts long ones."""
        return self.metadata.get("refusal", "")


class ModelTimeoutError(AgentsException):
    """One model request took longer than the server allows."""

    retryable = True


class UserError(AgentsException):
    """This program asked for what cannot be; the message says what to change."""


class BatonError(AgentsException):
    """What the Agents SDK has no name for."""


class BatonConnectionError(BatonError):
    """No server answers at the address, or it is starting or going down."""

    retryable = True


class BatonInternalError(BatonError):
    """A fault of the server. `metadata["error_id"]` stands in its log too."""


class BatonProtocolError(BatonError):
    """This library and the server do not understand one another; their versions are too far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One wrong field of a request: `field` is its path, `description` what is wrong with it."""

    field: str
    description: str


class InvalidRequestError(BatonError):
    """Fields are missing or wrong. `violations` names every one; empty where the server named none."""

    violations: tuple[Violation, ...] = ()


class NotFoundError(BatonError):
    """No such session, turn, call, agent or content; the reason says which."""


class RequestIdReusedError(BatonError):
    """A request_id came again with another body."""


class SessionKeyTakenError(BatonError):
    """Another session has that key."""


class SessionBusyError(BatonError):
    """A turn of the session runs, and the input said that it does not wait."""

    retryable = True


class StateError(BatonError):
    """The request does not fit what is there now; the reason says what is in the way."""


class TooLargeError(BatonError):
    """A message or a result is above its limit. Metadata: `size`, `limit`."""


class HandlerRefusedError(BatonError):
    """The server does not take a function as it is declared, or another worker declares it otherwise."""


class HandlerCrashedError(BatonError):
    """A function raised an exception that it did not expect. Its text and stack are the message."""


class CallLostError(BatonError):
    """A call was settled by another result, or every attempt lost its worker."""


class UnservedError(BatonError):
    """A run rests because nobody serves some of its functions. The turn waits, durable, on the server.

    It goes on by itself as soon as a worker serves them or `Client.settle` gives the results: see
    `required_actions`, each with its ids, the function's name and arguments.
    """

    required_actions: tuple[event_pb2.RequiredAction, ...] = ()
    retryable = True


class TurnCancelledError(BatonError):
    """The turn was cancelled, and not by this result's own `cancel`."""


class ModelProviderError(BatonError):
    """The model's provider failed or refused."""


class ModelNotFoundError(ModelProviderError):
    """The provider knows no such model, or no provider serves the prefix."""


class ModelAuthenticationError(ModelProviderError):
    """The provider refused the server's credentials."""


class ModelRateLimitedError(ModelProviderError):
    """The provider limits the rate."""

    retryable = True


class ModelQuotaExceededError(ModelProviderError):
    """A budget at the provider is used up."""


class ModelUnavailableError(ModelProviderError):
    """The provider is down, overloaded or unreachable."""

    retryable = True


class ModelRequestInvalidError(ModelProviderError):
    """The provider refused the request."""


class ContextLengthExceededError(ModelProviderError):
    """The input does not fit into the model's window."""


class FunctionError(Exception):
    """Raise it in a function to tell the model, in your own words, that the call failed."""


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
    "AGENT_MISSING": StateError,
    "FUNCTION_UNDECLARED": StateError,
    "SEQUENCE_AHEAD": StateError,
    "REVISION_CONFLICT": StateError,
    "TURN_RUNNING": StateError,
    "RESULT_TOO_LARGE": TooLargeError,
    "CALL_SETTLED": CallLostError,
    "ATTEMPT_STALE": CallLostError,
    "WORKER_LOST": CallLostError,
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
    "MAX_TURNS_EXCEEDED": MaxTurnsExceeded,
    "MODEL_BEHAVIOR_ERROR": ModelBehaviorError,
    "MODEL_REFUSAL": ModelRefusalError,
    "MODEL_TIMEOUT": ModelTimeoutError,
    "MODEL_NOT_FOUND": ModelNotFoundError,
    "MODEL_AUTHENTICATION": ModelAuthenticationError,
    "MODEL_RATE_LIMITED": ModelRateLimitedError,
    "MODEL_QUOTA_EXCEEDED": ModelQuotaExceededError,
    "MODEL_UNAVAILABLE": ModelUnavailableError,
    "MODEL_REQUEST_INVALID": ModelRequestInvalidError,
    "CONTEXT_LENGTH_EXCEEDED": ContextLengthExceededError,
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
