"""Replies: which one ends the turn and with what, which one leads on, which one the model must not give."""

import pytest
from tests.core.driving import Turn
from tests.core.making import USAGE, call, hosted, names, refuse, say, think

from baton_server.core.commands import CallModel
from baton_server.core.errors import Reason
from baton_server.core.events import TurnStatus
from baton_server.core.items import FunctionCall, ItemStatus
from baton_server.core.responses import read_item


def test_a_text_ends_the_turn_with_that_text() -> None:
    """One round, one message: the run's output."""
    turn = Turn()

    begun, replied = turn.begin("Hi"), turn.reply(say("Hello."))

    assert names(begun) == ["TurnInProgress", "AgentChanged", "ItemAdded"]
    assert names(replied) == ["ItemDone", "RoundCompleted", "TurnEnded"]
    assert (turn.status, turn.state.output, turn.state.failure) == (TurnStatus.COMPLETED, "Hello.", None)
    assert turn.input[0] == {"content": "Hi", "role": "user"}


def test_text_beside_calls_is_no_answer_yet() -> None:
    """The message joins the history and the turn goes on with the calls."""
    turn = Turn()
    turn.begin()
    turn.reply(say("Let me look."), call())
    assert turn.status is TurnStatus.WAITING

    turn.settle(turn.open[0])
    turn.reply(say("Rain."))

    assert turn.state.output == "Rain."
    assert [item.get("type") for item in turn.input].count("message") == 2


def test_an_empty_reply_is_an_empty_output() -> None:
    """No item at all: the turn is complete, and says nothing."""
    turn = Turn()
    turn.begin()

    turn.reply()

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, "")


def test_a_thought_alone_is_an_empty_output() -> None:
    """Reasoning is no tool activity: there is nothing to go on with."""
    turn = Turn()
    turn.begin()

    turn.reply(think())

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, "")


def test_of_several_messages_the_last_is_the_output() -> None:
    """All of them are kept; the last one counts."""
    turn = Turn()
    turn.begin()

    turn.reply(say("First."), say("Second."))

    assert turn.state.output == "Second."
    assert len(turn.input) == 3


def test_the_parts_of_the_last_message_are_joined() -> None:
    """A message may come in several texts."""
    parts = [{"type": "output_text", "text": text} for text in ("Ra", "in.")]
    turn = Turn()
    turn.begin()

    turn.reply(read_item({"type": "message", "role": "assistant", "content": parts}))

    assert turn.state.output == "Rain."


def test_hosted_tools_without_a_message_lead_to_another_round() -> None:
    """The provider has worked, and has not spoken yet."""
    turn = Turn()
    turn.begin()

    replied = turn.reply(think(), hosted())

    assert names(replied) == ["ItemDone", "ItemDone", "RoundCompleted"]
    assert turn.owed == (CallModel(round=2),)


def test_hosted_tools_with_a_message_are_an_answer() -> None:
    """The message came after the search: nothing is left to do."""
    turn = Turn()
    turn.begin()

    turn.reply(hosted(), say("Found it."))

    assert turn.state.output == "Found it."


def test_a_refusal_fails_the_turn_and_leaves_the_history() -> None:
    """The reason carries the model's words; the next turn starts as if they had not been said."""
    turn = Turn()
    turn.begin()

    turn.reply(refuse("I will not."))

    assert (turn.status, turn.reason) == (TurnStatus.FAILED, Reason.MODEL_REFUSAL)
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"refusal": "I will not."}
    assert turn.kept() == turn.input[:1]


def test_a_refusal_beside_a_call_is_passed_over() -> None:
    """The call says that the model goes on."""
    turn = Turn()
    turn.begin()

    turn.reply(refuse("Not without the weather."), call())

    assert turn.status is TurnStatus.WAITING


def test_long_words_of_a_model_do_not_swell_the_failure() -> None:
    """A failure's message stays under 1 KiB in UTF-8, whatever the model wrote."""
    turn = Turn()
    turn.begin()

    turn.reply(refuse("否" * 5000))

    assert turn.state.failure is not None
    assert len(turn.state.failure.message.encode()) < 1024
    assert turn.state.failure.metadata["refusal"] == "否" * 170


def test_an_incomplete_reply_fails_the_turn_and_is_kept_out_of_the_history() -> None:
    """Cut off at the model's limit: its items are in the log, rejected, and its tokens count."""
    turn = Turn()
    turn.begin()

    replied = turn.reply(say("Once upon a"), incomplete_reason="max_output_tokens")

    assert names(replied) == ["ItemDone", "RoundCompleted", "TurnEnded"]
    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"incomplete": "max_output_tokens"}
    item, in_history = turn.recorded()[-1]
    assert (item.status, in_history, item.json) == (ItemStatus.REJECTED, False, "")
    assert turn.state.usage == USAGE


