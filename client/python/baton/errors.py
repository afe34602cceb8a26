"""What goes wrong, as exceptions. Branch on the class, or on `reason`; never on the text.

    AgentsException                       everything that this package raises; .run_data where a run failed
    ├── MaxTurnsExceeded                  the limit of rounds was reached
    ├── ModelBehaviorError                the model did what it must not
    ├── ModelRefusalError                 the model refused; .refusal
    ├── ModelTimeoutError                 a model request took too long
    ├── InputGuardrailTripwireTriggered   an input guardrail tripped; .guardrail_name, .guardrail_result
    ├── OutputGuardrailTripwireTriggered  an output guardrail did; the same
    ├── ToolInputGuardrailTripwireTriggered   a function's input guardrail did; .guardrail, .output
    ├── ToolOutputGuardrailTripwireTriggered  a function's output guardrail did; .guardrail, .output
    ├── ToolTimeoutError                  a function took too long, and was to fail the run; .tool_name
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
        ├── CallLostError                 a call was settled by another, expired, or lost all its workers
        ├── HookError                     a hook was not served, late, raised, or gave no usable answer
        ├── JournalError                  the file of Worker(journal=…) cannot be used
        ├── UnservedError                 a run rests: nobody serves its functions; .required_actions
        │   └── EffectUnknownError        a run rests: nobody knows whether a function took effect
        ├── TurnCancelledError            somebody else cancelled the turn
        └── ModelProviderError            the model's provider failed; a class for each way below it

A class says whether the same thing may succeed later (`retryable`); a reason that this version does not
know is treated by what the server said about that, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baton.v1 import event_pb2

if TYPE_CHECKING:
    from baton.agents.guardrails import InputGuardrailResult, OutputGuardrailResult
    from baton.agents.terms import TermsGuardrail
    from baton.agents.tool_guardrails import ToolInputGuardrail, ToolOutputGuardrail
    from baton.hooks.answers import ToolGuardrailFunctionOutput
    from baton.runs.run_data import RunErrorDetails


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
        self.run_data: RunErrorDetails | None = None
        if retryable is not None:
            self.retryable = retryable


class MaxTurnsExceeded(AgentsException):
    """The run reached its limit of rounds without a final output."""


class ModelBehaviorError(AgentsException):
    """The model did what it must not: an unknown function, an incomplete reply, a call id used twice.

    Or its provider says that the reply failed: then the reason is MODEL_RESPONSE_FAILED, and it is retryable.
    """


class ModelRefusalError(AgentsException):
    """The model refused to answer."""

    @property
    def refusal(self) -> str:
        """The model's words; the server cuts long ones."""
        return self.metadata.get("refusal", "")


class ModelTimeoutError(AgentsException):
    """One model request took longer than its settings, or the server, allow."""

    retryable = True

    @property
    def timeout_seconds(self) -> float:
        """How long it was given; 0: that is not known."""
        return _seconds(self.metadata.get("timeout", ""))


class _OfGuardrail:
    """What a guardrail ended."""

    metadata: dict[str, str]

    @property
    def guardrail_name(self) -> str:
        """Which one."""
        return self.metadata.get("guardrail", "")


class InputGuardrailTripwireTriggered(_OfGuardrail, AgentsException):
    """An input guardrail said that this input must not be worked on."""

    guardrail_result: InputGuardrailResult | None = None
    """What it said, and its reasons; None: it is none of the run's own definitions."""


class OutputGuardrailTripwireTriggered(_OfGuardrail, AgentsException):
    """An output guardrail said that this final output must not be given."""

    guardrail_result: OutputGuardrailResult | None = None
    """What it said, and its reasons; None: it is none of the run's own definitions."""


class _OfToolGuardrail(_OfGuardrail):
    """What a guardrail of a function ended. `output`: what it said; None: it is none of the run's own definitions."""

    output: ToolGuardrailFunctionOutput | None = None

    @property
    def tool_name(self) -> str:
        """Which function."""
        return self.metadata.get("tool", "")


class ToolInputGuardrailTripwireTriggered(_OfToolGuardrail, AgentsException):
    """A guardrail said that a function must not be called with these arguments, and ended the run."""

    guardrail: ToolInputGuardrail[Any] | TermsGuardrail | None = None
    """Which one; None: it is none of the run's own definitions."""


class ToolOutputGuardrailTripwireTriggered(_OfToolGuardrail, AgentsException):
    """A guardrail said that the model must not see an output, and ended the run."""

    guardrail: ToolOutputGuardrail[Any] | TermsGuardrail | None = None
    """Which one; None: it is none of the run's own definitions."""


class ToolTimeoutError(AgentsException):
    """A function took longer than its timeout, and `timeout_behavior` says that this fails the run."""

    @property
    def tool_name(self) -> str:
        """Which function."""
        return self.metadata.get("tool", "")

    @property
    def timeout_seconds(self) -> float:
        """How long it was given; 0: that is not known."""
        return _seconds(self.metadata.get("timeout", ""))


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
    """A call was settled by another result, was not settled before it expired, or every attempt lost its worker."""


class HookError(BatonError):
    """A hook gave no answer that can be used; the reason says why, `metadata["name"]` which."""


class JournalError(BatonError):
    """The file of `Worker(journal=…)` is damaged, in use by another process, or cannot be written."""


class UnservedError(BatonError):
    """A run rests because nobody serves some of its functions. The turn waits, durable, on the server.

    It goes on by itself as soon as a worker serves them or `Client.settle` gives the results: see
    `required_actions`, each with its ids, the function's name and arguments.
    """

    required_actions: tuple[event_pb2.RequiredAction, ...] = ()
    retryable = True


class EffectUnknownError(UnservedError):
    """A run rests because a call may have run, must not run twice, and nobody knows. The turn waits, durable.

    Find out by the `idempotency_key` of each of the `required_actions`: give the result by `Client.settle`, or have it
    delivered again by `Client.redeliver`.
    """

    retryable = False


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


class ConversationLockedError(ModelProviderError):
    """Another request to the same conversation went on at the provider, longer than it was tried."""

    retryable = True


class FunctionError(Exception):
    """Raise it in a function to tell the model, in your own words, that the call failed."""


def _seconds(text: str) -> float:
    """Read a duration of the metadata, such as "30s"; 0: there is none."""
    try:
        return float(text.removesuffix("s"))
    except ValueError:
        return 0.0
