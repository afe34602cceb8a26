"""Where a turn stands, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Iterable

from baton.v1 import event_pb2, runner_pb2

ENDED = frozenset({event_pb2.TURN_STATUS_COMPLETED, event_pb2.TURN_STATUS_FAILED, event_pb2.TURN_STATUS_CANCELLED})
"""Nothing follows in a turn any more."""

_GOING_ON = frozenset({event_pb2.REQUIRED_ACTION_STATE_QUEUED, event_pb2.REQUIRED_ACTION_STATE_LEASED})


def rests(response: runner_pb2.RunResponse) -> bool:
    """Tell whether a turn rests: it has ended, or waits for nothing but what is paused."""
    if response.turn.status in ENDED:
        return True
    waiting = response.turn.status == event_pb2.TURN_STATUS_WAITING
    return waiting and not any(action.state in _GOING_ON for action in response.required_actions)


def undecided(actions: Iterable[event_pb2.RequiredAction]) -> list[event_pb2.RequiredAction]:
    """List the calls that wait for a decision, in the order of the calls: what is nested stands where its call does."""
    found = [action for action in actions if action.state == event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION]
    return sorted(found, key=lambda action: (*action.run_path, action.call_id))


def served_by(response: runner_pb2.RunResponse, names: frozenset[str]) -> bool:
    """Tell whether a run rests only because the stream of a process that serves these names is broken at the moment."""
    open_names = {action.name for action in response.required_actions}
    unknown = any(one.state == event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN for one in response.required_actions)
    waits = bool(unknown or undecided(response.required_actions))
    return response.turn.status not in ENDED and bool(open_names) and open_names <= names and not waits
