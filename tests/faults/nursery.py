"""Forks the processes of a harness: `python -m tests.faults.nursery`, spoken to by `processes.Nursery`.

It has imported everything and started nothing, neither threads nor gRPC, so that a fork costs no second of imports, and
is a process like any other from then on. Lines of JSON come on its standard input:

    {"fork": ID, "role": ROLE, "options": {...}, "errors": FILE}      {"signal": ID, "number": 9}

and go out, its own and those of its children, which write `ready` themselves:

    {"id": ID, "ready": WORD}                                         {"id": ID, "ended": CODE}

When the input ends, it kills all of them and ends; and when it dies, they do. What they write on standard error goes
to a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from tests.faults.rogue import misbehave
from tests.faults.sabotaged import serve
from tests.faults.worker import Place, work
from tests.modelserver import running as model_server

Ready = Callable[[str], None]
Role = Callable[[Mapping[str, Any], Ready], Coroutine[Any, Any, None]]


async def _model(_options: Mapping[str, Any], ready: Ready) -> None:
    async with model_server() as server:
        ready(server.base_url)
        await asyncio.Event().wait()


ROLES: Mapping[str, Role] = {
    "model": _model,
    "server": lambda options, ready: serve(options["settings"], options["sabotage"], ready),
    "worker": lambda options, ready: work(Place(**options), ready),
    "rogue": lambda options, ready: misbehave(Place(**options), ready),
}


class Nursery:
    """The children that live. What they print by chance goes where their errors go, not among the answers."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}
        self._answers = os.dup(1)
        self._lifeline, self._held = os.pipe()  # its end tells the children that this process is gone

    def run(self) -> None:
        """Serve until the standard input ends."""
        woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        text = b""
        try:
            while True:
                ready, _, _ = select.select([sys.stdin.fileno(), woken], [], [])
                if woken in ready:
                    os.read(woken, 4096)
                self._reap()
                if sys.stdin.fileno() in ready:
                    data = os.read(sys.stdin.fileno(), 65_536)
                    if not data:
                        return
                    *lines, text = (text + data).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
        finally:
            for pid in self._pids:
                os.kill(pid, signal.SIGKILL)

    def _obey(self, order: Mapping[str, Any]) -> None:
        if "fork" in order:
            self._fork(order)
            return
        for pid, known in self._pids.items():  # none that was reaped is among them, so that no stranger is hit
            if known == order["signal"]:
                os.kill(pid, order["number"])

    def _fork(self, order: Mapping[str, Any]) -> None:
        pid = os.fork()
        if pid:
            self._pids[pid] = order["fork"]
            return
        code = 1
        try:
            self._become_child(order["errors"])
            asyncio.run(self._live(order))
            code = 0
        except BaseException:  # noqa: BLE001 - the end of this process, whatever it is
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _become_child(self, errors: str) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._held)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)

    async def _live(self, order: Mapping[str, Any]) -> None:
        asyncio.get_running_loop().add_reader(self._lifeline, lambda: os._exit(1))
        await ROLES[order["role"]](order["options"], lambda word: self._say({"id": order["fork"], "ready": word}))

    def _say(self, facts: Mapping[str, Any]) -> None:
        """Write a line at once: several processes share this output."""
        with suppress(BrokenPipeError):  # whoever listened has gone, and so will this process
            os.write(self._answers, f"{json.dumps(facts)}\n".encode())

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._say({"id": self._pids.pop(pid), "ended": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    Nursery().run()
