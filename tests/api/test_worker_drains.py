"""Workers that leave in order, and a server that does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tests.api.calling import Client, helper, run_request, soon
from tests.support.scripted_worker import ScriptedWorker, held, result_of
from tests.support.server import ServerProcess
from tests.support.stage import Stage, Turn, eventually

from baton.v1 import event_pb2, handler_pb2

# -- the worker leaves ---------------------------------------------------------------------------


async def test_a_half_close_ends_the_stream_with_ok(stage: Stage) -> None:
    """A worker that holds nothing is gone at once: its names are unserved, without any grace."""
    worker = await stage.worker("f")

    await worker.half_close()

    assert (await worker.ended()).code == grpc.StatusCode.OK
    turn = await stage.call("f")
    await turn.waiting()
    assert await turn.state() == "UNSERVED"


async def test_a_result_before_the_half_close_is_taken_and_acked(stage: Stage) -> None:
    """What was sent in order is answered in order, and then the stream ends."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await worker.settle(call)
    await worker.half_close()

    assert (await worker.expect("result_ack")).verdict == handler_pb2.RESULT_VERDICT_DURABLE
    assert (await worker.ended()).code == grpc.StatusCode.OK
    await turn.completed()


async def test_a_late_result_before_the_half_close_is_acked_too(stage: Stage) -> None:
    """A worker that leaves learns about each of its results, also about those that did not count."""
    worker = await stage.worker("f")

    for n in range(20):
        await worker.send(result={"call_id": f"call_of_nobody_{n}", "attempt": 1, "output": "x"})
    await worker.half_close()

    acks = await worker.expect_all("result_ack", 20)
    assert {ack.verdict for ack in acks} == {handler_pb2.RESULT_VERDICT_DISCARDED}
    assert (await worker.ended()).code == grpc.StatusCode.OK


async def test_a_half_closed_stream_stays_while_a_call_is_held(stage: Stage) -> None:
    """It ends when the call is settled, here from outside; until then it gets nothing new."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    holder = stage.lease(call.call_id).worker
    assert holder is not None
    await worker.half_close()
    await eventually(lambda: holder.credit == 0)
    waiting = await stage.call("f")
    await waiting.waiting()

    await turn.settle(call.call_id, output="by hand")

    cancel = await worker.expect("cancel")
    assert (cancel.call_id, cancel.reason) == (call.call_id, handler_pb2.CANCEL_REASON_SETTLED_ELSEWHERE)
    assert (await worker.ended()).code == grpc.StatusCode.OK
    assert await waiting.state() == "UNSERVED"


async def test_after_a_drain_held_calls_are_finished(stage: Stage) -> None:
    """Nothing new comes; the last result is acked, then the server ends the stream."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")

    await worker.send(drain={"reason": "a new version"})
    await worker.nothing()
    waiting = await stage.call("f")
    await waiting.waiting()
    await worker.send(credit={"messages": 5})
    await worker.nothing()

    await worker.finish(call)
    assert (await worker.ended()).code == grpc.StatusCode.OK
    await turn.completed()
    assert await waiting.state() == "UNSERVED"


async def test_a_drained_worker_may_give_its_calls_back(stage: Stage) -> None:
    """Its stream ends with the last one; somebody else goes on."""
    worker = await stage.worker("f")
    await stage.call("f")
    call = await worker.expect("call")
    await worker.send(drain={})
    other = await stage.worker("f")

    await worker.send(nack={"call_id": call.call_id, "attempt": 1})

    assert (await worker.ended()).code == grpc.StatusCode.OK
    assert (await other.expect("call")).attempt == 2


async def test_calls_of_a_draining_worker_go_to_those_who_stay(stage: Stage) -> None:
    """Also where it drains in an earlier scope: its name is on the way out there."""
    leaving = await stage.worker("f", scopes=["own"])
    await stage.call("f", scopes=["own"])
    await leaving.expect("call")
    general = await stage.worker("f")

    await leaving.send(drain={})
    await leaving.nothing()
    await stage.call("f", scopes=["own"])

    assert (await general.expect("call")).scope == ""


