"""Who is alive, who is there for the next call, and what a name is worth meanwhile: three things, kept apart."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from tests.api.calling import kinds, refusal_of, refused
from tests.peers.hosting import behind_a_proxy
from tests.support.scripted_worker import acked, held
from tests.support.stage import ANY_OBJECT, Stage

from baton.v1 import error_pb2, event_pb2, handler_pb2

ONCE = [{"name": "f", "execution": {"side_effects": handler_pb2.SIDE_EFFECTS_ONCE}}]


async def test_a_call_that_was_written_to_a_dead_connection_goes_to_another_worker(stage: Stage) -> None:
    """Both sockets stand and take what is written: only the missing ack tells that nobody is there."""
    async with behind_a_proxy(stage, "f", credit=99) as (proxy, _):
        other = await stage.worker("f", credit=1)
        assert proxy.half_open(3600) == 1
        turn = await stage.call("f")
        await turn.waiting()
        (action,) = await turn.actions()

        await stage.never_acked(action.call_id)

        call = await other.expect("call")
        assert (call.call_id, call.attempt, call.may_have_run) == (action.call_id, 2, True)
        await other.finish(call)
        await turn.completed()


async def test_a_connection_that_stands_is_no_sign_of_life(stage: Stage) -> None:
    """A proxy keeps a dead worker's connection open: its call and its name are given up all the same."""
    async with behind_a_proxy(stage, "f") as (proxy, worker):
        turn = await stage.call("f")
        await acked(worker)
        proxy.half_open(3600)

        stage.pass_time(31)
        await turn.until("attempt_lost")
        stage.pass_time(11)

        assert await turn.state() == "UNSERVED"
        other = await stage.worker("f")
        await other.finish(await other.expect("call"))
        await turn.completed()


async def test_a_worker_whose_stream_broke_keeps_its_call_and_gets_no_other(stage: Stage) -> None:
    """To have a call and to be there for the next one are two things; nothing runs twice over the one."""
    worker = await stage.worker("f", credit=99)
    kept = await stage.call("f", '{"n":1}')
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    other = await stage.worker("f", credit=1)

    next_ = await stage.call("f", '{"n":2}')

    got = await other.expect("call")
    assert got.arguments_json == '{"n":2}'
    await other.finish(got)
    await next_.completed()
    await other.send(credit={"messages": 5})
    await other.nothing()
    back = await stage.back(worker, "f", held=held(call))
    await back.finish(call)
    assert "attempt_lost" not in kinds(await kept.completed())


async def test_a_stream_that_flaps_leaves_its_functions_served(stage: Stage) -> None:
    """In each gap a turn is accepted that takes the function's schema from who is away, and its call waits."""
    handlers = [{"name": "f", "parameters_json": ANY_OBJECT}]
    worker = await stage.worker(handlers=handlers)
    long = await stage.call("f")
    call = await acked(worker)
    for _ in range(4):
        await stage.break_off(worker, call.call_id)
        stage.pass_time(9)

        turn = await stage.turn([("f", "{}")], tools=[{"function": {"name": "f"}}])
        await turn.waiting()

        assert await turn.state() == "QUEUED"
        worker = await stage.back(worker, handlers=handlers, held=held(call))
        await worker.finish(await worker.expect("call"))
        await turn.completed()
    await worker.finish(call)
    assert "attempt_lost" not in kinds(await long.completed())


async def test_to_register_again_changes_nothing(stage: Stage) -> None:
    """Over and over, and beside another worker of the name; a call comes once, to one of them."""
    handlers = [{"name": "f", "parameters_json": ANY_OBJECT}]
    worker = await stage.worker(handlers=handlers, credit=99)
    other = await stage.worker(handlers=handlers, credit=1)

    for _ in range(2):
        await worker.send(register={"handlers": handlers})
        (verdict,) = (await worker.expect("registered")).handlers
        assert (verdict.name, verdict.HasField("error")) == ("f", False)

    turn = await stage.call("f")
    await worker.finish(await worker.expect("call"))
    await turn.completed()
    await worker.nothing()
    await other.nothing()
    await worker.send(unregister={"handlers": [{"name": "f"}]})
    await stage.call("f")
    assert (await other.expect("call")).attempt == 1


