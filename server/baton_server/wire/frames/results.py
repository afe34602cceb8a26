"""Results: what came of a call, from a worker or from outside, as the core's values; and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from baton.v1 import handler_pb2, item_pb2, session_pb2
from baton_server.core.errors import Failure, Reason
from baton_server.core.inputs import CallSettled
from baton_server.core.items import ContentPart, Settlement, TextPart
from baton_server.core.texts import FUNCTION_FAILED
from baton_server.wire.errors import CRASH_BYTES
from baton_server.wire.items import read_parts
from baton_server.wire.texts import cut_front, utf8_size

RESULT_BYTES = 4_194_304
"""Largest payload of a result (PROTOCOL.md §5)."""

Outcome = handler_pb2.Result | session_pb2.ToolResult

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
    """Read what the model is told. JSON is one text part that says so; of a crash it is our default sentence."""
    match result.WhichOneof("outcome"):
        case "output_parts":
            return read_parts(result.output_parts.parts)
        case "crash" | None:
            return (TextPart(text=FUNCTION_FAILED),)
        case arm:
            return (TextPart(text=getattr(result, arm), is_json=arm == "output_json"),)


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
