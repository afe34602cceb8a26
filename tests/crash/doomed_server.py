"""A server that can be told to kill itself at a commit: `python -m tests.crash.doomed_server`.

Settings come from the environment. It takes lines on its standard input, and writes lines:

    start            fork a server: `listening PID`, and `ended CODE` whenever it has ended (-9: SIGKILL)
    arm MOMENT N     die at the Nth commit from now: `armed`
    spare            do not die: `spared COUNT`, the commits since it was armed; nothing where it is dying

The first line is the parent's, which has imported everything and started nothing, neither threads nor gRPC: a
server that is forked from it differs from one of its own command only in the second that the imports take. The
other lines are the server's. When the input ends, so do both.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Any, cast

from baton_server.config import Settings
from baton_server.main import open_store, running
from baton_server.ports.store import Batch, Committed, Store
from baton_server.telemetry.logging import configure

AFTERMATH_S = 0.003
"""TOLD: how long the process lives on after the commit, enough for frames and messages to leave."""


class Moment(StrEnum):
    """When the process dies, as seen from one commit."""

    BEFORE = "before"
    """Nothing of it is on disk."""
    DURABLE = "durable"
    """It is on disk, and nobody was told."""
    TOLD = "told"
    """It is on disk, and who waits for it is being told."""


class DoomedStore:
    """A store that passes everything on, counts the commits, and kills the process at one of them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._moment, self._left, self.count = Moment.BEFORE, 0, 0
        self.dying = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def arm(self, moment: Moment, number: int) -> None:
        """Die at the commit of that number, from 1; 0: at none."""
        self._moment, self._left, self.count = moment, number, 0

    async def commit(self, batch: Batch) -> Committed:
        """Commit, if the process lives so long."""
        if self._moment is Moment.BEFORE and self._strikes():
            die()
        done = await self._store.commit(batch)
        if self._moment is not Moment.BEFORE and self._strikes():
            if self._moment is Moment.DURABLE:
                die()
            self.dying = True
            asyncio.get_running_loop().call_later(AFTERMATH_S, die)
        return done

    def _strikes(self) -> bool:
        self.count += 1
        self._left -= 1
        return self._left == 0


def die() -> None:
    """End this process as the kernel would, in the middle of everything."""
    os.kill(os.getpid(), signal.SIGKILL)


async def serve(settings: Settings) -> None:
    """Serve until the standard input ends."""
    doomed = DoomedStore(await open_store(settings))
    lines: asyncio.Queue[str] = asyncio.Queue(maxsize=16)
    loop = asyncio.get_running_loop()

    def read() -> None:
        line = sys.stdin.readline()
        if not line:
            loop.remove_reader(sys.stdin.fileno())
        lines.put_nowait(line)

    loop.add_reader(sys.stdin.fileno(), read)
    async with running(settings, store=cast(Store, doomed)):
        _say(f"listening {os.getpid()}")
        while words := (await lines.get()).split():
            if words[0] == "arm":
                doomed.arm(Moment(words[1]), int(words[2]))
                _say("armed")
            elif not doomed.dying:
                count = doomed.count
                doomed.arm(Moment.BEFORE, 0)
                _say(f"spared {count}")


def _say(line: str) -> None:
    with suppress(BrokenPipeError):  # the test has gone, and so will this process
        print(line, flush=True)


def fork_servers() -> None:
    """Fork a server at each line of the standard input, and wait for its end."""
    settings = Settings.model_validate({})
    configure(settings.log_level, settings.log_json)
    while sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            asyncio.run(serve(settings))
            return
        _, status = os.waitpid(pid, 0)
        _say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    fork_servers()
