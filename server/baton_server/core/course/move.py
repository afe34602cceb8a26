"""The whole course of a turn: what it owes, and all that can be done at once."""

from __future__ import annotations

from baton_server.core import calls
from baton_server.core.commands import CallModel, CheckEffect, Command, ServeCall, StopCalls
from baton_server.core.course import ending, finishing, opening, rounds, tools
from baton_server.core.course.here import Here, Next
from baton_server.core.events import CancelMode, HookKind, SessionInProgress, SessionRequiresAction, TurnStatus
from baton_server.core.hooks.question import Question
from baton_server.core.recorder import Recorder
from baton_server.core.rules import Rules
from baton_server.core.state import TurnState


def go_on(record: Recorder) -> None:
    """Make all moves that can be made, the innermost run first, then say whether the turn waits."""
    owes = _moved(record)
    while owes is None:
        owes = _moved(record)
    if not record.state.over:
        _say_whether_it_waits(record, owes)
    record.state.owing.commands = owes


def owed(state: TurnState, rules: Rules) -> tuple[Command, ...]:
    """List what a turn owes, in the order in which it is to be begun. Empty: nothing, or for people alone."""
    if state.owing.commands is None:
        state.owing.commands = _owed(state, rules)
    return state.owing.commands


def _owed(state: TurnState, rules: Rules) -> tuple[Command, ...]:
    if state.queued or state.over:
        return ()
    if state.cancel is CancelMode.NOW:
        return _stops(state)
    commands: list[Command] = []
    for run in state.runs.values():
        said = _look(Here(state, run, rules))
        if isinstance(said, tuple):
            commands.extend(said)
    return tuple(commands)


def held(state: TurnState, rules: Rules) -> set[str]:
    """List the open calls that must not be handed out yet: a program is asked about them first, or others come first.

    Those that wait for a decision are none of them. One that waits for another one's result is: that one may fail, and
    then nobody has been asked about this one.
    """
    if state.pinned.hands_out_at_once or state.cancel is CancelMode.NOW:
        return set()
    kept = {call_id for call_id, call in state.open_calls.items() if call.awaiting is None}
    kept -= {one.call_id for one in owed(state, rules) if isinstance(one, ServeCall | CheckEffect)}
    return {one for one in kept if state.calls[one].doubt is None}


def takes_messages(state: TurnState, rules: Rules) -> bool:
    """Tell whether steered messages may join now: a model request is next, and nothing is answered about it yet."""
    run = state.own
    if state.queued or state.over or state.cancel is not None or opening.open_guardrails(state, run):
        return False
    if run.limit is not None and run.rounds >= run.limit:
        return False
    told = rounds.told_of_request(state, run)
    asked = told or any(hook.kind is HookKind.MODEL_INPUT_FILTER for hook in run.hooks.values())
    return not asked and _before_request(Here(state, run, rules)) is None


def holds_reply(state: TurnState, run_path: tuple[str, ...]) -> bool:
    """Tell whether a model's reply must wait before it is fed: a guardrail that runs beside it is asked."""
    run = state.runs.get(run_path)
    return run is not None and bool(opening.open_guardrails(state, run))


def _moved(record: Recorder) -> tuple[Command, ...] | None:
    """Make one move. Where there is none to make, say what the turn owes."""
    state = record.state
    if state.queued or state.over:
        return ()
    if calls.join_opened(record):
        return None
    if state.cancel is CancelMode.NOW:
        if not state.open_calls:
            ending.cancel(record)
        return _stops(state)
    commands: tuple[Command, ...] = ()
    for run in reversed(state.runs.values()):
        said = _look(Here(state, run, record.rules))
        if callable(said):
            said(record)
            return None
        commands = (*(said or ()), *commands)
    return commands


def _stops(state: TurnState) -> tuple[Command, ...]:
    return (StopCalls(call_ids=tuple(state.open_calls)),) if state.open_calls else ()


def _look(here: Here) -> Next:
    """Ask the stages of a run, one after another, what comes next."""
    if here.run.closed:
        return ()
    said = _before_request(here)
    return rounds.asking_model(here) if said is None else said


def _before_request(here: Here) -> Next:
    """Say what comes before another request of the model; None: that is next."""
    if here.run.rounds == 0:
        return opening.opening(here)
    told = finishing.reply_told(here)
    if told is not None:
        return told
    return _calls(here) if here.run.unsettled else finishing.after_reply(here)


def _calls(here: Here) -> Next:
    """Say what the calls of a reply need."""
    commands: list[Command] = []
    for call_id in here.run.unsettled:
        said = here.state.owing.of_call(call_id)
        if said is None:
            call = here.state.calls[call_id]
            found = tools.next_of(here, call)
            if callable(found):
                return found
            said = found or ()
            if not tools.hangs_on_others(here, call):
                here.state.owing.keep(call_id, said)
        commands.extend(said)
    return tuple(commands)


def _say_whether_it_waits(record: Recorder, owes: tuple[Command, ...]) -> None:
    """Record the edge where a turn begins, or ceases, to wait for nothing but what is open."""
    state = record.state
    if state.queued:
        return
    busy = any(isinstance(one, CallModel | Question) for one in owes)
    waits = not busy and bool(state.open_calls)
    if waits and state.status is TurnStatus.IN_PROGRESS:
        order = sorted(state.open_calls.values(), key=lambda call: call.call_id)
        record(SessionRequiresAction(calls=tuple(order)))
    elif not waits and state.status is TurnStatus.WAITING:
        record(SessionInProgress())
