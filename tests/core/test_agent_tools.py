"""Agents as tools: a run of their own inside a call, what it begins with, what the model is told of it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import USAGE, WEATHER, call, hook, hosted, names, refuse, say

from baton_server.core import texts
from baton_server.core.agents import Agent, Guardrail, Handoff, OutputSchema
from baton_server.core.commands import CallModel, ServeCall
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, HookKind, NestedRunClosed, NestedRunCreated, TurnStatus
from baton_server.core.inputs import CallsUnheld
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.run_config import RunConfig
from baton_server.core.tools import AgentTool, Approval, FailureText, Terms

ASK = AgentTool(name="ask_expert", agent="Expert")
EXPERT = Agent(name="Expert", tools=(WEATHER,), handoffs=(Handoff(name="transfer_to_clerk", agent="Clerk"),))
CLERK = Agent(name="Clerk")
HI = '{"input":"Hi"}'


def turn_of(tool: AgentTool = ASK, expert: Agent = EXPERT, config: RunConfig | None = None) -> Turn:
    """Begins a turn of an agent that asks another one."""
    boss = Agent(name="Boss", tools=(tool, WEATHER))
    turn = Turn(agent=boss, others=(expert, CLERK), config=config)
    turn.begin("Ask.")
    return turn


def asking(tool: AgentTool = ASK, arguments: str = HI, **fields: Any) -> tuple[Turn, tuple[str, ...]]:
    """Brings a turn to where the other agent is asked; the path is that of its run."""
    turn = turn_of(tool, **fields)
    turn.reply(call("ask_expert", arguments, id="a1"))
    return turn, (turn.call_ids()[0],)


def output(turn: Turn) -> FunctionCallOutput:
    """Reads what became of the call of the agent tool."""
    bodies = [item.body for item, _ in turn.recorded() if not item.run_path]
    return [body for body in bodies if isinstance(body, FunctionCallOutput)][-1]


# -- its run ------------------------------------------------------------------------------------------------


def test_a_call_of_an_agent_is_a_run_of_its_own() -> None:
    """It begins with the text of the call; its output is what the model is told."""
    turn = turn_of()

    recorded = turn.reply(call("ask_expert", HI, id="a1"))

    assert names(recorded)[-3:] == ["NestedRunCreated", "AgentChanged", "ItemAdded"]
    (call_id,) = turn.call_ids()
    assert turn.owed == (CallModel(round=1, run_path=(call_id,)),)
    assert turn.sent((call_id,)) == [{"content": "Hi", "role": "user"}]
    ended = turn.reply(say("Sun."), path=(call_id,))
    assert names(ended) == ["ItemDone", "RoundCompleted", "NestedRunClosed", "CallReturned", "ItemAdded"]
    assert turn.outputs == ["Sun."]
    assert output(turn).settlement is Settlement.NESTED_RUN
    assert turn.owed == (CallModel(round=2),)


def test_what_it_says_is_in_no_history() -> None:
    """The log has it under the path of its call; the model that asked sees the output alone."""
    turn, path = asking()
    turn.reply(say("Sun."), path=path)

    nested = [(item, in_history) for item, in_history in turn.recorded() if item.run_path]

    assert {item.run_path for item, _ in nested} == {path}
    assert not any(in_history for _, in_history in nested)
    assert [item.get("type", "message") for item in turn.sent()] == ["message", "function_call", "function_call_output"]


def test_it_calls_functions_of_its_own() -> None:
    """Served as any other call; its rounds are its own, its tokens the turn's too."""
    turn, path = asking()
    turn.reply(call(id="c1"), path=path)
    assert turn.owed == (ServeCall(call_id=turn.open[0]),)
    assert turn.status is TurnStatus.WAITING

    turn.settle(turn.open[0], "rain")
    turn.reply(say("Rain."), path=path)

    assert turn.outputs == ["Rain."]
    assert (turn.state.rounds, turn.state.usage.requests) == (1, 3)
    closed = [event.body for event in turn.log if isinstance(event.body, NestedRunClosed)]
    assert [one.usage for one in closed] == [USAGE + USAGE]