async def test_a_drained_worker_that_breaks_off_with_a_call_has_its_grace(stage: Stage) -> None:
    """Leaving in order means leaving with nothing; whoever does not may still come back."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    await worker.send(drain={})
    await worker.nothing()
    await stage.break_off(worker, call.call_id)

    back = await stage.back(worker, "f", held=held(call))

    assert back.welcome.attempts[0].verdict == handler_pb2.HELD_VERDICT_CONTINUE
    await back.finish(call)
    await turn.completed()


# -- the server leaves ---------------------------------------------------------------------------


async def test_a_draining_server_says_so_and_hands_nothing_out(stage: Stage) -> None:
    """Workers are asked to attach elsewhere; calls wait for the next process."""
    worker = await stage.worker("f")
    stage.baton.dispatcher.drain("the server stops")

    assert (await worker.expect("drain")).reason == "the server stops"
    turn = await stage.call("f")
    await turn.waiting()

    await worker.nothing()
    await stage.restart()
    back = await stage.worker("f")
    await back.finish(await back.expect("call"))
    await stage.again(turn).completed()


async def test_results_are_taken_while_the_server_drains(stage: Stage) -> None:
    """Over the stream that there is, and over a new one."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", '{"n":0}'), ("f", '{"n":1}')])
    first, second = await worker.expect_all("call", 2)
    stage.baton.dispatcher.drain("the server stops")
    await worker.expect("drain")

    await worker.finish(first)
    back = await stage.back(worker, "f", held=held(second))
    assert back.welcome.attempts[0].verdict == handler_pb2.HELD_VERDICT_CONTINUE
    await back.finish(second)

    await stage.restart()
    await stage.again(turn).completed()


async def test_after_a_restart_a_run_waits_for_workers_that_hold_its_calls(stage: Stage) -> None:
    """Who asks again meanwhile is not told that nobody works on them."""
    worker = await stage.worker("f")
    text, agent = stage.script([("f", "{}")])
    request = run_request(agent=agent, text=text)
    stage.client.runner.Run(request)
    call = await worker.expect("call")
    await worker.ack(call)
    await stage.restart()

    running = asyncio.ensure_future(soon(stage.client.runner.Run(request)))
    back = await stage.back(worker, "f", held=held(call))
    await back.finish(call)

    assert (await running).turn.status == event_pb2.TURN_STATUS_COMPLETED


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    """Run a server in a process of its own, with the demo model."""
    async with ServerProcess(tmp_path / "baton.db", {"BATON_DRAIN_S": "20"}) as process:
        yield process


@pytest.mark.slow
async def test_sigterm_waits_for_held_calls_and_a_restart_goes_on(house: ServerProcess) -> None:
    """The worker sees Drain, its result is taken and acked, its stream ends; the next process knows of it all."""
    worker = await ScriptedWorker.attached(house.address, "get_weather")
    async with grpc.aio.insecure_channel(house.address) as channel:
        client = Client(channel)
        session = await client.session(agent=helper("get_weather"))
        answer = await client.submit(session.session_id, "What is the weather in Kyoto?")
        call = await worker.expect("call")
        ending = asyncio.ensure_future(house.terminate())

        assert (await worker.expect("drain")).reason
        await worker.send(result=result_of(call, output="18 °C"))
        assert (await worker.expect("result_ack")).verdict == handler_pb2.RESULT_VERDICT_DURABLE
        assert (await worker.ended()).code == grpc.StatusCode.UNAVAILABLE
        assert await ending == 0
        await worker.close()

    await house.start()
    async with grpc.aio.insecure_channel(house.address) as channel:
        await Turn(Client(channel), session.session_id, answer.turn_id).completed()
