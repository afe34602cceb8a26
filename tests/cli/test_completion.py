"""Completion in a shell, by the protocol that the shell's script speaks: variables in, lines out."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import time
from pathlib import Path

import pytest
from tests.cli.commands import NOBODY, House
from tests.support.scripted_model import calls

from baton import Agent

pytestmark = pytest.mark.slow  # each starts a process

BASH = shutil.which("bash")


async def complete(line: str, address: str) -> list[str]:
    """Complete a line whose cursor stands at its end; nothing may be said besides."""
    words = line.split(" ")
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_BATON_COMPLETE": "complete_bash",
        "BATON_ADDRESS": address,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; sys.argv = ['baton']; from baton_server.cli import main; main()",
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    return out.decode().split()


async def test_sessions_are_completed_by_id_and_key(tmp_path: Path) -> None:
    """Those that begin as what was typed; keys that a shell would take apart are left out."""
    async with House.opened(tmp_path) as house:
        one = await house.session(key="user-7")
        two = await house.session(key="use two words")
        address = house.server.address

        assert await complete("baton sessions show us", address) == ["user-7"]
        assert await complete("baton sessions tail --follow none user-", address) == ["user-7"]
        assert await complete("baton sessions delete sess_", address) == [two.session_id, one.session_id]


async def test_agents_are_completed_by_id_and_by_names_that_are_one(tmp_path: Path) -> None:
    """A name that two have would be refused."""
    async with House.opened(tmp_path) as house:
        names = ["Guide", "Twice", "Twice"]
        ids = [(await house.client.create_agent(Agent(name=name))).agent_id for name in names]
        address = house.server.address

        assert await complete("baton agents show ", address) == ["Guide", *ids[::-1]]
        assert await complete("baton agents delete Gu", address) == ["Guide"]


@pytest.mark.parametrize("command", ["run", "chat"])
async def test_who_is_to_answer_is_a_kept_agent_or_a_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Whatever is in folders below is the shell's to complete."""
    here = tmp_path / "here"
    (here / "agents").mkdir(parents=True)
    for name in ("guide.yaml", "Guard.json", "notes.txt", ".hidden.yaml"):
        (here / name).touch()
    async with House.opened(tmp_path) as house:
        kept = await house.client.create_agent(Agent(name="Guide"))
        monkeypatch.chdir(here)
        address = house.server.address

        assert await complete(f"baton {command} Gu", address) == ["Guide", "Guard.json"]
        assert await complete(f"baton {command} ", address) == [
            *("Guide", kept.agent_id, "Guard.json", "agents/", "guide.yaml"),
        ]
        assert await complete(f"baton {command} agents/", address) == []


async def test_calls_are_completed_from_the_session_before_them(tmp_path: Path) -> None:
    """Its open ones, by id, and by name where only one has it; `--address` counts if it was typed."""
    async with House.opened(tmp_path, calls(("f", "{}"), ("g", "{}"), ("g", "{}"))) as house:
        waiting = await house.waiting("f", "g", key="user-7")
        line = f"baton answer --address {house.server.address} user-7 "

        assert await complete(line, NOBODY) == ["f", *waiting.calls]
        assert await complete(f"{line}call_", NOBODY) == list(waiting.calls)


async def test_calls_of_any_session_are_completed_by_id(tmp_path: Path) -> None:
    """The open ones."""
    async with House.opened(tmp_path, calls(("f", "{}")), calls(("g", "{}"))) as house:
        opened = [(await house.waiting(name)).call for name in ("f", "g")]

        assert await complete("baton explain ", house.server.address) == opened


async def test_commands_and_options_are_completed() -> None:
    """Without asking anybody."""
    assert await complete("baton sessions ta", NOBODY) == ["tail"]
    assert await complete("baton actions --sta", NOBODY) == ["--state"]
    assert await complete("baton actions --state un", NOBODY) == ["unserved"]


@pytest.mark.parametrize("line", ["baton sessions show ", "baton agents show ", "baton answer user-7 "])
async def test_a_server_that_is_away_completes_nothing(line: str) -> None:
    """In silence."""
    assert await complete(line, NOBODY) == []


async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    """Whoever pressed Tab waits about a second, the start of the command aside."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()

        assert await complete("baton sessions show ", f"127.0.0.1:{silent.getsockname()[1]}") == []

        assert time.monotonic() - began < 10  # far below what the client itself would wait


async def test_a_session_that_is_not_there_has_no_calls(tmp_path: Path) -> None:
    """What is typed before may be wrong."""
    async with House.opened(tmp_path) as house:
        assert await complete("baton answer nobody ", house.server.address) == []


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
async def test_the_script_for_a_shell_is_shown(tmp_path: Path) -> None:
    """`baton --show-completion bash` prints what a shell can be given; bash takes it, and asks the command."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("baton")),
        "--show-completion",
        "bash",
        env={**os.environ, "SHELL": str(BASH)},
        stdout=asyncio.subprocess.PIPE,
    )
    script, _ = await process.communicate()
    assert process.returncode == 0 and b"_BATON_COMPLETE=complete_bash" in script

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    typed = 'COMP_WORDS=(baton sess); COMP_CWORD=1; _baton_completion baton; echo "${COMPREPLY[*]}"'
    bash = await asyncio.create_subprocess_exec(
        str(BASH), "-c", f"{script.decode()}\n{typed}", env={**os.environ, "PATH": path}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await bash.communicate()
    assert out.decode().split() == ["sessions"]
