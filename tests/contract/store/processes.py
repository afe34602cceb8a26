"""A process that opens a SQLite store, to be held against, and killed in the middle of its work.

Run as `python processes.py FILE`: says `open`, then commits from many tasks at once, and prints the name of each
batch once it is acknowledged. With `--hold` it only holds the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.contract.store.builders import SESSION, event, new_session, said, stamp

from baton_server.ports.store import Batch, Conflict, Store, TimerRow
from baton_server.store.sqlite import open_sqlite

ROOT = Path(__file__).parents[3]
WRITERS = 16
EVENTS = 3


@dataclass(slots=True)
class Running:
    """The process, and what it has said so far."""

    process: subprocess.Popen[str]

    def line(self) -> str:
        """Wait for the next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> list[str]:
        """End it as a power cut would; returns the lines that were still on their way."""
        self.process.kill()
        out, _ = self.process.communicate()
        return [line for line in out.split("\n")[:-1] if line]  # what follows the last newline is cut off


def start(path: Path, *options: str) -> Running:
    """Start the process and wait until it has the store open."""
    command = [sys.executable, "-m", "tests.contract.store.processes", str(path), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    running = Running(process)
    said_first = running.line()
    assert said_first == "open", said_first
    return running


def batch(name: str) -> Batch:
    """A batch whose every part bears its name, so that a half of one is seen."""
    events = (*(event("", name.encode()) for _ in range(EVENTS - 1)), said(f"item_{name}"))
    return Batch(
        session_id=SESSION,
        events=events,
        documents={f"document_{name}": name.encode()},
        timers_set=(TimerRow(turn_id="turn_1", name=name, at=1.0),),
    )


async def write(store: Store, writer: int, life: str) -> None:
    """Commit until killed, and acknowledge each batch on the standard output."""
    n = 0
    while True:
        name = f"{life}-{writer}-{n}"
        await store.commit(batch(name))
        print(name, flush=True)
        n += 1


async def main(path: str, *options: str) -> None:
    """Open the store and do as the options say."""
    store = await open_sqlite(path, stamp=stamp, holder={"address": "127.0.0.1:7233"})
    print("open", flush=True)
    if "--hold" in options:
        await asyncio.Event().wait()
    with contextlib.suppress(Conflict):  # an earlier life made it
        await store.commit(new_session())
    life = options[0]
    async with asyncio.TaskGroup() as writers:
        for writer in range(WRITERS):
            writers.create_task(write(store, writer, life))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
