"""What a turn's options mean for functions: how many run at once, what is told where one fails, what is kept."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hook, names, say

from baton_server.core import texts
from baton_server.core.agents import Agent
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, HookKind, TurnStatus
from baton_server.core.inputs import CallTimedOut
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.run_config import (
    RunConfig,
    ToolErrorTexts,
    ToolExecution,
)
from baton_server.core.tools import AgentTool, Approval, Execution, FailureText, FunctionTool

CRASH = Failure(reason=Reason.HANDLER_CRASHED, message="KeyError: 'x'", metadata={"type": "KeyError"})


def turn_of(*functions: FunctionTool, config: RunConfig | None = None) -> Turn:
    """Begins a turn with certain functions."""
    turn = Turn(functions=functions or (WEATHER,), config=config)
    turn.begin()
    return turn


def output(turn: Turn) -> FunctionCallOutput:
    """Reads the output that was recorded last."""
    return [item.body for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)][-1]


# -- how many at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_functions_run_at_once(most: int) -> None:
    """In the order of the calls; the next one begins when one is done; outputs stand in that order too."""
    turn = turn_of(config=RunConfig(tool_execution=ToolExecution(max_concurrency=most)))
    turn.reply(*(call(id=f"c{n}") for n in range(5)))
    calls = turn.open
    assert turn.runner.held(turn.state) == set(calls[most:])

    for n in range(5):
        assert turn.served == calls[n : n + most]
        turn.settle(calls[n], f"output {n}")

    assert turn.outputs == [f"output {n}" for n in range(5)]


def test_a_call_that_waits_for_a_person_takes_no_place() -> None:
    """Those behind it run; once it is allowed it stands behind what runs already."""
    careful = replace(WEATHER, name="careful", approval=Approval(always=True))
    config = RunConfig(tool_execution=ToolExecution(max_concurrency=1))
    turn = turn_of(careful, WEATHER, config=config)
    turn.reply(call("careful", id="c1"), call(id="c2"), call(id="c3"))
    first, second, third = turn.open
    assert turn.served == [second]

    turn.decide(first)
    assert turn.served == [second]
    turn.settle(second)
    assert turn.served == [third]
    turn.settle(third)

    assert turn.served == [first]


def test_agents_as_tools_take_places_too() -> None:
    """Each as one call, whatever it calls itself."""
    ask = AgentTool(name="ask_expert", agent="Expert")
    helper = Agent(name="Helper", tools=(ask, WEATHER))
    config = RunConfig(tool_execution=ToolExecution(max_concurrency=1))
    turn = Turn(agent=helper, others=(Agent(name="Expert"),), config=config)
    turn.begin()
    turn.reply(call("ask_expert", '{"input":"Hi"}', id="a1"), call("ask_expert", '{"input":"Ho"}', id="a2"))
    first, second = turn.call_ids()

    assert [command.run_path for command in turn.requests] == [(first,)]
    turn.reply(path=(first,))

    assert [command.run_path for command in turn.requests] == [(second,)]


def test_an_agent_that_waits_for_people_holds_up_no_sibling() -> None:
    """A nested run in which all waits for decisions takes no place."""
    careful = replace(WEATHER, approval=Approval(always=True))
    helper = Agent(name="Helper", tools=(AgentTool(name="ask_expert", agent="Expert"), WEATHER))
    config = RunConfig(tool_execution=ToolExecution(max_concurrency=1))
    turn = Turn(agent=helper, others=(Agent(name="Expert", tools=(careful,)),), config=config)
    turn.begin()
    turn.reply(call("ask_expert", '{"input":"Hi"}', id="a1"), call(id="c1"))
    nested, function = turn.call_ids()
    assert turn.served == []

    turn.reply(call(id="n1"), path=(nested,))
    assert turn.served == [function]

    turn.settle(function, "rain")
    turn.decide(turn.open[0])
    turn.settle(turn.open[0], "sun")
    turn.reply(say("Sun."), path=(nested,))
    assert turn.outputs == ["rain", "Sun."]


def test_what_waits_for_its_turn_has_an_output_after_a_cancel() -> None:
    """It never began."""
    turn = turn_of(config=RunConfig(tool_execution=ToolExecution(max_concurrency=1)))
    turn.reply(call(id="c1"), call(id="c2"))
    turn.cancel(CancelMode.NOW)

    turn.settle(turn.open[0], "rain")
    turn.settle(turn.open[0], "sun")

    assert turn.status is TurnStatus.CANCELLED
    assert turn.outputs == ["rain", "sun"]


# -- failures -----------------------------------------------------------------------------------------------


def crashed(tool: FunctionTool = WEATHER, words: ToolErrorTexts | None = None) -> Turn:
    """Brings a turn to a function that crashed."""
    turn = turn_of(tool, NOTE, config=RunConfig(tool_error_texts=words))
    turn.reply(call(id="c1"), call("take_note", '{"text":"x"}', id="c2"))
    first, second = turn.open
    turn.settle(second, "noted")
    turn.settle(first, texts.FUNCTION_FAILED, Settlement.CRASH, error=CRASH)
    return turn


def worded(text: str = "", **fields: Any) -> FunctionTool:
    """Makes a function with words of its own for a crash."""
    return replace(WEATHER, on_crash=FailureText(text=text, **fields))


@pytest.mark.parametrize(
    ("tool", "words", "told"),
    [
        (WEATHER, None, texts.FUNCTION_FAILED),
        (WEATHER, ToolErrorTexts(tool_exception="Oh."), "Oh."),
        (worded("My own."), ToolErrorTexts(tool_exception="Oh.", hook=hook()), "My own."),
        (worded("My own."), None, "My own."),
    ],
)
def test_a_function_has_the_first_word_for_its_failure(
    tool: FunctionTool, words: ToolErrorTexts | None, told: str
) -> None:
    """Then the run's configuration, then ours; the cause stays in the log."""
    turn = crashed(tool, words)

    assert turn.outputs == [told, "noted"]
    assert turn.input[-1]["output"] == "noted"


