"""Bounds of what workers may do: attempts that may be lost, handlers, and results that come again and again."""

from __future__ import annotations

import asyncio
import json

from tests.api.calling import soon
from tests.support.scripted_worker import ScriptedWorker
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import error_pb2, event_pb2, handler_pb2, item_pb2

MIB = 1024 * 1024


# -- attempts ------------------------------------------------------------------------------------


async def give_back(worker: ScriptedWorker, times: int) -> handler_pb2.Call:
    """Nack a call so many times; returns it as it comes then, acked."""
    for _ in range(times):
        call = await worker.expect("call")
        await worker.send(nack={"call_id": call.call_id, "attempt": call.attempt})
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()
    return call


async def lose(stage: Stage, turn: Turn, times: int) -> None:
    """Have workers take the turn's call and go, one after the other."""
    for _ in range(times):
        worker = await stage.worker("f")
        call = await give_back(worker, 1)
        before = len(await turn.told("attempt_lost"))
        await stage.break_off(worker, call.call_id)
        stage.pass_time(11)
        await turn.until("attempt_lost", times=before + 1)


async def test_what_is_given_back_is_not_lost(stage: Stage) -> None:
    """A worker that is too busy may say so as often as it likes; the first loss is followed by another attempt."""
    worker = await stage.worker("f", credit=100)
    turn = await stage.call("f")
    call = await give_back(worker, 7)
    assert call.attempt == 8

    await stage.break_off(worker, call.call_id)
    stage.pass_time(11)

    other = await stage.worker("f")
    assert (await other.expect("call")).attempt == 9
    (lost,) = await turn.told("attempt_lost")
    assert (lost.attempt, lost.next) == (8, event_pb2.AFTER_LOSS_REDELIVERED)


async def test_losses_are_counted_over_restarts(stage: Stage) -> None:
    """The fifth one settles the call, whoever counted the others, and however often it was given back between."""
    turn = await stage.call("f")
    await turn.waiting()
    await lose(stage, turn, 3)
    await stage.restart()
    turn = stage.again(turn)

    await lose(stage, turn, 2)

    lost = [one.next for one in await turn.told("attempt_lost")]
    assert lost == [*[event_pb2.AFTER_LOSS_REDELIVERED] * 4, event_pb2.AFTER_LOSS_FAILED]
    (output,) = await turn.outputs()
    assert output.settlement == item_pb2.SETTLEMENT_WORKER_LOST


async def test_a_call_that_is_given_back_may_yet_miss_an_ack(stage: Stage) -> None:
    """Only deliveries in a row that nobody acked count against a call; giving it back shows that it arrives."""
    worker = await stage.worker("f", credit=100)
    turn = await stage.call("f")
    call = None
    for _ in range(2):
        for _ in range(4):
            call = await worker.expect("call")
            await stage.never_acked(call.call_id)
            await worker.expect("cancel")
            await worker.nothing()
        call = await worker.expect("call")
        await worker.send(nack={"call_id": call.call_id, "attempt": call.attempt})

    last = await worker.expect("call")

    assert last.attempt == 11
    await worker.finish(last)
    await turn.completed()


# -- handlers ------------------------------------------------------------------------------------


async def test_a_handler_too_many_is_refused_alone(stage: Stage) -> None:
    """The others stay; one that is declared anew is not one more, and one that leaves makes room."""
    worker = await stage.worker(*(f"f{number}" for number in range(513)))

    *good, bad = worker.welcome.handlers

    assert not any(verdict.HasField("error") for verdict in good)
    assert (bad.name, bad.error.reason) == ("f512", error_pb2.ERROR_REASON_HANDLER_INVALID)
    assert dict(bad.error.metadata) == {"name": "f512", "problem": "too_many"}
    await worker.send(register={"handlers": [{"name": "f0", "description": "again"}, {"name": "f512"}]})
    again, still_bad = (await worker.expect("registered")).handlers
    assert (again.HasField("error"), still_bad.HasField("error")) == (False, True)
    await worker.send(unregister={"handlers": [{"name": "f1"}]})
    await worker.send(register={"handlers": [{"name": "f512"}]})
    assert not (await worker.expect("registered")).handlers[0].HasField("error")
    await stage.call("f512")
    assert (await worker.expect("call")).name == "f512"


async def test_what_handlers_declare_is_bounded(stage: Stage) -> None:
    """Eight mebibytes for one worker, whatever the number of its handlers."""
    schema = json.dumps({"type": "object", "description": "x" * (MIB - 100)})
    worker = await stage.worker()

    verdicts = []
    for number in range(9):
        await worker.send(register={"handlers": [{"name": f"f{number}", "parameters_json": schema}]})
        verdicts.extend((await worker.expect("registered")).handlers)

    assert [verdict.error.metadata["problem"] for verdict in verdicts if verdict.HasField("error")] == ["too_many"]
    assert verdicts[8].HasField("error")
    await worker.send(register={"handlers": [{"name": "small"}]})
    assert not (await worker.expect("registered")).handlers[0].HasField("error")
    await worker.send(unregister={"handlers": [{"name": "f0"}]})
    await worker.send(register={"handlers": [{"name": "f8", "parameters_json": schema}]})
    assert not (await worker.expect("registered")).handlers[0].HasField("error")


