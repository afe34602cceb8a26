"""Folded conversations: what was said before a handoff as numbered lines, in one message or a few."""

import json
from typing import Any

from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, hosted, say, think

from baton_server.core import folding
from baton_server.core.agents import Agent, Handoff, RemoveAllTools
from baton_server.core.events import HookKind
from baton_server.core.run_config import HandoffHistory, History, HistoryMode, RunConfig

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


def filtered(*filters: Any, config: RunConfig | None = None) -> Turn:
    """Brings a turn to a handoff with filters, after a round with a function."""
    handoff = Handoff(name="transfer_to_billing", agent="Billing", input_filters=filters)
    turn = turn_of(handoff, config=config, history=('{"role":"user","content":"Hello."}',))
    turn.reply(call(id="c1"))
    turn.settle(turn.open[0], "rain")
    turn.reply(say("One moment."), transfer())
    return turn


NEST = RunConfig(nest_handoff_history=True)


def test_a_folded_conversation_is_one_message_with_numbered_lines() -> None:
    """What the receiver must see as it is stands between the folded stretches."""
    turn = filtered(config=NEST)

    before, said, after = turn.sent()

    lines = before["content"].splitlines()
    assert (before["role"], lines[:2]) == ("assistant", [folding.PREAMBLE, folding.START_MARKER])
    assert lines[2:4] == ["1. user: Hello.", "2. user: My bill is wrong."]
    assert [line[:2] for line in lines[4:-1]] == ["3.", "4."]
    assert lines[-1] == folding.END_MARKER
    assert said["content"][0]["text"] == "One moment."
    assert [json.loads(line[3:])["type"] for line in after["content"].splitlines()[2:-1]] == [
        "function_call",
        "function_call_output",
    ]


def test_a_second_fold_takes_the_first_one_apart() -> None:
    """Folds do not nest: the lines are numbered through."""
    turn = filtered(config=NEST)
    turn.reply(transfer("transfer_to_legal", id="h2"))

    contents = [item["content"] for item in turn.sent() if isinstance(item["content"], str)]

    assert sum(content.count(folding.START_MARKER) for content in contents) == len(contents)
    assert "1. user: Hello." in contents[0]


def test_markers_can_be_chosen() -> None:
    """And a fold with them is known again."""
    config = RunConfig(nest_handoff_history=True, handoff_history=HandoffHistory(start_marker="<<", end_marker=">>"))
    turn = filtered(config=config)

    assert turn.sent()[0]["content"].splitlines()[1] == "<<"
    turn.reply(transfer("transfer_to_legal", id="h2"))
    assert turn.sent()[0]["content"].count("<<") == 1


def test_a_mapper_says_what_the_receiver_sees() -> None:
    """It gets the whole transcript; its answer is the input, to the last byte."""
    config = RunConfig(nest_handoff_history=True, handoff_history=HandoffHistory(mapper=hook()))
    turn = filtered(config=config)
    transcript = turn.payload(HookKind.HANDOFF_HISTORY)["transcript"]
    assert len(transcript) == 7

    turn.answer(HookKind.HANDOFF_HISTORY, {"input": [{"role": "user", "content": "In short: a bill."}]})

    assert turn.sent() == [{"role": "user", "content": "In short: a bill."}]


def test_a_handoff_says_for_itself_whether_it_folds() -> None:
    """Over the run's configuration; a filter turns it off."""
    never = turn_of(Handoff(name="transfer_to_billing", agent="Billing", nest_history=False), config=NEST)
    never.reply(transfer())
    assert len(never.sent()) == 3
    assert "content" in filtered(RemoveAllTools(), config=NEST).sent()[0]
    assert filtered(RemoveAllTools(), config=NEST).sent()[0]["content"] == "Hello."


def test_folding_is_off_where_the_models_api_keeps_the_history() -> None:
    """Only the output of the handoff is sent."""
    config = RunConfig(nest_handoff_history=True, history=History(mode=HistoryMode.CONVERSATION, id="conv_1"))
    turn = turn_of(config=config)

    turn.reply(transfer())

    assert [item.get("type") for item in turn.sent()] == ["function_call_output"]


def test_a_hosted_item_is_not_folded() -> None:
    """It stands between the folds as the provider made it."""
    turn = turn_of(config=NEST)
    turn.reply(think(), hosted())

    turn.reply(transfer())

    assert [item.get("type", "fold") for item in turn.sent()] == ["fold", "web_search_call", "fold"]
