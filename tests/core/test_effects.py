"""Calls that must take effect once: keys, unknown effects, checks; and the clocks of calls."""

from dataclasses import replace

import pytest
from tests.core.driving import Turn
from tests.core.making import PAY, call, hook, names

from baton_server.core import texts
from baton_server.core.commands import CallModel, CheckEffect, ServeCall
from baton_server.core.errors import Reason
from baton_server.core.events import AfterLoss, AttemptLost, EffectDecided, EffectUnknown, HookKind, TurnStatus
from baton_server.core.inputs import CallExpired, CallTimedOut, RedeliveryAsked
from baton_server.core.items import FunctionCallOutput, Settlement
from baton_server.core.runner import MAX_LOST_ATTEMPTS
from baton_server.core.tools import Approval, Execution, FailureText, ToolGuardrail


def paying(*orders: int, turn: Turn | None = None) -> Turn:
    """Brings a turn to a reply that pays for some orders."""
    if turn is None:
        turn = Turn()
        turn.begin()
    turn.reply(*(call("pay", f'{{"order":{order}}}', id=f"{turn.state.rounds}_{n}") for n, order in enumerate(orders)))
    return turn


def outputs(turn: Turn) -> list[FunctionCallOutput]:
    """Lists the outputs in the order of the log."""
    return [item.body for item, _ in turn.recorded() if isinstance(item.body, FunctionCallOutput)]


# -- keys ---------------------------------------------------------------------------------------------------


def test_calls_with_one_key_take_effect_once() -> None:
    """The oldest is served; its output is that of the others too, in the very commit in which it comes."""
    turn = paying(1, 1, 2)
    first, twin, other = turn.open
    assert turn.owed == (ServeCall(call_id=first), ServeCall(call_id=other))

    turn.settle(first, "paid")

    assert turn.open == [other]
    assert [(output.call_id, output.joined_call_id, output.settlement) for output in outputs(turn)] == [
        (first, "", Settlement.OUTPUT),
        (twin, first, Settlement.OUTPUT),
    ]


def test_a_call_waits_while_the_output_of_its_twin_is_judged() -> None:
    """It was executed: its twin is not, and gets the output in the commit that has it."""
    guard = ToolGuardrail(name="ask", check=hook())
    turn = paying(1, 1, turn=begun(PAY.execution, output_guardrails=(guard,)))
    first, twin = turn.open
    turn.settle(first, "paid")
    assert (turn.open, turn.served) == ([twin], [])

    turn.answer(HookKind.TOOL_OUTPUT_GUARDRAIL, {"verdict": "allow"})

    assert (turn.outputs, turn.open) == (["paid", "paid"], [])
    assert outputs(turn)[-1].joined_call_id == first


def test_a_rejection_is_nobody_else_s() -> None:
    """Nothing took effect: the twin waits for a decision of its own."""
    turn = paying(1, 1, turn=begun(PAY.execution, approval=Approval(always=True)))
    first, twin = turn.open

    turn.decide(first, approve=False)
    assert turn.open == [twin]
    turn.decide(twin)

    assert turn.served == [twin]


def test_a_failure_is_nobody_else_s() -> None:
    """When the one that was served fails, the next one of the key is."""
    turn = paying(1, 1)
    first, twin = turn.open

    turn.settle(first, "no money", Settlement.FAILURE)

    assert turn.owed == (ServeCall(call_id=twin),)


def test_a_call_that_is_planned_again_gets_the_earlier_output() -> None:
    """A later round of the turn pays for the same order: it was paid."""
    turn = paying(1)
    first = turn.open[0]
    turn.settle(first, "paid")

    paying(1, turn=turn)

    assert turn.open == []
    assert outputs(turn)[-1].joined_call_id == first
    assert turn.outputs == ["paid", "paid"]
    assert turn.owed == (CallModel(round=3),)


def test_a_call_without_one_of_its_fields_is_joined_with_no_other() -> None:
    """Two orders that are not said need not be the same order."""
    turn = Turn(functions=(replace(PAY, parameters_json="{}"),))
    turn.begin()
    turn.reply(call("pay", "{}", id="a"), call("pay", "{}", id="b"))

    assert len(turn.owed) == 2
    assert all(open_call.key == open_call.call_id for open_call in turn.state.open_calls.values())


# -- unknown effects ----------------------------------------------------------------------------------------


def test_a_call_that_must_not_run_twice_is_asked_about() -> None:
    """Nobody is given it again by itself; what is open says so, with the key under which to look."""
    turn = paying(1)
    call_id = turn.open[0]

    recorded = turn.lose(call_id, ask=True)

    key = turn.state.open_calls[call_id].key
    assert recorded == [
        AttemptLost(call_id=call_id, attempt=1, worker_id="worker_1", next=AfterLoss.EFFECT_UNKNOWN),
        EffectUnknown(call_id=call_id, attempt=1, idempotency_key=key),
    ]
    assert turn.owed == ()
    assert turn.state.open_calls[call_id].effect_unknown
    assert turn.status is TurnStatus.WAITING


def test_a_result_from_outside_settles_an_unknown_effect() -> None:
    """Who has found out says what came of it, and the turn goes on."""
    turn = paying(1)
    turn.lose(turn.open[0], ask=True)

    turn.settle(turn.open[0], "it was paid", Settlement.OUTSIDE_OUTPUT)

    assert turn.owed == (CallModel(round=2),)


def test_a_redelivery_has_it_served_again() -> None:
    """Somebody says that it took no effect; the log keeps who. Said once more, it changes nothing."""
    turn = paying(1)
    call_id = turn.open[0]
    turn.lose(call_id, ask=True)

    recorded = turn.feed(RedeliveryAsked(call_id=call_id, decided_by="ops"))

    assert recorded == [EffectDecided(call_id=call_id, decided_by="ops")]
    assert turn.owed == (ServeCall(call_id=call_id),)
    assert not turn.state.open_calls[call_id].effect_unknown
    assert turn.feed(RedeliveryAsked(call_id=call_id)) == []