# -- late results --------------------------------------------------------------------------------


async def test_a_late_result_that_comes_again_is_one_event(stage: Stage) -> None:
    """The same one is answered as at first; another one is another event."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.finish(call)
    await turn.completed()

    for _ in range(5):
        await worker.settle(call, output="late")
    acks = await worker.expect_all("result_ack", 5)
    await worker.settle(call, output="later")
    await worker.expect("result_ack")

    assert len({ack.SerializeToString() for ack in acks}) == 1
    assert acks[0].verdict == handler_pb2.RESULT_VERDICT_DISCARDED
    assert acks[0].error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
    assert len(await turn.told("result_discarded")) == 2


async def test_a_late_result_from_outside_that_comes_again_is_one_event(stage: Stage) -> None:
    """As a worker's, also where it is sent as a new request."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.finish(call)
    await turn.completed()

    outcomes = [await turn.settle(call.call_id, output="late") for _ in range(3)]

    assert len({outcome.SerializeToString() for outcome in outcomes}) == 1
    assert len(await turn.told("result_discarded")) == 1


# -- workers that drain --------------------------------------------------------------------------


async def test_a_name_that_only_a_draining_worker_served_is_unserved(stage: Stage) -> None:
    """It goes on with what it holds, and takes nothing new: nobody need wait for it, or agree with what it said."""
    worker = await stage.worker(handlers=[{"name": "f", "parameters_json": '{"type":"object","maxProperties":1}'}])
    await stage.call("f")
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.send(drain={})
    await worker.nothing()
    text, agent = stage.script([("f", "{}")])

    answer = await stage.client.run(agent=agent, text=text)

    (action,) = answer.required_actions
    assert action.state == event_pb2.REQUIRED_ACTION_STATE_UNSERVED
    other = await stage.worker(handlers=[{"name": "f", "parameters_json": '{"type":"object","maxProperties":2}'}])
    assert not other.welcome.handlers[0].HasField("error")
    assert (await other.expect("call")).call_id == action.call_id
    await worker.finish(call)


async def test_who_waits_for_a_turn_is_told_when_the_last_worker_drains(stage: Stage) -> None:
    """A call that waits for the credit of a worker waits for nobody once that one drains, whatever it still holds."""
    worker = await stage.worker("f", credit=1)
    await stage.call("f")
    held = await worker.expect("call")
    await worker.ack(held)
    text, agent = stage.script([("f", "{}")])
    running = asyncio.ensure_future(stage.client.run(agent=agent, text=text))
    await eventually(lambda: sum(bool(batch.calls_opened) for batch in stage.store.committed) == 2)
    await worker.nothing()

    await worker.send(drain={})

    assert len((await soon(running)).required_actions) == 1
    await worker.finish(held)


async def test_what_a_draining_worker_registers_serves_nobody(stage: Stage) -> None:
    """It may say what it likes; calls wait for somebody else."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.send(drain={})

    await worker.send(register={"handlers": [{"name": "g"}]})

    assert not (await worker.expect("registered")).handlers[0].HasField("error")
    text, agent = stage.script([("g", "{}")])
    answer = await stage.client.run(agent=agent, text=text)
    assert len(answer.required_actions) == 1
    await worker.finish(call)


# -- a server that drains ------------------------------------------------------------------------


async def draining(stage: Stage) -> tuple[ScriptedWorker, handler_pb2.Call, asyncio.Future[None]]:
    """Bring a call to a worker, have the server drain, and wait until it waits for that worker."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()
    stage.baton.driver.draining = True
    stage.baton.dispatcher.drain("the test says so")
    await worker.expect("drain")
    quiet = asyncio.ensure_future(stage.baton.driver.quiet())
    await worker.nothing()
    assert not quiet.done()
    return worker, call, quiet


async def test_a_drain_is_over_when_the_last_call_is_given_back(stage: Stage) -> None:
    """Nothing goes on any more, so that nothing is waited for."""
    worker, call, quiet = await draining(stage)

    await worker.send(nack={"call_id": call.call_id, "attempt": call.attempt})

    await soon(quiet)


async def test_a_drain_is_over_when_the_last_worker_has_left(stage: Stage) -> None:
    """It comes back to the next process, with what it holds."""
    worker, _, quiet = await draining(stage)

    await worker.break_connection()

    await soon(quiet)