def test_its_siblings_are_served_meanwhile() -> None:
    """Two agents and a function at once; outputs stand in the order of the calls."""
    turn = turn_of()
    turn.reply(call("ask_expert", HI, id="a1"), call(id="c1"), call("ask_expert", HI, id="a2"))
    first, function, second = turn.call_ids()
    assert turn.owed[0] == ServeCall(call_id=function)
    assert [command.run_path for command in turn.requests] == [(first,), (second,)]

    turn.reply(say("two"), path=(second,))
    turn.settle(function, "rain")
    turn.reply(say("one"), path=(first,))

    assert turn.outputs == ["one", "rain", "two"]


def test_it_hands_over_inside() -> None:
    """Another agent of the graph ends the nested run; the turn's own agent stays."""
    turn, path = asking()
    turn.reply(call("transfer_to_clerk", "{}", id="h1"), path=path)
    assert turn.state.runs[path].agent == "Clerk"

    turn.reply(say("By the clerk."), path=path)

    assert turn.outputs == ["By the clerk."]
    assert turn.state.own.agent == "Boss"


def test_nothing_of_it_is_kept_once_the_model_is_told() -> None:
    """A turn that asks for ever does not grow with what was said inside."""
    turn, path = asking()
    turn.reply(call(id="c1"), path=path)
    turn.settle(turn.open[0])

    turn.reply(say("x" * 1000), path=path)

    assert list(turn.state.runs) == [()]
    assert len(turn.state.items) == len(turn.input)


def test_agents_call_agents_that_call_agents() -> None:
    """As deep as their graph says; each level has its path."""
    inner = replace(EXPERT, tools=(AgentTool(name="ask_clerk", agent="Clerk"),))
    turn, path = asking(expert=inner)
    turn.reply(call("ask_clerk", HI, id="k1"), path=path)
    deeper = (*path, turn.call_ids()[1])
    assert turn.owed == (CallModel(round=1, run_path=deeper),)

    turn.reply(say("deep"), path=deeper)
    turn.reply(say("not so deep"), path=path)

    assert turn.outputs == ["not so deep"]


# -- what goes in, what comes out ---------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", ["{}", "", "[]", '{"question":"Hi"}'])
def test_a_call_without_an_input_begins_no_run(arguments: str) -> None:
    """The model is told what is missing."""
    turn, _ = asking(arguments=arguments)

    assert turn.owed == (CallModel(round=2),)
    assert output(turn).settlement is Settlement.ARGUMENTS_INVALID
    assert not any(isinstance(event.body, NestedRunCreated) for event in turn.log)


def test_arguments_of_a_schema_are_given_as_data() -> None:
    """With words that say so, and the schema."""
    schema = '{"type":"object","required":["city"]}'
    turn, path = asking(replace(ASK, parameters_json=schema), arguments='{"city":"Kyoto"}')

    (item,) = turn.sent(path)

    assert item["content"].startswith(texts.STRUCTURED_INPUT)
    assert '{"city":"Kyoto"}' in item["content"]
    assert schema in item["content"]


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ({"input": "Do it."}, [{"content": "Do it.", "role": "user"}]),
        ({"input": [{"role": "system", "content": "Be brief."}]}, [{"role": "system", "content": "Be brief."}]),
    ],
)
def test_a_program_builds_the_input(answer: Any, sent: Any) -> None:
    """Of the arguments as the model wrote them."""
    turn, path = asking(replace(ASK, input_builder=hook()))
    assert turn.payload(HookKind.AGENT_INPUT) == {"arguments_json": HI}

    turn.answer(HookKind.AGENT_INPUT, answer)

    assert turn.sent(path) == sent


def test_a_program_says_what_the_model_is_told() -> None:
    """It gets the output and what the run made."""
    turn, path = asking(replace(ASK, output_extractor=hook()))
    turn.reply(say("A long story."), path=path)
    asked = turn.payload(HookKind.AGENT_OUTPUT)
    assert asked["output"] == "A long story."
    assert [item["type"] for item in asked["new_items"]] == ["message"]

    turn.answer(HookKind.AGENT_OUTPUT, {"output": [{"type": "input_text", "text": "Short."}]})

    assert turn.outputs == ["Short."]


