"""What a SubmitInput or a Run brings, as the core's values. Requests have passed `check` before."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from baton.v1 import runner_pb2, session_pb2
from baton_server.core.events import CancelMode
from baton_server.core.inputs import CallSettled, CancelAsked, DecisionMade, NewItem, RedeliveryAsked
from baton_server.core.items import Settlement
from baton_server.core.responses import read_items, user_message, user_parts
from baton_server.core.submissions import (
    CancelOf,
    ContinueOf,
    DecisionOf,
    NewMessages,
    RedeliveryOf,
    ResultFor,
    Submission,
)
from baton_server.wire.decisions import read_decision
from baton_server.wire.frames import outcome_digest, read_outcome
from baton_server.wire.items import read_parts
from baton_server.wire.names import CANCEL_MODES
from baton_server.wire.times import read_duration

DEFAULT_GRACE_S = 5.0
"""How long workers get to stop where a cancel does not say."""


def read_inputs(request: session_pb2.SubmitInputRequest) -> tuple[Submission, ...]:
    """Read a batch, one value per input, in order. Raises ValueError on an input that `check` would refuse."""
    return tuple(_read_input(given) for given in request.inputs)


def read_new_items(request: runner_pb2.RunRequest | runner_pb2.RunStreamedRequest) -> tuple[NewItem, ...]:
    """Read what a run brings; one that goes on from an ended turn may bring nothing.

    Raises ValueError on an input that `check` would refuse.
    """
    match request.WhichOneof("new_input"):
        case "text":
            return (user_message(request.text),)
        case "message":
            return (user_parts(read_parts(request.message.content)),)
        case "items_json":
            return read_items(request.items_json)
        case None if request.HasField("continues"):
            return ()
        case _:
            raise ValueError("the run brings no input")


def read_items_json(text: str) -> NewMessages:
    """Read a JSON array of Responses API items. Raises ItemError, a ValueError."""
    return NewMessages(items=read_items(text))


def read_continue(message: session_pb2.ContinueInput) -> ContinueOf:
    """Read which turn is gone on from."""
    return ContinueOf(
        turn_id=message.turn_id,
        max_turns=message.max_turns if message.HasField("max_turns") else None,
        unlimited_turns=message.unlimited_turns,
    )


def _read_input(given: session_pb2.Input) -> Submission:
    arm = given.WhichOneof("input")
    if arm is None:
        raise ValueError("an input of the batch is none")
    return _READERS[arm](given)


def _read_result(given: session_pb2.Input) -> ResultFor:
    result = given.tool_result
    failed = result.WhichOneof("outcome") == "error"
    return ResultFor(
        turn_id=result.turn_id,
        settled=CallSettled(
            call_id=result.call_id,
            settlement=Settlement.OUTSIDE_FAILURE if failed else Settlement.OUTSIDE_OUTPUT,
            output=read_outcome(result),
            digest=outcome_digest(result),
        ),
    )


def _read_cancel(given: session_pb2.Input) -> CancelOf:
    cancel = given.cancel
    asked = CancelAsked(
        mode=CANCEL_MODES.to_core.get(cancel.mode, CancelMode.NOW),
        reason=cancel.reason,
        grace_s=read_duration(cancel.grace) if cancel.HasField("grace") else DEFAULT_GRACE_S,
    )
    return CancelOf(turn_id=cancel.turn_id, asked=asked)


def _read_redelivery(given: session_pb2.Input) -> RedeliveryOf:
    asked = given.redelivery
    return RedeliveryOf(
        turn_id=asked.turn_id, asked=RedeliveryAsked(call_id=asked.call_id, decided_by=asked.decided_by)
    )


_READERS: Mapping[str, Callable[[session_pb2.Input], Submission]] = {
    "text": lambda given: NewMessages(items=(user_message(given.text),)),
    "message": lambda given: NewMessages(items=(user_parts(read_parts(given.message.content)),)),
    "items_json": lambda given: read_items_json(given.items_json),
    "tool_result": _read_result,
    "cancel": _read_cancel,
    "decision": lambda given: DecisionOf(
        turn_id=given.decision.turn_id, made=DecisionMade(decision=read_decision(given.decision))
    ),
    "redelivery": _read_redelivery,
    "continues": lambda given: read_continue(given.continues),
}
