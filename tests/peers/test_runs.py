"""Runs, and those who watch them: what is told when, what goes on without them, and what the model gets."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.api.calling import kinds, told
from tests.client.end_to_end import Serve
from tests.peers.hosting import soon
from tests.support.scripted_model import calls, say
from tests.support.scripted_worker import ScriptedWorker, acked
from tests.support.stage import ANY_OBJECT, Stage

from baton import Agent, RunItemStreamEvent, Runner, function_tool
from baton.server.client import Client
from baton.v1 import handler_pb2, item_pb2, session_pb2


async def test_a_call_is_told_while_its_function_runs(serve: Serve) -> None:
    """The caller hears of it when it is made, not when it is over; here the function waits for that."""
    heard, over = asyncio.Event(), asyncio.Event()

    @function_tool
    async def work() -> str:
        await heard.wait()
        over.set()
        return "worked"

    async with serve(calls(("work", "{}")), say("Done.")):
        result = Runner.run_streamed(Agent[None](name="Assistant", tools=[work]), "Go")
        async for event in result.stream_events():
            if isinstance(event, RunItemStreamEvent) and event.name == "tool_called":
                assert not over.is_set()
                heard.set()

        assert (result.final_output, over.is_set()) == ("Done.", True)


async def test_a_call_is_in_the_log_before_anyone_can_execute_it(stage: Stage) -> None:
    """As long as its commit is under way no worker hears of it; then a watcher finds it, whoever has it."""
    worker = await stage.worker("f")
    came, go_on = stage.store.hold(lambda batch: bool(batch.calls_opened))
    turn = await stage.call("f")
    await came.wait()
    await worker.nothing()

    go_on.set()

    call = await worker.expect("call")
    items = [added.item.function_call.call_id for added in await turn.told("item_added")]
    assert call.call_id in items


async def test_a_reader_that_leaves_stops_nothing(serve: Serve) -> None:
    """Breaking out of the events is no cancel: the function is executed and the turn completes."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @function_tool
    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "worked"

    async with serve(calls(("work", "{}")), say("Done.")) as served:
        result = Runner.run_streamed(Agent[None](name="Assistant", tools=[work]), "Go")
        async for event in result.stream_events():
            if isinstance(event, RunItemStreamEvent) and event.name == "tool_called":
                break
        await soon(begun.wait())
        go_on.set()

        events = [part.event async for part in Client().watch(result.session_id) if part.HasField("event")]

        assert kinds(events)[-2:] == ["turn_completed", "session_idle"]
        assert served.outputs() == ["worked"]


async def test_behind_a_cancel_that_was_acknowledged_nothing_goes_on(stage: Stage) -> None:
    """What was just being made when it came is followed by its Cancel; no other round is asked or delivered."""
    worker = await stage.worker("f")
    came, go_on = stage.store.hold(lambda batch: bool(batch.calls_opened))
    turn = await stage.turn([("f", "{}"), ("g", "{}")], [("f", "{}")])
    await came.wait()

    assert (await turn.cancel()).status == session_pb2.INPUT_STATUS_CANCELLING
    go_on.set()

    call = await worker.expect("call")
    assert (await worker.expect("cancel")).call_id == call.call_id
    stopped = {"call_id": call.call_id, "attempt": 1, "outcome": handler_pb2.CANCEL_OUTCOME_STOPPED}
    await worker.send(cancel_ack=stopped)
    assert kinds(await turn.ended())[-1] == "turn_cancelled"
    assert {output.settlement for output in await turn.outputs()} == {item_pb2.SETTLEMENT_CANCELLED}
    assert len(stage.model.requests) == 1
    await worker.nothing()


def tool(name: str, **execution: Any) -> dict[str, Any]:
    """Declare a function for an agent."""
    return {"function": {"name": name, "parameters_json": ANY_OBJECT, "execution": execution}}


ENDS = [
    ("good", item_pb2.SETTLEMENT_OUTPUT),
    ("failing", item_pb2.SETTLEMENT_FAILURE),
    ("crashing", item_pb2.SETTLEMENT_CRASH),
    ("nonsense", item_pb2.SETTLEMENT_ARGUMENTS_INVALID),
    ("lost", item_pb2.SETTLEMENT_WORKER_LOST),
    ("slow", item_pb2.SETTLEMENT_TIMEOUT),
    ("unserved", item_pb2.SETTLEMENT_EXPIRED),
    ("by_hand", item_pb2.SETTLEMENT_OUTSIDE_OUTPUT),
]


async def test_however_calls_end_the_model_gets_one_output_for_each(stage: Stage) -> None:
    """All ways to end in one reply: the next request has each call once, and one output of it, in call order."""
    bounds = {
        "lost": {"max_attempts": 1},
        "slow": {"timeout": {"seconds": 20}},
        "unserved": {"expires": {"seconds": 25}},
    }
    names = [name for name, _ in ENDS]
    lost = await stage.worker("lost")
    worker = await stage.worker("good", "failing", "crashing", "slow")
    turn = await stage.turn(
        [(name, "no JSON" if name == "nonsense" else "{}") for name in names],
        tools=[tool(name, **bounds.get(name, {})) for name in names],
    )
    await stage.break_off(lost, (await acked(lost)).call_id)
    outcomes = {"failing": {"failure": "no such city"}, "crashing": {"crash": {"type": "E", "text": "…"}}}
    for call in await worker.expect_all("call", 4):
        if call.name == "slow":
            await worker.ack(call)
        else:
            await worker.finish(call, **outcomes.get(call.name, {}))
    await turn.settle(next(one.call_id for one in await turn.actions() if one.name == "by_hand"), output="mine")
    for _ in range(6):
        await heard(worker)
        stage.pass_time(5)

    events = await turn.completed()

    made = {item.function_call.call_id: item.function_call.name for item in items_of(events) if item.function_call.name}
    ends = {made[one.call_id]: one.settlement for one in await turn.outputs()}
    assert ends == dict(ENDS)
    sent = stage.model.input_of(-1)
    ids = [item["call_id"] for item in sent if item.get("type") == "function_call"]
    assert [item["name"] for item in sent if item.get("type") == "function_call"] == names
    assert [item["call_id"] for item in sent if item.get("type") == "function_call_output"] == ids
    assert len(set(ids)) == len(names)


async def heard(worker: ScriptedWorker) -> None:
    """Let a worker say that it lives."""
    await worker.send()
    while (await worker.frame()).WhichOneof("frame") == "cancel":
        pass


def items_of(events: Any) -> list[item_pb2.Item]:
    """List the items of events."""
    return [added.item for added in told(events, "item_added")]
