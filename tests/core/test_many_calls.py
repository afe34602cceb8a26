"""A reply with very many calls: what comes of one costs no look at the others; so many runs of agents, and no more."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest
from tests.core.making import NOTE, USAGE, Schemas, call, hook, say

from baton_server.core.agents import Agent
from baton_server.core.commands import CallModel
from baton_server.core.course import nested, tools
from baton_server.core.errors import Reason
from baton_server.core.events import TurnSnapshot, TurnStatus
from baton_server.core.hooks.question import Question
from baton_server.core.inputs import Begun, CallSettled, HookAnswered, ModelReplied
from baton_server.core.items import FunctionCallOutput, Settlement, TextPart
from baton_server.core.responses import user_message
from baton_server.core.run_config import Pinned, RunConfig
from baton_server.core.runner import Runner
from baton_server.core.state import TurnState
from baton_server.core.tools import AgentTool, Approval, FunctionTool, ToolGuardrail

FEW, MANY = 10, 200

GUARD = ToolGuardrail(name="guard", check=hook())
GUARDED = FunctionTool(name="take_note", parameters_json="{}", input_guardrails=(GUARD,))
ASKING = FunctionTool(name="take_note", parameters_json="{}", approval=Approval(hook=hook()))


def begun(runner: Runner, tool: FunctionTool | AgentTool, calls: int, arguments: str = '{"text":"x"}') -> TurnState:
    """Brings a turn to where its model has asked for so many calls."""
    agent = Agent(name="Helper", tools=(tool,), agents=(Agent(name="Expert"),))
    turn = TurnSnapshot(
        turn_id="turn_1",
        session_id="sess_1",
        status=TurnStatus.QUEUED,
        agent="Helper",
        last_agent="Helper",
        agent_digest="",
        run_config_digest="",
        request_id="",
    )
    state = TurnState.of(turn, Pinned(agent=agent, config=RunConfig()))
    runner.step(state, Begun(items=(user_message("Hi"),)))
    asked = tuple(call(tool.name, arguments, id=f"c{n}") for n in range(calls))
    runner.step(state, ModelReplied(round=1, items=asked, usage=USAGE))
    return state


def looks(work: Callable[[], object]) -> int:
    """Counts how often a call is looked at for what it needs next."""
    count = 0

    def look(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is tools.next_of.__code__

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def of_answer(tool: FunctionTool, calls: int, answer_json: str) -> int:
    """Counts the looks that the answer to one question among so many takes."""
    runner = Runner(Schemas())
    state = begun(runner, tool, calls)
    asked = [one for one in runner.pending(state) if isinstance(one, Question)]
    assert len(asked) == calls
    given = HookAnswered(
        hook_id=asked[3].hook_id, hook=asked[3].kind, name="ask", payload_digest="", answer_json=answer_json
    )

    made = looks(lambda: (runner.step(state, given), runner.pending(state), runner.held(state)))

    assert len([one for one in runner.pending(state) if isinstance(one, Question)]) == calls - 1
    return made


@pytest.mark.parametrize(
    ("tool", "answer_json"),
    [
        (ASKING, '{"needs_approval":false}'),
        (ASKING, '{"needs_approval":true}'),
        (GUARDED, '{"verdict":"allow"}'),
        (GUARDED, '{"verdict":"reject","message":"No."}'),
    ],
)
def test_an_answer_about_one_call_looks_at_that_one(tool: FunctionTool, answer_json: str) -> None:
    """Whether ten wait beside it or two hundred: a reply of hundreds of calls is not worked on for seconds."""
    assert of_answer(tool, MANY, answer_json) == of_answer(tool, FEW, answer_json)


def of_result(calls: int) -> int:
    """Counts the looks that the result of one call among so many takes."""
    runner = Runner(Schemas())
    state = begun(runner, NOTE, calls)
    call_id = list(state.open_calls)[3]
    given = CallSettled(call_id=call_id, settlement=Settlement.OUTPUT, output=(TextPart(text="ok"),))

    made = looks(lambda: (runner.step(state, given), runner.pending(state)))

    assert len(runner.pending(state)) == calls - 1
    return made


def test_a_result_of_one_call_looks_at_no_other() -> None:
    """The others are served as before."""
    assert of_result(MANY) == of_result(FEW) == 0


# -- runs of agents --------------------------------------------------------------------------------------------------

ASK = AgentTool(name="ask_expert", agent="Expert")
QUESTION = '{"input":"Hi"}'


def outputs(state: TurnState) -> list[FunctionCallOutput]:
    """Lists what the model is told of its calls."""
    return [item.body for item in state.items.values() if isinstance(item.body, FunctionCallOutput)]


def test_so_many_runs_of_agents_at_once_and_no_more() -> None:
    """What a reply asks for beyond them crashes by name."""
    runner = Runner(Schemas())

    state = begun(runner, ASK, nested.MAX_AT_ONCE + 2, QUESTION)

    assert len(runner.pending(state)) == nested.MAX_AT_ONCE
    crashed = outputs(state)
    assert [one.settlement for one in crashed] == [Settlement.CRASH] * 2
    assert crashed[0].error is not None
    assert crashed[0].error.reason is Reason.USER_ERROR
    assert crashed[0].error.metadata == {"tool": "ask_expert", "limit": "128"}
    assert "'ask_expert'" in crashed[0].error.message


def test_the_next_reply_may_ask_as_many_again() -> None:
    """The runs of the one before are done by then."""
    runner = Runner(Schemas())
    state = begun(runner, ASK, nested.MAX_AT_ONCE, QUESTION)
    for command in runner.pending(state):
        assert isinstance(command, CallModel)
        runner.step(state, ModelReplied(round=1, items=(say("Sun."),), usage=USAGE, run_path=command.run_path))

    again = tuple(call("ask_expert", QUESTION, id=f"again{n}") for n in range(nested.MAX_AT_ONCE))
    runner.step(state, ModelReplied(round=2, items=again, usage=USAGE))

    assert len(runner.pending(state)) == nested.MAX_AT_ONCE
    assert {one.settlement for one in outputs(state)} == {Settlement.NESTED_RUN}
