"""Results, answers and calls that are given back, without any stream."""

from __future__ import annotations

import asyncio

import pytest
from tests.api.calling import kinds, refused, soon
from tests.support.scripted_watcher import Watcher, not_extended, settled
from tests.support.stage import Stage, Turn

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2

DURABLE, DISCARDED = handler_pb2.RESULT_VERDICT_DURABLE, handler_pb2.RESULT_VERDICT_DISCARDED
GUARDED = [{"name": "no PII", "hook": {"name": "pii"}}]


async def out(stage: Stage, **hello: object) -> tuple[Watcher, Turn, handler_pb2.Call]:
    """Bring a call to a watcher."""
    watcher = await Watcher.watching(stage.client, *([] if hello else ["f"]), **hello)  # type: ignore[arg-type]
    turn = await stage.call("f")
    return watcher, turn, await watcher.expect("call")


@pytest.mark.parametrize("named", [True, False])
async def test_a_result_settles_its_call(stage: Stage, named: bool) -> None:
    """Whether the sender says who it is or not; the log has who held it."""
    watcher, turn, call = await out(stage)

    ack = await settled(stage.client, call, watcher.worker_id if named else "", output="18 °C")

    assert (ack.verdict, ack.HasField("error")) == (DURABLE, False)
    await turn.completed()
    (output,) = await turn.outputs()
    assert (output.output[0].text, output.attempt, output.worker_id) == ("18 °C", 1, watcher.worker_id)


async def test_a_call_of_a_stream_may_be_settled_without_it(stage: Stage) -> None:
    """The worker that had it hears that it is to stop."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    assert (await settled(stage.client, call)).verdict == DURABLE

    await turn.completed()


async def test_the_same_result_again_is_durable_again(stage: Stage) -> None:
    """The answer may have been lost; another result is discarded, once, with an event."""
    watcher, turn, call = await out(stage)
    await watcher.finish(call, output="18 °C")
    await watcher.finish(call, output="18 °C")

    for _ in range(2):
        other = await watcher.settle(call, output="19 °C")
        assert (other.verdict, other.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_SETTLED)

    await turn.completed()
    assert len(await turn.told("result_discarded")) == 1


async def test_two_at_once_settle_it_once(stage: Stage) -> None:
    """One of two different results counts."""
    watcher, turn, call = await out(stage)

    acks = await asyncio.gather(watcher.settle(call, output="a"), watcher.settle(call, output="b"))

    assert sorted(ack.verdict for ack in acks) == [DURABLE, DISCARDED]
    await turn.completed()
    assert len(await turn.outputs()) == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ({"output": "x" * 4_194_305}, error_pb2.ERROR_REASON_RESULT_TOO_LARGE),
        ({"output_json": "{"}, error_pb2.ERROR_REASON_FRAME_INVALID),
        ({"output": "a\0b"}, error_pb2.ERROR_REASON_FRAME_INVALID),
    ],
)
async def test_a_result_that_cannot_be_taken_is_refused_and_the_call_stays_open(
    stage: Stage, outcome: dict[str, str], reason: error_pb2.ErrorReason.ValueType
) -> None:
    """The sender still owes a result, and another one is taken."""
    watcher, turn, call = await out(stage)

    ack = await watcher.settle(call, **outcome)

    assert (ack.verdict, ack.error.reason) == (handler_pb2.RESULT_VERDICT_REFUSED, reason)
    assert await turn.state() == "LEASED"
    await watcher.finish(call)
    await turn.completed()


async def test_a_failure_and_a_crash_are_results(stage: Stage) -> None:
    """The handler's own words reach the model, a crash does not."""
    watcher = await Watcher.watching(stage.client, "f", credit=2)
    turn = await stage.turn([("f", '{"n":1}'), ("f", '{"n":2}')])
    first, second = await watcher.expect("call"), await watcher.expect("call")

    await watcher.finish(first, failure="no such city")
    await watcher.finish(second, crash={"type": "KeyError", "text": "secret"})

    await turn.completed()
    outputs = await turn.outputs()
    assert [one.settlement for one in outputs] == [item_pb2.SETTLEMENT_FAILURE, item_pb2.SETTLEMENT_CRASH]
    assert [one.output[0].text == "no such city" for one in outputs] == [True, False]
    assert "secret" not in outputs[1].output[0].text


async def test_a_result_of_a_replaced_attempt_is_discarded(stage: Stage) -> None:
    """Somebody else has the call now; so it is with a result of another worker than the one that has it."""
    watcher, turn, call = await out(stage)
    await watcher.give_back(call)
    again = await watcher.expect("call")

    late = await watcher.settle(call)
    stranger = await settled(stage.client, again, "worker_of_nobody")
    unknown = await settled(stage.client, handler_pb2.Call(call_id="call_gone", attempt=1))

    assert [(ack.verdict, ack.error.reason) for ack in (late, stranger, unknown)] == [
        (DISCARDED, error_pb2.ERROR_REASON_ATTEMPT_STALE),
        (DISCARDED, error_pb2.ERROR_REASON_ATTEMPT_STALE),
        (DISCARDED, error_pb2.ERROR_REASON_CALL_NOT_FOUND),
    ]
    await watcher.finish(again)
    await turn.completed()


