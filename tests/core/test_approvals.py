"""Approvals: calls that wait for a person, what a decision leads to, and how long it holds."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import NOTE, WEATHER, call, hook, names, say

from baton_server.core import texts
from baton_server.core.agents import Agent, Handoff, ToolUseBehavior
from baton_server.core.commands import CallModel
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import ApprovalRequested, CancelMode, Decision, HookKind, TurnStatus
from baton_server.core.inputs import CallsUnheld, DecisionMade, DecisionsMade
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.run_config import RunConfig, ToolErrorTexts, ToolExecution
from baton_server.core.tools import AgentTool, Approval, FunctionTool, Terms, ToolGuardrail

CAREFUL = replace(WEATHER, approval=Approval(always=True, expires_s=60))
ASKED = replace(WEATHER, approval=Approval(hook=hook()))


def waiting(*ids: str, function: FunctionTool = CAREFUL, config: RunConfig | None = None, **fields: Any) -> Turn:
    """Brings a turn to calls of a function that somebody must allow."""
    turn = Turn(agent=Agent(name="Helper", tools=(function, NOTE), **fields), config=config)
    turn.begin()
    turn.reply(*(call(id=id) for id in ids or ("c1",)))
    return turn


def output(turn: Turn) -> FunctionCallOutput:
    """Reads the output that was recorded last."""
    bodies = [item.body for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)]
    return bodies[-1]


# -- asking -------------------------------------------------------------------------------------------------


def test_a_call_waits_for_a_person() -> None:
    """Nobody serves it; what is open says what a decision is bound to, and how long there is."""
    turn = waiting()

    (call_id,) = turn.open
    (asked,) = [event.body for event in turn.log if isinstance(event.body, ApprovalRequested)]
    assert (asked.call_id, asked.expires_s) == (call_id, 60)
    assert turn.state.open_calls[call_id].awaiting == asked.binding
    assert (turn.owed, turn.status) == ((), TurnStatus.WAITING)


def test_the_binding_changes_with_the_arguments_and_the_definition() -> None:
    """A decision about one thing is none about another."""

    def binding(turn: Turn) -> Any:
        return turn.state.open_calls[turn.open[0]].awaiting

    one = binding(waiting())
    other = Turn(functions=(CAREFUL,))
    other.begin()
    other.reply(call(arguments='{"city":"Oslo"}'))

    assert binding(other).arguments_digest != one.arguments_digest
    assert binding(other).definition_digest == one.definition_digest
    changed = waiting(function=replace(CAREFUL, description="New."))
    assert binding(changed).definition_digest != one.definition_digest
    assert binding(changed).arguments_digest == one.arguments_digest


def test_a_program_says_whether_a_person_must_be_asked() -> None:
    """The call is served at once if not."""
    turn = waiting(function=ASKED)
    assert turn.payload(HookKind.NEEDS_APPROVAL) == {
        "call_id": turn.open[0],
        "tool": "get_weather",
        "arguments_json": '{"city":"Kyoto"}',
    }
    assert turn.served == []

    turn.answer(HookKind.NEEDS_APPROVAL, {"needs_approval": False})

    assert turn.served == turn.open


@pytest.mark.parametrize("answer", [{"needs_approval": True}, "nonsense", None])
def test_without_a_clear_no_a_person_is_asked(answer: Any) -> None:
    """Also where the program raises, or nobody answers."""
    turn = waiting(function=ASKED)

    if answer is None:
        turn.answer(HookKind.NEEDS_APPROVAL, failure=Failure(reason=Reason.HOOK_TIMEOUT, message="late"))
    else:
        turn.answer(HookKind.NEEDS_APPROVAL, answer)

    assert turn.owed == ()
    assert turn.state.open_calls[turn.open[0]].awaiting is not None


def test_other_calls_of_the_reply_are_served_meanwhile() -> None:
    """A person may take days."""
    turn = Turn(functions=(CAREFUL, NOTE))
    turn.begin()
    turn.reply(call(id="c1"), call("take_note", '{"text":"x"}', id="c2"))
    careful, note = turn.open
    assert turn.served == [note]

    turn.settle(note, "noted")
    turn.decide(careful)
    turn.settle(careful, "rain")

    assert sorted(turn.outputs) == ["noted", "rain"]
    assert turn.owed == (CallModel(round=2),)


def test_bad_arguments_are_told_before_anybody_is_asked() -> None:
    """There is nothing to decide about."""
    turn = Turn(functions=(CAREFUL,))
    turn.begin()

    turn.reply(call(arguments="{}"))

    assert turn.owed == (CallModel(round=2),)
    assert not any(isinstance(event.body, ApprovalRequested) for event in turn.log)


def test_a_handoff_beside_it_waits() -> None:
    """It happens once somebody has decided."""
    handoff = Handoff(name="transfer_to_other", agent="Other")
    turn = Turn(agent=Agent(name="Helper", tools=(CAREFUL,), handoffs=(handoff,)), others=(Agent(name="Other"),))
    turn.begin()
    turn.reply(call(id="c1"), call("transfer_to_other", "{}", id="h1"))
    assert turn.state.own.agent == "Helper"

    turn.decide(turn.open[0], approve=False)

    assert turn.state.own.agent == "Other"
    assert [item["call_id"] for item in turn.input if "output" in item] == ["c1", "h1"]


# -- deciding -----------------------------------------------------------------------------------------------


def test_an_allowed_call_is_served() -> None:
    """And its result taken as any other."""
    turn = waiting()
    (call_id,) = turn.open

    turn.decide(call_id, decided_by="ann")
    assert turn.served == [call_id]
    turn.settle(call_id, "rain")

    assert turn.outputs == ["rain"]


def test_a_rejected_call_is_told_to_the_model() -> None:
    """No handler sees it, and the turn goes on."""
    turn = waiting()

    recorded = turn.decide(turn.open[0], approve=False)

    assert names(recorded) == ["ApprovalDecided", "ItemAdded", "SessionInProgress"]
    assert (turn.outputs, output(turn).settlement) == ([texts.APPROVAL_REJECTED], Settlement.REJECTED)
    assert turn.owed == (CallModel(round=2),)


def test_the_first_decision_counts() -> None:
    """A second one changes nothing, whatever it says; neither does one about a call that waits for none."""
    turn = waiting("c1", "c2")
    first, second = turn.open
    turn.decide(first)

    assert turn.decide(first, approve=False) == []
    assert turn.decide("call_0a_ffffff") == []
    assert turn.served == [first]
    assert turn.state.open_calls[second].awaiting is not None


def test_a_result_from_outside_needs_no_decision() -> None:
    """Whoever gave it has decided; one that comes while it is judged is not heard."""
    judged = ToolGuardrail(name="ask", check=hook())
    turn = waiting(function=replace(CAREFUL, output_guardrails=(judged,)))
    (call_id,) = turn.open
    turn.settle(call_id, "rain", Settlement.OUTSIDE_OUTPUT)

    assert turn.decide(call_id, approve=False) == []
    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, {"verdict": "allow"})

    assert turn.outputs == ["rain"]


def test_each_of_several_calls_needs_its_own_decision() -> None:
    """What is decided goes on; what is not, waits."""
    turn = waiting("c1", "c2", "c3")
    one, two, three = turn.open

    turn.decide(two, approve=False)
    turn.decide(one)
    turn.settle(one, "rain")
    assert (turn.open, turn.owed) == ([three], ())
    turn.decide(three)
    turn.settle(three, "sun")

    assert sorted(turn.outputs) == sorted(["rain", texts.APPROVAL_REJECTED, "sun"])
    assert turn.owed == (CallModel(round=2),)


def test_nobody_in_time_is_a_rejection_with_a_reason() -> None:
    """The model reads the same words; the log says that nobody decided."""
    turn = waiting()

    turn.decide(turn.open[0], approve=False, expired=True)

    assert turn.outputs == [texts.APPROVAL_REJECTED]
    assert output(turn).error is not None
    assert output(turn).error.reason is Reason.APPROVAL_EXPIRED  # type: ignore[union-attr]


# -- how long it holds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("approve", [True, False])
def test_a_decision_for_always_holds_for_the_calls_that_wait_and_those_that_come(approve: bool) -> None:
    """Of the same function by the same agent, in this turn."""
    turn = waiting("c1", "c2")
    turn.decide(turn.open[0], approve=approve, always=True, message="" if approve else "Never.")
    assert len(turn.served) == (2 if approve else 0)
    for call_id in turn.served:
        turn.settle(call_id)

    turn.reply(call(id="c3"))

    assert (len(turn.served) == 1) == approve
    if not approve:
        assert turn.outputs == ["Never."] * 3


def test_of_two_decisions_for_always_the_later_call_counts() -> None:
    """For a call that waits besides as for those that come, though one of the two is in a nested run."""
    asking = AgentTool(name="ask_helper", agent="Helper", max_turns=2)
    turn = Turn(agent=Agent(name="Helper", tools=(CAREFUL, asking)))
    turn.begin()
    turn.reply(call("ask_helper", '{"input":"Weather?"}', "c1"), call(id="c2"), call(id="c3"))
    outer = list(turn.state.calls)
    turn.reply(call(id="n1"), path=(outer[0],))
    nested = turn.open[-1]

    said = (Decision(call_id=outer[1], approve=True, always=True), Decision(call_id=nested, approve=False, always=True))
    turn.feed(DecisionsMade(made=tuple(DecisionMade(decision=one) for one in said)))

    assert turn.served == outer[1:]
    assert [decision.approve for decision in turn.state.sticky.values()] == [True]


def test_a_decision_for_once_holds_for_one_call() -> None:
    """The next one waits again."""
    turn = waiting()
    turn.decide(turn.open[0])
    turn.settle(turn.open[0])

    turn.reply(call(id="c2"))

    assert turn.owed == ()


def test_a_decision_for_always_is_for_one_agent() -> None:
    """Another agent with the same function asks anew."""
    handoff = Handoff(name="transfer_to_other", agent="Other")
    other = Agent(name="Other", tools=(CAREFUL,))
    turn = Turn(agent=Agent(name="Helper", tools=(CAREFUL,), handoffs=(handoff,)), others=(other,))
    turn.begin()
    turn.reply(call(id="c1"))
    turn.decide(turn.open[0], always=True)
    turn.settle(turn.open[0])
    turn.reply(call("transfer_to_other", "{}", id="h1"))

    turn.reply(call(id="c2"))

    assert turn.owed == ()
    assert len(turn.open) == 1


# -- words of a rejection -----------------------------------------------------------------------------------

WORDS = ToolErrorTexts(approval_rejected="Not today.", hook=hook())


@pytest.mark.parametrize(
    ("said", "config", "told"),
    [
        ("My own.", RunConfig(tool_error_texts=WORDS), "My own."),
        ("", RunConfig(tool_error_texts=WORDS), "Not today."),
        ("", None, texts.APPROVAL_REJECTED),
    ],
)
def test_who_decides_has_the_first_word(said: str, config: RunConfig | None, told: str) -> None:
    """Then the run's configuration, then ours."""
    turn = waiting(config=config)

    turn.decide(turn.open[0], approve=False, message=said)

    assert turn.outputs == [told]