def test_an_incomplete_call_is_never_executed() -> None:
    """Its arguments may be cut off in the middle."""
    turn = Turn()
    turn.begin()

    turn.reply(call(), incomplete_reason="max_output_tokens")

    assert turn.owed == ()
    assert turn.status is TurnStatus.FAILED


def test_a_function_that_the_agent_does_not_have_fails_the_turn() -> None:
    """The whole reply is rejected: nothing of it is executed, and nobody owes an output."""
    turn = Turn()
    turn.begin()

    replied = turn.reply(say("Looking."), call(id="c1"), call("get_time", id="c2"))

    assert names(replied) == ["ItemDone", "ItemAdded", "ItemAdded", "RoundCompleted", "TurnEnded"]
    items = turn.recorded()[1:]
    assert {(item.status, in_history) for item, in_history in items} == {(ItemStatus.REJECTED, False)}
    assert turn.open == []
    assert not turn.state.own.used_tools
    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"tool": "get_time", "agent": "Helper"}
    assert [item.get("role") for item in turn.input] == ["user"]


def test_a_made_up_name_of_any_length_fits_into_the_failure() -> None:
    """Names come from the model and may be anything."""
    turn = Turn()
    turn.begin()

    turn.reply(call("x" * 100_000))

    assert turn.state.failure is not None
    assert len(turn.state.failure.message) < 1024
    assert turn.state.failure.metadata["tool"] == "x" * 128


def test_a_call_said_twice_over_is_executed_once() -> None:
    """Same id, name and arguments: one call; the other is in the log alone. All keep the places that deltas named."""
    turn = Turn()
    turn.begin()

    turn.reply(call(id="c1"), call(id="c1"), call(id="c2"))

    assert len(turn.open) == 2
    calls = [(item, kept) for item, kept in turn.recorded() if isinstance(item.body, FunctionCall)]
    told = [(item.body.model_call_id, item.output_index) for item, _ in calls if item.status is not ItemStatus.REJECTED]
    assert told == [("c1", 0), ("c2", 2)]
    passed_over = [(item.output_index, kept) for item, kept in calls if item.status is ItemStatus.REJECTED]
    assert passed_over == [(1, False)]


@pytest.mark.parametrize("second", [call("take_note", "{}"), call(arguments='{"city":"Oslo"}')])
def test_a_call_id_used_for_two_calls_fails_the_turn(second: object) -> None:
    """Outputs go back by this id: two calls under one id could not be told apart."""
    turn = Turn()
    turn.begin()

    turn.reply(call(), second)

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.state.failure is not None
    assert turn.state.failure.metadata["call_id"] == "c1"


@pytest.mark.parametrize("arguments", ['{"city":"Kyoto"}', '{ "city" : "Kyoto" }'])
def test_a_call_of_an_earlier_round_is_not_executed_again(arguments: str) -> None:
    """It was answered already, however its arguments are spelled: the model is asked again, as if it had not spoken."""
    turn = Turn()
    turn.begin()
    turn.reply(call(arguments='{"city":"Kyoto"}'))
    turn.settle(turn.open[0])

    turn.reply(think(), call(arguments=arguments))

    assert (turn.reason, turn.open, len(turn.outputs)) == (None, [], 1)
    assert turn.state.rounds == 2
    turn.reply(say("Done."))
    assert turn.state.output == "Done."


def test_a_message_beside_a_repeated_call_is_final() -> None:
    """Nothing is left to be done: the model has said its last word."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])

    turn.reply(say("Once more."), call())

    assert turn.state.output == "Once more."


@pytest.mark.parametrize("second", [call("take_note", "{}"), call(arguments='{"city":"Oslo"}')])
def test_a_call_id_of_an_earlier_round_for_another_call_fails_the_turn(second: object) -> None:
    """The call of that id was answered already."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])

    turn.reply(second)

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert len(turn.outputs) == 1


def test_a_call_without_an_id_fails_the_turn() -> None:
    """No output could go back."""
    turn = Turn()
    turn.begin()

    nameless = {"type": "function_call", "call_id": "", "name": "get_weather", "arguments": "{}"}
    turn.reply(call(id="c1"), read_item(nameless, of_model=True))

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.open == []


def test_an_agent_without_functions_just_talks() -> None:
    """Any call is one too many."""
    turn = Turn(functions=())
    turn.begin()
    turn.reply(call())

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
