"""The laws: what must be true of any turn at any time, whatever came in which order."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from baton_server.core import ids
from baton_server.core.commands import CallModel, CheckEffect, Command, ServeCall, StopCalls
from baton_server.core.events import (
    TERMINAL,
    CancelMode,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    TurnEnded,
    TurnStatus,
)
from baton_server.core.hooks.question import Question
from baton_server.core.items import ItemStatus, Usage
from baton_server.core.run import Doubt
from baton_server.core.run_config import HistoryMode
from baton_server.core.state import TurnState

if TYPE_CHECKING:
    from tests.core.driving import Turn


def assert_equal(one: TurnState, other: TurnState) -> None:
    """Compares two states, whatever their classes, field by field; what was merely told from them is none."""
    for field in fields(TurnState):
        if field.compare:
            assert getattr(one, field.name) == getattr(other, field.name), field.name


def assert_laws(turn: Turn) -> None:
    """Holds a turn against everything that must be true of any turn at any time."""
    assert_equal(turn.state, turn.twin)
    rebuilt = rebuilt_from_store(turn)
    assert_equal(turn.state, rebuilt)
    assert_owes_alike(turn, turn.runner.pending(rebuilt))
    assert turn.runner.held(turn.state) == turn.runner.held(rebuilt)
    assert_ends_once(turn)
    assert_status(turn)
    assert_items(turn)
    assert_runs(turn)


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


def assert_owes_alike(turn: Turn, rebuilt: tuple[Command, ...]) -> None:
    """What is kept of what a turn owes is what would be told anew, the words of its questions included."""
    assert turn.owed == rebuilt
    for kept, told in zip(turn.owed, rebuilt, strict=True):
        if isinstance(kept, Question) and isinstance(told, Question):
            assert kept.payload(turn.history) == told.payload(turn.history)


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


def assert_status(turn: Turn) -> None:
    """Status, open calls and what is owed agree; no turn waits for nobody."""
    state, owed = turn.state, turn.owed
    busy = any(isinstance(command, CallModel | Question) for command in owed)
    assert len({command.key for command in owed}) == len(owed)
    assert state.queued == (state.status is TurnStatus.QUEUED)
    assert state.over == (state.status in TERMINAL)
    if state.queued or state.over:
        assert owed == ()
        assert not state.open_calls
        assert not turn.taking
        return
    assert (state.status is TurnStatus.WAITING) == (not busy and bool(state.open_calls))
    assert owed or state.open_calls
    assert not (turn.heard & {command.hook_id for command in owed if isinstance(command, Question)})
    assert_open(turn)
    assert_owes_calls(turn, owed)
    assert_requests(turn, owed)


def assert_open(turn: Turn) -> None:
    """A call that is open has no output; one without is open, asked about, or goes on in a run of its own."""
    state = turn.state
    for call_id in state.open_calls:
        assert not state.calls[call_id].settled
    for run in state.runs.values():
        assert list(run.unsettled) == [one for one in run.calls if not state.calls[one].settled]


def assert_requests(turn: Turn, owed: tuple[Command, ...]) -> None:
    """At most one request of a run, for its next round; with a guardrail beside it, its reply waits."""
    requests = [command for command in owed if isinstance(command, CallModel)]
    assert len({command.run_path for command in requests}) == len(requests)
    for command in requests:
        run = turn.state.runs[command.run_path]
        assert command.round == run.rounds + 1
        assert not run.unsettled
        assert not run.closed
    if turn.taking:
        assert CallModel(round=turn.state.own.round) in requests or turn.questions()
        assert not turn.asked_of(())


def assert_owes_calls(turn: Turn, owed: tuple[Command, ...]) -> None:
    """Each open call is served, checked, kept back (held, or behind an older one of its key), or the outside's."""
    state = turn.state
    if state.cancel is CancelMode.NOW:
        assert owed == ((StopCalls(call_ids=tuple(state.open_calls)),) if state.open_calls else ())
        return
    served = [command.call_id for command in owed if isinstance(command, ServeCall)]
    checked = [command.call_id for command in owed if isinstance(command, CheckEffect)]
    held = turn.runner.held(state)
    joined = {call_id for call_id in state.open_calls if state.joined_to(call_id)}
    assert not (set(served) | set(checked)) & held
    for call_id, open_call in state.open_calls.items():
        doubt = state.calls[call_id].doubt
        if open_call.awaiting is not None:
            assert call_id not in (*served, *checked, *held)
        elif doubt is not None:
            assert (call_id in checked) == (doubt is Doubt.CHECKED)
        else:
            assert (call_id in served) + (call_id in held or call_id in joined) == 1
    assert {*served, *checked, *held} <= set(state.open_calls)
    keys = [state.calls[call_id].key for call_id in served]
    assert len(set(keys)) == len(keys)
    for call_id in served:
        assert state.succeeded(state.calls[call_id].call.idempotency_key) is None
    for call_id in joined:
        assert state.succeeded(state.calls[call_id].call.idempotency_key) is None


def assert_runs(turn: Turn) -> None:
    """Rounds and usage are those of the log; what a nested run made is kept as long as its call is open."""
    state = turn.state
    rounds = [event for event in turn.log if isinstance(event.body, RoundCompleted)]
    own = [event for event in rounds if not event.run_path]
    assert state.rounds == len(own) == len(state.round_usage)
    used = [event.body.usage for event in rounds if isinstance(event.body, RoundCompleted)]
    assert state.usage == sum(used, Usage())
    for path, run in state.runs.items():
        assert run.path == path
        assert not path or not state.calls[path[-1]].settled
    assert set(state.items) == {number for run in state.runs.values() for number in run.items}


def assert_items(turn: Turn) -> None:
    """Ids are unique, numbers grow in the model's order, and what goes to a model is well formed."""
    recorded = turn.recorded()
    assert len({item.item_id for item, _ in recorded}) == len(recorded)
    numbers = [ids.number_of(item.item_id) for item, _ in recorded]
    assert turn.state.next_number > max(numbers, default=-1)
    joined = {item.item_id for item, in_history in recorded if in_history}
    seen = turn.state.items_of(turn.state.own)
    if turn.pinned.config.mode is not HistoryMode.SESSION:
        assert not joined
    else:
        assert joined == {item.item_id for item in seen} - turn.carried_ids()
    for item, in_history in recorded:
        if item.status is ItemStatus.REJECTED or not item.json:
            assert not in_history
        assert not (item.run_path and in_history)
    if turn.state.over:
        assert_well_formed(turn.kept(), in_order=turn.is_plain())
    for command in turn.requests:
        if turn.pinned.config.mode is HistoryMode.SESSION and not turn.rewrites():
            assert_well_formed(turn.sent(command.run_path), in_order=turn.is_plain())


def assert_well_formed(request: list[dict[str, Any]], *, in_order: bool) -> None:
    """Each call of a request has exactly one output behind it, in the order of the calls where that is said."""
    calls: list[str] = []
    answered: list[str] = []
    for item in request:
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in calls
            answered.append(item["call_id"])
    assert len(set(calls)) == len(calls)
    assert answered == calls if in_order else sorted(answered) == sorted(calls)
