"""Calls: arguments that no handler may see, results of every kind, lost workers."""

import pytest
from tests.core.driving import Turn
from tests.core.making import KYOTO, call, names, say

from baton_server.core import texts
from baton_server.core.commands import CallModel, ServeCall
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import AfterLoss, AttemptLost, TurnStatus
from baton_server.core.inputs import CallSettled
from baton_server.core.items import (
    FAILED_SETTLEMENTS,
    FunctionCallOutput,
    ImagePart,
    ItemStatus,
    Settlement,
    TextPart,
)
from baton_server.core.runner import MAX_LOST_ATTEMPTS


def started(*calls: object) -> Turn:
    """Brings a turn to the reply with these calls."""
    turn = Turn()
    turn.begin()
    turn.reply(*calls)
    return turn


def last_output(turn: Turn) -> tuple[FunctionCallOutput, ItemStatus]:
    """Reads the output that was recorded last."""
    item = [item for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)][-1]
    assert isinstance(item.body, FunctionCallOutput)
    return item.body, item.status


# -- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{", "no JSON"),
        ("city: Kyoto", "no JSON"),
        ('{"city": "Kyoto"} and more', "no JSON"),
        ('["Kyoto"]', "no JSON object"),
        ('"Kyoto"', "no JSON object"),
        ("null", "no JSON object"),
        ('{"city": NaN}', "NaN"),
        ('{"city": -Infinity}', "-Infinity"),
        ("\ufeff{}", "no JSON"),
        ("\u00a0", "no JSON"),
        ('{"city": ' + "[" * 101 + "]" * 101 + "}", "nested too deeply"),
        ('{"city": ' + "[" * 50_000, "nested too deeply"),
    ],
)
def test_arguments_that_are_no_json_object_are_told_to_the_model(arguments: str, words: str) -> None:
    """The handler never sees them; the model reads what was wrong and is asked again."""
    turn = started(call("take_note", arguments))

    assert turn.owed == (CallModel(round=2),)
    output, status = last_output(turn)
    assert (output.settlement, status) == (Settlement.ARGUMENTS_INVALID, ItemStatus.FAILED)
    assert turn.outputs[0].startswith("The arguments of take_note were not accepted: they are ")
    assert words in turn.outputs[0]
    assert turn.outputs[0].endswith(texts.CALL_AGAIN)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "$.city: required"),
        ("", "$.city: required"),
        (" \n", "$.city: required"),
        ('{"city": 5}', "$.city: must be of type string"),
    ],
)
def test_arguments_that_break_a_strict_schema_are_told_with_path_and_constraint(arguments: str, words: str) -> None:
    """No text at all counts as no arguments, and must fit the schema as well."""
    turn = started(call("get_weather", arguments))

    assert words in turn.outputs[0]
    assert last_output(turn)[0].settlement is Settlement.ARGUMENTS_INVALID


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        "",
        " ",
        '{"text": 1e400}',
        '{"text": ' + "9" * 5000 + "}",
        '{"text": "\\ud800"}',
        '{"text": ' + "[" * 99 + "]" * 99 + "}",
        '{"a": ' + str([[]] * 200) + "}",
    ],
)
def test_a_loose_function_takes_any_json_object_byte_for_byte(arguments: str) -> None:
    """Without `strict` the handler judges; numbers of any size, and no arguments, are its matter."""
    turn = started(call("take_note", arguments))

    assert turn.owed == (ServeCall(call_id=turn.open[0]),)
    assert next(iter(turn.state.open_calls.values())).arguments == arguments
    assert turn.input[1]["arguments"] == arguments


def test_siblings_of_a_call_with_bad_arguments_are_served() -> None:
    """The output of the bad one waits, in its place, for those of the good ones."""
    turn = started(call(id="c1"), call(arguments="{", id="c2"), call(id="c3"))

    assert len(turn.open) == 2
    assert turn.status is TurnStatus.WAITING
    for n, call_id in enumerate(reversed(turn.open)):
        turn.settle(call_id, f"result {n}")

    assert [text[:8] for text in turn.outputs] == ["result 1", "The argu", "result 0"]
    assert turn.owed == (CallModel(round=2),)


def test_when_all_arguments_are_bad_the_next_round_follows_at_once() -> None:
    """The turn never waits: there is nothing that anybody could do."""
    turn = Turn()
    turn.begin()

    replied = turn.reply(call(arguments="{", id="c1"), call(arguments="[]", id="c2"))

    assert names(replied) == ["ItemAdded", "ItemAdded", "RoundCompleted", "ItemAdded", "ItemAdded"]
    assert "Helper" in turn.state.own.used_tools


# -- results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settlement", list(Settlement))
def test_every_settlement_closes_its_call_and_says_whether_it_failed(settlement: Settlement) -> None:
    """A function that failed is an item for the model, and the turn goes on."""
    turn = started(call())

    turn.settle(turn.open[0], "words", settlement, attempt=2, worker_id="worker_7")

    output, status = last_output(turn)
    assert (output.settlement, output.attempt, output.worker_id) == (settlement, 2, "worker_7")
    assert (status is ItemStatus.FAILED) == (settlement in FAILED_SETTLEMENTS)
    assert turn.outputs == ["words"]
    assert turn.owed == (CallModel(round=2),)


