"""Final outputs: their form, functions that give them, what stands in for an error."""

import json
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hook, hosted, refuse, say

from baton_server.core.agents import Agent, Guardrail, Handoff, OutputSchema, ToolUseBehavior
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind, TurnStatus
from baton_server.core.inputs import CallSettled
from baton_server.core.items import Settlement, TextPart
from baton_server.core.run_config import (
    ErrorHandler,
    ErrorHandlers,
    RunConfig,
    ToolNotFound,
)

LIST = OutputSchema(name="list", schema_json='{"type":"array"}')
ASKED = Guardrail(name="ask", check=hook())
POINT = OutputSchema(name="point", schema_json='{"type":"object","required":["x"]}')


def turn_of(config: RunConfig | None = None, **fields: Any) -> Turn:
    """Begins a turn of an agent of some kind."""
    turn = Turn(agent=Agent(name="Helper", tools=(WEATHER, NOTE), **fields), config=config)
    turn.begin()
    return turn


# -- structured outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "said", "output"),
    [
        (POINT, '{"x": 1.0}', '{"x": 1.0}'),
        (LIST, '{"response": ["a", 1e400]}', '["a", 1e400]'),
        (LIST, ' {"response":[]} ', "[]"),
    ],
)
def test_a_structured_output_is_json_and_comes_unwrapped(schema: OutputSchema, said: str, output: str) -> None:
    """As the model wrote it."""
    turn = turn_of(output_schema=schema)

    turn.reply(say(said))

    assert (turn.status, turn.state.output, turn.state.structured) == (TurnStatus.COMPLETED, output, True)


@pytest.mark.parametrize("said", ["no JSON", '{"y":1}', "[1]", '{"x":1'])
def test_an_output_that_does_not_fit_its_schema_fails_the_turn(said: str) -> None:
    """The message leaves the history."""
    turn = turn_of(output_schema=POINT)

    turn.reply(say(said))

    assert turn.reason is Reason.MODEL_BEHAVIOR_ERROR
    assert turn.kept() == turn.input[:1]


def test_no_output_where_one_is_due_costs_a_round() -> None:
    """The model is asked again with the same input, up to the limit."""
    turn = turn_of(RunConfig(max_turns=2), output_schema=POINT)
    before = turn.sent()

    turn.reply()
    assert turn.sent() == before
    assert turn.owed == (CallModel(round=2),)
    turn.reply()

    assert turn.reason is Reason.MAX_TURNS_EXCEEDED


# -- functions that give it ---------------------------------------------------------------------------------


def used(use: ToolUseBehavior, **fields: Any) -> Turn:
    """Brings a turn to two calls with results."""
    turn = turn_of(tool_use=use, **fields)
    turn.reply(call(id="c1"), call("take_note", '{"text":"x"}', id="c2"))
    weather, note = turn.open
    turn.settle(note, "noted")
    turn.settle(weather, "rain")
    return turn


def test_the_first_functions_output_may_be_the_final_one() -> None:
    """The first of the calls, not of the results; its siblings run all the same."""
    turn = used(ToolUseBehavior(stop_on_first=True))

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, "rain")
    assert turn.outputs == ["rain", "noted"]
    assert turn.state.rounds == 1


@pytest.mark.parametrize(("stop_at", "output"), [("take_note", "noted"), ("get_weather", "rain"), ("other", None)])
def test_certain_functions_may_give_the_final_output(stop_at: str, output: str | None) -> None:
    """Any other one leads to another round."""
    turn = used(ToolUseBehavior(stop_at=(stop_at,)))

    assert turn.state.output == output
    assert (turn.owed == (CallModel(round=2),)) == (output is None)


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ({"final": False}, None),
        ({"final": True, "output": "All done."}, "All done."),
        ({"final": True, "output": {"n": 1}}, '{"n": 1}'),
        ({"final": True, "output": None}, "null"),
    ],
)
def test_a_program_may_say_what_follows(answer: Any, output: str | None) -> None:
    """It gets the results in the order of the calls."""
    turn = used(ToolUseBehavior(hook=hook()))
    assert [(one["tool"], one["output"]) for one in turn.payload(HookKind.TOOL_USE)["results"]] == [
        ("get_weather", "rain"),
        ("take_note", "noted"),
    ]

    turn.answer(HookKind.TOOL_USE, answer)

    assert turn.state.output == output
    assert turn.state.over == (output is not None)