@pytest.mark.parametrize(("message", "told"), [("Ask me.", "Ask me."), (None, texts.APPROVAL_REJECTED)])
def test_a_program_may_word_it(message: str | None, told: str) -> None:
    """Nothing said, or an answer that cannot be used: our words."""
    turn = waiting(config=RunConfig(tool_error_texts=ToolErrorTexts(hook=hook())))
    turn.decide(turn.open[0], approve=False)
    asked = turn.payload(HookKind.TOOL_ERROR)
    assert (asked["kind"], asked["default_message"]) == ("approval_rejected", texts.APPROVAL_REJECTED)

    turn.answer(HookKind.TOOL_ERROR, {"message": message})

    assert turn.outputs == [told]


# -- beside other rules -------------------------------------------------------------------------------------

STRICT = ToolGuardrail(name="words", check=Terms(terms=("Kyoto",)), message="Not Kyoto.")


def test_guardrails_of_the_arguments_judge_after_the_approval() -> None:
    """A person is asked first, by default."""
    turn = waiting(function=replace(CAREFUL, input_guardrails=(STRICT,)))
    assert turn.status is TurnStatus.WAITING

    turn.decide(turn.open[0])

    assert turn.outputs == ["Not Kyoto."]


def test_guardrails_may_judge_before_anybody_is_asked() -> None:
    """What they reject needs no decision; what they let pass is judged again after it."""
    config = RunConfig(tool_execution=ToolExecution(guardrails_before_approval=True))
    assert waiting(function=replace(CAREFUL, input_guardrails=(STRICT,)), config=config).outputs == ["Not Kyoto."]

    asked = ToolGuardrail(name="ask", check=hook())
    turn = waiting(function=replace(CAREFUL, input_guardrails=(asked,)), config=config)
    turn.answer(HookKind.TOOL_INPUT_GUARDRAIL, {"verdict": "allow"})
    assert turn.owed == ()
    turn.decide(turn.open[0])

    assert turn.question(HookKind.TOOL_INPUT_GUARDRAIL).ref.name == "ask"


def test_a_rejection_may_end_the_turn_as_any_output() -> None:
    """Where the first function's output is the final one."""
    turn = waiting(tool_use=ToolUseBehavior(stop_on_first=True))

    turn.decide(turn.open[0], approve=False)

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, texts.APPROVAL_REJECTED)


@pytest.mark.parametrize("mode", list(CancelMode))
def test_a_cancel_does_not_wait_for_a_person(mode: CancelMode) -> None:
    """What nobody holds gets an output, decided or not; a decision that comes later is not heard."""
    turn = waiting()
    (call_id,) = turn.open

    turn.cancel(mode)
    turn.feed(CallsUnheld(call_ids=(call_id,)))

    assert (turn.status, turn.outputs) == (TurnStatus.CANCELLED, [texts.CALL_CANCELLED])
    assert turn.decide(call_id) == []


def test_the_reply_that_follows_sees_what_was_decided() -> None:
    """The turn ends as any other."""
    turn = waiting()
    turn.decide(turn.open[0])
    turn.settle(turn.open[0], "rain")

    turn.reply(say("Rain."))

    assert turn.state.output == "Rain."
