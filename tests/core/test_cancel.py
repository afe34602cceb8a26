"""Cancel: at once or after the round, in every phase, and what is left behind."""

import pytest
from tests.core.driving import Turn
from tests.core.making import WEATHER, call, hook, hosted, names, say

from baton_server.core import texts
from baton_server.core.agents import Agent, ToolUseBehavior
from baton_server.core.commands import CallModel, ServeCall, StopCalls
from baton_server.core.errors import Reason
from baton_server.core.events import AfterLoss, CancelMode, CancelRequested, HookKind, ItemDone, TurnStatus
from baton_server.core.inputs import CallsUnheld, GraceOver, TextCutOff
from baton_server.core.items import FunctionCallOutput, ItemStatus, Message, Settlement, TextPart

NOW, AFTER_ROUND = CancelMode.NOW, CancelMode.AFTER_ROUND


def waiting(*ids: str) -> Turn:
    """Brings a turn to where it waits for calls with these model ids."""
    turn = Turn()
    turn.begin()
    turn.reply(*(call(id=id) for id in ids))
    return turn


def settlements(turn: Turn) -> list[Settlement | None]:
    """Lists what settled the turn's calls, in the order of the log."""
    bodies = [item.body for item, _ in turn.recorded()]
    return [body.settlement for body in bodies if isinstance(body, FunctionCallOutput)]


@pytest.mark.parametrize("mode", [NOW, AFTER_ROUND])
def test_a_queued_turn_is_cancelled_at_once(mode: CancelMode) -> None:
    """No round runs that could be waited for."""
    turn = Turn()

    assert names(turn.cancel(mode)) == ["CancelRequested", "TurnEnded"]
    assert turn.status is TurnStatus.CANCELLED
    assert turn.begin() == []


def test_the_log_says_how_and_why_it_was_asked() -> None:
    """In the words of who asked."""
    turn = Turn()

    assert turn.cancel(NOW)[0] == CancelRequested(mode=NOW, reason="enough")


def test_now_ends_a_turn_while_the_model_is_asked() -> None:
    """The reply that comes after it gives no event."""
    turn = Turn()
    turn.begin()

    assert names(turn.cancel(NOW)) == ["CancelRequested", "TurnEnded"]
    assert turn.owed == ()
    assert turn.reply(say("Too late.")) == []
    assert turn.fail() == []


def test_text_that_was_streamed_before_is_kept_outside_the_history() -> None:
    """People can read how far it came; no model ever sees it."""
    turn = Turn()
    turn.begin()

    events = turn.feed(TextCutOff(text="Once upon"))
    turn.cancel(NOW)

    assert names(events) == ["ItemDone"]
    item, in_history = turn.recorded()[-1]
    assert isinstance(item.body, Message)
    assert item.body.content == (TextPart(text="Once upon"),)
    assert (item.status, in_history, item.agent) == (ItemStatus.INCOMPLETE, False, "Helper")
    assert item not in turn.state.items_of(turn.state.own)
    assert [event.round for event in turn.log if isinstance(event.body, ItemDone)] == [1]


def test_text_is_cut_off_only_where_a_model_was_asked() -> None:
    """Nothing streamed, no request under way, or a turn that ended: nothing to keep."""
    turn = Turn()
    assert turn.feed(TextCutOff(text="x")) == []
    turn.begin()
    assert turn.feed(TextCutOff(text="")) == []
    turn.reply(call())
    assert turn.feed(TextCutOff(text="x")) == []
    turn.settle(turn.open[0])
    turn.cancel(NOW)

    assert turn.feed(TextCutOff(text="x")) == []


def test_now_stops_open_calls_and_waits_for_those_that_are_held() -> None:
    """Calls that nobody holds get an output at once; a worker's result within the grace is taken."""
    turn = waiting("c1", "c2")
    unheld, held = turn.open

    assert names(turn.cancel(NOW)) == ["CancelRequested"]
    assert turn.owed == (StopCalls(call_ids=(unheld, held)),)
    assert names(turn.feed(CallsUnheld(call_ids=(unheld,)))) == ["ItemAdded"]
    assert turn.owed == (StopCalls(call_ids=(held,)),)
    assert names(turn.settle(held, "just in time")) == ["ItemAdded", "TurnEnded"]

    assert turn.status is TurnStatus.CANCELLED
    assert turn.outputs == [texts.CALL_CANCELLED, "just in time"]
    assert settlements(turn) == [Settlement.CANCELLED, Settlement.OUTPUT]


def test_now_ends_a_turn_whose_calls_nobody_holds() -> None:
    """Every call has an output, so that the history can be sent to a model again."""
    turn = waiting("c1", "c2", "c3")
    turn.cancel(NOW)

    events = turn.feed(CallsUnheld(call_ids=tuple(turn.open)))

    assert names(events) == ["ItemAdded"] * 3 + ["TurnEnded"]
    assert {item.status for item, _ in turn.recorded()[-3:]} == {ItemStatus.FAILED}
    assert turn.outputs == [texts.CALL_CANCELLED] * 3


def test_when_the_grace_is_over_the_turn_ends_without_its_workers() -> None:
    """A result that comes later gives no event."""
    turn = waiting("c1", "c2")
    held = turn.open
    turn.cancel(NOW)
    turn.settle(held[0], "in time")

    assert names(turn.feed(GraceOver())) == ["ItemAdded", "TurnEnded"]
    assert turn.settle(held[1], "too late") == []
    assert turn.feed(GraceOver(), CallsUnheld(call_ids=tuple(held))) == []
    assert turn.outputs == ["in time", texts.CALL_CANCELLED]


