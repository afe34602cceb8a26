"""Handoffs: who goes on, what the model is told of it, what the next agent sees of the conversation."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, names, say

from baton_server.core import request, texts
from baton_server.core.agents import Agent, Handoff, KeepLast, RemoveAllTools
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import AgentChanged, CancelMode, HookKind, TurnStatus
from baton_server.core.items import HandoffCall, HandoffOutput
from baton_server.core.run_config import History, HistoryMode, RunConfig
from baton_server.core.tools import Approval, Enabled

TO_BILLING = Handoff(name="transfer_to_billing", agent="Billing")
TO_LEGAL = Handoff(name="transfer_to_legal", agent="Legal")
LEGAL = Agent(name="Legal")


def turn_of(*handoffs: Handoff, config: RunConfig | None = None, **fields: Any) -> Turn:
    """Begins a turn of a triage that may hand over."""
    triage = Agent(name="Triage", tools=(WEATHER,), handoffs=handoffs or (TO_BILLING, TO_LEGAL))
    billing = Agent(name="Billing", tools=(WEATHER,), handoffs=(TO_LEGAL,), instructions="Answer on bills.")
    turn = Turn(agent=triage, others=(billing, LEGAL), config=config, **fields)
    turn.begin("My bill is wrong.")
    return turn


def transfer(name: str = "transfer_to_billing", arguments: str = "{}", id: str = "h1") -> Any:
    """Makes a call by which the model hands over."""
    return call(name, arguments, id)


# -- who goes on --------------------------------------------------------------------------------------------


def test_the_next_round_is_the_other_agents() -> None:
    """It sees everything, is told its own instructions, and the output that it gives ends the turn."""
    turn = turn_of()

    recorded = turn.reply(transfer())

    assert names(recorded) == ["ItemAdded", "RoundCompleted", "ItemAdded", "AgentChanged"]
    assert recorded[-1] == AgentChanged(agent="Billing")
    assert turn.owed == (CallModel(round=2),)
    assert turn.given().instructions == "Answer on bills."
    assert [item.get("type", "message") for item in turn.sent()] == ["message", "function_call", "function_call_output"]
    assert json.loads(turn.sent()[-1]["output"]) == {"assistant": "Billing"}
    turn.reply(say("Fixed."))
    assert (turn.state.output, turn.state.snapshot().last_agent) == ("Fixed.", "Billing")


def test_the_first_of_several_handoffs_wins() -> None:
    """The others are told so, and their outputs stand before the winner's."""
    turn = turn_of()

    turn.reply(transfer("transfer_to_legal", id="h1"), transfer(id="h2"))

    assert turn.state.own.agent == "Legal"
    outputs = [item for item in turn.input if "output" in item]
    assert [item["call_id"] for item in outputs] == ["h2", "h1"]
    assert outputs[0]["output"] == texts.HANDOFF_IGNORED


def test_functions_beside_a_handoff_run_first() -> None:
    """Their outputs stand before the handoff's, whatever stood first in the reply."""
    turn = turn_of()

    turn.reply(transfer(), call(id="c1"))
    assert turn.state.own.agent == "Triage"
    turn.settle(turn.open[0], "rain")

    assert turn.state.own.agent == "Billing"
    assert [item["call_id"] for item in turn.input if "output" in item] == ["c1", "h1"]


def test_text_beside_a_handoff_is_no_output() -> None:
    """The model speaks, and hands over all the same."""
    turn = turn_of()

    turn.reply(say("One moment."), transfer())

    assert turn.status is TurnStatus.IN_PROGRESS
    assert turn.owed == (CallModel(round=2),)


def test_a_handoff_counts_as_a_round() -> None:
    """With a limit of one there is none left for the other agent."""
    turn = turn_of(config=RunConfig(max_turns=1))

    turn.reply(transfer())

    assert turn.reason is Reason.MAX_TURNS_EXCEEDED


def test_the_log_says_who_handed_over_to_whom() -> None:
    """As items of their own kind, that are no calls of functions."""
    turn = turn_of()
    turn.reply(transfer())

    handed = [item.body for item, _ in turn.recorded()][1:]

    assert isinstance(handed[0], HandoffCall)
    assert (handed[0].to_agent, handed[0].model_call_id) == ("Billing", "h1")
    assert isinstance(handed[1], HandoffOutput)
    assert (handed[1].from_agent, handed[1].to_agent, handed[1].call_id) == ("Triage", "Billing", handed[0].call_id)
    assert turn.open == []


def test_an_agent_without_the_handoff_cannot_use_it() -> None:
    """What another agent has is a function that this one does not have."""
    turn = turn_of()
    turn.reply(transfer())

    turn.reply(transfer(id="h2"))

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR


@pytest.mark.parametrize("enabled", [True, False])
def test_a_program_says_whether_a_handoff_is_there(enabled: bool) -> None:
    """It is asked before every request, and told what it is about."""
    turn = turn_of(Handoff(name="transfer_to_billing", agent="Billing", enabled=Enabled(hook=hook())))
    assert turn.requests == []
    assert turn.payload(HookKind.HANDOFF_ENABLED) == {"tool": "transfer_to_billing", "to_agent": "Billing"}

    turn.answer(HookKind.HANDOFF_ENABLED, {"enabled": enabled})
    turn.reply(transfer())

    assert (turn.state.own.agent == "Billing") == enabled


