"""Hooks that nobody serves, that are late, raise, or answer nonsense: of every kind, and no turn hangs over any."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.api.calling import WEATHER, client_of, helper, kinds, told
from tests.api.hook_cases import CASES, FAULTS, NONSENSE, WITHOUT_SHAPE, HookCase
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_worker import ScriptedWorker
from tests.support.server import server
from tests.support.stage import eventually
from tests.support.stepped_clock import SteppedClock

from baton.v1 import error_pb2, event_pb2, handler_pb2
from baton_server.main import Baton

FAULTY = [
    pytest.param(case, fault, id=f"{case.kind}-{fault}")
    for case in CASES
    for fault in FAULTS
    if not (fault == "nonsense" and case.kind in WITHOUT_SHAPE)
]


class FaultyWorker:
    """Serves a case's function, and its hook in a faulty way; the first nonsense or crash is its only answer."""

    def __init__(self, worker: ScriptedWorker, case: HookCase, fault: str) -> None:
        self._worker, self._case, self._fault = worker, case, fault
        self.asked = 0

    async def attach(self) -> None:
        """Say Hello."""
        handlers = [{"name": "get_weather", "parameters_json": WEATHER}]
        if self._fault != "unserved":
            handlers.append({"name": "asked", "kind": self._case.number})
        await self._worker.hello(handlers=handlers)

    async def serve(self) -> None:
        """Answer what comes until the stream ends."""
        while True:
            try:
                frame = await self._worker.frame()
            except (EOFError, TimeoutError):
                return
            if frame.HasField("call"):
                crash = {"crash": {"type": "OSError", "text": "no thermometer"}}
                await self._worker.settle(frame.call, **crash if self._case.crashes else {"output": "18 °C"})
            elif frame.HasField("hook_batch"):
                await self._fail(frame.hook_batch)

    async def _fail(self, batch: handler_pb2.HookBatch) -> None:
        self.asked += len(batch.hooks)
        if self._fault == "late":
            return
        said = {"raised": {"crash": {"type": "KeyError", "text": "?"}}, "nonsense": {"answer_json": NONSENSE}}
        answers = [{"hook_id": hook.hook_id, "attempt": hook.attempt, **said[self._fault]} for hook in batch.hooks]
        await self._worker.send(hook_answers={"batch_id": batch.batch_id, "answers": answers})


@asynccontextmanager
async def attached(baton: Baton, clock: SteppedClock, case: HookCase, fault: str) -> AsyncIterator[FaultyWorker]:
    """Attach a faulty worker for a while."""
    clock.advance(20)  # workers that a former process knew are not waited for any more
    stream = ScriptedWorker(baton.address)
    worker = FaultyWorker(stream, case, fault)
    await worker.attach()
    serving = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await stream.close()


async def let_time_pass(baton: Baton, clock: SteppedClock, fault: str, worker: FaultyWorker) -> None:
    """Let the time pass in which a hook must be served, or answered, once it is waited for."""
    if fault not in ("unserved", "late"):
        return
    unserved = fault == "unserved"
    await eventually(lambda: baton.hooks._unasked if unserved else worker.asked)
    clock.advance(2.1 if unserved else 5.1)
    baton.workers.tick()


def ending(events: list[event_pb2.Event]) -> str:
    """Say how a turn ended: "completed", the reason of its failure, or "waiting"."""
    for failed in told(events, "turn_failed"):
        return error_pb2.ErrorReason.Name(failed.turn.error.reason).removeprefix("ERROR_REASON_")
    return "completed" if "turn_completed" in kinds(events) else "waiting"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "fault"), FAULTY)
async def test_a_turn_ends_as_the_kind_of_a_hook_without_an_answer_says(
    tmp_path: Path, case: HookCase, fault: str
) -> None:
    """It fails and names kind and hook, or goes on with what the contract says for that kind."""
    clock, model = SteppedClock(), ScriptedModel(case.replies)
    async with (
        server(tmp_path, model, clock=clock) as baton,
        client_of(baton) as client,
        attached(baton, clock, case, fault) as worker,
    ):
        session = await client.session(agent=helper(**case.agent), run_config=case.run_config)
        await client.submit(session.session_id, "hello")
        await let_time_pass(baton, clock, fault, worker)
        events = await client.rest(session.session_id)

        assert ending(events) == case.follows(fault)
        assert (worker.asked > 0) == (fault != "unserved")
        for failed in told(events, "turn_failed"):
            if fault not in case.defaults:
                assert failed.turn.error.metadata["kind"] == case.kind
                assert failed.turn.error.metadata["name"] == "asked"
        if case.told is not None:
            assert outputs(events) == [case.told]
        waits = (await client.get(session.session_id)).required_actions
        states = [action.state for action in waits]
        waiting = case.follows(fault) == "waiting"
        assert states == ([event_pb2.REQUIRED_ACTION_STATE_AWAITING_DECISION] if waiting else [])


def outputs(events: list[event_pb2.Event]) -> list[str]:
    """List what the model is told of calls: the last of each."""
    found = [added.item.function_call_output for added in told(events, "item_added")]
    last = {one.call_id: "".join(part.text for part in one.output) for one in found if one.call_id}
    return list(last.values())


def test_every_kind_that_a_turn_asks_has_a_case() -> None:
    """A new kind of the contract needs one; functions are no hooks, and checks are asked of lost attempts."""
    known = {name.removeprefix("HANDLER_KIND_") for name in event_pb2.HandlerKind.DESCRIPTOR.values_by_name}

    assert {case.kind for case in CASES} == known - {"UNSPECIFIED", "FUNCTION", "EFFECT_CHECK"}
