"""Filters of model requests: as data and as programs, one after another, for one request alone."""

import json
from collections.abc import Sequence
from typing import Any

from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, hosted, names, say

from baton_server.core.agents import Agent, Guardrail, KeepLast, RemoveAllTools, TrimOutputs
from baton_server.core.commands import CallModel
from baton_server.core.events import HookKind
from baton_server.core.run_config import RunConfig

OLD = '{"role":"user","content":"Before."}'
ANSWER = '{"role":"assistant","content":"Then."}'
CALL = '{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}'
OUTPUT = '{"type":"function_call_output","call_id":"x","output":"o"}'


def turn_of(history: Sequence[str] = (OLD, ANSWER), guardrails: tuple[Guardrail, ...] = (), **options: Any) -> Turn:
    """Begins a turn behind a history."""
    turn = Turn(history=history, guardrails=guardrails, config=RunConfig(**options))
    turn.begin("Hi")
    return turn


def contents(items: Sequence[dict[str, Any]]) -> list[Any]:
    """Says what items hold, each in a word."""
    return [item.get("content", item.get("type")) for item in items]


def with_outputs(*filters: Any) -> Turn:
    """Brings a turn to a request behind an old, long output and a new one."""
    turn = turn_of(model_input_filters=filters, history=(OLD, CALL, OUTPUT.replace('"o"', f'"{"o" * 600}"'), ANSWER))
    for question in turn.questions():
        turn.answer(question, turn.payload(question))
    turn.reply(call())
    turn.settle(turn.open[0], "rain" * 200)
    return turn


def test_filters_that_are_data_change_a_request_and_nothing_else() -> None:
    """The next request is made of everything again."""
    turn = with_outputs(RemoveAllTools())
    assert contents(turn.sent()) == ["Before.", "Then.", "Hi"]

    assert len(turn.input) == 3


def test_the_newest_items_alone() -> None:
    """An output whose call is left out goes as well."""
    assert contents(with_outputs(KeepLast(items=2)).sent()) == ["function_call", "function_call_output"]
    assert contents(with_outputs(KeepLast(items=1)).sent()) == []


def test_long_outputs_are_shortened_but_for_the_recent_ones() -> None:
    """Those from the last so many messages of a user on stay whole."""
    (old, new) = [item["output"] for item in with_outputs(TrimOutputs(recent_messages=1)).sent() if "output" in item]

    assert len(old) < 600
    assert "600" in old
    assert new == "rain" * 200
    both = with_outputs(TrimOutputs(recent_messages=0, functions=("get_weather",))).sent()
    assert [len(item["output"]) < 600 for item in both if "output" in item] == [False, True]


def test_filters_work_one_after_another_whatever_they_are() -> None:
    """A program sees what data has left, and data what a program has."""
    turn = turn_of(model_input_filters=(KeepLast(items=2), hook(), KeepLast(items=1)))
    asked = turn.payload(HookKind.MODEL_INPUT_FILTER)
    assert contents(asked["input"]) == ["Then.", "Hi"]

    turn.answer(HookKind.MODEL_INPUT_FILTER, {"input": [{"role": "user", "content": "New."}, *asked["input"]]})

    assert contents(turn.sent()) == ["Hi"]
    assert turn.owed == (CallModel(round=1),)


def test_a_program_changes_the_instructions_of_one_request() -> None:
    """The next one has the agent's own again."""
    helper = Agent(name="Helper", instructions="Be brief.", tools=(WEATHER,))
    turn = Turn(agent=helper, config=RunConfig(model_input_filters=(hook(),)))
    turn.begin()
    asked = turn.payload(HookKind.MODEL_INPUT_FILTER)
    assert asked["instructions"] == "Be brief."

    turn.answer(HookKind.MODEL_INPUT_FILTER, {**asked, "instructions": None})
    assert turn.given().instructions is None
    turn.reply(hosted())

    assert turn.payload(HookKind.MODEL_INPUT_FILTER)["instructions"] == "Be brief."


def test_an_item_that_a_filter_says_twice_goes_once() -> None:
    """Its latest value; a call stays where it stood first, an output where it stands last."""
    turn = with_outputs(hook())
    turn.answer(HookKind.MODEL_INPUT_FILTER, {"input": turn.payload(HookKind.MODEL_INPUT_FILTER)["input"] * 2})

    assert contents(turn.sent())[-1] == "function_call_output"
    assert [item["call_id"] for item in turn.sent() if "output" in item] == ["x", "c1"]
    assert contents(turn.sent()).count("Hi") == 2


def test_a_listing_of_tools_that_stands_there_twice_is_sent_once() -> None:
    """Also where one of the tools has a parameter of a name that messages have."""
    schema = {"type": "object", "properties": {"role": {"type": "string"}, "id": {"type": "string"}}}
    tools = [{"name": "invite", "input_schema": schema}]
    listing = json.dumps({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "users", "tools": tools})
    turn = Turn(history=(listing, listing))
    turn.begin()

    assert [item.get("type", item.get("content")) for item in turn.sent()] == ["mcp_list_tools", "Hi"]


def test_a_message_does_not_join_once_a_filter_has_answered() -> None:
    """What it judged is what is sent."""
    turn = turn_of(model_input_filters=(hook(),))

    turn.answer(HookKind.MODEL_INPUT_FILTER, {"input": []})

    assert turn.steer("And?") == []
    assert names(turn.reply(say("Hello.")))[-1] == "TurnEnded"
