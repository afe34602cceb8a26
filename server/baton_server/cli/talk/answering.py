"""How a person answers at the prompt what nobody else does: a table, by what is waited for. Pure.

Another thing that can be waited for is another row: what it says, what it asks, and what becomes of the line that is
typed.
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
    """How one kind is asked for. `read` makes of a line what settles the action; ValueError: of this line nothing.

    What `read` gives is a result as a function's return value, a FunctionError, or a `baton.v1.Decision` without the
    ids of its call.
    """

    explain: Callable[[event_pb2.RequiredAction], str]
    prompt: Callable[[event_pb2.RequiredAction], str]
    read: Callable[[str], Any]


def asking_for(action: event_pb2.RequiredAction) -> Asking | None:
    """Find how to ask for an action. None: this version cannot."""
    if action.kind != event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL:
        return None
    return _BY_STATE.get(action.state, _RESULT)


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


def _explain_decision(action: event_pb2.RequiredAction) -> str:
    return (
        f"{one_line(action.agent)} may call {one_line(action.name)} only if you allow it. Type y, n, n TEXT to tell "
        f"the model why not, or a to allow it for the rest of the turn; {SKIP} leaves it open, {CANCEL} ends the turn."
    )


def _prompt_for_decision(action: event_pb2.RequiredAction) -> str:
    return f"Allow {call_words(action)}? [y]es, [n]o, [a]lways: "


def _read_decision(line: str) -> event_pb2.Decision:
    word, _, rest = line.partition(" ")
    made = _VERDICTS.get(word.lower())
    if made is None or (rest.strip() and made.verdict != event_pb2.VERDICT_REJECT):
        raise ValueError(f"type y, n, n TEXT or a; {SKIP} leaves it open, {CANCEL} ends the turn")
    decision = event_pb2.Decision()
    decision.CopyFrom(made)
    decision.message = rest.strip()
    return decision


_YES = event_pb2.Decision(verdict=event_pb2.VERDICT_APPROVE)
_NO = event_pb2.Decision(verdict=event_pb2.VERDICT_REJECT)
_ALWAYS = event_pb2.Decision(verdict=event_pb2.VERDICT_APPROVE, always=True)

_VERDICTS: Mapping[str, event_pb2.Decision] = {
    "y": _YES,
    "yes": _YES,
    "n": _NO,
    "no": _NO,
    "a": _ALWAYS,
    "always": _ALWAYS,
}

_RESULT = Asking(explain=_explain_call, prompt=_prompt_for_call, read=_read_result)

_BY_STATE: Mapping[event_pb2.RequiredActionState.ValueType, Asking] = {
    event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION: Asking(
        explain=_explain_decision, prompt=_prompt_for_decision, read=_read_decision
    ),
}
"""What is asked for in states in which no result is."""
