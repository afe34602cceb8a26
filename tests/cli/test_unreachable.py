"""No server: every command that needs one says so in a line, with an exit code of its own, within seconds."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.commands import NOBODY
from tests.cli.terminals import on_pipes

COMMANDS = [
    ["sessions", "list"],
    ["sessions", "show", "user-7"],
    ["sessions", "tail", "user-7"],
    ["sessions", "delete", "user-7", "--yes"],
    ["agents", "list"],
    ["agents", "show", "Guide"],
    ["agents", "delete", "Guide", "--yes"],
    ["actions"],
    ["explain", "call_1"],
    ["workers"],
    ["answer", "user-7", "f", "--output", "x"],
]


@pytest.mark.slow
async def test_no_server_is_told_with_its_address() -> None:
    """All at once, since each waits for a server that may just be starting."""

    async def told(arguments: list[str]) -> str:
        async with on_pipes(*arguments, address=NOBODY) as command:
            return await command.ends(3)

    for errors in await asyncio.gather(*(told(arguments) for arguments in COMMANDS)):
        assert errors.startswith("baton: no Baton server at 127.0.0.1:1 ")
        assert len(errors.splitlines()) == 1