@pytest.mark.parametrize("answer", ["{}", '{"final":"yes"}', "[]"])
def test_a_program_that_says_nonsense_about_results_fails_the_turn(answer: str) -> None:
    """Never taken for either."""
    turn = used(ToolUseBehavior(hook=hook()))

    turn.answer(HookKind.TOOL_USE, answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID


def test_an_output_of_a_function_is_json_where_a_schema_is() -> None:
    """Text that is none is a JSON text; nothing of it is checked against the schema."""
    turn = used(ToolUseBehavior(stop_on_first=True), output_schema=POINT)

    assert (turn.state.output, turn.state.structured) == ('"rain"', True)


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (TextPart(text='{"x":1}'), '"{\\"x\\":1}"'),
        (TextPart(text='{"x":1}', is_json=True), '{"x":1}'),
        (TextPart(text="7", is_json=True), "7"),
    ],
)
def test_a_value_of_a_function_stays_one_where_a_schema_is(given: TextPart, output: str) -> None:
    """And a text stays a text, whatever it holds: the function says which it is."""
    turn = turn_of(tool_use=ToolUseBehavior(stop_on_first=True), output_schema=POINT)
    turn.reply(call())

    turn.feed(CallSettled(call_id=turn.open[0], settlement=Settlement.OUTPUT, output=(given,)))

    assert (turn.state.output, turn.state.structured) == (output, True)


def test_a_text_in_place_of_an_error_stays_one() -> None:
    """An agent without a schema ends with it as it is, whatever it holds."""
    turn = handled("max_turns", ErrorHandler(output='{"x":5}'))

    assert (turn.state.output, turn.state.structured) == ('{"x":5}', False)


def test_a_handoff_beats_a_final_output_of_a_function() -> None:
    """Both were asked for in one reply."""
    handoff = Handoff(name="transfer_to_other", agent="Other")
    helper = Agent(name="Helper", tools=(WEATHER,), handoffs=(handoff,), tool_use=ToolUseBehavior(stop_on_first=True))
    turn = Turn(agent=helper, others=(Agent(name="Other"),))
    turn.begin()
    turn.reply(call(id="c1"), call("transfer_to_other", "{}", id="h1"))

    turn.settle(turn.open[0])

    assert turn.state.own.agent == "Other"


def test_functions_that_nobody_has_give_no_final_output() -> None:
    """What is not there has not run."""
    turn = turn_of(RunConfig(tool_not_found=ToolNotFound.TELL_MODEL), tool_use=ToolUseBehavior(stop_on_first=True))

    turn.reply(call("get_time", "{}"))

    assert turn.owed == (CallModel(round=2),)


# -- in place of an error -----------------------------------------------------------------------------------


def handled(kind: str, handler: ErrorHandler, **fields: Any) -> Turn:
    """Brings a turn to an error that something may stand in for."""
    config = RunConfig(max_turns=1, error_handlers=ErrorHandlers(**{kind: handler}))
    turn = turn_of(config, **{"output_schema": POINT if kind == "invalid_final_output" else None, **fields})
    if kind == "max_turns":
        turn.reply(hosted())
    else:
        turn.reply(refuse("No.") if kind == "model_refusal" else say("no JSON"))
    return turn


KINDS = ["max_turns", "model_refusal", "invalid_final_output"]
FAILURES = [Reason.MAX_TURNS_EXCEEDED, Reason.MODEL_REFUSAL, Reason.MODEL_BEHAVIOR_ERROR]


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fixed_output_stands_in_for_an_error(kind: str, include: bool) -> None:
    """As a message behind what the model said, if it is to be in the history."""
    turn = handled(kind, ErrorHandler(output_json='{"x":5}', include_in_history=include))

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, '{"x":5}')
    last = turn.input[-1]
    assert (last.get("content", [{}])[0].get("text") == '{"x":5}') == include
    assert turn.state.structured