# -- checks -------------------------------------------------------------------------------------------------


def test_a_check_is_asked_before_anything_else_is_done() -> None:
    """Under either rule for lost workers; the question names the attempt."""
    turn = paying(1)
    call_id = turn.open[0]

    (lost,) = turn.lose(call_id, check=True, ask=True)

    assert isinstance(lost, AttemptLost)
    assert lost.next is AfterLoss.CHECKED
    assert [(c.call_id, c.attempt) for c in turn.owed if isinstance(c, CheckEffect)] == [(call_id, 1)]


@pytest.mark.parametrize("ask", [False, True])
def test_a_check_that_says_no_has_the_call_served_again(ask: bool) -> None:
    """It took no effect, so it may run, even where it must not run twice."""
    turn = paying(1)
    turn.lose(turn.open[0], check=True, ask=ask)

    turn.check('{"effect":"none"}', ask=ask)

    assert turn.owed == (ServeCall(call_id=turn.open[0]),)


def test_a_check_that_knows_the_result_settles_the_call() -> None:
    """The output is as the handler would have given it, under the attempt that was lost."""
    turn = paying(1)
    turn.lose(turn.open[0], check=True)

    turn.check('{"effect":"took_effect","output":{"receipt":7}}')

    (output,) = outputs(turn)
    assert (output.settlement, output.attempt, turn.outputs) == (Settlement.OUTPUT, 1, ['{"receipt":7}'])
    assert turn.owed == (CallModel(round=2),)


@pytest.mark.parametrize(
    ("answer", "ask", "unknown"),
    [
        ('{"effect":"took_effect"}', False, True),
        ('{"effect":"unknown"}', True, True),
        ('{"effect":"unknown"}', False, False),
        ("nonsense", True, True),
        ("nonsense", False, False),
    ],
)
def test_a_check_that_does_not_know_leaves_it_to_the_rule(answer: str, ask: bool, unknown: bool) -> None:
    """What took effect without a known result never runs again; otherwise the rule for lost workers decides."""
    turn = paying(1)
    call_id = turn.open[0]
    turn.lose(call_id, check=True, ask=ask)

    turn.check(answer, ask=ask)

    assert turn.state.open_calls[call_id].effect_unknown == unknown
    assert turn.owed == (() if unknown else (ServeCall(call_id=call_id),))


def test_the_limit_of_attempts_holds_for_checked_ones_too() -> None:
    """A worker that dies over it each time is not given it for ever."""
    turn = paying(1)
    call_id = turn.open[0]

    for attempt in range(1, MAX_LOST_ATTEMPTS + 1):
        turn.lose(call_id, attempt, check=True)
        turn.check('{"effect":"none"}')

    assert outputs(turn)[-1].settlement is Settlement.WORKER_LOST


def test_the_agent_says_how_often_a_call_may_be_lost() -> None:
    """`max_attempts` in place of the default."""
    turn = paying(1, turn=begun(PAY.execution.under(Execution(max_attempts=1))))

    turn.lose(turn.open[0])

    assert outputs(turn)[-1].settlement is Settlement.WORKER_LOST


# -- clocks -------------------------------------------------------------------------------------------------


def begun(execution: Execution, **fields: object) -> Turn:
    """Begins a turn whose agent pays under certain conditions."""
    turn = Turn(functions=(replace(PAY, execution=execution, **fields),))
    turn.begin()
    return turn


def test_a_timeout_is_told_to_the_model_in_the_sdk_s_words() -> None:
    """The turn goes on; people and programs read the reason beside the output."""
    turn = paying(1)

    turn.feed(CallTimedOut(call_id=turn.open[0]))

    (output,) = outputs(turn)
    assert turn.outputs == ["Tool 'pay' timed out after 30 seconds."]
    assert output.settlement is Settlement.TIMEOUT
    assert output.error is not None
    assert output.error.metadata == {"tool": "pay", "call_id": output.call_id, "timeout": "30s"}
    assert turn.owed == (CallModel(round=2),)


def test_the_agent_words_its_timeouts() -> None:
    """A text of its own reaches the model as it is."""
    turn = paying(1, turn=begun(PAY.execution, on_timeout=FailureText(text="The bank is slow today.")))

    turn.feed(CallTimedOut(call_id=turn.open[0]))

    assert turn.outputs == ["The bank is slow today."]


def test_a_timeout_may_end_the_turn() -> None:
    """Then its siblings get synthetic outputs, and what gave nothing leaves the history: that stays well formed."""
    turn = paying(1, 2, turn=begun(PAY.execution, on_timeout=FailureText(fail_turn=True)))

    recorded = turn.feed(CallTimedOut(call_id=turn.open[0]))

    assert names(recorded) == ["ItemAdded", "ItemAdded", "ItemsWithdrawn", "TurnEnded"]
    assert turn.kept() == turn.input[:1]
    assert turn.reason is Reason.TOOL_TIMEOUT
    assert turn.outputs[1] == texts.CALL_CANCELLED


def test_an_expiry_settles_a_call_that_nobody_served() -> None:
    """In whatever state it waits, also of unknown effect."""
    turn = paying(1)
    turn.lose(turn.open[0], ask=True)

    turn.feed(CallExpired(call_id=turn.open[0]))

    (output,) = outputs(turn)
    assert output.settlement is Settlement.EXPIRED
    assert output.error is not None
    assert output.error.reason is Reason.CALL_EXPIRED
    assert turn.owed == (CallModel(round=2),)
