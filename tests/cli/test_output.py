"""What commands do when what they write is not taken."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.cli.commands import PATIENCE_S, House
from tests.support.scripted_model import say

from baton import Agent

pytestmark = pytest.mark.slow

COMMAND = f"{sys.executable} -m baton_server"


async def shell(line: str, **environment: str) -> tuple[int, str, str]:
    """Run a line of bash to its end; returns exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        line,
        env={"PATH": "/usr/bin:/bin", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["version", "--help"])
async def test_a_full_disk_is_told_in_a_line(command: str) -> None:
    """No traceback, and the exit code says that it failed."""
    code, _, errors = await shell(f"{COMMAND} {command} > /dev/full")

    assert (code, errors) == (1, "baton: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("command", ["--help", "sessions list", "agents list --json", "health"])
async def test_a_reader_that_has_what_it_wanted_is_no_failure(tmp_path: Path, command: str) -> None:
    """As in `baton sessions list | head -1`, where a script stops at the first command that fails."""
    async with House.opened(tmp_path) as house:
        await house.session(key="s1")
        await house.client.create_agent(Agent(name="A"))
        line = f"set -o pipefail; (sleep 0.2; {COMMAND} {command}) | true"

        code, _, errors = await shell(line, BATON_ADDRESS=house.server.address)

    assert (code, errors) == (0, "")


async def test_a_tail_ends_when_its_reader_has_gone(tmp_path: Path) -> None:
    """Also in a session in which nothing happens any more: heartbeats make it look."""
    async with House.opened(tmp_path, say("Hello."), heartbeat_s=0.2) as house:
        session = await house.session(key="s1")
        await house.client.submit(session.session_id, "Hi.")
        await house.until(session.session_id, "turn_completed")

        _, out, errors = await shell(
            f"{COMMAND} sessions tail s1 --follow forever | head -1", BATON_ADDRESS=house.server.address
        )

    assert len(out.splitlines()) == 1
    assert "Traceback" not in errors
