"""What every engine promises: a woken turn is looked at until it went through, by one task at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from baton_server.engine.embedded import EmbeddedEngine
from baton_server.ports.store import StoreUnavailable
from baton_server.store.sqlite import open_sqlite
from baton_server.wire.codec import stamp


class Instant:
    """A clock that never waits, and counts the pauses that were asked of it."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        """Stand still."""
        return 0.0

    def wall(self) -> float:
        """Stand still."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Let the others run once."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class Advancing:
    """An `advance` under the test's control."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.at_once = self.most = 0
        self.gate = asyncio.Event()
        self.done = asyncio.Event()
        self.failures: list[Exception] = []

    async def __call__(self, turn_id: str) -> None:
        """Note the call, wait for the gate, fail if a failure is left."""
        self.calls.append(turn_id)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.gate.wait()
            if self.failures:
                raise self.failures.pop(0)
        finally:
            self.at_once -= 1
        self.done.set()


@pytest.fixture
async def advancing() -> Advancing:
    """An `advance` under the test's control."""
    return Advancing()


@pytest.fixture
async def engine(tmp_path: Path, advancing: Advancing) -> EmbeddedEngine:
    """The embedded engine over an empty store."""
    store = await open_sqlite(tmp_path / "e.db", stamp=stamp, holder={})
    return EmbeddedEngine(store, Instant(), advancing)


async def test_a_turn_woken_while_it_is_driven_is_looked_at_again(engine: EmbeddedEngine, advancing: Advancing) -> None:
    """A wake is never lost, and two tasks never drive one turn."""
    engine.wake("turn_1")
    await asyncio.sleep(0)
    engine.wake("turn_1")
    engine.wake("turn_1")

    advancing.gate.set()
    await engine.stop(5)

    assert advancing.most == 1
    assert advancing.calls[0] == "turn_1"


async def test_two_turns_are_driven_side_by_side(engine: EmbeddedEngine, advancing: Advancing) -> None:
    """One turn that waits holds up no other."""
    engine.wake("turn_1")
    engine.wake("turn_2")
    await asyncio.sleep(0)

    assert advancing.most == 2

    advancing.gate.set()
    await engine.stop(5)


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), ValueError("a fault of ours")])
async def test_a_turn_that_could_not_be_driven_is_tried_again(
    engine: EmbeddedEngine, advancing: Advancing, failure: Exception
) -> None:
    """What failed is in the store and is done again, after growing pauses."""
    advancing.failures = [failure, failure]
    advancing.gate.set()

    engine.wake("turn_1")
    async with asyncio.timeout(5):
        await advancing.done.wait()

    assert advancing.calls == ["turn_1"] * 3
    await engine.stop(5)


async def test_nothing_is_driven_after_the_stop(engine: EmbeddedEngine, advancing: Advancing) -> None:
    """A stopped engine ignores wakes; a restart finds the turn in the store."""
    await engine.stop(0)

    engine.wake("turn_1")
    await asyncio.sleep(0)

    assert not advancing.calls