def test_an_output_with_a_schema_is_told_as_its_json() -> None:
    """A program at the edge gets the value itself."""
    schema = OutputSchema(name="points", schema_json='{"type":"array"}')
    turn, path = asking(replace(ASK, output_extractor=hook()), expert=replace(EXPERT, output_schema=schema))
    turn.reply(say('{"response":[1, 2.0]}'), path=path)
    assert turn.payload(HookKind.AGENT_OUTPUT)["output"] == [1, 2.0]

    plain, path = asking(expert=replace(EXPERT, output_schema=schema))
    plain.reply(say('{"response":[1, 2.0]}'), path=path)

    assert plain.outputs == ["[1, 2.0]"]


@pytest.mark.parametrize(("guarded", "told"), [(False, "rain"), (True, "")])
def test_an_empty_output_gives_way_to_what_was_said_last(guarded: bool, told: str) -> None:
    """Unless output guardrails have judged it: what they did not see is not told."""
    checks = (Guardrail(name="words", check=Terms(terms=("forbidden",))),) if guarded else ()
    turn, path = asking(expert=replace(EXPERT, output_guardrails=checks))
    turn.reply(call(id="c1"), path=path)
    turn.settle(turn.open[0], "rain")

    turn.reply(path=path)

    assert turn.outputs == [told]


# -- what goes wrong ----------------------------------------------------------------------------------------


def spoil(turn: Turn, path: tuple[str, ...], how: str) -> None:
    """Has a nested run fail in one of several ways."""
    if how == "model":
        turn.fail(path=path)
    elif how == "refusal":
        turn.reply(refuse("No."), path=path)
    else:
        turn.reply(call("get_time", id="t"), path=path)


@pytest.mark.parametrize("how", ["model", "refusal", "unknown function"])
def test_a_nested_run_that_fails_is_a_function_that_failed(how: str) -> None:
    """The model is told so without the cause; the log has it; the turn goes on."""
    turn, path = asking()

    spoil(turn, path, how)

    assert turn.outputs == [texts.FUNCTION_FAILED]
    assert output(turn).settlement is Settlement.CRASH
    assert output(turn).error is not None
    assert turn.owed == (CallModel(round=2),)


def test_its_failure_may_have_words_or_end_the_turn() -> None:
    """As that of any function; the turn then ends over the very failure of the run inside."""
    worded, path = asking(replace(ASK, on_crash=FailureText(text="The expert is out.")))
    worded.fail(path=path)
    assert worded.outputs == ["The expert is out."]

    ending, path = asking(replace(ASK, on_crash=FailureText(fail_turn=True)))
    ending.fail(path=path)
    assert ending.reason is Reason.MODEL_UNAVAILABLE


@pytest.mark.parametrize("limit", [None, 2])
def test_its_rounds_have_a_limit_of_their_own(limit: int | None) -> None:
    """Ten, if nobody says otherwise; the turn's own limit is another one."""
    turn, path = asking(replace(ASK, max_turns=limit), config=RunConfig(unlimited_turns=True))

    for _ in range(limit or 10):
        turn.reply(hosted(), path=path)

    assert output(turn).error is not None
    assert output(turn).error.reason is Reason.MAX_TURNS_EXCEEDED  # type: ignore[union-attr]
    assert turn.owed == (CallModel(round=2),)


@pytest.mark.parametrize("kind", [HookKind.AGENT_INPUT, HookKind.AGENT_OUTPUT])
def test_a_program_at_its_edge_that_fails_is_a_function_that_failed(kind: HookKind) -> None:
    """With the words that the tool has for it."""
    tool = replace(ASK, input_builder=hook(), output_extractor=hook(), on_crash=FailureText(text="The expert is out."))
    turn, path = asking(tool)
    if kind is HookKind.AGENT_OUTPUT:
        turn.answer(HookKind.AGENT_INPUT, {"input": "Hi"})
        turn.reply(say("Sun."), path=path)

    turn.answer(kind, failure=Failure(reason=Reason.HOOK_RAISED, message="KeyError"))

    assert turn.outputs == ["The expert is out."]
    assert turn.owed == (CallModel(round=2),)