def test_a_crash_is_recorded_and_not_told_to_the_model() -> None:
    """People find the exception in the log; the model gets the sentence that the host chose."""
    crash = Failure(reason=Reason.INTERNAL, message="KeyError: 'password'")
    turn = started(call())

    turn.settle(turn.open[0], texts.FUNCTION_FAILED, Settlement.CRASH, error=crash)

    assert last_output(turn)[0].error == crash
    assert turn.outputs == [texts.FUNCTION_FAILED]
    assert "password" not in turn.state.items_of(turn.state.own)[-1].json


def test_a_result_of_parts_reaches_the_model_as_parts() -> None:
    """Text and picture, in order, under the id that the model gave the call."""
    turn = started(call(id="c9"))
    parts = (TextPart(text="Here:"), ImagePart(url="https://example.org/a.png"))

    turn.feed(CallSettled(call_id=turn.open[0], settlement=Settlement.OUTPUT, output=parts))

    assert turn.input[-1] == {
        "call_id": "c9",
        "output": [
            {"type": "input_text", "text": "Here:"},
            {"type": "input_image", "image_url": "https://example.org/a.png"},
        ],
        "type": "function_call_output",
    }


def test_the_first_result_wins() -> None:
    """A second one, and one for a call that never was, give no event."""
    turn = started(call(id="c1"), call(id="c2"))
    first, _ = turn.open
    turn.settle(first, "one")

    assert turn.settle(first, "two") == []
    assert turn.settle("call_0a_ffffff", "three") == []
    assert turn.lose(first, may_retry=False) == []
    assert turn.outputs == ["one"]


def test_a_result_after_the_next_request_began_gives_no_event() -> None:
    """Late by a whole round."""
    turn = started(call())
    old = turn.open[0]
    turn.settle(old)

    assert turn.settle(old, "again") == []
    turn.reply(say("Done."))
    assert turn.settle(old, "again") == []


# -- lost workers -------------------------------------------------------------------------------------------


def test_a_lost_attempt_that_may_be_repeated_leaves_the_call_open() -> None:
    """The log says what happened; the call is owed as before."""
    turn = started(call())
    (call_id,) = turn.open

    assert turn.lose(call_id, may_retry=True) == [
        AttemptLost(call_id=call_id, attempt=1, worker_id="worker_1", next=AfterLoss.REDELIVERED)
    ]
    assert turn.owed == (ServeCall(call_id=call_id),)


def test_an_attempt_is_lost_once() -> None:
    """Told again, or late about an older attempt, it gives no event; the next attempt's loss does."""
    turn = started(call())
    (call_id,) = turn.open
    turn.lose(call_id, 2, may_retry=True)

    assert turn.lose(call_id, 2, may_retry=True) == []
    assert turn.lose(call_id, 1, may_retry=True) == []
    assert names(turn.lose(call_id, 3, may_retry=True)) == ["AttemptLost"]


def test_the_last_lost_attempt_settles_the_call() -> None:
    """The model is told that the function failed, not why; the log knows."""
    turn = started(call())

    events = turn.lose(turn.open[0], 3, may_retry=False)

    assert names(events) == ["AttemptLost", "ItemAdded", "SessionInProgress"]
    assert events[0].next is AfterLoss.FAILED
    output, status = last_output(turn)
    assert (output.settlement, status) == (Settlement.WORKER_LOST, ItemStatus.FAILED)
    assert output.error is not None
    assert (output.error.reason, output.error.metadata) == (Reason.WORKER_LOST, {"attempts": "3"})
    assert turn.outputs == [texts.FUNCTION_FAILED]


def test_five_losses_settle_a_call_however_often_it_was_delivered() -> None:
    """Attempts that were given back between them leave no loss behind, and do not count as one."""
    turn = started(call())
    (call_id,) = turn.open

    for attempt in (3, 4, 9, 12):
        assert names(turn.lose(call_id, attempt)) == ["AttemptLost"]
    events = turn.lose(call_id, 20)

    assert names(events) == ["AttemptLost", "ItemAdded", "SessionInProgress"]
    assert [event.body.next for event in turn.log if isinstance(event.body, AttemptLost)] == [
        *[AfterLoss.REDELIVERED] * (MAX_LOST_ATTEMPTS - 1),
        AfterLoss.FAILED,
    ]
    assert turn.outputs == [texts.FUNCTION_FAILED]


def test_a_lost_call_leaves_its_siblings_alone() -> None:
    """Their results are taken and stand in their places."""
    turn = started(call(id="c1"), call(id="c2"))
    first, second = turn.open

    turn.lose(first, may_retry=False)
    turn.settle(second, KYOTO)

    assert turn.outputs == [texts.FUNCTION_FAILED, KYOTO]
