"""Steering: messages that join a running turn, and those that come too late for it."""

from tests.core.driving import Turn
from tests.core.making import call, names, say

from baton_server.core.commands import CallModel
from baton_server.core.events import CancelMode, TurnStatus
from baton_server.core.run_config import RunConfig


def test_a_steered_message_joins_before_the_next_request_behind_the_outputs() -> None:
    """The model reads its calls, their outputs, then what the user said meanwhile."""
    turn = Turn()
    turn.begin("Hi")
    turn.reply(call())
    turn.settle(turn.open[0], "rain")

    assert names(turn.steer("In Celsius, please.")) == ["ItemAdded"]

    assert [item.get("type", item.get("content")) for item in turn.input] == [
        "Hi",
        "function_call",
        "function_call_output",
        "In Celsius, please.",
    ]
    assert turn.recorded()[-1][1]
    assert turn.owed == (CallModel(round=2),)


def test_a_message_may_join_before_the_first_request() -> None:
    """The turn has begun and its request has not."""
    turn = Turn()
    turn.begin("Hi")

    turn.steer("Be brief.")
    turn.reply(say("OK."))

    assert [item.get("content") for item in turn.input][:2] == ["Hi", "Be brief."]


def test_no_message_joins_a_turn_that_is_queued_or_waits() -> None:
    """A host that asks first keeps the message for the right moment; nothing is recorded at a wrong one."""
    turn = Turn()
    assert not turn.taking
    assert turn.steer("Early.") == []

    turn.begin()
    turn.reply(call())

    assert not turn.taking
    assert turn.steer("While you wait.") == []


def test_a_message_stays_out_of_a_turn_that_reached_its_limit() -> None:
    """No request follows that could carry it: it is the host's to start the next turn with it."""
    turn = Turn(config=RunConfig(max_turns=1))
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])

    assert not turn.taking
    assert turn.steer("One more thing.") == []
    assert len(turn.input) == 3


def test_a_message_stays_out_of_a_turn_that_was_cancelled_after_its_round() -> None:
    """As with the limit."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.cancel(CancelMode.AFTER_ROUND)
    turn.settle(turn.open[0])

    assert turn.status is TurnStatus.CANCELLED
    assert turn.steer("One more thing.") == []


def test_a_message_stays_out_of_a_turn_that_has_its_answer() -> None:
    """The answer was given without it."""
    turn = Turn()
    turn.begin()
    turn.reply(say("Hello."))

    assert turn.steer("One more thing.") == []