def test_its_input_guardrails_judge_its_input() -> None:
    """What the model asked for; a strike is a failure of the call."""
    guarded = replace(EXPERT, input_guardrails=(Guardrail(name="words", check=Terms(terms=("secret",))),))
    turn, _ = asking(arguments='{"input":"The secret?"}', expert=guarded)

    assert output(turn).error is not None
    assert output(turn).error.reason is Reason.INPUT_GUARDRAIL_TRIPPED  # type: ignore[union-attr]


# -- approvals ----------------------------------------------------------------------------------------------


def test_a_call_of_an_agent_may_need_an_approval() -> None:
    """It is open until somebody decides; then its run begins."""
    turn, path = asking(replace(ASK, approval=Approval(always=True)))
    assert (turn.open, turn.status) == ([path[0]], TurnStatus.WAITING)

    turn.decide(path[0])

    assert turn.owed == (CallModel(round=1, run_path=path),)
    assert turn.open == []


def test_a_rejected_call_of_an_agent_begins_no_run() -> None:
    """The model is told that it was rejected."""
    turn, path = asking(replace(ASK, approval=Approval(always=True)))

    turn.decide(path[0], approve=False)

    assert turn.outputs == [texts.APPROVAL_REJECTED]
    assert not any(isinstance(event.body, NestedRunCreated) for event in turn.log)


def test_a_call_inside_may_need_an_approval_too() -> None:
    """It is open like any other, under its path, and the run inside goes on behind it."""
    careful = replace(EXPERT, tools=(replace(WEATHER, approval=Approval(always=True)),))
    turn, path = asking(expert=careful)
    turn.reply(call(id="c1"), path=path)
    (inner,) = turn.open
    assert turn.state.open_calls[inner].run_path == path
    assert turn.owed == ()

    turn.decide(inner)
    turn.settle(inner, "rain")

    assert turn.requests == [CallModel(round=2, run_path=path)]


# -- cancels ------------------------------------------------------------------------------------------------


def test_a_cancel_at_once_ends_what_goes_on_inside() -> None:
    """The run is closed, its call has an output, and a late reply is not heard."""
    turn, path = asking()

    recorded = turn.cancel(CancelMode.NOW)

    assert names(recorded) == ["CancelRequested", "NestedRunClosed", "ItemAdded", "TurnEnded"]
    assert turn.outputs == [texts.CALL_CANCELLED]
    assert turn.feed(CallsUnheld(call_ids=path)) == []


def test_a_cancel_at_once_waits_for_who_holds_a_call_inside() -> None:
    """As for any other."""
    turn, path = asking()
    turn.reply(call(id="c1"), path=path)

    turn.cancel(CancelMode.NOW)
    assert turn.status is TurnStatus.WAITING
    turn.settle(turn.open[0])

    assert (turn.status, turn.outputs) == (TurnStatus.CANCELLED, [texts.CALL_CANCELLED])


def test_a_cancel_after_the_round_lets_the_round_inside_finish() -> None:
    """Its calls, and no further request of it; then the turn ends."""
    turn, path = asking()
    turn.cancel(CancelMode.AFTER_ROUND)
    turn.reply(call(id="c1"), path=path)

    turn.settle(turn.open[0], "rain")

    assert (turn.status, turn.outputs) == (TurnStatus.CANCELLED, [texts.CALL_CANCELLED])


def test_an_answer_inside_is_in_time_for_a_cancel_after_the_round() -> None:
    """It is the output of the call, and the turn ends behind it."""
    turn, path = asking()
    turn.cancel(CancelMode.AFTER_ROUND)

    turn.reply(say("Sun."), path=path)

    assert (turn.status, turn.outputs) == (TurnStatus.CANCELLED, ["Sun."])


def test_the_log_says_which_agent_ran_inside_which_call() -> None:
    """For whoever draws the turn as a tree."""
    turn, path = asking()
    turn.reply(say("Sun."), path=path)

    bodies = [event.body for event in turn.log]

    assert NestedRunCreated(call_id=path[0], agent="Expert") in bodies
    assert NestedRunClosed(call_id=path[0], usage=USAGE) in bodies
    assert {event.run_path for event in turn.log if event.run_path} == {path}
    assert json.loads(turn.input[1]["arguments"]) == {"input": "Hi"}
