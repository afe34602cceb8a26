"""Moments of a turn: who is told of them and waited for, in which order, and what each is told."""

from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, say

from baton_server.core.agents import Agent, Guardrail, Handoff, LifecycleHook, Moment
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import HookKind
from baton_server.core.run_config import RunConfig
from baton_server.core.tools import AgentTool, Approval, ToolGuardrail

RUN, OWN = LifecycleHook(hook=hook("run"), awaited=True), LifecycleHook(hook=hook("own"), awaited=True)
TO_OTHER = Handoff(name="transfer_to_other", agent="Other")


def turn_of(*tools: Any, run: LifecycleHook | None = RUN, own: LifecycleHook | None = OWN, **fields: Any) -> Turn:
    """Begins a turn that is watched by programs."""
    hooks = {"lifecycle_hooks": (own,) if own is not None else ()}
    helper = Agent(name="Helper", tools=tools or (WEATHER,), handoffs=(TO_OTHER,), **hooks, **fields)
    other = Agent(name="Other", lifecycle_hooks=(LifecycleHook(hook=hook("other"), awaited=True),))
    config = RunConfig(lifecycle_hooks=(run,) if run is not None else ())
    turn = Turn(agent=helper, others=(other,), config=config)
    turn.begin()
    return turn


def heard(turn: Turn) -> list[str]:
    """Answers all that is asked, and says who was asked what, in order."""
    said = []
    while turn.questions():
        question = turn.questions()[0]
        payload = turn.payload(question)
        said.append(f"{question.ref.name} {payload.get('moment', question.kind)}")
        turn.answer(question, {"tripped": False, "verdict": "allow"})
    return said


def test_the_moments_of_a_turn_come_in_this_order() -> None:
    """The run's program first, then the agent's own; output guardrails come last of all."""
    turn = turn_of(output_guardrails=(Guardrail(name="ask", check=hook("guard")),))
    assert heard(turn) == ["run agent_start", "own agent_start", "run model_start", "own model_start"]

    turn.reply(call())
    assert heard(turn) == ["run model_end", "own model_end", "run function_start", "own function_start"]
    turn.settle(turn.open[0], "rain")
    assert heard(turn) == ["run function_end", "own function_end", "run model_start", "own model_start"]
    turn.reply(say("Rain."))
    assert heard(turn) == [
        "run model_end",
        "own model_end",
        "run agent_end",
        "own agent_end",
        "guard OUTPUT_GUARDRAIL",
    ]

    assert turn.state.output == "Rain."


def test_a_handoff_is_told_to_the_agent_that_gives() -> None:
    """Then the one that takes over starts; nobody is told twice of what was before it."""
    turn = turn_of()
    heard(turn)

    turn.reply(call("transfer_to_other", "{}", id="h1"))

    assert heard(turn) == [
        "run model_end",
        "own model_end",
        "run handoff",
        "own handoff",
        "run agent_start",
        "other agent_start",
        "run model_start",
        "other model_start",
    ]
    turn.reply(say("Hello."))
    assert heard(turn) == ["run model_end", "other model_end", "run agent_end", "other agent_end"]


def test_each_moment_says_what_it_is_about() -> None:
    """With the facts that a program needs there."""
    turn = turn_of(own=None)
    facts = []

    def note() -> None:
        while turn.questions():
            facts.append(turn.payload(HookKind.LIFECYCLE))
            turn.answer(HookKind.LIFECYCLE, {})

    note()
    turn.reply(call())
    note()
    (call_id,) = turn.open
    turn.settle(call_id, "rain")
    note()
    turn.reply(say("Rain."))
    note()

    moments = {fact["moment"]: fact for fact in facts}
    about = {"call_id": call_id, "tool": "get_weather", "arguments_json": '{"city":"Kyoto"}'}
    assert {fact["agent"] for fact in facts} == {"Helper"}
    assert facts[1] == {
        "moment": "model_start",
        "agent": "Helper",
        "round": 1,
        "instructions": None,
        "input": [{"content": "Hi", "role": "user"}],
    }
    assert (moments["model_end"]["round"], moments["model_end"]["response_id"]) == (2, "resp_2")
    assert [item["type"] for item in moments["model_end"]["output"]] == ["message"]
    assert about.items() <= moments["function_start"].items()
    assert {**about, "output": "rain", "settlement": "OUTPUT"}.items() <= moments["function_end"].items()
    assert moments["agent_end"]["output"] == "Rain."


def test_a_blocking_guardrail_comes_before_the_agent_starts() -> None:
    """What it stops never started."""
    turn = turn_of(input_guardrails=(Guardrail(name="ask", check=hook("guard"), blocking=True),))

    assert [question.ref.name for question in turn.questions()] == ["guard"]
    turn.guard()

    assert [question.ref.name for question in turn.questions()] == ["run", "own"]


def test_a_function_starts_once_it_may() -> None:
    """After the approval and the guardrails; one that is rejected neither starts nor ends."""
    careful = Approval(always=True)
    guard = ToolGuardrail(name="ask", check=hook("guard"))
    tool = type(WEATHER)(
        name="get_weather",
        parameters_json=WEATHER.parameters_json,
        strict=True,
        approval=careful,
        input_guardrails=(guard,),
    )
    turn = turn_of(tool, own=None)
    heard(turn)
    turn.reply(call(id="c1"), call(id="c2"))
    assert heard(turn) == ["run model_end"]
    first, second = turn.open

    turn.decide(first)
    assert heard(turn) == ["guard TOOL_INPUT_GUARDRAIL", "run function_start"]
    turn.decide(second, approve=False)

    assert heard(turn) == []
    assert turn.served == [first]


def test_only_the_moments_that_are_wanted_are_told() -> None:
    """And those who are not waited for hold nothing up."""
    wants = LifecycleHook(hook=hook("run"), awaited=True, moments=(Moment.FUNCTION_END,))
    turn = turn_of(run=wants, own=LifecycleHook(hook=hook("own")))
    assert turn.requests

    turn.reply(call())
    turn.settle(turn.open[0], "rain")

    assert heard(turn) == ["run function_end"]


@pytest.mark.parametrize("reason", [Reason.HOOK_RAISED, Reason.HOOK_TIMEOUT])
def test_a_program_that_was_waited_for_and_fails_ends_the_turn(reason: Reason) -> None:
    """Whatever it was to do at that moment was not done."""
    turn = turn_of()

    turn.answer(HookKind.LIFECYCLE, failure=Failure(reason=reason, message="no"))

    assert turn.reason is reason


def test_a_message_joins_no_request_that_was_told_of() -> None:
    """It waits for the next one: what a program was told is what is sent."""
    turn = turn_of(own=None)
    turn.answer(HookKind.LIFECYCLE, {})
    assert turn.steer("And?")

    turn.answer(HookKind.LIFECYCLE, {})

    assert turn.requests
    assert turn.steer("Well?") == []


def test_a_nested_run_has_moments_of_its_own() -> None:
    """Those of its agent, under the path of its call."""
    turn = turn_of(AgentTool(name="ask_other", agent="Other"), run=None, own=None)
    turn.reply(call("ask_other", '{"input":"Hi"}', id="a1"))
    (question,) = turn.questions()
    assert (question.ref.name, question.run_path) == ("other", (turn.call_ids()[0],))

    assert heard(turn) == ["other agent_start", "other model_start"]
    turn.reply(say("Ho."), path=question.run_path)

    assert heard(turn) == ["other model_end", "other agent_end"]
    assert turn.outputs == ["Ho."]
