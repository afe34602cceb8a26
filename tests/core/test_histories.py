"""Histories: who remembers, what a request carries of it, how a program merges it, and what goes into a store."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.core.driving import Turn
from tests.core.making import call, hook, hosted, say, think

from baton_server.core import request
from baton_server.core.agents import Agent, Guardrail, Handoff
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import CancelMode, HookKind, ItemsWithdrawn, Withdrawal
from baton_server.core.inputs import Begun
from baton_server.core.responses import read_item, user_message
from baton_server.core.run_config import History, HistoryMode, ReasoningItemIds, RunConfig
from baton_server.core.tools import Terms

OLD = '{"role":"user","content":"Before."}'
ANSWER = '{"role":"assistant","content":"Then."}'
CALL = '{"type":"function_call","call_id":"x","name":"f","arguments":"{}"}'
OUTPUT = '{"type":"function_call_output","call_id":"x","output":"o"}'
THOUGHT = '{"type":"reasoning","id":"rs_0","summary":[]}'


def turn_of(history: Sequence[str] = (OLD, ANSWER), guardrails: tuple[Guardrail, ...] = (), **options: Any) -> Turn:
    """Begins a turn behind a history."""
    turn = Turn(history=history, guardrails=guardrails, config=RunConfig(**options))
    turn.begin("Hi")
    return turn


def contents(items: Sequence[dict[str, Any]]) -> list[Any]:
    """Says what items hold, each in a word."""
    return [item.get("content", item.get("type")) for item in items]


# -- the session's ------------------------------------------------------------------------------------------


def test_a_call_that_stands_in_the_history_twice_is_sent_once() -> None:
    """The latest value counts: a call where it stood first, an output where it stood last. Other items stay apart."""
    again = CALL.replace('"{}"', '"{\\"n\\":1}"')
    later = OUTPUT.replace('"o"', '"p"')

    turn = turn_of((OLD, CALL, OUTPUT, ANSWER, OLD, again, later, ANSWER))

    assert [item.get("type", item.get("role")) for item in turn.sent()] == [
        "user",
        "function_call",
        "assistant",
        "user",
        "function_call_output",
        "assistant",
        "user",
    ]
    assert (turn.sent()[1]["arguments"], turn.sent()[4]["output"]) == ('{"n":1}', "p")


def test_a_request_carries_the_history_then_the_input_then_what_was_made() -> None:
    """Byte for byte."""
    turn = turn_of()
    turn.reply(call())
    turn.settle(turn.open[0], "rain")

    assert turn.given().items[:2] == (OLD, ANSWER)
    assert contents(turn.sent()) == ["Before.", "Then.", "Hi", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(None, 5), (5, 5), (4, 4), (2, 1), (1, 1), (3, 3)],
)
def test_a_limit_keeps_the_newest_and_tears_nothing_apart(limit: int | None, kept: int) -> None:
    """An output whose call was cut off goes too, for a model's API refuses it."""
    turn = Turn(history=(OLD, ANSWER, CALL, OUTPUT, ANSWER), config=RunConfig(history=History(limit=limit)))
    turn.begin("Hi")

    sent = turn.sent()

    assert len(sent) == kept + 1
    assert ("function_call" in contents(sent)) == ("function_call_output" in contents(sent))


def test_the_caller_may_keep_the_history() -> None:
    """Then nothing of the session's is sent."""
    turn = Turn(history=(OLD,), config=RunConfig(history=History(mode=HistoryMode.CALLER)))
    turn.begin("Hi")
    assert contents(turn.sent()) == ["Hi"]


def test_reasoning_goes_back_without_its_id_where_that_is_said() -> None:
    """That of the history and that of the turn, also in later turns; what the caller brings now stays as it is."""
    turn = Turn(history=(THOUGHT,), config=RunConfig(reasoning_item_ids=ReasoningItemIds.OMIT))
    turn.feed(Begun(items=(read_item(json.loads(THOUGHT)), user_message("Hi"))))
    turn.reply(think(), hosted())

    assert ["id" in item for item in turn.sent()] == [False, True, False, False, True]
    assert ["id" in item for item in turn.kept()] == [True, False, False, True]
    kept = Turn(history=(THOUGHT,))
    kept.begin()
    assert "id" in kept.sent()[0]


