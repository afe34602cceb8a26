"""What is put into a session: messages, raw items, results, decisions, cancels and more; and SubmitInput itself."""

from __future__ import annotations

from collections.abc import Sequence

from baton.v1 import event_pb2, handler_pb2, item_pb2, session_pb2
from baton_server.core.errors import Reason, Refused, refuse
from baton_server.core.responses import ItemError, read_items
from baton_server.wire.check.hooks import WORDS_CHARACTERS
from baton_server.wire.check.run_config import round_limit
from baton_server.wire.check.violations import Violations, join
from baton_server.wire.frames import RESULT_BYTES, payload_bytes

INPUTS = 64
ITEMS = 1000
REASON_CHARACTERS = 256
DECIDED_BY_CHARACTERS = 256
CANCEL_GRACE_S = 60

_URL_PREFIXES = ("https://", "data:")
_DETAILS = ("low", "high", "auto")


def check_submit_input(request: session_pb2.SubmitInputRequest, stream_session_id: str = "") -> None:
    """Check a SubmitInputRequest. `stream_session_id`: of the Converse stream that it came on.

    Raises Refused with INVALID_REQUEST, or with RESULT_TOO_LARGE where that is all that is wrong.
    """
    found = Violations()
    found.id("request_id", request.request_id)
    if not stream_session_id:
        found.id("session_id", request.session_id)
    elif request.session_id not in ("", stream_session_id):
        found.add("session_id", f"is {request.session_id[:80]!r}, must be empty or {stream_session_id!r}")
    found.enum("if_busy", request.if_busy, session_pb2.IfBusy)
    if not 1 <= len(request.inputs) <= INPUTS:
        found.add("inputs", f"has {len(request.inputs)} inputs, must have 1 to {INPUTS}")
    too_large: list[Refused] = []
    for index, given in enumerate(request.inputs):
        _input(found, f"inputs[{index}]", given, too_large)
    found.no_nul(request)
    found.raise_if_any()
    for refused in too_large:
        raise refused


def _input(found: Violations, path: str, given: session_pb2.Input, too_large: list[Refused]) -> None:
    match found.arm(path, given, "input"):
        case "message":
            message(found, f"{path}.message", given.message)
        case "items_json":
            items_json(found, f"{path}.items_json", given.items_json)
        case "tool_result":
            _tool_result(found, f"{path}.tool_result", given.tool_result)
            refused = result_too_large(f"{path}.tool_result", given.tool_result)
            if refused is not None:
                too_large.append(refused)
        case "decision":
            _decision(found, f"{path}.decision", given.decision)
        case "redelivery":
            _redelivery(found, f"{path}.redelivery", given.redelivery)
        case "cancel":
            _cancel(found, f"{path}.cancel", given.cancel)
        case "continues":
            continue_input(found, f"{path}.continues", given.continues)
        case _:
            pass


def message(found: Violations, path: str, given: session_pb2.MessageInput) -> None:
    """Check a user's message of parts."""
    parts(found, f"{path}.content", given.content)


def items_json(found: Violations, path: str, text: str, least: int = 1) -> None:
    """Check a JSON array of Responses API items, one by one until the first that is wrong. `least`: so many."""
    try:
        count = len(read_items(text, path))
    except ItemError as error:
        found.add(error.path or path, error.problem)
        return
    if not least <= count <= ITEMS:
        found.add(path, f"has {count} items, must have {least} to {ITEMS}")


def _tool_result(found: Violations, path: str, given: session_pb2.ToolResult) -> None:
    found.id(f"{path}.turn_id", given.turn_id)
    found.id(f"{path}.call_id", given.call_id)
    arm = outcome(found, path, given)
    if arm is not None and given.HasField("success") and given.success == (arm == "error"):
        told = "true" if given.success else "false"
        found.add(f"{path}.success", f"is {told}, which does not agree with {arm}")


def outcome(found: Violations, path: str, given: session_pb2.ToolResult | handler_pb2.Result) -> str | None:
    """Check what came of a call, but for its size; returns the arm."""
    arm = found.arm(path, given, "outcome")
    if arm == "output_json":
        found.json(join(path, "output_json"), given.output_json)
    elif arm == "output_parts":
        parts(found, join(path, "output_parts.parts"), given.output_parts.parts)
    return arm