# -- its input, and who is told -----------------------------------------------------------------------------

WITH_INPUT = Handoff(
    name="transfer_to_billing",
    agent="Billing",
    input_schema_json='{"type":"object","properties":{"why":{"type":"string"}},"required":["why"]}',
    on_handoff=hook(),
)


def test_the_programs_of_a_handoff_get_its_input() -> None:
    """The agent changes once it has answered."""
    turn = turn_of(WITH_INPUT)
    turn.reply(transfer(arguments='{"why":"bill"}'))
    assert turn.state.own.agent == "Triage"

    assert turn.payload(HookKind.ON_HANDOFF) == {
        "from_agent": "Triage",
        "to_agent": "Billing",
        "input_json": '{"why":"bill"}',
    }
    turn.answer(HookKind.ON_HANDOFF, {})

    assert turn.state.own.agent == "Billing"


def test_a_handoff_without_a_schema_has_no_input() -> None:
    """Whatever the model wrote there."""
    turn = turn_of(Handoff(name="transfer_to_billing", agent="Billing", on_handoff=hook()))

    turn.reply(transfer(arguments="what?"))

    assert turn.payload(HookKind.ON_HANDOFF)["input_json"] is None


@pytest.mark.parametrize("arguments", ["{}", '{"why":5}', "{", ""])
def test_input_that_does_not_fit_ends_the_turn(arguments: str) -> None:
    """Nobody is told of the handoff; its call gets an output, so that a later turn may have it in its history."""
    turn = turn_of(WITH_INPUT)

    turn.reply(transfer(arguments=arguments))

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"tool": "transfer_to_billing", "agent": "Triage"}
    assert turn.input[-1]["output"] == texts.HANDOFF_CANCELLED


def test_a_program_that_raises_ends_the_turn_before_the_handoff() -> None:
    """Nobody has taken over, and the model's call has an output that says so."""
    turn = turn_of(WITH_INPUT)
    turn.reply(transfer(arguments='{"why":"bill"}'))

    turn.answer(HookKind.ON_HANDOFF, failure=Failure(reason=Reason.HOOK_RAISED, message="KeyError"))

    assert (turn.reason, turn.state.own.agent) == (Reason.HOOK_RAISED, "Triage")
    assert [item["output"] for item in turn.input if "output" in item] == [texts.HANDOFF_CANCELLED]


@pytest.mark.parametrize("mode", list(CancelMode))
def test_a_cancel_beside_a_handoff_leaves_a_history_that_a_model_accepts(mode: CancelMode) -> None:
    """At once: it does not happen; after the round: it does, and the other agent does not begin."""
    turn = turn_of()
    turn.reply(transfer(), call(id="c1"))

    turn.cancel(mode)
    turn.settle(turn.open[0], "rain")

    assert turn.status is TurnStatus.CANCELLED
    assert turn.owed == ()
    now = mode is CancelMode.NOW
    assert turn.state.own.agent == ("Triage" if now else "Billing")
    assert (turn.input[-1]["output"] == texts.HANDOFF_CANCELLED) == now


def test_a_cancel_after_the_round_lets_a_handoff_finish_that_a_program_is_asked_about() -> None:
    """The round is not over before that; the agent that took over does not begin."""
    turn = turn_of(WITH_INPUT)
    turn.reply(transfer(arguments='{"why":"bill"}'))
    turn.cancel(CancelMode.AFTER_ROUND)

    turn.answer(HookKind.ON_HANDOFF, {})

    assert (turn.status, turn.state.own.agent) == (TurnStatus.CANCELLED, "Billing")


# -- what the next agent sees -------------------------------------------------------------------------------


def filtered(*filters: Any, config: RunConfig | None = None) -> Turn:
    """Brings a turn to a handoff with filters, after a round with a function."""
    handoff = Handoff(name="transfer_to_billing", agent="Billing", input_filters=filters)
    turn = turn_of(handoff, config=config, history=('{"role":"user","content":"Hello."}',))
    turn.reply(call(id="c1"))
    turn.settle(turn.open[0], "rain")
    turn.reply(say("One moment."), transfer())
    return turn


def test_a_filter_that_is_data_needs_nobody() -> None:
    """All tools out: three messages are left of the whole conversation, history and all."""
    turn = filtered(RemoveAllTools())

    assert turn.questions() == []
    texts_seen = [json.dumps(item) for item in turn.sent()]
    assert len(texts_seen) == 3
    assert [word in texts_seen[at] for at, word in enumerate(("Hello.", "My bill", "One moment."))] == [True] * 3