def test_a_worker_lost_during_a_cancel_is_not_replaced() -> None:
    """The log does not promise another attempt that will never be made."""
    turn = waiting("c1")
    turn.cancel(NOW)

    events = turn.lose(turn.open[0], may_retry=True)

    assert names(events) == ["AttemptLost", "ItemAdded", "TurnEnded"]
    assert events[0].next is AfterLoss.FAILED
    assert settlements(turn) == [Settlement.CANCELLED]


def test_after_round_lets_the_model_finish_its_answer() -> None:
    """The first terminal event wins: the answer is the answer."""
    turn = Turn()
    turn.begin()

    assert names(turn.cancel(AFTER_ROUND)) == ["CancelRequested"]
    assert turn.owed == (CallModel(round=1),)
    turn.reply(say("Hello."))

    assert (turn.status, turn.state.output) == (TurnStatus.COMPLETED, "Hello.")


def test_after_round_lets_a_failing_request_fail_the_turn() -> None:
    """As it would have without the cancel."""
    turn = Turn()
    turn.begin()
    turn.cancel(AFTER_ROUND)
    turn.fail()

    assert (turn.status, turn.reason) == (TurnStatus.FAILED, Reason.MODEL_UNAVAILABLE)


def test_after_round_finishes_the_calls_of_the_round_and_asks_no_more() -> None:
    """Whether the cancel comes before or after the reply."""
    before, after = Turn(), Turn()
    before.begin()
    before.cancel(AFTER_ROUND)
    before.reply(call())
    after.begin()
    after.reply(call())
    after.cancel(AFTER_ROUND)

    for turn in (before, after):
        assert turn.owed == (ServeCall(call_id=turn.open[0]),)
        assert names(turn.settle(turn.open[0], "rain")) == ["ItemAdded", "TurnEnded"]
        assert turn.status is TurnStatus.CANCELLED
        assert turn.outputs == ["rain"]


def test_after_round_gives_calls_that_nobody_holds_an_output() -> None:
    """A cancel never waits for a worker to come; those that hold calls finish them."""
    turn = waiting("c1", "c2")
    unheld, held = turn.open
    turn.cancel(AFTER_ROUND)

    turn.feed(CallsUnheld(call_ids=(unheld,)))
    assert turn.owed == (ServeCall(call_id=held),)
    turn.settle(held)

    assert turn.status is TurnStatus.CANCELLED
    assert settlements(turn) == [Settlement.CANCELLED, Settlement.OUTPUT]


def test_after_round_ends_when_only_hosted_tools_or_bad_arguments_are_left() -> None:
    """Both would lead to another request."""
    for last in (hosted(), call(arguments="{")):
        turn = Turn()
        turn.begin()
        turn.cancel(AFTER_ROUND)
        turn.reply(last)

        assert turn.status is TurnStatus.CANCELLED


def test_after_round_ends_once_a_program_has_said_what_follows_from_the_results() -> None:
    """A final output is one; where there is none, no other request is made."""
    for final, status in ((False, TurnStatus.CANCELLED), (True, TurnStatus.COMPLETED)):
        turn = Turn(agent=Agent(name="Helper", tools=(WEATHER,), tool_use=ToolUseBehavior(hook=hook())))
        turn.begin()
        turn.reply(call())
        turn.settle(turn.open[0], "rain")
        turn.cancel(AFTER_ROUND)

        turn.answer(HookKind.TOOL_USE, {"final": final, "output": "Rain."})

        assert turn.status is status


def test_after_round_has_no_grace_that_could_end() -> None:
    """Workers take the time that they need."""
    turn = waiting("c1")
    turn.cancel(AFTER_ROUND)

    assert turn.feed(GraceOver()) == []
    assert turn.status is TurnStatus.WAITING


def test_calls_are_not_given_up_without_a_cancel() -> None:
    """A call that nobody holds waits for a worker."""
    turn = waiting("c1")

    assert turn.feed(CallsUnheld(call_ids=tuple(turn.open)), GraceOver()) == []


def test_a_second_cancel_can_only_be_harder() -> None:
    """NOW after AFTER_ROUND counts; the same again, or softer, gives no event."""
    turn = waiting("c1")
    turn.cancel(AFTER_ROUND)

    assert turn.cancel(AFTER_ROUND) == []
    assert names(turn.cancel(NOW)) == ["CancelRequested"]
    assert turn.cancel(NOW) == []
    assert turn.cancel(AFTER_ROUND) == []
    assert turn.owed == (StopCalls(call_ids=tuple(turn.open)),)


def test_a_harder_cancel_ends_a_request_that_the_softer_one_left_alone() -> None:
    """From then on there is nothing to wait for."""
    turn = Turn()
    turn.begin()
    turn.cancel(AFTER_ROUND)

    assert names(turn.cancel(NOW)) == ["CancelRequested", "TurnEnded"]


@pytest.mark.parametrize("mode", [NOW, AFTER_ROUND])
def test_a_cancel_after_the_end_changes_nothing(mode: CancelMode) -> None:
    """The turn keeps its answer."""
    turn = Turn()
    turn.begin()
    turn.reply(say("Hello."))

    assert turn.cancel(mode) == []
    assert turn.status is TurnStatus.COMPLETED


def test_a_cancel_goes_before_the_limit_of_rounds() -> None:
    """Both would end the turn here; the user asked for one of them."""
    turn = waiting("c1")
    turn.cancel(AFTER_ROUND)
    turn.settle(turn.open[0])

    assert turn.status is TurnStatus.CANCELLED
    assert turn.state.failure is None
