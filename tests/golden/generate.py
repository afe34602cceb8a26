"""Writes the store that this version leaves when it dies with turns open: `python -m tests.golden.generate`.

Run it once for each release and commit the file; never change that of an older release. Before the first release
the schema may change in place: then write it again with `--replace`.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from baton.v1 import handler_pb2, session_pb2
from baton_server.main import VERSION
from tests.crash.house import House, agent, echo, house, said
from tests.crash.raw_clients import RawWatcher, RawWorker, going
from tests.crash.whole import allowing, clerk, program
from tests.modelserver import running

FOLDER = Path(__file__).parent
MAX_BYTES = 192 * 1024
MODEL = "rule:calls=4,parallel=2,words=6,checked=1"
"""Two parallel calls in each of two rounds, then a text."""

CALLS_ANSWERED = 3
"""The worker answers so many calls of a turn, and dies with the next one."""


class DyingWorker:
    """A function that answers so many calls after `reset` and holds the next one for ever."""

    def __init__(self) -> None:
        self.left = 0
        self.held = asyncio.Event()

    async def body(self, call: handler_pb2.Call) -> str:
        """Answer, or do not."""
        if self.left == 0:
            self.held.set()
            await asyncio.Event().wait()
        self.left -= 1
        return await echo(call)


async def leave_open(home: House, dying: DyingWorker) -> None:
    """Put into the store a turn that ended, one with a leased call, one that waits, and what comes after them."""
    worked = await home.new_session(agent(MODEL, "echo"))
    watcher = RawWatcher(home.channel, worked)
    async with going(watcher):
        dying.left = 4 + CALLS_ANSWERED
        done = await home.submit(worked, said("This turn ended."))
        await watcher.until_ended(done.turn_id)
        await home.submit(worked, said("This turn is in its second round, and a worker holds one of its calls."))
        await dying.held.wait()
        await home.submit(worked, said("This message was steered into it."))
        await home.submit(worked, said("This turn is queued behind it."), if_busy=session_pb2.IF_BUSY_QUEUE)
    waiting = await home.new_session(agent(MODEL.replace("rule:", "rule:name=later,"), "later"))
    watcher = RawWatcher(home.channel, waiting)
    async with going(watcher):
        await home.submit(waiting, said("This turn waits for a function that nobody serves."))
        await watcher.until(lambda: any(event.HasField("session_requires_action") for event in watcher.events))


class Lookout:
    """The functions of the whole run; after `hold` a call of the aide's is held for ever."""

    def __init__(self) -> None:
        self.hold = False
        self.held = asyncio.Event()

    async def body(self, call: handler_pb2.Call) -> str:
        """Answer, or do not."""
        if self.hold and call.name == "look":
            self.held.set()
            await asyncio.Event().wait()
        return await echo(call)


async def leave_whole_runs(home: House) -> None:
    """Put into the store a run with all that runs have, one in the middle of its nested run, one that is undecided."""
    lookout = Lookout()
    worker = program(home.channel, lookout.body)
    async with going(worker):
        await worker.attached.wait()
        done = await home.new_session(clerk())
        watcher = RawWatcher(home.channel, done)
        async with going(watcher), allowing(home.channel, watcher):
            begun = await home.submit(done, said("This turn handed over and ended."))
            await watcher.until_ended(begun.turn_id)
        lookout.hold = True
        nested = await home.new_session(clerk())
        watcher = RawWatcher(home.channel, nested)
        async with going(watcher), allowing(home.channel, watcher):
            await home.submit(nested, said("A worker holds a call of this turn's nested run."))
            await lookout.held.wait()
        undecided = await home.new_session(clerk())
        watcher = RawWatcher(home.channel, undecided)
        async with going(watcher):
            await home.submit(undecided, said("This turn waits until somebody allows its call."))
            await watcher.until(lambda: any(event.HasField("approval_requested") for event in watcher.events))


async def generate(store: Path) -> str:
    """Make such a store; returns it as SQL."""
    dying = DyingWorker()
    async with running() as model, house(store, model.base_url, attach=False) as home:
        worker = RawWorker(home.channel, dying.body)
        async with going(worker):
            await worker.attached.wait()
            await leave_open(home, dying)
            await leave_whole_runs(home)
    with closing(sqlite3.connect(store)) as db:
        return "\n".join(db.iterdump()) + "\n"


def main() -> None:
    """Write the file of this version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", action="store_true", help="write it again, though it is there")
    parser.add_argument("--release", default=VERSION, help="that it is written for (default: %(default)s)")
    options = parser.parse_args()
    target = FOLDER / f"{options.release}.sql"
    if target.exists() and not options.replace:
        parser.error(f"{target} is there already; a released one stays as it is")
    with tempfile.TemporaryDirectory() as folder:
        text = asyncio.run(generate(Path(folder) / "baton.db"))
    assert len(text) < MAX_BYTES, f"{len(text)} bytes are more than {MAX_BYTES}"
    target.write_text(text)
    print(f"{target}: {len(text)} bytes")


if __name__ == "__main__":
    main()
