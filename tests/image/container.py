"""Runs the commands of the image that was built, with the image's environment and nothing of this machine's."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.image.building import Building
from tests.image.dockerfile import Stage, health_check

DEADLINE_S = 60
"""How long a line or an end may take to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the last stage says of a container, its paths below the root; `address` in place of the image's own."""

    building: Building
    stage: Stage
    address: str

    @property
    def environment(self) -> dict[str, str]:
        """Say what a process in the container sees: ENV alone, behind what the base image has."""
        seen = {"PATH": f"{self.building.python.parent}:/usr/bin:/bin", "HOME": str(self.folder)}
        for one in self.stage.all("ENV"):
            mapped = {name: self.building.mapped(value) for name, value in one.pairs.items()}
            seen |= {name: value.replace("$PATH", seen["PATH"]) for name, value in mapped.items()}
        assert re.fullmatch(r"0\.0\.0\.0:\d+", seen["BATON_ADDRESS"]), seen["BATON_ADDRESS"]
        return {**seen, "BATON_ADDRESS": self.address}

    @property
    def folder(self) -> Path:
        """Where the container's process works."""
        return Path(self.building.mapped(self.stage.one("WORKDIR").value))

    @property
    def health(self) -> list[str]:
        """The command of HEALTHCHECK."""
        return health_check(self.stage.one("HEALTHCHECK"))[1]

    @asynccontextmanager
    async def started(self, command: Sequence[str] = (), **given: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start ENTRYPOINT with CMD, or with a command in its place; it is gone when the block ends."""
        words = [*self.stage.one("ENTRYPOINT").command, *(command or self.stage.one("CMD").command)]
        process = await asyncio.create_subprocess_exec(
            *(self._found(words)),
            cwd=self.folder,
            env={**self.environment, **given},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def check_health(self) -> tuple[int, str]:
        """Run the health check in the container; returns exit code and output."""
        process = await asyncio.create_subprocess_exec(
            *self._found(self.health), cwd=self.folder, env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(DEADLINE_S):
            output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    def _found(self, words: Sequence[str]) -> list[str]:
        """Look the program up on the image's PATH, as an engine does."""
        for folder in self.environment["PATH"].split(":"):
            if (Path(folder) / words[0]).exists():
                return [str(Path(folder) / words[0]), *words[1:]]
        raise AssertionError(f"the image has no {words[0]}")


async def line_with(process: asyncio.subprocess.Process, text: str, *, of_errors: bool = False) -> str:
    """Wait until the process prints a line with a text. Raises AssertionError if it ends before."""
    stream = process.stderr if of_errors else process.stdout
    assert stream is not None
    async with asyncio.timeout(DEADLINE_S):
        while line := (await stream.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"it ended without a line with {text!r}")


async def stopped(process: asyncio.subprocess.Process, within_s: float) -> int:
    """Stop a process as an engine does, which kills what takes longer; returns the exit code."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(within_s):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode
