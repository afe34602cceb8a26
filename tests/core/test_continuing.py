"""Turns that go on from an ended one: what they take over, and what is not done a second time."""

import json
from typing import Any

from tests.core.driving import Turn
from tests.core.making import call, hook, say

from baton_server.core.agents import Guardrail
from baton_server.core.events import AgentChanged, HookKind
from baton_server.core.inputs import Begun
from baton_server.core.responses import read_items, user_message
from baton_server.core.run_config import History, HistoryMode, RunConfig

CARRIED = read_items(
    '[{"content":"Hi","role":"user"},{"type":"function_call","call_id":"x","name":"f","arguments":"{}"},'
    '{"type":"function_call_output","call_id":"x","output":"o"}]'
)


def going_on(*said: str, guardrails: tuple[Guardrail, ...] = (), **options: Any) -> Turn:
    """Begins a turn that goes on from another one, with new messages or without."""
    turn = Turn(continues="turn_09", history=('{"role":"user","content":"Old."}',), guardrails=guardrails)
    if options:
        turn = Turn(continues="turn_09", history=turn.history, guardrails=guardrails, config=RunConfig(**options))
    turn.feed(Begun(items=tuple(user_message(text) for text in said), carried=CARRIED))
    return turn


def test_it_begins_with_what_the_old_ones_next_request_would_have_carried() -> None:
    """Which has the history in it, so that is not sent again; what is new stands behind it."""
    turn = going_on("And?")

    assert [item.get("type", item.get("content")) for item in turn.sent()] == [
        "Hi",
        "function_call",
        "function_call_output",
        "And?",
    ]
    assert turn.state.snapshot().continues == "turn_09"


def test_what_is_carried_joins_no_history_twice() -> None:
    """It is in the old turn's log; what is new joins."""
    turn = going_on("And?")

    assert [in_history for _, in_history in turn.recorded()] == [False, False, False, True]
    assert [event.body for event in turn.log if isinstance(event.body, AgentChanged)] == [AgentChanged(agent="Helper")]


def test_carried_calls_are_history_not_work() -> None:
    """Nothing of them is executed, and their ids do not count as used."""
    turn = going_on()
    assert turn.open == []

    turn.reply(call(id="c1"))
    turn.settle(turn.open[0], "rain")
    turn.reply(say("Rain."))

    assert turn.state.output == "Rain."


def test_guardrails_judge_what_is_new_and_nothing_else() -> None:
    """Without new messages nobody is asked."""
    guard = Guardrail(name="ask", check=hook(), blocking=True)
    assert going_on(guardrails=(guard,)).requests

    turn = going_on("And?", guardrails=(guard,))

    assert turn.payload(HookKind.INPUT_GUARDRAIL) == {"input": [{"content": "And?", "role": "user"}]}


def test_no_program_merges_a_second_time() -> None:
    """What is carried was merged already."""
    turn = going_on("And?", session_input=hook())

    assert turn.questions() == []
    assert len(turn.sent()) == 4


def test_a_callers_store_gets_what_is_new_and_is_not_read_again() -> None:
    """The old turn has stored its own."""
    turn = going_on("And?", history=History(mode=HistoryMode.STORED, store=hook()))

    (question,) = turn.questions()

    assert turn.payload(question) == {"operation": "add", "items": [{"content": "And?", "role": "user"}]}
    turn.answer(question, {})
    assert len(turn.sent()) == 4


def test_an_api_that_keeps_the_history_gets_what_it_does_not_have() -> None:
    """All that is carried, for it was never sent; then as ever."""
    turn = going_on("And?", history=History(mode=HistoryMode.RESPONSE, id="resp_0", auto=True))
    assert len(turn.sent()) == 4

    turn.reply(call(id="c1"))
    turn.settle(turn.open[0], "rain")

    assert [json.loads(text)["call_id"] for text in turn.given().items] == ["c1"]
