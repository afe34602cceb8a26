"""Causes in words that need no worker: a decision that is waited for, and what a turn keeps back."""

from __future__ import annotations

from typing import Any

from baton_server.app.calls import causes
from baton_server.app.calls.causes import Now
from baton_server.ports.store import CallRow
from baton_server.ports.workers import CauseKind

NOW = Now(monotonic=0.0, wall=1000.0)


def call(**fields: Any) -> CallRow:
    """Make a call."""
    return CallRow(
        call_id="call_1",
        session_id="sess_1",
        turn_id="turn_1",
        name="refund",
        agent="Billing",
        arguments="{}",
        scopes=("",),
        **fields,
    )


def test_a_decision_that_is_waited_for_says_until_when() -> None:
    """And what happens if nobody makes one."""
    told = causes.awaiting_decision(call(decide_by=1300.0), NOW)

    assert (told.kind, told.until) == (CauseKind.AWAITING_DECISION, 1300.0)
    assert "Somebody must allow 'refund'" in told.text and "rejected by itself in 5 min" in told.text


def test_a_decision_may_be_waited_for_without_end() -> None:
    """Then nothing ends by itself."""
    told = causes.awaiting_decision(call(), NOW)

    assert told.until is None
    assert "however long it takes" in told.text


def test_a_call_beyond_what_its_turn_runs_at_once_says_how_many_go_on() -> None:
    """One of them has to be settled first."""
    told = causes.held(2, 2)

    assert told.kind is CauseKind.HELD
    assert "lets 2 functions run at once, and 2 calls of it go on" in told.text


def test_a_call_that_is_held_otherwise_waits_for_a_hook() -> None:
    """Whether there is a limit that is not reached, or none."""
    for limit, running in ((None, 5), (2, 1)):
        assert "until a hook about it is answered" in causes.held(limit, running).text
