"""The server is killed at every commit of a cancel, while a worker holds a call and does not stop."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from tests.crash.doomed_server import Moment
from tests.crash.house import House, agent, house, said, stored
from tests.crash.raw_clients import RawWatcher, RawWorker, going, persist
from tests.support.model_server import ModelServer

from baton.v1 import event_pb2, handler_pb2, session_pb2

MODEL = "rule:calls=1,name=dawdle,words=3,checked=1"
GRACE = Duration(nanos=50_000_000)
MAX_COMMITS = 30


class Dawdler:
    """A function that does not answer before it is told to."""

    def __init__(self) -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()

    async def body(self, _call: handler_pb2.Call) -> str:
        """Wait until the test is done with the call."""
        self.entered.set()
        await self.leave.wait()
        return "at last"


async def cancelled(home: House, dawdler: Dawdler, moment: Moment, number: int) -> bool:
    """Cancel a turn with a death at one of the commits, and use its session again; returns whether it lived."""
    dawdler.entered.clear()
    dawdler.leave.clear()
    session_id = await home.new_session(agent(MODEL, "dawdle"))
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher):
        begun = await home.submit(session_id, said("begin"))
        await dawdler.entered.wait()
        starts = len(home.process.starts)
        await home.process.arm(moment, number)
        asked = session_pb2.CancelInput(turn_id=begun.turn_id, grace=GRACE)
        answer = await home.submit(session_id, session_pb2.Input(cancel=asked))
        turn = await watcher.until_ended(begun.turn_id)
        assert turn.status == event_pb2.TURN_STATUS_CANCELLED
        assert [outcome.status for outcome in answer.outcomes] == [session_pb2.INPUT_STATUS_CANCELLING]
        dawdler.leave.set()
        await home.process.spare()
        lived = len(home.process.starts) == starts
        assert not (await home.session(session_id)).required_actions
        run = await home.submit(session_id, said("and once more"))
        turn = await watcher.until_ended(run.turn_id)
        assert turn.status == event_pb2.TURN_STATUS_COMPLETED
        session = await persist(lambda: home.session(session_id))
        assert session.status == session_pb2.SESSION_STATUS_IDLE
    return lived


@pytest.mark.slow
@pytest.mark.parametrize("moment", list(Moment))
async def test_a_cancel_survives_a_kill_at_every_commit(
    moment: Moment, tmp_path: Path, model_server: ModelServer
) -> None:
    """The turn is cancelled, its open call gets the one output that a model needs, and the session goes on."""
    store, dawdler = tmp_path / "baton.db", Dawdler()
    async with house(store, model_server.base_url, attach=False) as home:
        worker = RawWorker(home.channel, dawdler.body, name="dawdle")
        async with going(worker):
            await worker.attached.wait()
            for number in itertools.count(1):
                assert number < MAX_COMMITS
                if await cancelled(home, dawdler, moment, number):
                    break
        assert number >= 3
    kept = stored(store)
    assert set(kept.outputs) == set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert kept.inbox == 0
