"""The order in which decisions are sent."""

from __future__ import annotations

from typing import Any

import pytest

from baton.context.approvals import Approvals, Ruling


def ruled(*decided: tuple[str, bool, bool], tool_name: str = "pay") -> Approvals:
    """Decide about calls in this order: call, approve, always."""
    approvals = Approvals()
    for call_id, approve, always in decided:
        said: dict[str, Any] = {"turn_id": "turn_1", "agent_name": "A", "tool_name": tool_name}
        approvals.take(Ruling(call_id=call_id, approve=approve, always=always, **said))
    return approvals


@pytest.mark.parametrize(
    ("decided", "sent"),
    [
        ([("c2", False, False), ("c1", True, False)], ["c1", "c2"]),
        ([("c1", True, True), ("c2", False, False)], ["c2", "c1"]),
        ([("c2", True, True), ("c1", True, True)], ["c1", "c2"]),
        ([("c9", True, False), ("c2", True, False)], ["c2"]),
    ],
)
def test_decisions_go_in_the_order_of_the_calls(decided: list[tuple[str, bool, bool]], sent: list[str]) -> None:
    """One that lasts comes last, or it would decide about a call that another decision is about."""
    assert [one.call_id for one in ruled(*decided).in_order(["c1", "c2"])] == sent


def test_decisions_about_other_functions_do_not_wait() -> None:
    """What lasts for one function leaves the calls of another one alone."""
    approvals = ruled(("c1", True, True))
    (other,) = ruled(("c2", False, False), tool_name="send").rulings
    approvals.take(other)

    assert [one.call_id for one in approvals.in_order(["c1", "c2"])] == ["c1", "c2"]