# -- a merge ------------------------------------------------------------------------------------------------


def merging(change: Any, **options: Any) -> Turn:
    """Brings a turn past its merge; `change`: what the program makes of history and input."""
    turn = turn_of(session_input=hook(), **options)
    asked = turn.payload(HookKind.SESSION_INPUT)
    assert turn.requests == []
    turn.answer(HookKind.SESSION_INPUT, {"input": change(asked["history"], asked["new_input"])})
    return turn


def test_a_program_merges_history_and_input() -> None:
    """It gets both, as they are; the model gets what it answers, then what the turn makes."""
    turn = merging(lambda history, new: [*new, *history[:1]])
    assert contents(turn.sent()) == ["Hi", "Before."]

    turn.reply(call())
    turn.settle(turn.open[0])

    assert contents(turn.sent()) == ["Hi", "Before.", "function_call", "function_call_output"]


def test_input_that_a_merge_drops_leaves_the_history() -> None:
    """The model never saw it, and the next turn does not either."""
    turn = merging(lambda history, new: history)

    withdrawn = [event.body for event in turn.log if isinstance(event.body, ItemsWithdrawn)]
    assert withdrawn == [ItemsWithdrawn(item_ids=("item_0a_000000",), reason=Withdrawal.MERGED)]
    assert contents(turn.sent()) == ["Before.", "Then."]


def test_what_a_merge_brings_is_input() -> None:
    """It joins the history, once."""
    note = {"role": "system", "content": "Be brief."}
    turn = merging(lambda history, new: [*history, *new, note])

    assert turn.sent()[-1] == note
    assert [json.loads(item.json) for item, in_history in turn.recorded() if in_history][-1] == note
    assert len(turn.sent()) == 4


NOTE = {"role": "system", "content": "N"}


@pytest.mark.parametrize(
    ("merge", "kept"),
    [
        (lambda history, new: [NOTE, *history, *new], ["N", "a", "b"]),
        (lambda history, new: [*history, new[0], NOTE, new[1]], ["a", "N", "b"]),
        (lambda history, new: [*history, new[1], new[0]], ["b", "a"]),
        (lambda history, new: [*history, new[1], NOTE], ["b", "N"]),
        (lambda history, new: [*new, *history], ["a", "b"]),
        (lambda history, new: [NOTE, *history], ["N"]),
    ],
    ids=["before", "between", "turned round", "one dropped", "before the history", "all dropped"],
)
def test_what_a_merge_made_of_the_input_is_kept_in_its_order(merge: Any, kept: list[str]) -> None:
    """As the Agents SDK keeps it; and the model is sent each once, also behind a first reply."""
    turn = Turn(history=(OLD, ANSWER), config=RunConfig(session_input=hook()))
    turn.feed(Begun(items=(user_message("a"), user_message("b"))))
    asked = turn.payload(HookKind.SESSION_INPUT)
    answer = merge(asked["history"], asked["new_input"])
    turn.answer(HookKind.SESSION_INPUT, {"input": answer})

    assert turn.sent() == answer
    assert contents(turn.kept()) == kept
    turn.reply(hosted())
    turn.steer("c")
    assert contents(turn.sent()) == [*contents(answer), "web_search_call", "c"]


def test_what_a_merge_says_twice_is_sent_twice_and_kept_once() -> None:
    """An item of the history is no new one."""
    turn = merging(lambda history, new: [*history, *history, *new])

    assert contents(turn.sent()) == ["Before.", "Then.", "Before.", "Then.", "Hi"]
    assert len(turn.recorded()) == 1


def test_a_message_that_is_steered_in_after_a_merge_is_sent() -> None:
    """Before the first reply as after it."""
    note = {"role": "system", "content": "Be brief."}
    turn = merging(lambda history, new: [note, *new])

    turn.steer("And?")
    assert contents(turn.sent()) == ["Be brief.", "Hi", "And?"]
    turn.reply(hosted())
    turn.steer("Well?")

    assert contents(turn.sent()) == ["Be brief.", "Hi", "And?", "web_search_call", "Well?"]


