"""Guardrails of functions: before a call and after it, in order, with text in place of an output or the end."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, names

from baton_server.core import texts
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import GuardrailTripped, HookKind, Stage, TurnStatus, Verdict
from baton_server.core.inputs import CallTimedOut
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.tools import Execution, Terms, ToolGuardrail

ASKED = ToolGuardrail(name="ask", check=hook())
REJECTS = ToolGuardrail(name="words", check=Terms(terms=("kyoto",)), message="Not Kyoto.")
TRIPS = ToolGuardrail(name="words", check=Terms(terms=("kyoto",)))
ALLOW, REJECT, TRIP = {"verdict": "allow"}, {"verdict": "reject", "message": "No."}, {"verdict": "trip", "info": 7}


def turn_of(*before: ToolGuardrail, after: tuple[ToolGuardrail, ...] = (), **fields: Any) -> Turn:
    """Brings a turn to a call of a guarded function."""
    turn = Turn(functions=(replace(WEATHER, input_guardrails=before, output_guardrails=after, **fields),))
    turn.begin()
    turn.reply(call())
    return turn


def output(turn: Turn) -> FunctionCallOutput:
    """Reads the output that was recorded last."""
    return [item.body for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)][-1]


def tripped(turn: Turn) -> list[GuardrailTripped]:
    """Lists the strikes of the log."""
    return [event.body for event in turn.log if isinstance(event.body, GuardrailTripped)]


# -- before -------------------------------------------------------------------------------------------------


def test_a_call_is_held_until_its_guardrails_allow_it() -> None:
    """One after another, each asked once; then it is served."""
    turn = turn_of(ASKED, replace(ASKED, name="second"))
    (call_id,) = turn.open
    assert turn.runner.held(turn.state) == {call_id}
    assert turn.payload(HookKind.TOOL_INPUT_GUARDRAIL) == {
        "call_id": call_id,
        "tool": "get_weather",
        "arguments_json": '{"city":"Kyoto"}',
    }
    assert len(turn.questions()) == 1

    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, ALLOW)
    assert (len(turn.questions()), turn.served) == (1, [])
    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, ALLOW)

    assert turn.served == [call_id]
    assert turn.runner.held(turn.state) == set()


def test_a_rejection_gives_its_text_in_place_of_the_output() -> None:
    """The function is not called, nobody after it is asked, and the turn goes on."""
    turn = turn_of(ASKED, replace(ASKED, name="second"), after=(ASKED,))

    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, REJECT)

    assert (turn.outputs, output(turn).settlement) == (["No."], Settlement.GUARDRAIL)
    assert tripped(turn) == [
        GuardrailTripped(
            name="ask", stage=Stage.TOOL_INPUT, verdict=Verdict.CONTENT_REJECTED, call_id=output(turn).call_id
        )
    ]
    assert turn.owed == (CallModel(round=2),)


def test_a_trip_before_a_call_ends_the_turn() -> None:
    """The failure says which guardrail, which function and which call."""
    turn = turn_of(ASKED)
    (call_id,) = turn.open

    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, TRIP)

    assert turn.reason is Reason.TOOL_INPUT_GUARDRAIL_TRIPPED
    assert turn.state.failure is not None
    assert turn.state.failure.metadata == {"guardrail": "ask", "tool": "get_weather", "call_id": call_id}
    assert tripped(turn)[0].info_json == "7"
    assert turn.outputs == [texts.CALL_CANCELLED]


def test_a_list_of_terms_judges_without_anybody() -> None:
    """With a message it rejects, without one it trips; what lacks the terms passes."""
    assert turn_of(REJECTS).outputs == ["Not Kyoto."]
    assert turn_of(TRIPS).reason is Reason.TOOL_INPUT_GUARDRAIL_TRIPPED
    assert turn_of(replace(TRIPS, check=Terms(terms=("oslo",)))).served


@pytest.mark.parametrize("answer", ["{}", '{"verdict":"maybe"}', '{"verdict":"reject"}', "[]"])
def test_nonsense_of_a_tool_guardrail_ends_the_turn(answer: str) -> None:
    """Never taken for a pass; the call has an output."""
    turn = turn_of(ASKED)

    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID
    assert turn.outputs == [texts.CALL_CANCELLED]


def test_a_call_that_is_held_does_not_hold_its_siblings() -> None:
    """They are served meanwhile."""
    guarded = replace(WEATHER, name="guarded", input_guardrails=(ASKED,))
    turn = Turn(functions=(guarded, WEATHER))
    turn.begin()

    turn.reply(call("guarded", id="c1"), call(id="c2"))

    assert turn.served == [turn.open[1]]
    assert turn.status is TurnStatus.IN_PROGRESS


# -- after --------------------------------------------------------------------------------------------------


def test_guardrails_of_outputs_judge_what_the_function_gave() -> None:
    """The model is told once they have let it pass."""
    turn = turn_of(after=(ASKED, replace(ASKED, name="second")))
    recorded = turn.settle(turn.open[0], "rain")
    assert "CallReturned" in names(recorded)
    assert turn.open == []
    assert turn.payload(HookKind.TOOL_OUTPUT_GUARDRAIL)["output"] == "rain"

    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, ALLOW)
    assert turn.outputs == []
    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, ALLOW)

    assert (turn.outputs, output(turn).settlement) == (["rain"], Settlement.OUTPUT)


def test_the_first_rejection_of_an_output_replaces_it() -> None:
    """Nobody after it is asked."""
    turn = turn_of(after=(replace(REJECTS, check=Terms(terms=("rain",))), ASKED))

    turn.settle(turn.open[0], "rain")

    assert (turn.outputs, output(turn).settlement) == (["Not Kyoto."], Settlement.GUARDRAIL)
    assert [one.verdict for one in tripped(turn)] == [Verdict.CONTENT_REJECTED]


def test_a_trip_after_a_call_ends_the_turn() -> None:
    """What the function gave does not reach the history."""
    turn = turn_of(after=(ASKED,))
    turn.settle(turn.open[0], "rain")

    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, TRIP)

    assert turn.reason is Reason.TOOL_OUTPUT_GUARDRAIL_TRIPPED
    assert turn.outputs == [texts.CALL_CANCELLED]
    assert tripped(turn)[0].stage is Stage.TOOL_OUTPUT


def test_words_for_a_timeout_are_judged_as_any_output() -> None:
    """They reach the model like one."""
    turn = turn_of(after=(ASKED,), execution=Execution(timeout_s=5))

    turn.feed(CallTimedOut(call_id=turn.open[0]))

    assert turn.payload(HookKind.TOOL_OUTPUT_GUARDRAIL)["output"] == "Tool 'get_weather' timed out after 5 seconds."


def test_a_second_result_is_not_taken_while_the_first_is_judged() -> None:
    """The first one won when it came."""
    turn = turn_of(after=(ASKED,))
    (call_id,) = turn.open
    turn.settle(call_id, "rain")

    assert turn.settle(call_id, "sun") == []
    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, ALLOW)

    assert turn.outputs == ["rain"]


def test_a_guardrail_of_outputs_that_nobody_answers_ends_the_turn() -> None:
    """Without a verdict nothing passes."""
    turn = turn_of(after=(ASKED,))
    turn.settle(turn.open[0], "rain")

    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, failure=Failure(reason=Reason.HOOK_UNSERVED, message="nobody"))

    assert turn.reason is Reason.HOOK_UNSERVED
