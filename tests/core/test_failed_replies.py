"""What a turn that fails over its last reply leaves to the next one: calls that gave something, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, say, think

from baton_server.core.agents import Agent, Guardrail, Handoff, ToolUseBehavior
from baton_server.core.errors import Reason
from baton_server.core.events import ItemsWithdrawn, Withdrawal
from baton_server.core.items import Settlement
from baton_server.core.run_config import History, HistoryMode, RunConfig
from baton_server.core.tools import Approval, FailureText, Terms

FATAL = replace(WEATHER, on_crash=FailureText(fail_turn=True))
NOTED = ("take_note", '{"text":"x"}')


def turn_of(config: RunConfig | None = None, **fields: Any) -> Turn:
    """Begins a turn of an agent with a function whose failure ends the turn."""
    turn = Turn(agent=Agent(name="Helper", tools=(FATAL, NOTE), **fields), others=(Agent(name="Other"),), config=config)
    turn.begin()
    return turn


def types(turn: Turn) -> list[str]:
    """Says what a later turn finds of this one, behind its input."""
    return [item["type"] for item in turn.kept()[1:]]


def withdrawn(turn: Turn) -> list[Withdrawal]:
    """Says why items left the history, once for each time."""
    return [event.body.reason for event in turn.log if isinstance(event.body, ItemsWithdrawn)]


def test_what_gave_nothing_leaves_the_history_with_all_that_was_said_beside_it() -> None:
    """The call that failed, one that was cut short, the message and the reasoning; the call that is done stays."""
    turn = turn_of()
    turn.reply(think(), say("Let me see."), call(*NOTED, id="c1"), call(id="c2"), call(*NOTED, id="c3"))
    note, weather, _ = turn.open

    turn.settle(note, "noted")
    turn.settle(weather, "down", Settlement.CRASH)

    assert turn.reason is Reason.TOOL_FAILED
    assert [item["call_id"] for item in turn.kept()[1:]] == ["c1", "c1"]
    assert types(turn) == ["function_call", "function_call_output"]
    assert withdrawn(turn) == [Withdrawal.FAILED]


def test_earlier_rounds_stay_whole() -> None:
    """Only the last reply is what the turn failed over."""
    turn = turn_of()
    turn.reply(think(), say("Let me see."), call(*NOTED, id="c1"))
    turn.settle(turn.open[0], "noted")
    turn.reply(call(id="c2"))

    turn.settle(turn.open[0], "down", Settlement.CRASH)

    assert types(turn) == ["reasoning", "message", "function_call", "function_call_output"]


def test_a_handoff_under_way_leaves_the_history() -> None:
    """The next turn does not find that the word was given to somebody."""
    turn = turn_of(handoffs=(Handoff(name="transfer_to_other", agent="Other"),))
    turn.reply(call("transfer_to_other", "{}", id="c1"), call(id="c2"))

    turn.settle(turn.open[0], "down", Settlement.CRASH)

    assert turn.kept() == turn.input[:1]


def test_nothing_leaves_where_the_last_reply_is_done_with() -> None:
    """A limit of rounds is met between two replies."""
    turn = turn_of(RunConfig(max_turns=1))
    turn.reply(call(*NOTED))

    turn.settle(turn.open[0], "noted")

    assert turn.reason is Reason.MAX_TURNS_EXCEEDED
    assert types(turn) == ["function_call", "function_call_output"]
    assert withdrawn(turn) == []


def test_where_the_models_api_keeps_the_history_no_output_counts() -> None:
    """It was told of none of them, and the next turn does not bring them."""
    history = History(mode=HistoryMode.CONVERSATION, id="conv_1")
    turn = turn_of(RunConfig(history=history))
    turn.reply(call(*NOTED, id="c1"), call(id="c2"))
    note, weather = turn.open

    turn.settle(note, "noted")
    turn.settle(weather, "down", Settlement.CRASH)

    assert turn.kept() == turn.input[:1]


@pytest.mark.parametrize(("thought", "left"), [(False, ["function_call", "function_call_output"]), (True, [])])
def test_a_withheld_output_leaves_its_call_alone(thought: bool, left: list[str]) -> None:
    """No message stays; with reasoning not even the call, since a model's API takes neither without the other."""
    secrets = Guardrail(name="secrets", check=Terms(terms=("secret",)))
    turn = turn_of(tool_use=ToolUseBehavior(stop_on_first=True), output_guardrails=(secrets,))
    turn.reply(*([think()] if thought else []), say("Let me see."), call(*NOTED))

    turn.settle(turn.open[0], "a secret")

    assert turn.reason is Reason.OUTPUT_GUARDRAIL_TRIPPED
    assert types(turn) == left


def test_a_decision_that_lasts_keeps_the_order_of_the_calls() -> None:
    """Decided about the second of three calls, it holds for the first one first."""
    careful = replace(WEATHER, approval=Approval(always=True))
    turn = Turn(agent=Agent(name="Helper", tools=(careful,)))
    turn.begin()
    turn.reply(call(id="c1"), call(id="c2"), call(id="c3"))

    turn.decide(turn.open[1], approve=False, always=True)

    outputs = [item["call_id"] for item in turn.sent() if item.get("type") == "function_call_output"]
    assert outputs == ["c1", "c2", "c3"]


def test_arguments_that_do_not_fit_end_the_turn_where_a_failure_of_the_function_does() -> None:
    """It is the model's fault, and found before anything of the reply has run: none of it stays."""
    turn = turn_of()

    turn.reply(think(), call(*NOTED, id="c1"), call(arguments='{"town":"Kyoto"}', id="c2"))

    assert (turn.reason, turn.open) == (Reason.MODEL_BEHAVIOR_ERROR, [])
    assert turn.state.failure is not None
    assert "city" in turn.state.failure.message
    assert types(turn) == []
    assert withdrawn(turn) == [Withdrawal.FAILED]


def test_where_it_does_not_the_model_is_told() -> None:
    """The function beside it that ends the turn when it fails has not failed."""
    turn = turn_of()

    turn.reply(call("take_note", "[]", id="c1"), call(id="c2"))

    assert (turn.reason, len(turn.open)) == (None, 1)