@pytest.mark.parametrize(("kind", "reason"), [*zip(KINDS, FAILURES, strict=True)])
def test_a_program_gives_an_output_in_place_of_an_error(kind: str, reason: Reason) -> None:
    """It is told what went wrong, and what was said."""
    turn = handled(kind, ErrorHandler(hook=hook()))
    asked = turn.payload(HookKind.ERROR_HANDLER)
    assert asked["error"]["reason"] == reason
    assert asked["run"]["last_agent"] == "Helper"
    assert asked["run"]["history"] == turn.input
    assert len(asked["run"]["output"]) == 1

    turn.answer(HookKind.ERROR_HANDLER, {"output": {"x": 5}})

    assert json.loads(turn.state.output or "") == {"x": 5}
    assert len(turn.input) == 3


@pytest.mark.parametrize(("kind", "reason"), [*zip(KINDS, FAILURES, strict=True)])
@pytest.mark.parametrize("answer", [{"output": None}, {}, None])
def test_without_an_output_the_error_stands(kind: str, reason: Reason, answer: Any) -> None:
    """Whether the program declines or is late."""
    turn = handled(kind, ErrorHandler(hook=hook()))

    if answer is None:
        turn.answer(HookKind.ERROR_HANDLER, failure=Failure(reason=Reason.HOOK_TIMEOUT, message="late"))
    else:
        turn.answer(HookKind.ERROR_HANDLER, answer)

    assert turn.reason is reason


def test_a_program_for_an_error_that_raises_fails_the_turn() -> None:
    """Over its own failure, which is the later one."""
    turn = handled("max_turns", ErrorHandler(hook=hook()))

    turn.answer(HookKind.ERROR_HANDLER, failure=Failure(reason=Reason.HOOK_RAISED, message="KeyError"))

    assert turn.reason is Reason.HOOK_RAISED


def test_what_stands_in_must_fit_the_schema() -> None:
    """Else it is the application's fault, and said to be."""
    turn = handled("invalid_final_output", ErrorHandler(output_json='{"y":1}'))

    assert turn.reason is Reason.USER_ERROR


def test_what_stands_in_is_wrapped_where_the_models_answer_would_be() -> None:
    """The history reads as if the model had said it; the output is the value."""
    turn = handled("invalid_final_output", ErrorHandler(output_json='["a"]'), output_schema=LIST)

    assert turn.state.output == '["a"]'
    assert turn.input[-1]["content"][0]["text"] == '{"response":["a"]}'


def test_no_message_may_be_stood_in_for_too() -> None:
    """Without an output the model is asked again, as it would be without a handler."""
    handlers = ErrorHandlers(invalid_final_output=ErrorHandler(hook=hook()))
    turn = turn_of(RunConfig(error_handlers=handlers), output_schema=POINT)
    turn.reply()

    turn.answer(HookKind.ERROR_HANDLER, {"output": None})
    assert turn.owed == (CallModel(round=2),)
    turn.reply()
    turn.answer(HookKind.ERROR_HANDLER, {"output": {"x": 1}})

    assert turn.state.output == '{"x": 1}'


def test_each_error_has_its_own_stand_in() -> None:
    """At the limit of rounds, behind a search, it is the limit's."""
    handlers = ErrorHandlers(
        max_turns=ErrorHandler(output="Enough."), invalid_final_output=ErrorHandler(output="Never said.")
    )
    turn = turn_of(RunConfig(max_turns=1, error_handlers=handlers, output_guardrails=(ASKED,)))

    turn.reply(hosted())
    turn.answer(HookKind.OUTPUT_GUARDRAIL, {"tripped": False})

    assert turn.state.output == "Enough."
