"""The server is killed at every commit of a run, one after another, and nothing is lost, doubled or reordered."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import House, agent, check_journal, gist, house, said, stored
from tests.crash.raw_clients import RawWatcher, going
from tests.support.model_server import ModelServer

from baton import Worker, close_connections, function_tool

MODEL = "rule:calls=6,parallel=2,words=6,checked=1"
"""Two parallel calls in each of three rounds, then a text; an unanswered call is refused as the API does."""

ITEMS, CALLS = 14, 6
MAX_COMMITS = 60


async def story(home: House) -> tuple[list[tuple[str, ...]], int]:
    """Run a turn to its end, see that the watcher saw it right, and send one more message.

    Returns what the turn's items were, and how many commits it took, 0 if the server died.
    """
    starts = len(home.process.starts)
    session_id = await home.new_session(agent(MODEL, "echo"))
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher):
        answer = await home.submit(session_id, said("do it"))
        turn = await watcher.until_ended(answer.turn_id)
        assert turn.output == "word word word word word word", turn
        told = gist(await home.items(session_id))
        commits = await home.process.spare()
        if len(home.process.starts) > starts:
            commits = 0
        await home.check_takes_input(watcher, session_id)
    return told, commits


async def killed_at_each_commit(home: House, moment: Moment) -> int:
    """Tell the story undisturbed, then with a death at its first commit, its second, and so on; returns how many."""
    expected, _ = await story(home)
    assert len(expected) == ITEMS
    for number in itertools.count(1):
        assert number < MAX_COMMITS
        await home.process.arm(moment, number)
        told, survived = await story(home)
        assert told == expected, f"killed {moment} commit {number}"
        if survived:
            return number - 1
    raise AssertionError("unreachable")


def check_store(store: Path, stories: int) -> None:
    """See that the file holds each story whole: two turns, every call settled, with one output."""
    kept = stored(store)
    assert len(kept.calls) == 2 * CALLS * stories
    assert set(kept.outputs) == set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert set(kept.turns.values()) == {"COMPLETED"}
    assert kept.inbox == 0
    assert all(seen == list(range(1, len(seen) + 1)) for seen in kept.sequences.values())


@pytest.mark.slow
@pytest.mark.parametrize("moment", list(Moment))
async def test_a_turn_survives_a_kill_at_every_commit(
    moment: Moment, tmp_path: Path, model_server: ModelServer
) -> None:
    """However often the server dies, the items are the same, and each event comes once, in order."""
    store = tmp_path / "baton.db"
    async with house(store, model_server.base_url) as home:
        kills = await killed_at_each_commit(home, moment)
        check_journal(home.worker.journal)
        check_store(store, stories=kills + 2)
        assert len(home.process.starts) == kills + 1
        assert kills >= 10


@pytest.mark.slow
async def test_the_client_library_s_worker_survives_them_too(tmp_path: Path, model_server: ModelServer) -> None:
    """A function that the Python library hosts is executed once for each call."""
    store, executed = tmp_path / "baton.db", Counter[str]()

    @function_tool
    async def echo(n: int, text: str) -> str:
        executed[f"{n} {text}"] += 1
        return f"{n} {text}"

    async with house(store, model_server.base_url, attach=False) as home:
        worker = Worker(home.process.address)
        worker.add(echo)
        async with worker:
            kills = await killed_at_each_commit(home, Moment.DURABLE)
        await close_connections()
    check_store(store, stories=kills + 2)
    assert executed.total() == 2 * CALLS * (kills + 2)
