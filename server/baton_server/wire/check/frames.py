"""The frames of a worker. A wrong one is refused alone, by FRAME_INVALID; the stream lives.

What a handler declares wrongly refuses that handler alone (`handler_failures`), and a Result that cannot be
taken is answered by its ack (`check_result`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from baton.v1 import handler_pb2
from baton_server.core.errors import Failure, Reason, Refused, refuse
from baton_server.wire.check.inputs import outcome, result_too_large
from baton_server.wire.check.violations import FUNCTION_NAME, Violations
from baton_server.wire.frames import PROTOCOL_VERSION
from baton_server.wire.rules import schema_problem

HELD = 10_000
CREDIT = 10_000
REASON_CHARACTERS = 256
CRASH_TYPE_CHARACTERS = 256
NACK_DELAY_S = 3600


def check_frame(frame: handler_pb2.ConnectRequest, frame_number: int) -> None:
    """Check any frame but what a Result brings. `frame_number` counts the worker's frames from 1.

    Raises Refused: FRAME_UNKNOWN where its arm is not known, PROTOCOL_VERSION for a Hello of another one,
    FRAME_INVALID with all that is wrong.
    """
    arm = frame.WhichOneof("frame")
    if arm is None:
        raise refuse(
            Reason.FRAME_UNKNOWN,
            f"Frame {frame_number} is of a kind that this server does not know. The stream lives.",
            frame_number=str(frame_number),
        )
    found = Violations()
    _CHECKS[arm](found, arm, getattr(frame, arm))
    if arm != "result":
        found.no_nul(_without_handlers(frame, arm))
    _raise_if_any(found, frame_number)


def check_result(result: handler_pb2.Result, frame_number: int) -> None:
    """Check what a Result brings, for the verdict REFUSED. Raises Refused: FRAME_INVALID, RESULT_TOO_LARGE."""
    found = Violations()
    arm = outcome(found, "result", result)
    if arm == "crash":
        found.text("result.crash.type", result.crash.type, CRASH_TYPE_CHARACTERS)
    found.no_nul(result, "result")
    _raise_if_any(found, frame_number)
    refused = result_too_large("result", result)
    if refused is not None:
        raise refused


def handler_failures(specs: Sequence[handler_pb2.HandlerSpec]) -> list[Failure | None]:
    """Judge declarations, one by one, in order; None: it may be registered."""
    seen: set[str] = set()
    failures: list[Failure | None] = []
    for spec in specs:
        failures.append(_handler_failure(spec, seen))
        seen.add(spec.name)
    return failures


def _without_handlers(frame: handler_pb2.ConnectRequest, arm: str) -> handler_pb2.ConnectRequest:
    """Leave out the declarations, which are judged one by one: a bad one must not refuse the others."""
    if arm not in ("hello", "register"):
        return frame
    rest = handler_pb2.ConnectRequest()
    rest.CopyFrom(frame)
    getattr(rest, arm).ClearField("handlers")
    return rest


def _handler_failure(spec: handler_pb2.HandlerSpec, seen: set[str]) -> Failure | None:
    if not FUNCTION_NAME.fullmatch(spec.name):
        return _handler_invalid(spec, "name", "a name is 1 to 64 of A-Z a-z 0-9 _ -")
    if spec.name in seen:
        return _handler_invalid(spec, "name", "the name is declared twice")
    problem = schema_problem(spec.parameters_json) if spec.parameters_json else None
    if problem is not None:
        return _handler_invalid(spec, "parameters_json", f"parameters_json {problem}")
    found = Violations()
    found.no_nul(spec)
    if found:
        return _handler_invalid(spec, found.found[0].path, "it holds a NUL character")
    return None


def _handler_invalid(spec: handler_pb2.HandlerSpec, problem: str, words: str) -> Failure:
    return Failure(
        reason=Reason.HANDLER_INVALID,
        message=f"The handler {spec.name[:80]!r} was not registered: {words}.",
        metadata={"name": spec.name[:80], "problem": problem},
    )


def _raise_if_any(found: Violations, frame_number: int) -> None:
    if not found:
        return
    wrong = "; ".join(f"{one.path}: {one.problem}" for one in found.found)
    failure = Failure(
        reason=Reason.FRAME_INVALID,
        message=f"Frame {frame_number} was not taken: {wrong}. The stream lives.",
        metadata={"frame_number": str(frame_number), "field": found.found[0].path},
    )
    raise Refused(failure, found.found)


# -- each kind -----------------------------------------------------------------------------------


def _hello(found: Violations, path: str, hello: handler_pb2.Hello) -> None:
    if hello.protocol_version not in (0, PROTOCOL_VERSION):
        raise refuse(
            Reason.PROTOCOL_VERSION,
            f"The worker speaks protocol version {hello.protocol_version}, this server {PROTOCOL_VERSION}. "
            "Use a worker library and a server that share one.",
            version=str(hello.protocol_version),
            supported=str(PROTOCOL_VERSION),
        )
    found.optional_id(f"{path}.instance_id", hello.instance_id)
    found.scopes(f"{path}.scopes", hello.scopes)
    found.message_bytes(f"{path}.max_message_bytes", hello.max_message_bytes)
    if len(hello.held) > HELD:
        found.add(f"{path}.held", f"names {len(hello.held)} attempts, at most {HELD} are allowed")
    else:
        for index, held in enumerate(hello.held):
            _attempt(found, f"{path}.held[{index}]", held)
    if hello.HasField("credit"):
        _credit(found, f"{path}.credit", hello.credit)


def _handlers(found: Violations, path: str, frame: handler_pb2.Register | handler_pb2.Unregister) -> None:
    if not frame.handlers:
        found.add(f"{path}.handlers", "must name at least one handler")


def _credit(found: Violations, path: str, credit: handler_pb2.Credit) -> None:
    found.between(f"{path}.messages", credit.messages, 0, CREDIT)


def _attempt(
    found: Violations,
    path: str,
    about: handler_pb2.CallAck
    | handler_pb2.Result
    | handler_pb2.Nack
    | handler_pb2.CancelAck
    | handler_pb2.HeldAttempt,
) -> None:
    found.id(f"{path}.call_id", about.call_id)
    found.at_least(f"{path}.attempt", about.attempt, 1)


def _result(found: Violations, path: str, result: handler_pb2.Result) -> None:
    _attempt(found, path, result)
    if "\0" in result.call_id:
        found.add(f"{path}.call_id", "holds a NUL character")


def _nack(found: Violations, path: str, nack: handler_pb2.Nack) -> None:
    _attempt(found, path, nack)
    found.text(f"{path}.reason", nack.reason, REASON_CHARACTERS)
    if nack.HasField("delay"):
        found.duration(f"{path}.delay", nack.delay, 0, NACK_DELAY_S)


def _cancel_ack(found: Violations, path: str, ack: handler_pb2.CancelAck) -> None:
    _attempt(found, path, ack)
    found.enum(f"{path}.outcome", ack.outcome, handler_pb2.CancelOutcome, required=True)


def _heartbeat(found: Violations, path: str, beat: handler_pb2.WorkerHeartbeat) -> None:
    if beat.HasField("held"):
        found.at_least(f"{path}.held", beat.held, 0)


def _anything(_found: Violations, _path: str, _frame: object) -> None:
    """Drain has nothing that can be wrong; the assembler judges chunks."""


# Any: each function takes the message of the arm that it stands under.
_CHECKS: Mapping[str, Callable[[Violations, str, Any], None]] = {
    "hello": _hello,
    "register": _handlers,
    "unregister": _handlers,
    "credit": _credit,
    "call_ack": _attempt,
    "result": _result,
    "nack": _nack,
    "cancel_ack": _cancel_ack,
    "heartbeat": _heartbeat,
    "drain": _anything,
    "chunk": _anything,
}
