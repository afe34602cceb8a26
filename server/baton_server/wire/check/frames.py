"""The frames of a worker. A wrong one is refused alone, by FRAME_INVALID; the stream lives.

What a handler declares wrongly refuses that handler alone (`handlers`), and a Result that cannot be taken is answered
by its ack (`check_result`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from baton.v1 import event_pb2, handler_pb2
from baton_server.core.errors import Failure, Reason, Refused, refuse
from baton_server.wire.check.inputs import outcome, result_too_large
from baton_server.wire.check.violations import Violations
from baton_server.wire.frames import PROTOCOL_VERSION
from baton_server.wire.texts import above

HELD = 10_000
CREDIT = 10_000
CREDIT_BYTES = 2**40
HOOK_BATCHES = 1000
INSTANCE_CHARACTERS = 256
REASON_CHARACTERS = 256
CRASH_TYPE_CHARACTERS = 256
NACK_DELAY_S = 3600
EXTEND_S = (1.0, 3600.0)
PROGRESS_BYTES = 65_536

About = (
    handler_pb2.CallAck
    | handler_pb2.Result
    | handler_pb2.Nack
    | handler_pb2.Extend
    | handler_pb2.CancelAck
    | handler_pb2.HeldAttempt
    | event_pb2.CallProgress
)
"""What names an attempt of a call."""


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
    if arm == "result":
        nul_in_id(found, "result.call_id", frame.result.call_id)
    else:
        found.no_nul(_without_handlers(frame, arm))
    _raise_if_any(found, frame_number, f"Frame {frame_number} was not taken", "The stream lives")


def check_result(result: handler_pb2.Result, frame_number: int) -> None:
    """Check what a Result brings, for the verdict REFUSED. `frame_number` 0: it came by SettleCall.

    Raises Refused: FRAME_INVALID, RESULT_TOO_LARGE.
    """
    found = Violations()
    arm = outcome(found, "result", result)
    if arm == "crash":
        crash(found, "result.crash", result.crash)
    found.no_nul(result, "result")
    _raise_if_any(found, frame_number, f"The result of {result.call_id!r} was not taken", "The call stays open")
    refused = result_too_large("result", result)
    if refused is not None:
        raise refused


def _without_handlers(frame: handler_pb2.ConnectRequest, arm: str) -> handler_pb2.ConnectRequest:
    """Leave out the declarations, which are judged one by one: a bad one must not refuse the others."""
    if arm not in ("hello", "register"):
        return frame
    rest = handler_pb2.ConnectRequest()
    rest.CopyFrom(frame)
    getattr(rest, arm).ClearField("handlers")
    return rest


def _raise_if_any(found: Violations, frame_number: int, what: str, follows: str) -> None:
    if not found:
        return
    wrong = "; ".join(f"{one.path}: {one.problem}" for one in found.found)
    failure = Failure(
        reason=Reason.FRAME_INVALID,
        message=f"{what}: {wrong}. {follows}.",
        metadata={"frame_number": str(frame_number), "field": found.found[0].path},
    )
    raise Refused(failure, found.found)


# -- who a worker is -----------------------------------------------------------------------------


def hello(found: Violations, path: str, given: handler_pb2.Hello) -> None:
    """Check who a worker is, but for what it serves. Raises Refused with PROTOCOL_VERSION."""
    if given.protocol_version not in (0, PROTOCOL_VERSION):
        raise refuse(
            Reason.PROTOCOL_VERSION,
            f"The worker speaks protocol version {given.protocol_version}, this server {PROTOCOL_VERSION}. "
            "Use a worker library and a server that share one.",
            version=str(given.protocol_version),
            supported=str(PROTOCOL_VERSION),
        )
    found.text(f"{path}.instance_id", given.instance_id, INSTANCE_CHARACTERS)
    found.scopes(f"{path}.scopes", given.scopes)
    found.message_bytes(f"{path}.max_message_bytes", given.max_message_bytes)
    if len(given.held) > HELD:
        found.add(f"{path}.held", f"names {len(given.held)} attempts, at most {HELD} are allowed")
    else:
        for index, held in enumerate(given.held):
            attempt(found, f"{path}.held[{index}]", held)
    if given.HasField("credit"):
        _credit(found, f"{path}.credit", given.credit)
    found.labels(f"{path}.metadata", given.metadata)
    found.between(f"{path}.max_hook_batches", given.max_hook_batches, 0, HOOK_BATCHES)


def _handlers(found: Violations, path: str, frame: handler_pb2.Register | handler_pb2.Unregister) -> None:
    if not frame.handlers:
        found.add(f"{path}.handlers", "must name at least one handler")


def _credit(found: Violations, path: str, credit: handler_pb2.Credit) -> None:
    found.between(f"{path}.messages", credit.messages, 0, CREDIT)
    found.between(f"{path}.bytes", credit.bytes, 0, CREDIT_BYTES)


# -- what it says about calls --------------------------------------------------------------------


def attempt(found: Violations, path: str, about: About) -> None:
    """Check which attempt of which call is meant."""
    found.id(f"{path}.call_id", about.call_id)
    found.at_least(f"{path}.attempt", about.attempt, 1)


def nul_in_id(found: Violations, path: str, call_id: str) -> None:
    """Check the id of a call for a NUL, where the rest of a frame is checked apart."""
    if "\0" in call_id:
        found.add(path, "holds a NUL character")


def crash(found: Violations, path: str, given: handler_pb2.Crash) -> None:
    """Check an exception; its text may have any length, and is cut."""
    found.text(f"{path}.type", given.type, CRASH_TYPE_CHARACTERS)


def progress(found: Violations, path: str, given: event_pb2.CallProgress) -> None:
    """Check what a handler reports."""
    attempt(found, path, given)
    found.at_least(f"{path}.number", given.number, 1)
    arm = found.arm(path, given, "progress")
    if arm is None:
        return
    said = getattr(given, arm)
    if above(said, PROGRESS_BYTES):
        found.add(f"{path}.{arm}", f"has more than {PROGRESS_BYTES} bytes")
    elif arm == "progress_json":
        found.json(f"{path}.{arm}", said)


def nack(found: Violations, path: str, given: handler_pb2.Nack) -> None:
    """Check a call that is given back."""
    attempt(found, path, given)
    found.text(f"{path}.reason", given.reason, REASON_CHARACTERS)
    if given.HasField("delay"):
        found.duration(f"{path}.delay", given.delay, 0, NACK_DELAY_S)


def extend(found: Violations, path: str, given: handler_pb2.Extend) -> None:
    """Check how long a lease is to last."""
    attempt(found, path, given)
    found.duration(f"{path}.lease", given.lease, *EXTEND_S)


def _cancel_ack(found: Violations, path: str, ack: handler_pb2.CancelAck) -> None:
    attempt(found, path, ack)
    found.enum(f"{path}.outcome", ack.outcome, handler_pb2.CancelOutcome, required=True)


# -- what it says about hooks --------------------------------------------------------------------


def hook_answers(found: Violations, path: str, given: handler_pb2.HookAnswers) -> None:
    """Check what hooks say, but for the batch: only its kind knows the shape of an answer."""
    if not given.answers:
        found.add(f"{path}.answers", "must hold at least one answer")
    for index, answer in enumerate(given.answers):
        where = f"{path}.answers[{index}]"
        found.id(f"{where}.hook_id", answer.hook_id)
        found.at_least(f"{where}.attempt", answer.attempt, 1)
        match found.arm(where, answer, "outcome"):
            case "answer_json":
                found.json(f"{where}.answer_json", answer.answer_json)
            case "crash":
                crash(found, f"{where}.crash", answer.crash)
            case _:
                pass


def _batch_answers(found: Violations, path: str, given: handler_pb2.HookAnswers) -> None:
    found.id(f"{path}.batch_id", given.batch_id)
    hook_answers(found, path, given)


# -- the rest ------------------------------------------------------------------------------------


def _heartbeat(found: Violations, path: str, beat: handler_pb2.WorkerHeartbeat) -> None:
    if beat.HasField("held"):
        found.at_least(f"{path}.held", beat.held, 0)


def _anything(_found: Violations, _path: str, _frame: object) -> None:
    """Drain has nothing that can be wrong; the assembler judges chunks."""


# Any: each function takes the message of the arm that it stands under.
_CHECKS: Mapping[str, Callable[[Violations, str, Any], None]] = {
    "hello": hello,
    "register": _handlers,
    "unregister": _handlers,
    "credit": _credit,
    "call_ack": attempt,
    "progress": progress,
    "result": attempt,
    "hook_answers": _batch_answers,
    "nack": nack,
    "extend": extend,
    "cancel_ack": _cancel_ack,
    "heartbeat": _heartbeat,
    "drain": _anything,
    "chunk": _anything,
}
