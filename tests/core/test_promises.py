"""Promises that several mechanisms keep together: who is asked before a call runs, and what a decision is about."""

import json
from dataclasses import replace

import pytest
from tests.core.driving import Turn
from tests.core.making import PAY, WEATHER, call, hook

from baton_server.core import filters, folding
from baton_server.core.agents import Agent, TrimOutputs
from baton_server.core.errors import Reason
from baton_server.core.events import CancelMode, HookKind, TurnStatus
from baton_server.core.inputs import HookAnswered
from baton_server.core.run_config import RunConfig
from baton_server.core.tools import AgentTool, Approval, Enabled

ORDER = '{"order":"1"}'


def enable(turn: Turn, place: int) -> None:
    """Answers which of the functions of one name is there in the round that comes."""
    for asked in turn.questions(HookKind.TOOL_ENABLED):
        answer = json.dumps({"enabled": asked.hook_id.endswith(f".{place}")})
        turn.feed(
            HookAnswered(
                hook_id=asked.hook_id,
                hook=asked.kind,
                name=asked.ref.name,
                payload_digest="",
                answer_json=answer,
            )
        )


def test_a_call_of_the_same_key_is_kept_back_until_somebody_was_asked_about_it() -> None:
    """It waits behind the older one, but that one may fail: nobody has allowed this one yet."""
    turn = Turn(functions=(replace(PAY, approval=Approval(hook=hook())),))
    turn.begin()

    turn.reply(call("pay", ORDER, id="c1"), call("pay", ORDER, id="c2"))

    assert turn.state.joined_to(turn.open[1]) == turn.open[0]
    assert turn.runner.held(turn.state) == set(turn.open)


def test_a_decision_that_lasts_is_about_that_very_function() -> None:
    """Of two functions of one name the other one was never shown to anybody."""
    one = replace(WEATHER, approval=Approval(always=True), enabled=Enabled(hook=hook()))
    turn = Turn(agent=Agent(name="Helper", tools=(one, replace(one, description="Something else."))))
    turn.begin()
    enable(turn, 0)
    turn.reply(call(id="c1"))
    turn.decide(turn.open[0], always=True)
    turn.settle(turn.open[0])

    enable(turn, 1)
    turn.reply(call(id="c2"))

    assert turn.state.calls[turn.open[0]].awaiting is not None
    assert turn.served == []


def test_a_decision_for_the_session_holds_for_what_waits_in_its_turn() -> None:
    """It lasts longer than one for the turn, and decides about no less."""
    turn = Turn(functions=(replace(WEATHER, approval=Approval(always=True)),))
    turn.begin()
    turn.reply(call(id="c1"), call(id="c2"))

    turn.decide(turn.open[0], always_in_session=True)

    assert turn.served == turn.open != []


def test_after_a_cancel_no_person_is_asked_about_an_agent_tool() -> None:
    """The turn is to end after its round, so that it must not begin to wait for anybody."""
    tool = AgentTool(name="ask_inner", agent="Inner", approval=Approval(hook=hook()))
    turn = Turn(agent=Agent(name="Helper", tools=(tool,)), others=(Agent(name="Inner"),))
    turn.begin()
    turn.reply(call("ask_inner", '{"input":"x"}'))
    turn.cancel(CancelMode.AFTER_ROUND)

    turn.answer(HookKind.NEEDS_APPROVAL, {"needs_approval": True})

    assert turn.status is TurnStatus.CANCELLED


def test_after_a_cancel_a_call_that_is_with_a_worker_goes_on() -> None:
    """Nobody has to allow it, so the round ends with its result."""
    turn = Turn(functions=(replace(WEATHER, approval=Approval(hook=hook())),))
    turn.begin()
    turn.reply(call())
    turn.answer(HookKind.NEEDS_APPROVAL, {"needs_approval": False})

    turn.cancel(CancelMode.AFTER_ROUND)

    assert turn.served == turn.open != []


def test_a_merge_that_brings_no_item_is_an_answer_that_cannot_be_used() -> None:
    """The error says what it brought; the turn ends over it, not over a fault of the server."""
    turn = Turn(config=RunConfig(session_input=hook()))
    turn.begin()

    turn.answer(HookKind.SESSION_INPUT, {"input": [{"foo": 1}]})

    assert turn.reason is Reason.HOOK_ANSWER_INVALID
    assert turn.state.failure is not None
    assert '{"foo": 1}' in turn.state.failure.message


@pytest.mark.parametrize("item", ['{"type":[]}', '{"type":{},"role":"user"}', '{"type":"function_call","call_id":[1]}'])
def test_an_item_of_an_odd_shape_stops_no_filter_and_no_fold(item: str) -> None:
    """A program may bring anything; that it is no use is the model's to say."""
    assert folding.fold([item], [item], [item])
    assert filters.apply(TrimOutputs(), [item]) == [item]