async def test_a_call_may_take_days(empty_stage: Stage) -> None:
    """Its worker asks for an hour again and again; no short lease puts it back into the queue."""
    stage = await empty_stage.start(max_stream_age_s=0.0)
    worker = await stage.worker("f")
    other = await stage.worker("f", credit=0)
    turn = await stage.call("f")
    call = await acked(worker)

    for _ in range(3 * 24):
        await worker.send(extend={"call_id": call.call_id, "attempt": 1, "lease": {"seconds": 3600}})
        assert not (await worker.expect("extend_ack")).HasField("error")
        stage.pass_time(3599)

    await worker.finish(call)
    assert "attempt_lost" not in kinds(await turn.completed())
    assert (await other.ended()).reason == "WORKER_SILENT"  # it had nothing to be silent for


async def test_what_a_person_has_to_decide_is_asked_once_and_decided_once(stage: Stage) -> None:
    """Over restarts there is one question; two who answer it at once bring one delivery, and a third comes too late."""
    worker = await stage.worker(handlers=ONCE)
    turn = await stage.call("f")
    call = await acked(worker)
    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)
    await turn.until("effect_unknown")
    for _ in range(2):
        await stage.restart()
        stage.pass_time(11)
        turn = stage.again(turn)
        (action,) = await turn.actions()
        assert (action.call_id, action.state) == (call.call_id, event_pb2.REQUIRED_ACTION_STATE_EFFECT_UNKNOWN)
    worker = await stage.worker(handlers=ONCE)

    again = {"redelivery": {"turn_id": turn.turn_id, "call_id": call.call_id}}
    both = await asyncio.gather(
        *(stage.client.submit(turn.session_id, again) for _ in range(2)), return_exceptions=True
    )

    told = [refusal_of(one).reason if isinstance(one, grpc.aio.AioRpcError) else "taken" for one in both]
    assert "taken" in told and set(told) <= {"taken", "CALL_STATE"}
    second = await worker.expect("call")
    assert (await refused(stage.client.submit(turn.session_id, again))).reason == "CALL_STATE"
    assert (second.call_id, second.attempt, second.may_have_run) == (call.call_id, 2, True)
    await worker.finish(second)
    found = kinds(await turn.completed())
    assert (found.count("effect_unknown"), found.count("effect_decided")) == (1, 1)
    await worker.nothing()


@pytest.mark.parametrize("before", ["timed out", "lost"])
async def test_a_result_of_an_attempt_that_is_over_is_told_and_changes_nothing(stage: Stage, before: str) -> None:
    """The next attempt's result is the one that counts; the old one leaves a trace in the log."""
    execution = {"timeout": {"seconds": 20}} if before == "timed out" else {}
    tools = [{"function": {"name": "f", "parameters_json": ANY_OBJECT, "execution": execution}}]
    old = await stage.worker("f", credit=99)
    new = await stage.worker("f", credit=1)
    turn = await stage.turn([("f", "{}")], tools=tools)
    call = await acked(old)
    if before == "lost":
        await old.send(nack={"call_id": call.call_id, "attempt": 1})
        await new.finish(await new.expect("call"), output="second")
    else:
        stage.pass_time(21)
        await old.expect("cancel")
    await turn.completed()

    await old.settle(call, output="first")

    ack = await old.expect("result_ack")
    assert ack.verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    (told,) = await turn.told("result_discarded")
    assert (told.call_id, told.attempt) == (call.call_id, 1)
    assert told.error.reason in (error_pb2.ERROR_REASON_CALL_SETTLED, error_pb2.ERROR_REASON_ATTEMPT_STALE)
    assert "first" not in str(await turn.outputs())
