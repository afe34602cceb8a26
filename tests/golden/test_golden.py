"""What each released version wrote, with turns open, replays and goes on."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from baton.v1 import event_pb2
from tests.crash.house import House, echo, house, stored
from tests.crash.raw_clients import RawWatcher, RawWorker, going
from tests.crash.whole import allowing, program
from tests.golden.generate import FOLDER, MAX_BYTES
from tests.support.model_server import ModelServer

GOLDEN = sorted(FOLDER.glob("*.sql"))
NEWEST = GOLDEN[-1]
TERMINAL = {"COMPLETED", "FAILED", "CANCELLED"}
GRACE_S = "0.3"
"""How long the new server waits for the worker that died with the old one."""


def load(golden: Path, store: Path) -> None:
    """Make a store file of its text."""
    with closing(sqlite3.connect(store)) as db:
        db.executescript(golden.read_text())


def log_of(store: Path) -> list[tuple[str, int, bytes]]:
    """Read all events, as they are stored."""
    with closing(sqlite3.connect(store)) as db:
        return list(db.execute("SELECT session_id, sequence, data FROM events ORDER BY session_id, sequence"))


@pytest.mark.slow
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
async def test_a_store_with_open_turns_goes_on(golden: Path, tmp_path: Path, model_server: ModelServer) -> None:
    """Every turn completes, the old log stays as it was, byte for byte, and the sessions take new input."""
    store = tmp_path / "baton.db"
    load(golden, store)
    log, before = log_of(store), stored(store)
    unfinished = {turn_id for turn_id, status in before.turns.items() if status not in TERMINAL}
    assert len(unfinished) >= 3
    assert {"leased", "queued", "settled"} <= {state for state, _ in before.calls.values()}
    assert before.inbox >= 2
    async with house(store, model_server.base_url, attach=False, registration_grace_s=GRACE_S) as home:
        workers = [*(RawWorker(home.channel, echo, name) for name in ("echo", "later")), program(home.channel)]
        async with going(*workers):
            for session_id, sequences in before.sequences.items():
                await go_on(home, session_id, sequences[-1], unfinished)
    after = stored(store)
    assert set(after.turns.values()) == {"COMPLETED"}
    assert set(after.outputs) >= set(after.calls)  # and those of agents that are tools
    assert set(after.outputs.values()) == {1}
    assert after.inbox == 0
    kept = {(session_id, sequence): data for session_id, sequence, data in log_of(store)}
    assert all(kept[session_id, sequence] == data for session_id, sequence, data in log)


async def go_on(home: House, session_id: str, last: int, unfinished: set[str]) -> None:
    """Follow a session, whose log ended at `last`, until its open turns have ended, and send one more message."""
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher), allowing(home.channel, watcher):
        await watcher.until(lambda: watcher.last >= last and watcher.events[-1].HasField("session_idle"))
        for turn_id in unfinished & {event.turn_id for event in watcher.events}:
            turn = await watcher.until_ended(turn_id)
            assert set(turn.output.split()) == {"word"}, turn
        await home.check_takes_input(watcher, session_id)


def test_the_newest_file_has_all_that_runs_have(tmp_path: Path) -> None:
    """A handoff, a nested run that is open, a call that is undecided, a grant and hooks: who would read them else?"""
    store = tmp_path / "baton.db"
    load(NEWEST, store)
    with closing(sqlite3.connect(store)) as db:
        calls = set(db.execute("SELECT name, state FROM calls"))
        granted = db.execute("SELECT count(*) FROM grants").fetchone()[0]
    arms = Counter(event_pb2.Event.FromString(data).WhichOneof("event") for _, _, data in log_of(store))
    assert {("pay", "awaiting_decision"), ("look", "leased")} <= calls
    assert granted
    assert arms["nested_run_created"] > arms["nested_run_closed"] > 0
    assert arms["hook_settled"] and arms["approval_decided"] and arms["call_returned"]


def test_each_file_is_small() -> None:
    """A file that everyone carries for ever has its bound, and there is one."""
    assert GOLDEN
    assert all(path.stat().st_size < MAX_BYTES for path in GOLDEN)
