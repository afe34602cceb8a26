"""More stories that are told with a death at each commit: queues, steering, lost workers, large results."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import House, agent, check_journal, echo, gist, house, said, stored
from tests.crash.raw_clients import Fact, RawWatcher, RawWorker, going
from tests.support.model_server import ModelServer

from baton.v1 import handler_pb2, session_pb2

pytestmark = pytest.mark.slow

MODEL = "rule:calls=2,parallel=2,words=3,checked=1"
ANSWER = "word word word"
MAX_COMMITS = 60
LARGE = "a large result, " * 25_000
"""400,000 bytes: above what an event carries inline."""

Story = Callable[[], Awaitable[list[tuple[str, ...]]]]


async def told_with_deaths(home: House, moment: Moment, story: Story) -> int:
    """Tell a story undisturbed, then with a death at its first commit, its second, …; returns how many."""
    expected = await story()
    for number in itertools.count(1):
        assert number < MAX_COMMITS
        starts = len(home.process.starts)
        await home.process.arm(moment, number)
        assert await story() == expected, f"killed {moment} commit {number}"
        if await home.process.spare() and len(home.process.starts) == starts:
            return number - 1
    raise AssertionError("unreachable")


def check_store(store: Path) -> None:
    """See that every turn completed, and that each call was settled once."""
    kept = stored(store)
    assert set(kept.turns.values()) == {"COMPLETED"}
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert set(kept.outputs) == set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert kept.inbox == 0


class Gate:
    """A function that holds its calls while the gate is closed."""

    def __init__(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    async def body(self, call: handler_pb2.Call) -> str:
        """Answer like echo, once the gate is open."""
        self.entered.set()
        await self.opened.wait()
        return await echo(call)


async def test_steered_and_queued_messages_keep_their_places(tmp_path: Path, model_server: ModelServer) -> None:
    """What was put in while a turn ran is taken in the order that it was promised, whatever dies in between."""
    store, gate = tmp_path / "baton.db", Gate()
    async with house(store, model_server.base_url, attach=False) as home:
        worker = RawWorker(home.channel, gate.body)

        async def story() -> list[tuple[str, ...]]:
            gate.entered.clear()
            gate.opened.clear()
            session_id = await home.new_session(agent(MODEL, "echo"))
            watcher = RawWatcher(home.channel, session_id)
            async with going(watcher):
                await home.submit(session_id, said("begin"))
                await gate.entered.wait()
                steered = await home.submit(session_id, said("steered"))
                queued = await home.submit(session_id, said("queued"), if_busy=session_pb2.IF_BUSY_QUEUE)
                gate.opened.set()
                for answer in (steered, queued):
                    assert (await watcher.until_ended(answer.turn_id)).output == ANSWER
                told = gist(await home.items(session_id))
                await home.check_takes_input(watcher, session_id)
            return told

        async with going(worker):
            await worker.attached.wait()
            kills = await told_with_deaths(home, Moment.DURABLE, story)
        assert kills >= 12
        check_journal(worker.journal)
    check_store(store)


async def test_calls_of_a_lost_worker_go_to_another_one(tmp_path: Path, model_server: ModelServer) -> None:
    """A worker that dies with its calls is waited for, then another one gets them, even over deaths of the server."""
    store, settings = tmp_path / "baton.db", {"registration_grace_s": "0.1", "log_level": "ERROR"}
    async with house(store, model_server.base_url, attach=False, **settings) as home:

        async def story() -> list[tuple[str, ...]]:
            dead = Gate()
            session_id = await home.new_session(agent(MODEL, "echo"))
            watcher, dying, heir = (
                RawWatcher(home.channel, session_id), RawWorker(home.channel, dead.body), RawWorker(home.channel, echo)
            )  # fmt: skip
            async with going(watcher):
                async with going(dying):
                    await dying.attached.wait()
                    answer = await home.submit(session_id, said("begin"))
                    await dead.entered.wait()
                async with going(heir):
                    assert (await watcher.until_ended(answer.turn_id)).output == ANSWER
                    assert len({entry.call_id for entry in heir.journal if entry.fact is Fact.DURABLE}) == 2
                    told = gist(await home.items(session_id))
                    await home.check_takes_input(watcher, session_id)
            return told

        kills = await told_with_deaths(home, Moment.BEFORE, story)
        assert kills >= 6
    check_store(store)


async def test_a_large_result_reaches_the_model_after_a_death(tmp_path: Path, model_server: ModelServer) -> None:
    """A result that is kept beside the log is in the request that the next server makes, whole."""
    calls = [{"name": "echo", "arguments": {"n": 1, "text": "x"}}]
    model = model_server.load(
        "large", {"calls": calls}, {"text": "read", "delay_ms": 60_000}, {"text": "read it"}, {"text": "word"}
    )

    async def large(_call: handler_pb2.Call) -> str:
        return LARGE

    async with house(tmp_path / "baton.db", model_server.base_url, attach=False) as home:
        worker = RawWorker(home.channel, large)
        async with going(worker):
            await worker.attached.wait()
            session_id = await home.new_session(agent(model, "echo"))
            watcher = RawWatcher(home.channel, session_id)
            async with going(watcher):
                answer = await home.submit(session_id, said("begin"))
                assert await model_server.wait_for("large", lambda requests: len(requests) == 2)
                home.process.kill()
                assert (await watcher.until_ended(answer.turn_id)).output == "read it"
                await home.check_takes_input(watcher, session_id)
    first, second = (request.body["input"] for request in model_server.requests("large")[1:3])
    assert [item["output"] for item in second if item.get("type") == "function_call_output"] == [LARGE]
    assert second == first
