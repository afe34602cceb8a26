"""The laws: what must be true of any turn at any time, whatever came in which order."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from baton_server.core import ids
from baton_server.core.agents import History
from baton_server.core.commands import AskGuardrails, CallModel, CheckEffect, Command, ServeCall, StopCalls, pending
from baton_server.core.events import (
    TERMINAL,
    CancelMode,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    TurnEnded,
    TurnStatus,
)
from baton_server.core.items import ItemStatus, Usage
from baton_server.core.state import Doubt, Phase, TurnState

if TYPE_CHECKING:
    from tests.core.driving import Turn


def assert_equal(one: TurnState, other: TurnState) -> None:
    """Compares two states, whatever their classes, field by field."""
    for field in fields(TurnState):
        assert getattr(one, field.name) == getattr(other, field.name), field.name


def assert_laws(turn: Turn) -> None:
    """Holds a turn against everything that must be true of any turn at any time."""
    assert_equal(turn.state, turn.state.twin)
    assert_equal(turn.state, rebuilt_from_store(turn))
    assert_ends_once(turn)
    assert_status(turn.state)
    assert_items(turn)
    rounds = [event.body for event in turn.log if isinstance(event.body, RoundCompleted)]
    assert turn.state.rounds == len(rounds) == len(turn.state.round_usage)
    assert turn.state.usage == sum((body.usage for body in rounds), Usage())


def rebuilt_from_store(turn: Turn) -> TurnState:
    """Rebuilds the state as a host does: events without the texts of items, those looked up where kept."""
    texts = {item.item_id: item.json for item, _ in turn.recorded() if item.json}
    events = []
    for event in turn.log:
        body = event.body
        if isinstance(body, ItemAdded | ItemDone):
            bare = replace(body.item, json="")
            body = replace(body, item=replace(bare, json=texts.get(bare.item_id, "")))
        events.append(replace(event, body=body))
    return TurnState.rebuilt(turn.created, turn.pinned, events)


def assert_ends_once(turn: Turn) -> None:
    """At most one terminal event, the last one, and no call open behind it."""
    ends = [place for place, event in enumerate(turn.log) if isinstance(event.body, TurnEnded)]
    assert ends == ([len(turn.log) - 1] if turn.state.over else [])
    if ends:
        end = turn.log[-1].body
        assert isinstance(end, TurnEnded)
        assert end.turn == turn.state.snapshot()
        assert (end.turn.output is not None) == (end.turn.status is TurnStatus.COMPLETED)
        assert (end.turn.failure is not None) == (end.turn.status is TurnStatus.FAILED)
        assert not turn.state.open_calls


def assert_status(state: TurnState) -> None:
    """Status, phase, open calls and what is owed agree."""
    assert (state.status is TurnStatus.WAITING) == (state.phase is Phase.CALLS) == bool(state.open_calls)
    assert (state.status is TurnStatus.QUEUED) == (state.phase is Phase.QUEUED)
    assert (state.status is TurnStatus.IN_PROGRESS) == (state.phase is Phase.MODEL)
    assert [call_id for call_id, known in state.calls.items() if not known.settled] == list(state.open_calls)
    assert (state.status in TERMINAL) == (state.phase is Phase.OVER) == state.over
    owed = pending(state)
    assert len({command.key for command in owed}) == len(owed)
    if state.phase in (Phase.QUEUED, Phase.OVER):
        assert not owed
    if state.phase is Phase.MODEL:
        assert_owes_model(state, owed)
    if state.phase is Phase.CALLS:
        assert_owes_calls(state, owed)


def assert_owes_model(state: TurnState, owed: tuple[Command, ...]) -> None:
    """The model is asked, unless a guardrail comes first; messages and replies wait for every guardrail."""
    request, asked = CallModel(round=state.rounds + 1), state.open_guardrails()
    if not asked:
        assert owed == (request,)
    else:
        blocking = any(guardrail.blocking for _, guardrail in asked)
        assert owed[1:] == (() if blocking else (request,))
        assert isinstance(owed[0], AskGuardrails)
        assert list(owed[0].hooks) == asked
    assert state.takes_messages == (not asked)
    assert state.holds_reply == bool(asked)


def assert_owes_calls(state: TurnState, owed: tuple[Command, ...]) -> None:
    """Each open call is served, checked, joined to an older one with its key, or nobody's but the outside's."""
    if state.cancel is CancelMode.NOW:
        assert owed == (StopCalls(call_ids=tuple(state.open_calls)),)
        return
    served = [command.call_id for command in owed if isinstance(command, ServeCall)]
    checked = [command.call_id for command in owed if isinstance(command, CheckEffect)]
    doubts = {call_id: state.calls[call_id].doubt for call_id in state.open_calls}
    joined = [call_id for call_id in state.open_calls if state.joined_to(call_id)]
    assert checked == [call_id for call_id, doubt in doubts.items() if doubt is Doubt.CHECKED]
    assert served == [call_id for call_id, doubt in doubts.items() if doubt is None and call_id not in joined]
    keys = [state.calls[call_id].key for call_id in state.open_calls if call_id not in joined]
    assert len(set(keys)) == len(keys)
    for call_id in joined:
        assert state.succeeded(state.calls[call_id].call.idempotency_key) is None


def assert_items(turn: Turn) -> None:
    """Ids are unique, numbers grow in the model's order, and what goes to a model is well formed."""
    recorded = turn.recorded()
    assert len({item.item_id for item, _ in recorded}) == len(recorded)
    numbers = [ids.number_of(item.item_id) for item, _ in recorded]
    assert turn.state.next_number > max(numbers, default=-1)
    seen = turn.state.ordered_items()
    assert [item.item_id for item in seen] == sorted(item.item_id for item in seen)
    if turn.pinned.config.history is History.CALLER:
        assert not any(in_history for _, in_history in recorded)
    else:
        assert {item.item_id for item, in_history in recorded if in_history} == {i.item_id for i in seen}
    for item, in_history in recorded:
        if item.status is ItemStatus.REJECTED or not item.json:
            assert not in_history
    if turn.state.phase in (Phase.MODEL, Phase.OVER):
        assert_well_formed(turn.input)


def assert_well_formed(request: list[dict[str, Any]]) -> None:
    """Each call of a request has exactly one output behind it, and no output is without its call."""
    calls: list[str] = []
    answered: list[str] = []
    for item in request:
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in calls
            answered.append(item["call_id"])
    assert len(set(calls)) == len(calls)
    assert answered == calls
