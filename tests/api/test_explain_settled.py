"""What settled a call, as a server explains it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from tests.api.explaining import explain, opened
from tests.support.scripted_worker import acked
from tests.support.stage import ANY_OBJECT, Stage

from baton.v1 import event_pb2, item_pb2
from baton_server.app.calls.explain import Explain
from baton_server.app.calls.registry import Registry
from baton_server.core.items import Settlement


async def test_a_settled_call_says_by_what(stage: Stage) -> None:
    """By a worker's output or failure, from outside, by its timeout, by the Runner itself."""
    timeout = {"name": "f", "execution": {"timeout": {"seconds": 1}}}
    worker = await stage.worker(handlers=[timeout], credit=10)
    turn = await stage.turn([("f", f'{{"n":{n}}}') for n in range(4)] + [("f", "[]")])
    calls = [await worker.expect("call") for _ in range(4)]
    for call in calls:
        await worker.ack(call)
    await worker.finish(calls[0])
    await worker.finish(calls[1], failure="no")
    await turn.settle(calls[2].call_id, output="x")
    await worker.expect("cancel")
    stage.pass_time(2)
    await turn.completed()

    outputs = await turn.outputs()

    for output in outputs:
        told = await explain(stage, output.call_id)
        assert (told.HasField("required_action"), list(told.causes)) == (False, [])
        assert told.settlement == output.settlement
    assert {item_pb2.Settlement.Name(output.settlement).removeprefix("SETTLEMENT_") for output in outputs} == {
        "OUTPUT",
        "FAILURE",
        "OUTSIDE_OUTPUT",
        "TIMEOUT",
        "ARGUMENTS_INVALID",
    }


async def test_a_result_says_by_what_from_the_moment_it_is_acknowledged(stage: Stage) -> None:
    """Before its turn has recorded it, and where it is recorded while somebody looks for it."""
    turn = await stage.call()
    call_id = await opened(turn)
    recorded, record = stage.store.hold(lambda batch: any(row.output_item_id for row in batch.calls_settled))
    await turn.settle(call_id, output="x")

    told = await explain(stage, call_id)
    await recorded.wait()
    store = _Meanwhile(stage.store, record.set, turn.completed)
    looking = Explain(
        replace(stage.baton.runtime, store=store), Registry(), stage.baton.dispatcher, stage.baton.driver.loading
    )
    looked = await looking.call(call_id)

    assert told.settlement == item_pb2.SETTLEMENT_OUTSIDE_OUTPUT
    assert looked.settlement is Settlement.OUTSIDE_OUTPUT


class _Meanwhile:
    """A store in which something happens between two reads, right before the inbox is read."""

    def __init__(self, store: Any, begin: Callable[[], None], done: Callable[[], Awaitable[Any]]) -> None:
        self._store, self._begin, self._done = store, begin, done
        self.inbox = self

    async def rows(self, turn_id: str) -> Any:
        """Implement `Inbox.rows`."""
        self._begin()
        await self._done()
        return await self._store.inbox.rows(turn_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_what_a_function_gave_is_told_while_a_guardrail_of_it_is_asked(stage: Stage) -> None:
    """The model has no output of it yet."""
    guardrail = {"name": "words", "hook": {"name": "judge", "timeout": {"seconds": 600}}}
    tool = {"function": {"name": "f", "parameters_json": ANY_OBJECT, "output_guardrails": [guardrail]}}
    judge = {"name": "judge", "kind": event_pb2.HANDLER_KIND_TOOL_OUTPUT_GUARDRAIL}
    worker = await stage.worker(handlers=[{"name": "f"}, judge])
    await stage.turn([("f", "{}")], tools=[tool])
    call = await acked(worker)
    await worker.finish(call)
    await worker.expect("hook_batch")

    told = await explain(stage, call.call_id)

    assert told.settlement == item_pb2.SETTLEMENT_OUTPUT


async def test_a_call_of_a_turn_that_ended_says_so(stage: Stage) -> None:
    """It had no result."""
    turn = await stage.call()
    call_id = await opened(turn)
    await turn.cancel()
    await turn.ended()

    assert (await explain(stage, call_id)).settlement == item_pb2.SETTLEMENT_CANCELLED
