"""The stores that the suite runs on."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.store.builders import WallClock, stamp

from baton_server.ports.store import Store
from baton_server.store.memory import MemoryStore
from baton_server.store.sqlite import open_sqlite


@pytest.fixture
def clock() -> WallClock:
    """The wall clock of the store under test."""
    return WallClock()


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows, to be copied: making one takes longer than most tests."""
    path = tmp_path_factory.mktemp("store") / "empty.db"

    async def make() -> None:
        store = await open_sqlite(path, stamp=stamp, holder={})
        await store.close()

    asyncio.run(make())
    return path


@pytest.fixture(params=["memory", "sqlite"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: WallClock, empty_database: Path
) -> AsyncIterator[Store]:
    """A fresh store, once of each kind."""
    opened: Store
    if request.param == "memory":
        opened = MemoryStore(stamp=stamp, clock=clock)
    else:
        path = tmp_path / "baton.db"
        shutil.copy(empty_database, path)
        opened = await open_sqlite(path, stamp=stamp, holder={}, clock=clock)
    yield opened
    await opened.close()