@pytest.mark.parametrize("own", [True, False])
def test_a_program_words_a_failure(own: bool) -> None:
    """The function's own goes before the run's; it is told what was raised."""
    tool = worded(hook=hook("own")) if own else WEATHER
    turn = crashed(tool, ToolErrorTexts(hook=hook("run")))
    assert turn.question(HookKind.TOOL_ERROR).ref.name == ("own" if own else "run")
    asked = turn.payload(HookKind.TOOL_ERROR)
    assert (asked["kind"], asked["tool_type"]) == ("tool_exception", "function")
    assert asked["error"] == {"type": "KeyError", "text": "KeyError: 'x'"}

    turn.answer(HookKind.TOOL_ERROR, {"message": "Sorry."})

    assert turn.outputs == ["Sorry.", "noted"]
    assert turn.owed == (CallModel(round=2),)


@pytest.mark.parametrize("answer", [{"message": None}, {}, "nonsense", None])
def test_a_program_without_words_leaves_ours(answer: Any) -> None:
    """A failure to word a failure is no reason to fail."""
    turn = crashed(words=ToolErrorTexts(hook=hook()))

    if answer is None:
        turn.answer(HookKind.TOOL_ERROR, failure=Failure(reason=Reason.HOOK_RAISED, message="KeyError"))
    else:
        turn.answer(HookKind.TOOL_ERROR, answer)

    assert turn.outputs == [texts.FUNCTION_FAILED, "noted"]
    assert not turn.state.over


def test_a_failure_may_end_the_turn() -> None:
    """Siblings that are done keep their outputs, what failed leaves the history; the failure says which it was."""
    turn = crashed(worded(fail_turn=True))

    assert turn.reason is Reason.TOOL_FAILED
    assert turn.state.failure is not None
    assert turn.state.failure.metadata["tool"] == "get_weather"
    assert turn.state.failure.metadata["type"] == "KeyError"
    assert [item.get("output") for item in turn.kept() if "call_id" in item] == [None, "noted"]


def test_a_handler_that_says_what_went_wrong_is_told_as_it_is() -> None:
    """Its own words for a failure are an answer, and need no others."""
    turn = turn_of(worded("My own."), config=RunConfig(tool_error_texts=ToolErrorTexts(tool_exception="Oh.")))
    turn.reply(call())

    turn.settle(turn.open[0], "No such city.", Settlement.FAILURE)

    assert turn.outputs == ["No such city."]


def test_words_for_a_timeout_are_not_those_for_a_crash() -> None:
    """A program is told which it is; a function's own words come first."""
    slow = replace(worded("Crashed."), execution=Execution(timeout_s=5), on_timeout=FailureText(hook=hook()))
    turn = turn_of(slow, config=RunConfig(tool_error_texts=ToolErrorTexts(tool_exception="Oh.")))
    turn.reply(call())
    turn.feed(CallTimedOut(call_id=turn.open[0]))
    asked = turn.payload(HookKind.TOOL_ERROR)
    assert (asked["kind"], asked["error"]["type"]) == ("timeout", "TOOL_TIMEOUT")

    turn.answer(HookKind.TOOL_ERROR, {"message": "Slow."})

    assert turn.outputs == ["Slow."]


# -- what the application keeps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kept"), [({"custom_data": {"id": 7}}, '{"id": 7}'), ({"custom_data": None}, ""), ({}, ""), ("[]", "")]
)
def test_an_application_keeps_data_of_its_own_beside_an_output(answer: Any, kept: str) -> None:
    """The model never sees it; nothing, or nonsense, is none."""
    turn = turn_of(replace(WEATHER, custom_data=hook()))
    turn.reply(call())
    turn.settle(turn.open[0], "rain")
    assert turn.payload(HookKind.CUSTOM_DATA)["output"] == "rain"

    turn.answer(HookKind.CUSTOM_DATA, answer)

    assert output(turn).custom_data_json == kept
    assert json.loads(turn.state.items_of(turn.state.own)[-1].json) == {
        "call_id": "c1",
        "output": "rain",
        "type": "function_call_output",
    }


def test_the_commit_of_a_result_says_what_follows_from_it() -> None:
    """Nothing is asked: the output and the edge, and no event more."""
    turn = turn_of()
    turn.reply(call())

    assert names(turn.settle(turn.open[0])) == ["ItemAdded", "SessionInProgress"]
