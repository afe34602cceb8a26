"""A run that has everything is cancelled at each of its commits, by one who does not wait for what it asks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.crash.doomed_server import Moment
from tests.crash.house import House, check_journal, house, said, stored
from tests.crash.raw_clients import RawWatcher, RawWorker, channel_to, going
from tests.crash.whole import ANSWER, ENDS, allowing, check_hooks, clerk, program
from tests.support.model_server import ModelServer
from tests.support.server import server

from baton.v1 import event_pb2, session_pb2, session_pb2_grpc
from baton_server.ports.store import Batch, Committed, Store

NOW, AFTER_ROUND = event_pb2.CANCEL_MODE_NOW, event_pb2.CANCEL_MODE_AFTER_ROUND
GRACE = Duration(nanos=30_000_000)
MAX_COMMITS = 60
PATIENCE_S = 10.0


class CountedStore:
    """A store that does something at a commit, once it is durable and before anybody is told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left = 0
        self._strike: Callable[[], None] = lambda: None
        self.struck = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def arm(self, number: int, strike: Callable[[], None]) -> None:
        """Do it at the commit of that number from now, from 1; 0: at none."""
        self._left, self._strike = number, strike
        self.struck.clear()

    async def commit(self, batch: Batch) -> Committed:
        """Commit, and count."""
        done = await self._store.commit(batch)
        self._left -= 1
        if self._left == 0:
            self._strike()
            self.struck.set()
        return done


class Stage:
    """A server in this process, the program that its runs need, and a channel for whoever decides and cancels."""

    def __init__(self, store: CountedStore, channel: grpc.aio.Channel, worker: RawWorker) -> None:
        self.store, self.channel, self.worker = store, channel, worker
        self.sessions = session_pb2_grpc.SessionServiceStub(channel)
        self._numbers = itertools.count(1)

    async def submit(self, session_id: str, given: session_pb2.Input) -> session_pb2.SubmitInputResponse:
        """Put an input into a session."""
        request_id = f"request-{next(self._numbers)}"
        request = session_pb2.SubmitInputRequest(request_id=request_id, session_id=session_id, inputs=[given])
        return await self.sessions.SubmitInput(request)

    async def check_rests(self, session_id: str) -> None:
        """See that nothing of a session is open, and that the worker knows it of all that it has."""
        session = (await self.sessions.GetSession(session_pb2.GetSessionRequest(session_id=session_id))).session
        assert session.status == session_pb2.SESSION_STATUS_IDLE
        assert not session.required_actions
        async with asyncio.timeout(PATIENCE_S), self.worker.told:
            await self.worker.told.wait_for(lambda: self.worker.held <= self.worker.cancelled)
        self.worker.drop()


@asynccontextmanager
async def staged(folder: Path, model_url: str) -> AsyncIterator[Stage]:
    """Set a stage."""
    stores: list[CountedStore] = []

    def around(store: Store) -> Any:
        stores.append(CountedStore(store))
        return stores[-1]

    async with (
        server(folder, around_store=around, openai_api_key="test", openai_base_url=model_url) as baton,
        channel_to(baton.address) as channel,
    ):
        worker = program(channel)
        async with going(worker):
            await worker.attached.wait()
            yield Stage(stores[0], channel, worker)


async def completes(stage: Stage, watcher: RawWatcher, given: session_pb2.Input) -> None:
    """Put an input into the session, and see that its turn completes: its history is one that a model takes."""
    async with allowing(stage.channel, watcher):
        begun = await stage.submit(watcher.session_id, given)
        turn = await watcher.until_ended(begun.turn_id)
    assert turn.status == event_pb2.TURN_STATUS_COMPLETED, turn
    assert turn.output == ANSWER


def check_answered(events: list[event_pb2.Event]) -> None:
    """See that each call and each handoff was answered once, before the end of its turn."""
    owed: dict[str, list[str]] = {}
    for event in events:
        item = event.item_added.item
        match item.WhichOneof("item"):
            case "function_call" | "handoff_call" as arm:
                call = getattr(item, arm)
                owed.setdefault(event.turn_id, []).append(call.call_id or call.model_call_id)  # one that was carried on
            case "function_call_output" | "handoff_output" as arm:
                owed[event.turn_id].remove(getattr(item, arm).call_id)
        if event.WhichOneof("event") in ENDS:
            assert not owed.get(event.turn_id), f"{event.turn_id} ended and owes outputs of {owed}"


