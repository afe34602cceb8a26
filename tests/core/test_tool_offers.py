"""Which tools are there: switched off, of one name, of nobody; and how long a forced choice of one holds."""

from dataclasses import replace

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hook

from baton_server.core import offers, request
from baton_server.core.agents import Agent, Handoff
from baton_server.core.commands import CallModel
from baton_server.core.errors import Reason
from baton_server.core.events import HookKind
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.run_config import (
    RunConfig,
    ToolErrorTexts,
    ToolNameCollision,
    ToolNotFound,
)
from baton_server.core.tools import Enabled, FunctionTool, HostedTool


def turn_of(*functions: FunctionTool, config: RunConfig | None = None) -> Turn:
    """Begins a turn with certain functions."""
    turn = Turn(functions=functions or (WEATHER,), config=config)
    turn.begin()
    return turn


def output(turn: Turn) -> FunctionCallOutput:
    """Reads the output that was recorded last."""
    return [item.body for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)][-1]


def offered(turn: Turn) -> list[str]:
    """Names what the next request offers."""
    own = turn.state.own
    made = offers.offer(turn.state.turn_id, own, turn.state.agent(own))
    return [getattr(one, "name", "?") for one in (*made.tools, *made.handoffs)]


# -- which are there ----------------------------------------------------------------------------------------


def test_a_function_that_is_switched_off_is_not_there() -> None:
    """Neither offered nor found."""
    turn = turn_of(replace(WEATHER, enabled=Enabled(always=False)), NOTE)
    assert offered(turn) == ["take_note"]

    turn.reply(call())

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR


def test_a_program_says_in_every_round_what_is_there() -> None:
    """All are asked at once; the model is asked when all have answered."""
    asked = Enabled(hook=hook())
    turn = turn_of(replace(WEATHER, enabled=asked), replace(NOTE, enabled=asked))
    first, second = turn.questions(HookKind.TOOL_ENABLED)
    assert turn.payload(first) == {"tool": "get_weather"}

    turn.answer(second, {"enabled": False})
    assert turn.requests == []
    turn.answer(first, {"enabled": True})
    assert offered(turn) == ["get_weather"]
    turn.reply(call())
    turn.settle(turn.open[0])

    assert len(turn.questions(HookKind.TOOL_ENABLED)) == 2
    assert not {first.hook_id, second.hook_id} & {question.hook_id for question in turn.questions()}


def test_of_two_tools_of_one_name_the_last_counts() -> None:
    """And of those that are there: where the last is switched off, the one before it."""
    strict, loose = replace(WEATHER, strict=True), replace(WEATHER, strict=False)
    turn = turn_of(strict, loose)
    turn.reply(call(arguments="{}"))
    assert turn.served

    turn = turn_of(strict, replace(loose, enabled=Enabled(always=False)))
    turn.reply(call(arguments="{}"))
    assert output(turn).settlement is Settlement.ARGUMENTS_INVALID


def test_a_handoff_of_the_same_name_goes_before_all_functions() -> None:
    """Unless it is switched off."""
    handoff = Handoff(name="get_weather", agent="Other")
    helper = Agent(name="Helper", tools=(WEATHER,), handoffs=(handoff,))
    turn = Turn(agent=helper, others=(Agent(name="Other"),))
    turn.begin()
    assert len(offered(turn)) == 1
    turn.reply(call())
    assert turn.state.own.agent == "Other"

    off = replace(helper, handoffs=(replace(handoff, enabled=Enabled(always=False)),))
    turn = Turn(agent=off, others=(Agent(name="Other"),))
    turn.begin()
    turn.reply(call())
    assert turn.served


def test_a_collision_may_be_an_error() -> None:
    """Before the model is asked; it is named."""
    config = RunConfig(tool_name_collision=ToolNameCollision.FAIL_TURN)
    turn = turn_of(WEATHER, NOTE, WEATHER, config=config)

    assert (turn.reason, turn.state.rounds) == (Reason.USER_ERROR, 0)
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"agent": "Helper", "tool": "get_weather"}
    assert turn_of(WEATHER, NOTE, config=config).requests


