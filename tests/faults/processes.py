"""The processes of a harness, as whoever runs it sees them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
"""Where `tests` is importable from."""

START_S = 60.0
"""How long a process may take to be ready, on a machine that has much else to do."""

END_S = 15.0
"""How long a process may take to end."""


class HarnessFailed(Exception):
    """The harness itself could not go on; its text says why. It says nothing about what is tested."""


class Child:
    """A process that was forked. `word`: what it said when it was ready; `code`: how it ended, None: it lives."""

    def __init__(self, nursery: Nursery, number: int, errors: Path) -> None:
        self._nursery, self._number, self._errors = nursery, number, errors
        self.name = errors.stem
        self.ready, self.ended = asyncio.Event(), asyncio.Event()
        self.word = ""
        self.code: int | None = None

    def signal(self, number: int) -> None:
        """Send a signal, if it still lives."""
        if self.code is None:
            self._nursery.write({"signal": self._number, "number": number})

    async def kill(self) -> None:
        """End it with SIGKILL, in the middle of whatever it does."""
        self.signal(signal.SIGKILL)
        async with asyncio.timeout(END_S):
            await self.ended.wait()

    async def terminate(self) -> bool:
        """End it with SIGTERM; False: it had to be killed after a time, or did not end well."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_S):
                await self.ended.wait()
        except TimeoutError:
            await self.kill()
        return self.code == 0

    def errors(self) -> str:
        """Read the end of what it wrote as errors."""
        return self._errors.read_text(errors="replace")[-2000:] if self._errors.exists() else "it wrote nothing"


class Nursery:
    """Starts processes by forking them, which costs no second of imports. All of them end with the block.

    `children`: all that were ever started.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Nursery:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "OPENAI_"))}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.nursery"),
            env=own,
            cwd=REPOSITORY,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others in order
        )
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None and self._process.stdin is not None and self._reading is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
                await self._reading  # it ends when nobody holds the output any more
        finally:
            self._reading.cancel()
            if self._process.returncode is None:
                self._process.kill()

    async def fork(self, role: str, errors: Path, options: Mapping[str, Any]) -> Child:
        """Start a process and wait until it is ready. Raises HarnessFailed where it is not.

        `errors`: the file that it writes its errors to; its stem is the process's name.
        """
        number = len(self.children)
        child = Child(self, number, errors)
        self.children.append(child)
        self.write({"fork": number, "role": role, "options": dict(options), "errors": str(errors)})
        waits = [asyncio.ensure_future(event.wait()) for event in (child.ready, child.ended)]
        try:
            await asyncio.wait(waits, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            child.signal(signal.SIGKILL)
            raise
        finally:
            for wait in waits:
                wait.cancel()
        if not child.ready.is_set():
            child.signal(signal.SIGKILL)
            raise HarnessFailed(f"{child.name} did not start (it ended with {child.code}): {child.errors()}")
        return child

    def write(self, order: dict[str, Any]) -> None:
        """Give an order."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(order)}\n".encode())

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            facts = json.loads(line)
            child = self.children[facts["id"]]
            if "ready" in facts:
                child.word = facts["ready"]
                child.ready.set()
            else:
                child.code = facts["ended"]
                child.ended.set()
