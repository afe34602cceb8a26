"""What there is to say of a call: to a program that is asked about it, or told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from baton_server.core.course import asking
from baton_server.core.course.here import Here
from baton_server.core.errors import Failure
from baton_server.core.items import ContentPart
from baton_server.core.jsontext import dump
from baton_server.core.responses import output_value
from baton_server.core.run import CallRecord


def of(call: CallRecord) -> dict[str, object]:
    """Say which call it is."""
    return {"call_id": call.call.call_id, "tool": call.call.name, "arguments_json": call.call.arguments}


def with_output(call: CallRecord, output: tuple[ContentPart, ...]) -> Callable[[Sequence[str]], str]:
    """Say which call it is, and what it gave."""
    members = ",".join(f"{dump(name)}:{dump(value)}" for name, value in of(call).items())
    text = f'{{{members},"output":{output_value(output)}}}'
    return lambda _history: text


def error_facts(failure: Failure | None) -> dict[str, str] | None:
    """Say what went wrong; None: nothing that is known."""
    if failure is None:
        return None
    return {"type": failure.metadata.get("type", failure.reason.value), "text": failure.message}


def moment_id(here: Here, call: CallRecord, letter: str, index: int) -> str:
    """Name the question that tells of a moment of a call."""
    return asking.call_hook_id(here, letter, call.call.call_id, index)
