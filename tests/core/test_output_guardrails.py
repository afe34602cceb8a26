"""Guardrails of final outputs: what they hold back, what is told in its place, what leaves the history."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hook, hosted, names, refuse, say

from baton_server.core import texts
from baton_server.core.agents import Agent, Guardrail, Handoff, OutputSchema, ToolUseBehavior
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import GuardrailTripped, HookKind, ItemsWithdrawn, Stage, Withdrawal
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.run_config import (
    BlockedOutputText,
    ErrorHandler,
    ErrorHandlers,
    History,
    HistoryMode,
    RunConfig,
)
from baton_server.core.tools import Terms

LIST = OutputSchema(name="list", schema_json='{"type":"array"}')
POINT = OutputSchema(name="point", schema_json='{"type":"object","required":["x"]}')


def turn_of(config: RunConfig | None = None, **fields: Any) -> Turn:
    """Begins a turn of an agent of some kind."""
    turn = Turn(agent=Agent(name="Helper", tools=(WEATHER, NOTE), **fields), config=config)
    turn.begin()
    return turn


WORDS = Guardrail(name="words", check=Terms(terms=("secret",)))
ASKED = Guardrail(name="ask", check=hook())


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


def withdrawn(turn: Turn) -> list[str]:
    """Lists the items that left the history."""
    bodies = [event.body for event in turn.log if isinstance(event.body, ItemsWithdrawn)]
    assert all(body.reason is Withdrawal.GUARDRAIL for body in bodies)
    return [item_id for body in bodies for item_id in body.item_ids]


def test_a_list_of_terms_holds_an_output_back() -> None:
    """The message leaves the history; the input stays."""
    turn = turn_of(output_guardrails=(WORDS,))

    recorded = turn.reply(say("The SECRET is 7."))

    assert names(recorded) == ["ItemDone", "RoundCompleted", "GuardrailTripped", "ItemsWithdrawn", "TurnEnded"]
    assert recorded[2] == GuardrailTripped(name="words", stage=Stage.OUTPUT)
    assert turn.reason is Reason.OUTPUT_GUARDRAIL_TRIPPED
    assert turn.kept() == turn.input[:1]


def test_programs_judge_an_output_at_once() -> None:
    """The agent's and the run's; the turn ends when all have let it pass."""
    turn = turn_of(RunConfig(output_guardrails=(replace(ASKED, name="run"),)), output_guardrails=(ASKED, WORDS))
    turn.reply(say("Hello."))
    asked = turn.questions(HookKind.OUTPUT_GUARDRAIL)
    assert len(asked) == 2
    assert turn.payload(asked[0]) == {"output": "Hello."}

    turn.answer(asked[1], {"tripped": False})
    assert not turn.state.over
    turn.answer(asked[0], {"tripped": False})

    assert turn.state.output == "Hello."


def test_a_structured_output_is_judged_as_its_value() -> None:
    """Not as the text that the model wrote."""
    turn = turn_of(output_schema=LIST, output_guardrails=(ASKED,))

    turn.reply(say('{"response":["a"]}'))

    assert turn.payload(HookKind.OUTPUT_GUARDRAIL) == {"output": ["a"]}


def test_a_program_says_why_it_held_an_output_back() -> None:
    """In the log, for people."""
    turn = turn_of(output_guardrails=(ASKED,))
    turn.reply(say("Hello."))

    recorded = turn.answer(HookKind.OUTPUT_GUARDRAIL, {"tripped": True, "info": {"found": 7}})

    assert GuardrailTripped(name="ask", info_json='{"found": 7}', stage=Stage.OUTPUT) in recorded
    assert withdrawn(turn) == [turn.recorded()[-1][0].item_id]


def test_a_program_that_fails_fails_the_turn_and_keeps_the_message() -> None:
    """Nobody has said that it must go."""
    turn = turn_of(output_guardrails=(ASKED,))
    turn.reply(say("Hello."))

    turn.answer(HookKind.OUTPUT_GUARDRAIL, failure=Failure(reason=Reason.HOOK_RAISED, message="KeyError"))

    assert turn.reason is Reason.HOOK_RAISED
    assert withdrawn(turn) == []


@pytest.mark.parametrize("text", [None, "Held back."])
def test_an_output_of_a_function_is_replaced(text: str | None) -> None:
    """The calls of the round stay, and a text says that their outputs were withheld."""
    config = RunConfig(blocked_output_text=BlockedOutputText(text=text) if text else None)
    turn = turn_of(config, tool_use=ToolUseBehavior(stop_on_first=True), output_guardrails=(WORDS,))
    turn.reply(call(id="c1"), call("take_note", '{"text":"x"}', id="c2"))
    weather, note = turn.open

    turn.settle(note, "noted")
    turn.settle(weather, "a secret")

    assert turn.reason is Reason.OUTPUT_GUARDRAIL_TRIPPED
    assert [item["output"] for item in turn.kept() if "output" in item] == [text or texts.OUTPUT_BLOCKED] * 2
    blocked = [item.body for item, _ in turn.recorded()[-2:]]
    assert [body.call_id for body in blocked if isinstance(body, FunctionCallOutput)] == [weather, note]
    assert {body.settlement for body in blocked if isinstance(body, FunctionCallOutput)} == {Settlement.BLOCKED}


@pytest.mark.parametrize(("message", "told"), [("Hush.", "Hush."), (None, texts.OUTPUT_BLOCKED)])
def test_a_program_may_word_what_was_withheld(message: str | None, told: str) -> None:
    """It is told by which guardrail."""
    config = RunConfig(blocked_output_text=BlockedOutputText(hook=hook()))
    turn = turn_of(config, tool_use=ToolUseBehavior(stop_on_first=True), output_guardrails=(WORDS,))
    turn.reply(call(id="c1"))
    turn.settle(turn.open[0], "a secret")
    asked = turn.payload(HookKind.BLOCKED_OUTPUT)
    assert (asked["guardrail"], asked["tool"]) == ("words", "get_weather")

    turn.answer(HookKind.BLOCKED_OUTPUT, {"message": message})

    assert turn.kept()[-1]["output"] == told


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_in_for_an_error_is_judged_too(kind: str) -> None:
    """Held back, it leaves the history; what rounds before it made stays."""
    turn = handled(kind, ErrorHandler(output_json='{"x":"secret"}'), output_guardrails=(WORDS,))

    assert turn.reason is Reason.OUTPUT_GUARDRAIL_TRIPPED
    assert [item.get("type", "input") for item in turn.kept()] == (
        ["input", "web_search_call"] if kind == "max_turns" else ["input"]
    )


def test_a_stand_in_at_the_limit_leaves_the_history_when_it_is_held_back() -> None:
    """Also behind functions, whose outputs stay."""
    handlers = ErrorHandlers(max_turns=ErrorHandler(output="a secret"))
    turn = turn_of(RunConfig(max_turns=1, error_handlers=handlers), output_guardrails=(WORDS,))
    turn.reply(call())

    turn.settle(turn.open[0], "rain")

    assert turn.reason is Reason.OUTPUT_GUARDRAIL_TRIPPED
    assert [item.get("type", "input") for item in turn.kept()] == ["input", "function_call", "function_call_output"]


def test_only_the_agent_that_ends_the_turn_has_its_output_judged() -> None:
    """One that has handed over judges nothing."""
    handoff = Handoff(name="transfer_to_other", agent="Other")
    helper = Agent(name="Helper", handoffs=(handoff,), output_guardrails=(ASKED,))
    turn = Turn(agent=helper, others=(Agent(name="Other"),))
    turn.begin()
    turn.reply(call("transfer_to_other", "{}", id="h1"))

    turn.reply(say("Hello."))

    assert turn.state.output == "Hello."


def test_output_guardrails_cannot_take_back_what_the_models_api_keeps() -> None:
    """The turn fails before the model is asked."""
    history = History(mode=HistoryMode.CONVERSATION, id="conv_1")

    turn = turn_of(RunConfig(history=history), output_guardrails=(WORDS,))

    assert (turn.reason, turn.state.rounds) == (Reason.USER_ERROR, 0)
