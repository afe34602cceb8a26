"""The server is killed at every commit of a run that has everything: agents, approvals, hooks, a nested run."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from tests.crash.doomed_server import Moment
from tests.crash.house import House, check_journal, gist, house, said, stored
from tests.crash.raw_clients import RawWatcher, RawWorker, channel_to, going
from tests.crash.whole import (
    ANSWER,
    FUNCTIONS,
    PAUSES,
    Approver,
    check_decisions,
    check_hooks,
    check_receipts,
    clerk,
    program,
)
from tests.support.model_server import ModelServer

from baton.v1 import session_pb2

MAX_COMMITS = 120
SETTLED = session_pb2.INPUT_STATUS_SETTLED

Told = tuple[list[tuple[str, ...]], Counter[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where it is told. `receipts`: all that outputs ever kept. `twice`: the death may come in the second run too."""

    home: House
    other: grpc.aio.Channel
    worker: RawWorker
    twice: bool
    receipts: list[int] = field(default_factory=list)


async def story(stage: Stage) -> tuple[Told, bool]:
    """Run it, allow its calls from elsewhere, and run it once more, which nobody needs to allow.

    Returns its items and its hooks, and whether the server lived.
    """
    home = stage.home
    starts = len(home.process.starts)
    session_id = await home.new_session(clerk())
    watcher = RawWatcher(home.channel, session_id)
    approver = Approver(stage.other, watcher)
    async with going(watcher):
        begun = await home.submit(session_id, said("do it"))
        assert [await approver.allow(number + 1) for number in range(PAUSES)] == [SETTLED] * PAUSES
        turn = await watcher.until_ended(begun.turn_id)
        assert (turn.output, turn.last_agent) == (ANSWER, "closer"), turn
        told = gist(await home.items(session_id)), check_hooks(watcher.events, stage.worker)
        if not stage.twice:
            await home.process.spare()
        await home.check_takes_input(watcher, session_id)
        await home.process.spare()
        check_decisions(watcher.events, runs=2)
        stage.receipts.extend(check_receipts(watcher.events))
    return told, len(home.process.starts) == starts


def check_store(store: Path, stories: int) -> None:
    """See that the file holds each story whole: two runs, every call settled, with one output."""
    kept = stored(store)
    assert len(kept.calls) == 2 * len(FUNCTIONS) * stories
    assert len(kept.outputs) == len(kept.calls) + 2 * stories  # and one of each agent that is a tool
    assert set(kept.outputs) > set(kept.calls)
    assert set(kept.outputs.values()) == {1}
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert set(kept.turns.values()) == {"COMPLETED"}
    assert kept.inbox == 0
    assert all(seen == list(range(1, len(seen) + 1)) for seen in kept.sequences.values())


@pytest.mark.slow
@pytest.mark.parametrize("moment", list(Moment))
async def test_the_whole_of_a_run_survives_a_kill_at_every_commit(
    moment: Moment, tmp_path: Path, model_server: ModelServer
) -> None:
    """The items and the hooks are the same; decisions stand, for later turns too; no answer is used twice."""
    store = tmp_path / "baton.db"
    async with (
        house(store, model_server.base_url, attach=False) as home,
        channel_to(home.process.address) as other,
    ):
        worker = program(home.channel)
        stage = Stage(home=home, other=other, worker=worker, twice=moment is Moment.DURABLE)
        async with going(worker):
            await worker.attached.wait()
            expected, _ = await story(stage)
            for number in itertools.count(1):
                assert number < MAX_COMMITS
                await home.process.arm(moment, number)
                told, lived = await story(stage)
                assert told == expected, f"killed {moment} commit {number}"
                if lived:
                    break
    check_journal(worker.journal)
    check_store(store, stories=number + 1)
    assert len(stage.receipts) == len(set(stage.receipts)) == 2 * (number + 1)
    assert number > 20