@pytest.mark.parametrize("answer", ["{}", '{"input":{}}', '{"input":["Hi"]}', '{"input":[5]}', "[]"])
def test_a_merge_that_is_no_list_of_items_fails_the_turn(answer: str) -> None:
    """Nothing is sent."""
    turn = turn_of(session_input=hook())

    turn.answer(HookKind.SESSION_INPUT, answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID


def test_guardrails_judge_what_was_merged() -> None:
    """The whole of what the model would see."""
    asked = Guardrail(name="ask", check=hook())
    turn = turn_of(session_input=hook(), guardrails=(asked,))
    assert turn.asked == []

    turn.answer(HookKind.SESSION_INPUT, {"input": [{"role": "user", "content": "Ho"}]})

    assert contents(turn.payload(HookKind.INPUT_GUARDRAIL)["input"]) == ["Ho"]


# -- a caller's store ---------------------------------------------------------------------------------------


def stored(guardrails: tuple[Guardrail, ...] = (), limit: int | None = None, **options: Any) -> Turn:
    """Begins a turn whose history is in a caller's store."""
    history = History(mode=HistoryMode.STORED, store=hook("store"), limit=limit)
    turn = Turn(config=RunConfig(history=history, **options), guardrails=guardrails)
    turn.begin("Hi")
    return turn


def adds(turn: Turn) -> list[Any]:
    """Has the store keep what it is asked to keep, and says what that is."""
    payload = turn.payload(HookKind.SESSION_STORE)
    assert payload["operation"] == "add"
    turn.answer(HookKind.SESSION_STORE, {})
    return contents(payload["items"])


def test_a_store_is_read_first_and_gets_each_round() -> None:
    """Input before the first request, what a round made before the next one, the rest at the end."""
    turn = stored(limit=5)
    assert turn.payload(HookKind.SESSION_STORE) == {"operation": "get", "limit": 5}
    assert turn.requests == []
    turn.answer(HookKind.SESSION_STORE, {"items": [json.loads(OLD)]})
    assert adds(turn) == ["Hi"]
    assert contents(turn.sent()) == ["Before.", "Hi"]

    turn.reply(call())
    turn.settle(turn.open[0], "rain")
    assert turn.requests == []
    assert adds(turn) == ["function_call", "function_call_output"]
    turn.reply(say("Rain."))
    assert not turn.state.over
    assert len(adds(turn)) == 1

    assert turn.state.output == "Rain."
    assert contents(turn.sent())[:2] == ["Before.", "Hi"]


def test_a_store_has_the_outputs_of_the_last_round_that_was_allowed() -> None:
    """The limit ends the turn behind that."""
    turn = stored(max_turns=1)
    turn.answer(HookKind.SESSION_STORE, {"items": []})
    adds(turn)
    turn.reply(call())
    turn.settle(turn.open[0], "rain")

    assert adds(turn) == ["function_call", "function_call_output"]
    assert turn.reason is Reason.MAX_TURNS_EXCEEDED


def test_a_store_has_what_a_cancelled_round_made() -> None:
    """The round is finished, then kept, then the turn ends."""
    turn = stored()
    turn.answer(HookKind.SESSION_STORE, {"items": []})
    adds(turn)
    turn.cancel(CancelMode.AFTER_ROUND)
    turn.reply(hosted())

    assert adds(turn) == ["web_search_call"]
    assert turn.state.over


def test_a_store_keeps_input_that_a_guardrail_stops() -> None:
    """What was said was said."""
    turn = stored(guardrails=(Guardrail(name="words", check=Terms(terms=("hi",))),))
    turn.answer(HookKind.SESSION_STORE, {"items": []})

    assert adds(turn) == ["Hi"]
    assert turn.reason is Reason.INPUT_GUARDRAIL_TRIPPED


def test_a_stores_history_is_limited_and_merged_as_the_sessions() -> None:
    """The newest of what it gave; what a merge dropped is not kept, what it brought is."""
    turn = stored(limit=1, session_input=hook())
    turn.answer(HookKind.SESSION_STORE, {"items": [json.loads(OLD), json.loads(ANSWER)]})
    assert contents(turn.payload(HookKind.SESSION_INPUT)["history"]) == ["Then."]

    turn.answer(HookKind.SESSION_INPUT, {"input": [json.loads(ANSWER), {"role": "user", "content": "Ho"}]})

    assert adds(turn) == ["Ho"]
    assert contents(turn.sent()) == ["Then.", "Ho"]


@pytest.mark.parametrize("answer", ["{}", '{"items":5}', '{"items":["a"]}'])
def test_a_store_that_gives_no_items_fails_the_turn(answer: str) -> None:
    """A history that cannot be read is not an empty one."""
    turn = stored()

    turn.answer(HookKind.SESSION_STORE, answer)

    assert turn.reason is Reason.HOOK_ANSWER_INVALID


def test_a_store_that_does_not_keep_fails_the_turn() -> None:
    """The next turn would not know of it."""
    turn = stored()
    turn.answer(HookKind.SESSION_STORE, {"items": []})

    turn.answer(HookKind.SESSION_STORE, failure=Failure(reason=Reason.HOOK_RAISED, message="disk full"))

    assert turn.reason is Reason.HOOK_RAISED


# -- the model's API's --------------------------------------------------------------------------------------


def kept_by_model(mode: HistoryMode = HistoryMode.CONVERSATION, auto: bool = False, **options: Any) -> Turn:
    """Begins a turn whose history the model's API keeps."""
    history = History(mode=mode, id="" if auto else "id_1", auto=auto)
    turn = Turn(history=(OLD,), config=RunConfig(history=history, **options))
    turn.begin("Hi")
    return turn


def test_only_what_is_new_is_sent_to_an_api_that_keeps_the_history() -> None:
    """The input once, then outputs and what came in meanwhile; never what the model made."""
    turn = kept_by_model()
    assert contents(turn.sent()) == ["Hi"]

    turn.reply(say("Looking."), call())
    turn.settle(turn.open[0], "rain")
    assert contents(turn.sent()) == ["function_call_output"]
    turn.steer("And?")

    assert contents(turn.sent()) == ["function_call_output", "And?"]


@pytest.mark.parametrize(
    ("mode", "auto", "first", "second"),
    [
        (HistoryMode.CONVERSATION, False, ("id_1", ""), ("id_1", "")),
        (HistoryMode.RESPONSE, False, ("", "id_1"), ("", "id_1")),
        (HistoryMode.RESPONSE, True, ("", ""), ("", "resp_1")),
    ],
)
def test_a_request_says_what_it_goes_on_from(
    mode: HistoryMode, auto: bool, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """A conversation stays; a chain of replies moves on where that is asked for."""
    turn = kept_by_model(mode, auto)
    assert request.kept_by_model(turn.state, turn.state.own) == first

    turn.reply(hosted())

    assert request.kept_by_model(turn.state, turn.state.own) == second


def test_what_a_filter_left_out_is_offered_again() -> None:
    """The model's API does not have it; whether it goes the next time is the filter's to say."""
    turn = kept_by_model(model_input_filters=(hook(),))
    turn.answer(HookKind.MODEL_INPUT_FILTER, {"input": []})
    turn.reply(call())
    turn.settle(turn.open[0], "rain")

    asked = turn.payload(HookKind.MODEL_INPUT_FILTER)["input"]
    assert contents(asked) == ["Hi", "function_call_output"]
    turn.answer(HookKind.MODEL_INPUT_FILTER, {"input": asked[1:]})
    turn.reply(hosted())

    assert contents(turn.payload(HookKind.MODEL_INPUT_FILTER)["input"]) == ["Hi"]


def test_an_agent_that_is_handed_over_to_gets_the_output_of_the_handoff_alone() -> None:
    """The chain goes on."""
    helper = Agent(name="Helper", handoffs=(Handoff(name="transfer_to_other", agent="Other"),))
    config = RunConfig(history=History(mode=HistoryMode.RESPONSE, auto=True))
    turn = Turn(agent=helper, others=(Agent(name="Other"),), config=config)
    turn.begin()

    turn.reply(call("transfer_to_other", "{}", id="h1"))

    assert [item["call_id"] for item in turn.sent()] == ["h1"]
    assert request.kept_by_model(turn.state, turn.state.own) == ("", "resp_1")
