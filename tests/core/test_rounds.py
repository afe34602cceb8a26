"""Rounds: the order of what is recorded, limits, late answers, what a turn costs and who made what."""

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hosted, names, say, think

from baton_server.core import request
from baton_server.core.agents import Agent
from baton_server.core.commands import CallModel, ServeCall
from baton_server.core.errors import Reason
from baton_server.core.events import ItemAdded, ItemDone, RoundCompleted, TurnEnded, TurnStatus
from baton_server.core.inputs import Begun
from baton_server.core.items import Message, TextPart, Usage
from baton_server.core.responses import read_item, user_message
from baton_server.core.run_config import History, HistoryMode, RunConfig


def test_a_queued_turn_owes_nothing_and_a_begun_one_its_first_reply() -> None:
    """The host asks the model only once the turn has left the queue."""
    turn = Turn()
    assert turn.owed == ()

    turn.begin()

    assert turn.owed == (CallModel(round=1),)


def test_a_turn_begins_once() -> None:
    """A start that is fed again does not put the input in twice."""
    turn = Turn()
    turn.begin("Hi")

    assert turn.begin("Hi") == []
    assert len(turn.input) == 1


def test_calls_are_recorded_before_the_turn_waits_for_them() -> None:
    """The order of one commit: thought, call, round, and only then the pause that names the open call."""
    turn = Turn()
    turn.begin()

    replied = turn.reply(think(), call())

    assert names(replied) == ["ItemDone", "ItemAdded", "RoundCompleted", "SessionRequiresAction"]
    (open_call,) = replied[-1].calls
    assert (open_call.name, open_call.agent, open_call.arguments) == (
        "get_weather",
        "Helper",
        '{"city":"Kyoto"}',
    )
    assert turn.owed == (ServeCall(call_id=open_call.call_id),)


def test_calls_in_successive_rounds_each_lead_to_another_request() -> None:
    """Call, output, call, output, text: three rounds, five items in the model's order."""
    turn = Turn()
    turn.begin()
    turn.reply(call(id="c1"))
    assert names(turn.settle(turn.open[0], "rain")) == ["ItemAdded", "SessionInProgress"]
    assert turn.owed == (CallModel(round=2),)
    turn.reply(call(id="c2"))
    turn.settle(turn.open[0], "sun")
    turn.reply(say("Rain, then sun."))

    kinds = [item.get("type", item.get("role")) for item in turn.input]
    pair = ["function_call", "function_call_output"]
    assert kinds == ["user", *pair, *pair, "message"]
    assert (turn.state.rounds, turn.state.output) == (3, "Rain, then sun.")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_outputs_stand_in_call_order_whichever_result_comes_first(order: tuple[int, ...]) -> None:
    """Parallel calls finish as they like; the model reads the outputs as it asked for them."""
    turn = Turn()
    turn.begin()
    turn.reply(*(call(id=f"c{n}") for n in range(3)))
    calls = turn.open

    for n in order:
        assert turn.status is TurnStatus.WAITING
        turn.settle(calls[n], f"output {n}")

    assert turn.outputs == ["output 0", "output 1", "output 2"]
    assert turn.status is TurnStatus.IN_PROGRESS


def test_the_places_of_outputs_are_kept_when_the_reply_comes() -> None:
    """An output's id follows from its call, not from when it came."""
    first, second = Turn(), Turn()
    for turn in (first, second):
        turn.begin()
        turn.reply(call(id="c1"), call(id="c2"))
    one, two = first.open

    first.settle(one)
    first.settle(two)
    second.settle(two)
    second.settle(one)

    assert first.state.items == second.state.items


def test_a_failed_model_request_fails_the_turn_with_its_own_reason() -> None:
    """What was done in earlier rounds stays in the history."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])

    assert names(turn.fail()) == ["TurnEnded"]

    assert (turn.status, turn.reason) == (TurnStatus.FAILED, Reason.MODEL_UNAVAILABLE)
    assert len(turn.input) == 3


@pytest.mark.parametrize("of_round", [0, 1, 3])
def test_an_answer_of_another_round_changes_nothing(of_round: int) -> None:
    """A reply or failure that comes twice, or for a round that is not owed, gives no event."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])

    assert turn.reply(say("Late."), of_round=of_round) == []
    assert turn.fail(of_round=of_round) == []
    assert turn.owed == (CallModel(round=2),)


def test_a_reply_changes_nothing_while_calls_are_open() -> None:
    """The next round was not asked for yet."""
    turn = Turn()
    turn.begin()
    turn.reply(call())

    assert turn.reply(say("Eager.")) == []
    assert turn.status is TurnStatus.WAITING


def test_no_round_is_allowed_with_a_limit_of_zero() -> None:
    """The input is recorded, and no model is asked."""
    turn = Turn(config=RunConfig(max_turns=0))

    turn.begin()

    assert (turn.status, turn.reason, turn.state.rounds) == (
        TurnStatus.FAILED,
        Reason.MAX_TURNS_EXCEEDED,
        0,
    )
    assert len(turn.input) == 1


@pytest.mark.parametrize("limit", [1, 3])
def test_the_last_allowed_round_finishes_its_calls(limit: int) -> None:
    """The limit is on requests: the outputs of the last round are kept for a turn that goes on from here."""
    turn = Turn(config=RunConfig(max_turns=limit))
    turn.begin()

    for n in range(limit):
        assert turn.status is TurnStatus.IN_PROGRESS
        turn.reply(call(id=f"c{n}"))
        ended = turn.settle(turn.open[0])

    assert names(ended) == ["ItemAdded", "TurnEnded"]
    assert (turn.reason, turn.state.rounds) == (Reason.MAX_TURNS_EXCEEDED, limit)
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"max_turns": str(limit)}
    assert len(turn.outputs) == limit


