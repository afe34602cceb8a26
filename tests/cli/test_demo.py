"""`baton demo`: what it asks for before it begins, how it is interrupted, and what it leaves one to go on with."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.docs.programs import BIN, environment, run, started, terminated
from tests.support.server import free_port

from baton_server.cli.demo.command import program

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
"""How long a test waits for what must come; the demo starts three processes."""

MARK = "DEMO_TEST_MARK"
"""A variable by which the processes of one test are found again."""


@asynccontextmanager
async def demo(folder: Path, mark: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start it as a shell does: in a group of its own, which is what Ctrl-C goes to. Errors come with the output."""
    process = await asyncio.create_subprocess_exec(
        str(BIN / "baton"),
        "demo",
        "--plain",
        cwd=folder,
        env=environment(**{MARK: mark, "TMPDIR": str(folder)}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pid in with_mark(mark):
            os.kill(pid, signal.SIGKILL)
        await process.wait()


def with_mark(mark: str) -> list[int]:
    """Find the processes, in the whole machine, that inherited a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return found


def folders_in(folder: Path) -> list[Path]:
    """Find what the demo makes for itself in a folder of temporary files."""
    return list(folder.glob("baton-demo-*"))


async def seen(process: asyncio.subprocess.Process, text: str) -> str:
    """Read up to a line with this text."""
    lines = ""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while text not in lines:
            line = (await process.stdout.readline()).decode()
            assert line, lines
            lines += line
    return lines


async def said(command: list[str], words: str, folder: Path, variables: dict[str, str]) -> str:
    """Give a program words to read; return what it answers."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment(**variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate(words.encode())
    return output.decode()


async def test_a_model_api_without_a_model_is_told_before_anything_is_started(tmp_path: Path) -> None:
    """One line that says what to set; not the first turn's failure, when all runs already."""
    url = "http://127.0.0.1:9/v1"
    code, output, errors = await run(str(BIN / "baton"), "demo", folder=tmp_path, OPENAI_BASE_URL=url)

    assert (code, output) == (2, "")
    assert errors == f"baton: OPENAI_BASE_URL is {url!r} and no model is named; set OPENAI_DEFAULT_MODEL\n"


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        ("starting it again on the same file", signal.SIGINT, 130),
        ("calls get_weather", signal.SIGINT, 130),
        ("listening on", signal.SIGTERM, 143),
    ],
)
async def test_an_interrupt_ends_all_with_one_line(tmp_path: Path, line: str, number: int, code: int) -> None:
    """Also while the server is dead or has hardly begun: no traceback, no process and no file is left."""
    mark = uuid.uuid4().hex
    async with demo(tmp_path, mark) as process:
        await seen(process, line)

        os.killpg(process.pid, number)

        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            rest = (await process.stdout.read()).decode()
            assert await process.wait() == code
        assert rest.splitlines()[-1] == "demo: interrupted"
        assert "Traceback" not in rest
        assert with_mark(mark) == []
        assert folders_in(tmp_path) == []


async def test_it_ends_with_commands_that_can_be_typed(tmp_path: Path) -> None:
    """A server, its functions and a conversation, as printed, in a shell that knows nothing of us."""
    code, output, errors = await run(str(BIN / "baton"), "demo", "--plain", folder=tmp_path)
    assert (code, errors) == (0, "")
    *_, serve, worker, chat, last = output.splitlines()
    assert last == "demo: ok"

    address = f"127.0.0.1:{free_port()}"
    at = {"BATON_ADDRESS": address, "BATON_DEMO_DELAY_S": "0"}
    async with started(*shlex.split(serve), folder=tmp_path, **at) as server:
        await seen(server, "listening")
        async with started(*shlex.split(worker), folder=tmp_path, **at) as functions:
            await seen(functions, f"attached to {address}, serving get_weather, get_local_time")
            answer = await said(shlex.split(chat), "What is the weather in Kyoto?\n", tmp_path, at)
            assert (await terminated(functions))[0] == 0

    assert "18 °C, light rain" in answer


def test_its_commands_begin_with_baton_where_the_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has it on the path types its name; who has not, or has another one there, types the way to it."""
    (tmp_path / "baton").write_text("#!/bin/sh\n")
    (tmp_path / "baton").chmod(0o755)
    monkeypatch.chdir(BIN.parent.parent)

    monkeypatch.setenv("PATH", str(BIN))
    assert program() == ["baton"]
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), str(BIN)]))
    assert program() == [str(BIN.relative_to(BIN.parent.parent) / "baton")]
    monkeypatch.chdir(tmp_path)
    assert program() == [str(BIN / "baton")]