def test_a_program_filters_the_conversation_in_three_parts() -> None:
    """It says what the next agent sees of each; the agent changes once it has answered."""
    turn = filtered(hook())
    asked = turn.payload(HookKind.HANDOFF_INPUT_FILTER)
    assert [item["content"] for item in asked["input_history"]] == ["Hello.", "My bill is wrong."]
    assert [item["type"] for item in asked["pre_handoff_items"]] == ["function_call", "function_call_output"]
    assert [item["type"] for item in asked["new_items"]] == ["message", "function_call", "function_call_output"]
    assert turn.state.own.agent == "Triage"

    turn.answer(HookKind.HANDOFF_INPUT_FILTER, {**asked, "input_history": [], "pre_handoff_items": []})

    assert turn.sent() == asked["new_items"]


def test_input_items_take_the_place_of_the_new_items_for_the_model() -> None:
    """What the turn made stays what it made."""
    turn = filtered(hook())
    asked = turn.payload(HookKind.HANDOFF_INPUT_FILTER)
    note = {"role": "user", "content": "Bill 7."}

    turn.answer(HookKind.HANDOFF_INPUT_FILTER, {**asked, "input_items": [note]})

    assert turn.sent() == [*asked["input_history"], *asked["pre_handoff_items"], note]


def test_filters_are_applied_one_after_another() -> None:
    """A program sees what the one before it has left."""
    turn = filtered(RemoveAllTools(), hook("first"), hook("second"))
    first = turn.payload(HookKind.HANDOFF_INPUT_FILTER)
    assert first["pre_handoff_items"] == []

    turn.answer(HookKind.HANDOFF_INPUT_FILTER, {**first, "input_history": first["input_history"][1:]})
    second = turn.payload(HookKind.HANDOFF_INPUT_FILTER)

    assert [item["content"] for item in second["input_history"]] == ["My bill is wrong."]
    turn.answer(HookKind.HANDOFF_INPUT_FILTER, second)
    assert len(turn.sent()) == 2


def test_the_runs_filters_are_for_handoffs_without_their_own() -> None:
    """One of its own wins."""
    run = RunConfig(handoff_input_filters=(KeepLast(items=1),))

    assert len(filtered(config=run).sent()) < len(filtered(RemoveAllTools(), config=run).sent())


def careful() -> Turn:
    """Brings a turn to two calls that somebody must allow, beside a handoff that takes out what functions said."""
    handoff = Handoff(name="transfer_to_billing", agent="Billing", input_filters=(RemoveAllTools(),))
    asked = replace(WEATHER, approval=Approval(always=True))
    turn = Turn(agent=Agent(name="Triage", tools=(asked,), handoffs=(handoff,)), others=(Agent(name="Billing"), LEGAL))
    turn.begin("My bill is wrong.")
    turn.reply(call(id="c1"), call(id="c2"), transfer())
    return turn


def test_calls_that_waited_are_made_though_a_filter_leaves_out_their_outputs() -> None:
    """Who was asked has been told of them. What goes on from the turn has neither."""
    turn = careful()
    for call_id in turn.open:
        turn.decide(call_id)
    for call_id in turn.open:
        turn.settle(call_id)

    made = [type(item.body).__name__ for item in turn.state.said_items(turn.state.own) if item.agent]
    assert made == ["FunctionCall", "FunctionCall", "HandoffCall"]
    assert [item.get("type", "message") for item in turn.kept()] == ["message"]
    assert request.made_texts(turn.state, turn.state.own) == []


def test_what_came_before_a_second_pause_is_not_new_to_a_filter() -> None:
    """The first of two calls was allowed, and gave its output, before anybody decided about the second."""
    turn = careful()
    first, second = turn.open
    for call_id in (first, second):
        turn.decide(call_id)
        turn.settle(call_id)

    made = [type(item.body).__name__ for item in turn.state.said_items(turn.state.own) if item.agent]
    assert made == ["FunctionCall", "FunctionCall", "HandoffCall", "FunctionCallOutput"]
    kept = [item.get("call_id") for item in turn.kept()]
    assert kept == [None, "c1", "c1"]


def test_what_comes_later_is_added_to_what_the_filter_left() -> None:
    """Items of later rounds stand behind it, unfiltered."""
    turn = filtered(RemoveAllTools())
    turn.reply(call(id="c2"))
    turn.settle(turn.open[0], "sun")
    turn.steer("And?")

    assert [item.get("type", item.get("role")) for item in turn.sent()[3:]] == [
        "function_call",
        "function_call_output",
        "user",
    ]


@pytest.mark.parametrize("answer", ["{}", '{"input_history":[]}', '{"input_history":5}', "[]"])
def test_a_filter_that_answers_nonsense_ends_the_turn(answer: str) -> None:
    """With the place at which it is wrong."""
    turn = filtered(hook())

    turn.answer(HookKind.HANDOFF_INPUT_FILTER, answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID


@pytest.mark.parametrize("mode", [HistoryMode.CONVERSATION, HistoryMode.RESPONSE])
def test_filters_cannot_change_what_the_models_api_keeps(mode: HistoryMode) -> None:
    """The turn fails at the handoff, and says what to do."""
    turn = filtered(RemoveAllTools(), config=RunConfig(history=History(mode=mode, id="x")))

    assert turn.reason is Reason.USER_ERROR
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"field": "run_config.history"}