async def cancelled(stage: Stage, mode: event_pb2.CancelMode.ValueType, number: int) -> bool:
    """Cancel a run at one of its commits, where the worker and the approver fall silent; returns whether it was."""
    worker, store = stage.worker, stage.store
    request = session_pb2.CreateSessionRequest(request_id=f"session-{mode}-{number}", agent=clerk())
    session_id = (await stage.sessions.CreateSession(request)).session.session_id
    watcher = RawWatcher(stage.channel, session_id)
    async with going(watcher), allowing(stage.channel, watcher) as approving:

        def strike() -> None:
            approving.cancel()
            worker.mute = mode == NOW

        store.arm(number, strike)
        begun = await stage.submit(session_id, said("do it"))
        ending = asyncio.ensure_future(watcher.until_ended(begun.turn_id))
        striking = asyncio.ensure_future(store.struck.wait())
        await asyncio.wait({ending, striking}, return_when=asyncio.FIRST_COMPLETED)
        struck = store.struck.is_set()
        if struck:
            asked = session_pb2.CancelInput(turn_id=begun.turn_id, mode=mode, grace=GRACE if mode == NOW else None)
            await stage.submit(session_id, session_pb2.Input(cancel=asked))
        turn = await ending
        store.arm(0, strike)
        striking.cancel()
        await stage.check_rests(session_id)
        worker.mute = False
        if turn.status == event_pb2.TURN_STATUS_CANCELLED and mode == AFTER_ROUND:
            go_on = session_pb2.ContinueInput(turn_id=turn.turn_id)
            await completes(stage, watcher, session_pb2.Input(continues=go_on))
        await completes(stage, watcher, said("and once more"))
        await stage.check_rests(session_id)
        check_answered(watcher.events)
        check_hooks(watcher.events, worker)
    return struck


@pytest.mark.slow
@pytest.mark.parametrize("mode", [NOW, AFTER_ROUND], ids=["now", "after its round"])
async def test_a_cancel_at_any_commit_leaves_nothing_open(
    mode: event_pb2.CancelMode.ValueType, tmp_path: Path, model_server: ModelServer
) -> None:
    """NOW waits for nobody, AFTER_ROUND for workers alone; every call is answered, and the session goes on."""
    async with staged(tmp_path, model_server.base_url) as stage:
        for number in itertools.count(1):
            assert number < MAX_COMMITS
            if not await cancelled(stage, mode, number):
                break
        assert number > 20


async def cancelled_after_death(home: House, worker: RawWorker, other: grpc.aio.Channel, number: int) -> bool:
    """Kill the server at a commit of a run, cancel the run at once when it is back; returns whether it had died."""
    session_id = await home.new_session(clerk())
    watcher = RawWatcher(home.channel, session_id)
    starts = len(home.process.starts)
    await home.process.arm(Moment.DURABLE, number)
    async with going(watcher):
        async with allowing(other, watcher):
            begun = await home.submit(session_id, said("do it"))
            ending = asyncio.ensure_future(watcher.until_ended(begun.turn_id))
            dying = asyncio.ensure_future(home.process.started(starts + 1))
            await asyncio.wait({ending, dying}, return_when=asyncio.FIRST_COMPLETED)
        await home.process.spare()
        died = len(home.process.starts) > starts
        dying.cancel()
        asked = session_pb2.CancelInput(turn_id=begun.turn_id, mode=NOW, grace=GRACE)
        await home.submit(session_id, session_pb2.Input(cancel=asked))
        await ending
        async with allowing(other, watcher):
            await home.check_takes_input(watcher, session_id)
        check_answered(watcher.events)
        check_hooks(watcher.events, worker)
    return died


@pytest.mark.slow
async def test_a_cancel_after_a_death_at_any_commit_leaves_nothing_open(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """What the new server took up again ends with the turn; the model takes the history, and each call ran once."""
    store = tmp_path / "baton.db"
    async with (
        house(store, model_server.base_url, attach=False) as home,
        channel_to(home.process.address) as other,
    ):
        worker = program(home.channel)
        async with going(worker):
            await worker.attached.wait()
            for number in itertools.count(1):
                assert number < MAX_COMMITS
                if not await cancelled_after_death(home, worker, other, number):
                    break
        assert number > 20
    check_journal(worker.journal)
    kept = stored(store)
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert set(kept.outputs) >= set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert kept.inbox == 0
