"""What is wrong with a batch in itself: a caller's mistake, told before anything is tried.

A guard asks how things stand and fails as a Conflict; a batch refused here could never be written.
"""

from __future__ import annotations

from collections.abc import Iterator

from baton_server.core.events import TERMINAL
from baton_server.ports.store import KEPT_BACK, Batch, CallState, Move, NewEvent, TurnWrite


def check(batch: Batch) -> None:
    """Raise ValueError that names everything which contradicts itself in a batch."""
    problems = [*_scope(batch), *_session(batch), *_turns(batch), *_events(batch), *_calls(batch)]
    if problems:
        raise ValueError("the batch cannot be written: " + "; ".join(problems))


def turn_writes(batch: Batch) -> tuple[TurnWrite, ...]:
    """List the one or two turns that a batch writes, in order."""
    if batch.turn is None:
        return () if batch.next_turn is None else (batch.next_turn,)
    return (batch.turn,) if batch.next_turn is None else (batch.turn, batch.next_turn)


def _scope(batch: Batch) -> Iterator[str]:
    of_a_session = (
        batch.session,
        batch.turn,
        batch.next_turn,
        batch.events,
        batch.withdrawn,
        batch.contents,
        batch.calls_opened,
        batch.grants,
    )
    if not batch.session_id and (any(of_a_session) or batch.session_deleted):
        yield "it writes to a session, but `session_id` is empty"
    if batch.session_deleted and any(of_a_session):
        yield "it deletes the session that it writes to"
    for call in batch.calls_opened:
        if call.session_id != batch.session_id:
            yield f"the call {call.call_id!r} is of the session {call.session_id!r}, not {batch.session_id!r}"
    for grant in batch.grants:
        if grant.session_id != batch.session_id:
            yield f"the grant of {grant.tool!r} is of the session {grant.session_id!r}, not {batch.session_id!r}"


def _session(batch: Batch) -> Iterator[str]:
    new = batch.session.new if batch.session is not None else None
    if new is not None and new.session_id != batch.session_id:
        yield f"the new session is {new.session_id!r}, not {batch.session_id!r}"


def _turns(batch: Batch) -> Iterator[str]:
    own = {event.turn_id for event in batch.events}
    for write in turn_writes(batch):
        row = write.row
        if row.session_id != batch.session_id:
            yield f"the turn {row.turn_id!r} is of the session {row.session_id!r}, not {batch.session_id!r}"
        if write.ends is not (row.status in TERMINAL):
            yield f"the turn {row.turn_id!r} has `ends` {write.ends} with the status {row.status}"
        if write.starts and row.turn_id not in own:
            yield f"the turn {row.turn_id!r} starts without an event of its own"


def _events(batch: Batch) -> Iterator[str]:
    if batch.withdrawn and not batch.events:
        yield "items leave the history without an event"
    for event in batch.events:
        item = event.item
        if item is not None and item.turn_id != event.turn_id:
            yield f"the item {item.item_id!r} is of the turn {item.turn_id!r}, its event of {event.turn_id!r}"


def _calls(batch: Batch) -> Iterator[str]:
    for call in batch.calls_opened:
        if call.decide_by is not None and call.state is not CallState.AWAITING_DECISION:
            yield f"the call {call.call_id!r} is opened as {call.state}, with a `decide_by` of {call.decide_by}"
    for move in batch.moves:
        yield from _moved(move)
    for parked in batch.parked:
        if parked.state not in (CallState.CHECKED, CallState.EFFECT_UNKNOWN):
            yield f"the call {parked.call_id!r} is parked as {parked.state}, not as checked or effect_unknown"


def _moved(move: Move) -> Iterator[str]:
    if move.state not in (*KEPT_BACK, CallState.QUEUED):
        yield f"the call {move.call_id!r} is moved to {move.state}, not to held, awaiting_decision or queued"
    asked = move.arguments_digest or move.definition_digest or move.decide_by is not None
    if asked and move.state is not CallState.AWAITING_DECISION:
        yield f"the call {move.call_id!r} is moved to {move.state}, with what belongs to a decision that is asked"


def spans(events: tuple[NewEvent, ...], first: int) -> dict[str, tuple[int, int]]:
    """Find the first and last sequence of each turn's events, when the batch begins at sequence `first`."""
    found: dict[str, tuple[int, int]] = {}
    for sequence, event in enumerate(events, first):
        start, _ = found.get(event.turn_id, (sequence, sequence))
        found[event.turn_id] = (start, sequence)
    found.pop("", None)
    return found
