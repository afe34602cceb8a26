"""What a person at the prompt is asked about a call, and what becomes of the line that is typed; without a server."""

from __future__ import annotations

from typing import Any

import pytest

from baton import FunctionError
from baton.v1 import event_pb2
from baton_server.cli.talk.answering import Asking, asking_for

YES, NO = event_pb2.VERDICT_APPROVE, event_pb2.VERDICT_REJECT


def action(state: str, **fields: Any) -> event_pb2.RequiredAction:
    """Make an open call of a function."""
    return event_pb2.RequiredAction(
        call_id="call_1",
        agent="Billing",
        name="refund",
        arguments_json='{"cents":100}',
        state=event_pb2.RequiredActionState.Value(f"REQUIRED_ACTION_STATE_{state}"),
        **{"kind": event_pb2.REQUIRED_ACTION_KIND_FUNCTION_CALL, **fields},
    )


def asking(state: str) -> Asking:
    """Find how a call in a state is asked for."""
    found = asking_for(action(state))
    assert found is not None
    return found


def test_a_call_that_must_be_allowed_is_shown_with_its_arguments() -> None:
    """Whoever allows it sees what for, and what can be typed."""
    shown = asking("AWAITING_DECISION")

    assert shown.prompt(action("AWAITING_DECISION")) == 'Allow refund({"cents":100})? [y]es, [n]o, [a]lways: '
    assert shown.explain(action("AWAITING_DECISION")).startswith("Billing may call refund only if you allow it. Type y")


@pytest.mark.parametrize(
    ("line", "verdict", "always", "message"),
    [
        ("y", YES, False, ""),
        ("YES", YES, False, ""),
        ("a", YES, True, ""),
        ("always", YES, True, ""),
        ("n", NO, False, ""),
        ("no not  on a Sunday ", NO, False, "not  on a Sunday"),
    ],
)
def test_a_line_is_a_decision(line: str, verdict: event_pb2.Verdict.ValueType, always: bool, message: str) -> None:
    """A no may say why; the model is told."""
    made = asking("AWAITING_DECISION").read(line)

    assert made == event_pb2.Decision(verdict=verdict, always=always, message=message)


@pytest.mark.parametrize("line", ["maybe", "/error broken", "y because", "18 °C"])
def test_a_line_that_is_no_decision_says_what_is(line: str) -> None:
    """Nothing that was not clearly allowed is."""
    with pytest.raises(ValueError, match="type y, n, n TEXT or a"):
        asking("AWAITING_DECISION").read(line)


@pytest.mark.parametrize("state", ["UNSERVED", "QUEUED", "EFFECT_UNKNOWN"])
def test_in_any_other_state_a_result_is_asked_for(state: str) -> None:
    """As it is, or as a failure."""
    shown = asking(state)

    assert shown.prompt(action(state)) == "refund = "
    assert shown.read("y") == "y"
    assert isinstance(shown.read("/error gone"), FunctionError)


def test_a_kind_of_a_later_version_is_not_asked_for() -> None:
    """Whatever it is, this version cannot answer it."""
    later: Any = 9

    assert asking_for(action("AWAITING_DECISION", kind=later)) is None
