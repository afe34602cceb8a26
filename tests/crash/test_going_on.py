"""The server is killed at every commit of a turn that runs out of rounds, and of the one that goes on from it.

The history is kept by the application, which is asked for it and told what is new.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import House, agent, check_journal, echo, gist, house, stored
from tests.crash.raw_clients import RawWatcher, RawWorker, going, persist
from tests.crash.whole import check_hooks
from tests.support.model_server import ModelServer

from baton.v1 import agent_pb2, error_pb2, event_pb2, run_config_pb2, runner_pb2, session_pb2

MODEL = "rule:calls=2,words=3,checked=1"
MAX_COMMITS = 60

Told = tuple[list[tuple[str, ...]], list[str]]


class Archive:
    """A history of the application's own. What it is told again is told with the same hook_id."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._known: set[str] = set()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Give the items, or take some."""
        if asked["operation"] == "get":
            return {"items": self.items}
        if asked["hook_id"] not in self._known:
            self._known.add(asked["hook_id"])
            self.items.extend(asked["items"])
        return {}

    def take(self) -> list[str]:
        """Say in short what it has, and forget it."""
        items, self.items = self.items, []
        return [item.get("type", "message") + " " + str(item.get("role", "")) for item in items]


def run_of(session_id: str, request_id: str, text: str, max_turns: int) -> runner_pb2.RunRequest:
    """Make a run with the archive's history."""
    history = run_config_pb2.StoredHistory(store=agent_pb2.HookRef(name="archive"))
    config = run_config_pb2.RunConfig(history=run_config_pb2.History(stored=history), max_turns=max_turns)
    return runner_pb2.RunRequest(request_id=request_id, session_id=session_id, text=text, run_config=config)


async def story(home: House, worker: RawWorker, archive: Archive) -> Told:
    """Run out of rounds after a call, go on, and say one more thing; returns the items, and what the archive has."""
    session_id = await home.new_session(agent(MODEL, "echo"))
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher):
        first = run_of(session_id, home.new_id(), "begin", max_turns=1)
        broken = (await persist(lambda: home.runner.Run(first, wait_for_ready=True))).turn
        broken = await watcher.until_ended(broken.turn_id)
        assert broken.error.reason == error_pb2.ERROR_REASON_MAX_TURNS_EXCEEDED
        on = session_pb2.ContinueInput(turn_id=broken.turn_id, max_turns=5)
        answer = await home.submit(session_id, session_pb2.Input(continues=on))
        turn = await watcher.until_ended(answer.turn_id)
        assert (turn.status, turn.output) == (event_pb2.TURN_STATUS_COMPLETED, "word word word"), turn
        last = run_of(session_id, home.new_id(), "and once more", max_turns=5)
        said = await persist(lambda: home.runner.Run(last, wait_for_ready=True))
        assert (await watcher.until_ended(said.turn.turn_id)).output == "word word word"
        session = await home.session(session_id)
        assert session.status == session_pb2.SESSION_STATUS_IDLE
        await watcher.until(lambda: watcher.last == session.last_sequence)
        check_hooks(watcher.events, worker)
        return gist(await home.items(session_id)), archive.take()


@pytest.mark.slow
async def test_a_turn_that_goes_on_and_its_archive_survive_a_kill_at_every_commit(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """The items are the same, and the archive is told each of them once, in order."""
    store, archive = tmp_path / "baton.db", Archive()
    async with house(store, model_server.base_url, attach=False) as home:
        worker = RawWorker(home.channel, echo, hooks={"SESSION_STORE:archive": archive.answer})
        async with going(worker):
            await worker.attached.wait()
            expected = await story(home, worker, archive)
            for number in itertools.count(1):
                assert number < MAX_COMMITS
                starts = len(home.process.starts)
                await home.process.arm(Moment.DURABLE, number)
                assert await story(home, worker, archive) == expected, f"killed at commit {number}"
                await home.process.spare()
                if len(home.process.starts) == starts:
                    break
            assert number > 12
    check_journal(worker.journal)
    kept = stored(store)
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert kept.inbox == 0