def result_too_large(path: str, given: session_pb2.ToolResult | handler_pb2.Result) -> Refused | None:
    """Measure a result; None: it is not too large."""
    size = payload_bytes(given)
    if size <= RESULT_BYTES:
        return None
    return refuse(
        Reason.RESULT_TOO_LARGE,
        f"{path or 'The result'} has {size} bytes, at most {RESULT_BYTES} are allowed. The call stays open: "
        "shrink the result and send it with the same ids.",
        size=str(size),
        limit=str(RESULT_BYTES),
    )


def _decision(found: Violations, path: str, given: event_pb2.Decision) -> None:
    found.id(f"{path}.turn_id", given.turn_id)
    found.id(f"{path}.call_id", given.call_id)
    found.enum(f"{path}.verdict", given.verdict, event_pb2.Verdict, required=True)
    found.optional_digest(f"{path}.arguments_digest", given.arguments_digest)
    found.optional_digest(f"{path}.definition_digest", given.definition_digest)
    found.text(f"{path}.decided_by", given.decided_by, DECIDED_BY_CHARACTERS)
    found.text(f"{path}.message", given.message, WORDS_CHARACTERS)
    if given.message and given.verdict == event_pb2.VERDICT_APPROVE:
        found.add(f"{path}.message", "is for the verdict REJECT only: an approved call has an output of its own")


def continue_input(found: Violations, path: str, given: session_pb2.ContinueInput) -> None:
    """Check from which turn another one goes on."""
    found.id(f"{path}.turn_id", given.turn_id)
    round_limit(found, path, given)


def _redelivery(found: Violations, path: str, given: session_pb2.Redelivery) -> None:
    found.id(f"{path}.turn_id", given.turn_id)
    found.id(f"{path}.call_id", given.call_id)
    found.text(f"{path}.decided_by", given.decided_by, DECIDED_BY_CHARACTERS)


def _cancel(found: Violations, path: str, given: session_pb2.CancelInput) -> None:
    found.id(f"{path}.turn_id", given.turn_id)
    found.enum(f"{path}.mode", given.mode, event_pb2.CancelMode)
    found.text(f"{path}.reason", given.reason, REASON_CHARACTERS)
    if not given.HasField("grace"):
        return
    found.duration(f"{path}.grace", given.grace, 0, CANCEL_GRACE_S)
    if given.mode == event_pb2.CANCEL_MODE_AFTER_ROUND:
        found.add(f"{path}.grace", "is for the mode NOW only")


# -- parts ---------------------------------------------------------------------------------------


def parts(found: Violations, path: str, given: Sequence[item_pb2.ContentPart]) -> None:
    """Check content parts from a client: at least one, each with one arm, nothing omitted."""
    if not given:
        found.add(path, "must have at least one part")
    for index, part in enumerate(given):
        _part(found, f"{path}[{index}]", part)


def _part(found: Violations, path: str, part: item_pb2.ContentPart) -> None:
    match found.arm(path, part, "part"):
        case "image":
            _source(found, f"{path}.image", part.image)
            found.one_of(f"{path}.image.detail", part.image.detail, _DETAILS)
        case "file":
            _source(found, f"{path}.file", part.file)
        case "other_json":
            found.typed_object(f"{path}.other_json", part.other_json)
        case "refusal":
            found.add(f"{path}.refusal", "is a model's; send a text")
        case "omitted_text":
            found.add(f"{path}.omitted_text", "is only sent by the server; send the text itself")
        case _:
            pass
    if part.is_json:
        found.add(f"{path}.is_json", "is only sent by the server; send a value as output_json")
    if part.annotations_json:
        found.add(f"{path}.annotations_json", "is only on texts of a model")


def _source(found: Violations, path: str, given: item_pb2.ImagePart | item_pb2.FilePart) -> None:
    match found.arm(path, given, "source"):
        case "url":
            if not given.url.startswith(_URL_PREFIXES):
                found.add(f"{path}.url", f"is {given.url[:80]!r}, must be an https or data URL")
        case "file_id":
            if not given.file_id:
                found.add(f"{path}.file_id", "must not be empty")
        case "omitted_url":
            found.add(f"{path}.omitted_url", "is only sent by the server; send the URL itself")
        case _:
            pass
