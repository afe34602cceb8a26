"""The house of processes lives through its faults, and the harness sees each promise that is broken on purpose."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.faults.conductor import DECK
from tests.faults.harness import Report, Run
from tests.faults.house import Plan
from tests.faults.processes import REPOSITORY, Nursery
from tests.faults.sabotaged import MATCHING

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

PATIENCE_S = 90.0
NONE_OF = (
    "calls_lost",
    "settled_twice",
    "executed_again_although_ask",
    "executed_without_leave",
    "decided_twice",
    "order_broken",
    "turns_stuck",
    "turns_failed",
    "processes_died",
)
KINDS = {*DECK, "duplicate_result", "late_result"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nursery() -> AsyncIterator[Nursery]:
    """What forks the processes of all runs here, so that their imports are paid for once."""
    async with Nursery() as made:
        yield made


async def run(nursery: Nursery, folder: Path, **plan: Any) -> Report:
    """Run the harness in a folder."""
    return await Run(Plan(**plan), nursery, folder, print).run()


def check(made: Mapping[str, Any]) -> None:
    """See that nothing was broken, and that enough happened for that to mean something."""
    assert {name: made[name] for name in NONE_OF} == dict.fromkeys(NONE_OF, 0)
    assert made["calls_made"] == made["calls_settled"] > 0
    assert made["turns_started"] == made["turns_finished"] > 0
    assert made["redelivered"] > 0
    assert made["late_discarded"] > 0
    assert made["injected"].keys() == KINDS
    assert all(made["injected"].values()), made["injected"]


async def test_a_storm_of_faults_breaks_no_promise(nursery: Nursery, tmp_path: Path) -> None:
    """Ten sessions over four workers, every kind of fault: each call is settled once, each turn ends."""
    report = await run(nursery, tmp_path, seconds=5.0, seed=1, sessions=10)
    check(report.as_json())
    assert report.ok


@pytest.mark.parametrize(("sabotage", "matching"), MATCHING.items())
async def test_a_sabotage_is_seen(nursery: Nursery, tmp_path: Path, sabotage: str, matching: str) -> None:
    """A server that breaks one promise on purpose, and the count that shows it."""
    report = await run(nursery, tmp_path, seconds=3.0, seed=2, sessions=8, workers=2, sabotage=sabotage)
    assert report.as_json()[matching] > 0
    assert not report.ok


def contents(folder: Path) -> list[str]:
    """List what is in a folder."""
    return [path.name for path in folder.iterdir()]


async def test_the_command_prints_one_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """JSON on its output, progress on its errors; its folder is gone."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults", "--seconds", "5", "--seed", "3", "--sessions", "10"),
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        printed, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    (line,) = printed.decode().splitlines()
    made = json.loads(line)
    check(made)
    assert (made["seed"], made["seconds"]) == (3, 5.0)
    assert "faults: " in told.decode()
    assert contents(tmp_path) == []


async def test_an_interrupt_ends_all_processes(nursery: Nursery, tmp_path: Path) -> None:
    """Ctrl-C, which cancels the run in the middle of its faults: every process of it ends."""
    known = len(nursery.children)
    made = Run(Plan(seconds=600.0, sessions=6, workers=2), nursery, tmp_path, print)
    running = asyncio.ensure_future(made.run())
    async with asyncio.timeout(PATIENCE_S):
        await made.progress.under_way.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        born = nursery.children[known:]
        await asyncio.gather(*(child.ended.wait() for child in born))
    assert len(born) >= 5