async def test_a_call_that_is_given_back_is_on_disk_when_that_is_answered(stage: Stage) -> None:
    """No ack is given for it; it is delivered again, after its delay."""
    watcher, turn, call = await out(stage)

    answer = await watcher.give_back(call, delay={"seconds": 60}, not_begun=True)

    assert list(answer.acks) == []
    row = await stage.baton.runtime.store.calls.get(call.call_id)
    assert row is not None
    assert (row.state, row.attempt, row.may_have_run) == ("queued", 1, False)
    assert await not_extended(stage.client, call) == "ATTEMPT_STALE"
    stage.pass_time(61)
    await watcher.finish(await watcher.expect("call"))
    await turn.completed()


async def test_giving_back_what_must_not_run_twice_leaves_a_question(stage: Stage) -> None:
    """It is on disk when the answer comes; a stale one means nothing."""
    once = [{"name": "f", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]
    watcher, turn, call = await out(stage, handlers=once)

    await watcher.give_back(call)
    await watcher.give_back(call)

    assert await turn.state() == "EFFECT_UNKNOWN"
    assert len(await turn.told("effect_unknown")) == 1


# -- hooks ---------------------------------------------------------------------------------------


async def asked(stage: Stage) -> tuple[Watcher, Turn, handler_pb2.Hook]:
    """Bring a guardrail's question to a watcher."""
    guard = {"kind": event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, "name": "pii"}
    watcher = await Watcher.watching(stage.client, handlers=[guard])
    turn = await stage.turn(input_guardrails=GUARDED)
    batch = await watcher.expect("hook_batch")
    (hook,) = batch.hooks
    return watcher, turn, hook


def passes(hook: handler_pb2.Hook, tripped: bool = False) -> dict[str, object]:
    """Answer a guardrail."""
    answer = f'{{"tripped":{"true" if tripped else "false"}}}'
    return {"hook_id": hook.hook_id, "attempt": hook.attempt, "answer_json": answer}


async def test_an_answer_to_a_hook_is_in_the_log_when_it_is_acked(stage: Stage) -> None:
    """The same one again is durable again; another one came too late."""
    watcher, turn, hook = await asked(stage)

    ack = await watcher.answer(**passes(hook))

    assert (ack.call_id, ack.attempt, ack.verdict) == (hook.hook_id, 1, DURABLE)
    (said,) = await turn.told("hook_settled")
    assert (said.hook_id, said.worker_id) == (hook.hook_id, watcher.worker_id)
    await turn.completed()
    assert (await watcher.answer(**passes(hook))).verdict == DURABLE
    other = await watcher.answer(**passes(hook, tripped=True))
    assert (other.verdict, other.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_SETTLED)


async def test_a_filter_is_answered_in_the_same_way(stage: Stage) -> None:
    """Its answer is on disk before the model is asked."""
    filter_ = {"kind": event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER, "name": "trim"}
    watcher = await Watcher.watching(stage.client, handlers=[filter_])
    text, agent = stage.script()
    session = await stage.client.session(agent=agent, run_config={"model_input_filters": [{"hook": {"name": "trim"}}]})
    turn = Turn(stage.client, session.session_id, (await stage.client.submit(session.session_id, text)).turn_id)
    (hook,) = (await watcher.expect("hook_batch")).hooks

    ack = await watcher.answer(hook_id=hook.hook_id, attempt=1, answer_json=hook.payload_json)

    assert ack.verdict == DURABLE
    await turn.completed()


async def test_an_answer_that_nobody_needs_is_discarded(stage: Stage) -> None:
    """Its turn was cancelled, or nothing of the kind is asked."""
    watcher, turn, hook = await asked(stage)
    await turn.cancel()
    assert (await watcher.expect("cancel")).call_id == hook.hook_id
    await turn.until("turn_cancelled")

    late = await watcher.answer(**passes(hook))
    unknown = await watcher.answer(hook_id="hook_gone", attempt=1, failure="no")

    for ack in (late, unknown):
        assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_CALL_NOT_FOUND)


async def test_an_answer_of_somebody_else_is_stale(stage: Stage) -> None:
    """A hook is answered by who was asked it."""
    watcher, turn, hook = await asked(stage)
    answers = {"answers": [passes(hook)]}
    request = handler_pb2.SettleCallRequest(worker_id="worker_of_nobody", hook_answers=answers)

    (ack,) = (await soon(stage.client.handlers.SettleCall(request))).acks

    assert (ack.verdict, ack.error.reason) == (DISCARDED, error_pb2.ERROR_REASON_ATTEMPT_STALE)
    await watcher.answer(**passes(hook))
    await turn.completed()


async def test_a_hook_outlives_its_stream_by_a_lease(stage: Stage) -> None:
    """It is answered without one; who does not answer in time is not asked any more."""
    watcher, turn, hook = await asked(stage)
    watcher.leave()

    ack = await watcher.answer(**passes(hook, tripped=True))

    assert ack.verdict == DURABLE
    assert kinds(await turn.ended())[-1] == "turn_failed"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "settlement"),
        ({"result": {"call_id": "c", "output": "x"}}, "result.attempt"),
        ({"hook_answers": {"answers": [{"hook_id": "h", "attempt": 1, "failure": "x"}]}}, "worker_id"),
        ({"nack": {"call_id": "c", "attempt": 1, "delay": {"seconds": 3601}}}, "nack.delay"),
    ],
)
async def test_a_wrong_request_is_refused(stage: Stage, fields: dict[str, object], path: str) -> None:
    """By the field that is wrong."""
    request = handler_pb2.SettleCallRequest(**fields)  # type: ignore[arg-type]

    said = await refused(stage.client.handlers.SettleCall(request))

    assert (said.reason, said.paths) == ("INVALID_REQUEST", [path])