def test_an_answer_in_the_last_allowed_round_is_in_time() -> None:
    """A limit of one is one request."""
    turn = Turn(config=RunConfig(max_turns=1))
    turn.begin()

    turn.reply(say("Done."))

    assert turn.status is TurnStatus.COMPLETED


def test_without_a_limit_a_turn_goes_on_as_long_as_the_model_calls() -> None:
    """Far beyond the default of ten."""
    turn = Turn(config=RunConfig(unlimited_turns=True))
    turn.begin()

    for n in range(25):
        turn.reply(call(id=f"c{n}"))
        turn.settle(turn.open[0])

    assert turn.owed == (CallModel(round=26),)
    assert turn.state.snapshot().max_turns is None


def test_ten_rounds_are_the_default() -> None:
    """As in the Agents SDK."""
    turn = Turn()
    turn.begin()

    for _ in range(10):
        turn.reply(hosted())

    assert (turn.reason, turn.state.rounds) == (Reason.MAX_TURNS_EXCEEDED, 10)


def test_usage_adds_up_over_the_rounds() -> None:
    """The turn's total, and each round on its own."""
    turn = Turn()
    turn.begin()
    turn.reply(call(), usage=Usage(requests=2, input_tokens=10, output_tokens=1, total_tokens=11))
    turn.settle(turn.open[0])
    turn.reply(say("Done."), usage=Usage(requests=1, input_tokens=20, output_tokens=2, total_tokens=22))

    assert turn.state.usage == Usage(requests=3, input_tokens=30, output_tokens=3, total_tokens=33)
    assert [(r.round, r.usage.input_tokens, r.response_id) for r in turn.state.round_usage] == [
        (1, 10, "resp_1"),
        (2, 20, "resp_2"),
    ]
    assert turn.log[-1].body.turn.last_response_id == "resp_2"


def test_a_reply_without_an_id_leaves_the_last_one_known() -> None:
    """Not every provider gives ids."""
    turn = Turn()
    turn.begin()
    turn.reply(hosted())
    turn.reply(say("Done."), response_id="")

    assert turn.state.own.last_response_id == "resp_1"


def test_a_forced_choice_of_function_ends_once_a_function_was_called() -> None:
    """Else a model that must call one would do so for ever. Hosted tools do not count."""
    turn = Turn()
    turn.begin()
    turn.reply(hosted())
    assert not request.tool_choice_dropped(turn.state, turn.state.own)

    turn.reply(call())

    assert request.tool_choice_dropped(turn.state, turn.state.own)


def test_a_turn_with_the_callers_history_stays_out_of_the_sessions() -> None:
    """Input, reply, outputs: all in the log and in the next request, nothing in the history."""
    turn = Turn(config=RunConfig(history=History(mode=HistoryMode.CALLER)))
    turn.begin()
    turn.reply(say("Looking."), call())
    turn.settle(turn.open[0])
    turn.steer("Faster.")
    turn.reply(say("Rain."))

    assert len(turn.recorded()) == 6
    assert not any(in_history for _, in_history in turn.recorded())
    assert len(turn.input) == 6


def test_items_say_who_made_them() -> None:
    """Input has no agent; what the model made has its agent, its place in the reply and its id there."""
    turn = Turn()
    turn.begin()
    turn.reply(think(), say("Rain."))

    user, thought, message = (item for item, _ in turn.recorded())
    assert (user.agent, user.output_index) == ("", None)
    assert (thought.agent, thought.output_index, thought.model_item_id) == ("Helper", 0, "rs_1")
    assert (message.agent, message.output_index, message.model_item_id) == ("Helper", 1, "msg_1")


def test_events_carry_the_turn_and_the_round_that_they_belong_to() -> None:
    """Input is no round's; a call's output belongs to the round of the call."""
    turn = Turn()
    turn.begin()
    turn.reply(call())
    turn.settle(turn.open[0])
    turn.reply(say("Rain."))

    rounds = [(type(event.body), event.round) for event in turn.log]
    assert {event.turn_id for event in turn.log} == {"turn_0a"}
    assert [n for kind, n in rounds if kind is RoundCompleted] == [1, 2]
    assert [n for kind, n in rounds if kind is ItemAdded] == [0, 1, 1]
    assert [n for kind, n in rounds if kind is ItemDone] == [2]
    assert [n for kind, n in rounds if kind is TurnEnded] == [2]


def test_raw_calls_in_the_input_are_history_not_work() -> None:
    """A caller may bring a conversation with calls and outputs; nothing in it is executed or settled."""
    turn = Turn()
    asked = read_item({"type": "function_call", "call_id": "x", "name": "get_weather", "arguments": "{}"})
    answer = read_item({"type": "function_call_output", "call_id": "x", "output": "rain"})

    turn.feed(Begun(items=(user_message("Hi"), asked, answer)))

    assert turn.open == []
    assert turn.owed == (CallModel(round=1),)
    assert not turn.state.own.used_tools


def test_functions_are_found_by_name() -> None:
    """Also what is not there is told."""
    agent = Agent(name="Helper", tools=(WEATHER, NOTE))

    assert agent.function("take_note") is NOTE
    assert agent.function("get_time") is None


def test_texts_of_messages_reach_the_log_as_fields() -> None:
    """People read fields; the model reads the text that came."""
    turn = Turn()
    turn.begin("Hi")

    body = turn.recorded()[0][0].body

    assert isinstance(body, Message)
    assert body.content == (TextPart(text="Hi"),)
