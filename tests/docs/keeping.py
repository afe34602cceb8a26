"""Tries what the documents say to do with a store: a copy of a store in use is a store, and so is a smaller one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.docs.programs import run
from tests.support.server import server

from baton import Client, Session, close_connections

TEXT = "x" * 200_000

BESIDES = {"baton.db", "baton.db.lock"}
"""What a server that was stopped leaves."""


async def backup_can_be_started_from(words: list[str], folder: Path) -> None:
    """Run it beside a server that works; what was acknowledged before is in a server that is started from the copy."""
    async with server(folder) as baton:
        await _fill(baton.address, "kept")
        await _run(words, folder)
    (copy,) = (Path(entry.path) for entry in os.scandir(folder) if entry.name not in BESIDES)
    restored = folder / "restored"
    restored.mkdir()
    copy.rename(restored / "baton.db")

    await _finds(restored, "kept")


async def store_is_rewritten(words: list[str], folder: Path) -> None:
    """Run it on the file of a server that was stopped; the next one has what was in it, in less room."""
    async with server(folder) as baton:
        await _fill(baton.address, "kept")
        await _fill(baton.address, "gone")
        client = Client(baton.address)
        await client.delete_session((await client.get_session(key="gone")).session_id)
        await close_connections()
    before = (folder / "baton.db").stat().st_size

    await _run(words, folder)

    assert (folder / "baton.db").stat().st_size < before - len(TEXT)
    await _finds(folder, "kept")


async def _run(words: list[str], folder: Path) -> None:
    assert await run(sys.executable, *words[1:], folder=folder) == (0, "", "")


async def _fill(address: str, key: str) -> None:
    """Make a session that takes room."""
    try:
        await Session(key, address=address).add_items([{"role": "user", "content": TEXT}])
    finally:
        await close_connections()


async def _finds(folder: Path, key: str) -> None:
    async with server(folder) as baton:
        try:
            assert await Session(key, address=baton.address).get_items() == [{"role": "user", "content": TEXT}]
        finally:
            await close_connections()
