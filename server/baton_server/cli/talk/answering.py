"""How a person answers at the prompt what nobody else does: a table, by the kind of what is required. Pure.

Another kind of required action, such as an approval, is another row: what it says, what it asks, and what becomes of
the line that is typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from baton import FunctionError
from baton.v1 import event_pb2
from baton_server.cli.show.texts import one_line
from baton_server.cli.show.words import call_words

ERROR, SKIP, CANCEL = "/error", "/skip", "/cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How one kind is asked for. `read` makes of a line what settles the action; ValueError: of this line nothing."""

    explain: Callable[[event_pb2.RequiredAction], str]
    prompt: Callable[[event_pb2.RequiredAction], str]
    read: Callable[[str], Any]


def asking_for(action: event_pb2.RequiredAction) -> Asking | None:
    """Find how to ask for an action. None: this version cannot."""
    return _ASKINGS.get(action.kind)


def _explain_call(action: event_pb2.RequiredAction) -> str:
    return (
        f"{call_words(action)} waits, since nobody serves it. Type its result; "
        f"{ERROR} TEXT if it failed, {SKIP} to leave it open, {CANCEL} to end the turn."
    )


def _prompt_for_call(action: event_pb2.RequiredAction) -> str:
    return f"{one_line(action.name)} = "


def _read_result(line: str) -> str | FunctionError:
    word, _, rest = line.partition(" ")
    if word == ERROR:
        if not rest.strip():
            raise ValueError(f"say what went wrong: {ERROR} TEXT")
        return FunctionError(rest.strip())
    if word.startswith("/"):
        raise ValueError(f"{one_line(word)} is no command here; {SKIP} leaves the call open")
    return line


_ASKINGS: Mapping[event_pb2.RequiredActionKind.ValueType, Asking] = {
    event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL: Asking(
        explain=_explain_call, prompt=_prompt_for_call, read=_read_result
    ),
}