def test_a_collision_of_an_agent_that_is_handed_over_to_is_found_then() -> None:
    """Whoever goes on has its own tools."""
    other = Agent(name="Other", tools=(WEATHER, WEATHER))
    helper = Agent(name="Helper", handoffs=(Handoff(name="transfer_to_other", agent="Other"),))
    config = RunConfig(tool_name_collision=ToolNameCollision.FAIL_TURN)
    turn = Turn(agent=helper, others=(other,), config=config)
    turn.begin()

    turn.reply(call("transfer_to_other", "{}", id="h1"))

    assert turn.reason is Reason.USER_ERROR


def test_tools_without_names_are_offered_as_they_are() -> None:
    """Hosted ones never collide."""
    hosted = HostedTool(tool_json='{"type":"web_search"}')
    helper = Agent(name="Helper", tools=(hosted, WEATHER, hosted))
    turn = Turn(agent=helper)
    turn.begin()

    assert offered(turn) == ["?", "get_weather", "?"]


# -- what nobody has ----------------------------------------------------------------------------------------

TELL = RunConfig(tool_not_found=ToolNotFound.TELL_MODEL)


def test_the_model_may_be_told_that_a_function_is_not_there() -> None:
    """Behind the outputs of those that are, wherever it stood."""
    turn = turn_of(config=TELL)
    turn.reply(call("get_time", "{", id="c1"), call(id="c2"))
    assert turn.served == turn.open

    turn.settle(turn.open[0], "rain")

    assert turn.outputs == ["rain", "Tool 'get_time' not found."]
    assert [item["call_id"] for item in turn.input if "output" in item] == ["c2", "c1"]
    assert turn.owed == (CallModel(round=2),)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (ToolErrorTexts(tool_not_found="Which one?"), "Which one?"),
        (ToolErrorTexts(tool_exception="Oh."), "Tool 'get_time' not found."),
    ],
)
def test_the_run_has_words_for_what_is_not_there(words: ToolErrorTexts, told: str) -> None:
    """A text for another kind of failure is none for this one."""
    turn = turn_of(config=replace(TELL, tool_error_texts=words))

    turn.reply(call("get_time", "{}"))

    assert (turn.outputs, output(turn).settlement) == ([told], Settlement.NOT_FOUND)


def test_a_program_words_what_is_not_there() -> None:
    """It is told the name that the model made up."""
    turn = turn_of(config=replace(TELL, tool_error_texts=ToolErrorTexts(hook=hook())))
    turn.reply(call("get_time", "{}"))
    asked = turn.payload(HookKind.TOOL_ERROR)
    assert (asked["kind"], asked["tool"], asked["error"]) == ("tool_not_found", "get_time", None)

    turn.answer(HookKind.TOOL_ERROR, {"message": "Only weather here."})

    assert turn.outputs == ["Only weather here."]


def test_a_call_id_of_what_is_not_there_counts_all_the_same() -> None:
    """Used twice, it fails the turn."""
    turn = turn_of(config=TELL)

    turn.reply(call("get_time", "{}"), call())

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR


# -- a forced choice ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
def test_a_forced_choice_is_dropped_for_each_agent_by_itself(keep: bool) -> None:
    """One that was handed over to has called nothing yet; who keeps its choice keeps it."""
    handoff = Handoff(name="transfer_to_other", agent="Other")
    helper = Agent(name="Helper", tools=(WEATHER,), handoffs=(handoff,), keep_tool_choice=keep)
    turn = Turn(agent=helper, others=(Agent(name="Other", tools=(WEATHER,)),))
    turn.begin()

    def dropped() -> bool:
        return request.tool_choice_dropped(turn.state, turn.state.own)

    assert not dropped()
    turn.reply(call(id="c1"))
    turn.settle(turn.open[0])
    assert dropped() != keep
    turn.reply(call("transfer_to_other", "{}", id="h1"))
    assert not dropped()
    turn.reply(call(id="c2"))
    assert dropped()
