"""The room of calls, for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.support.room import Room

Rooms = Callable[..., Awaitable[Room]]


@pytest.fixture
async def rooms() -> AsyncIterator[Rooms]:
    """Give rooms with limits of their own."""
    made: list[Room] = []

    async def make(**limits: Any) -> Room:
        made.append(await Room(**limits).prepare())
        return made[-1]

    yield make
    for room in made:
        await room.close()


@pytest.fixture
async def room(rooms: Rooms) -> Room:
    """Give a room."""
    return await rooms()
