"""What every bus promises to watchers."""

from __future__ import annotations

import asyncio

import pytest

from baton_server.bus.local import MAX_PARTS, LocalBus
from baton_server.ports.bus import Bus, Part


@pytest.fixture(params=["local"])
def bus() -> Bus:
    """A bus of each kind."""
    return LocalBus()


def _part(sequence: int, size: int = 1) -> Part:
    return Part(sequence=sequence, turn_id="turn_1", data=b"x" * size)


async def test_every_watcher_of_a_session_gets_all_parts_in_order(bus: Bus) -> None:
    """Two watchers see the same, and a watcher of another session nothing."""
    first, second, other = bus.subscribe("s"), bus.subscribe("s"), bus.subscribe("t")

    bus.publish("s", [_part(1), _part(2)])
    bus.publish("s", [_part(3)])

    assert [p.sequence for p in first.take()] == [1, 2, 3]
    assert [p.sequence for p in second.take()] == [1, 2, 3]
    assert not other.take()


async def test_what_was_taken_does_not_come_again(bus: Bus) -> None:
    """Taking empties the queue."""
    watcher = bus.subscribe("s")
    bus.publish("s", [_part(1)])

    assert len(watcher.take()) == 1
    assert not watcher.take()


async def test_waiting_ends_when_parts_come(bus: Bus) -> None:
    """A watcher that waits is woken by a publication."""
    watcher = bus.subscribe("s")
    waiting = asyncio.ensure_future(watcher.wait(10))
    await asyncio.sleep(0)

    bus.publish("s", [_part(1)])

    assert await waiting


async def test_waiting_tells_that_its_time_is_over(bus: Bus) -> None:
    """Nothing comes: False."""
    assert not await bus.subscribe("s").wait(0.001)


async def test_a_nudge_wakes_without_parts(bus: Bus) -> None:
    """A change of who serves what wakes all, and brings nothing."""
    watcher = bus.subscribe("s")

    bus.nudge()

    assert await watcher.wait(1)
    assert not watcher.take()


async def test_a_watcher_that_does_not_take_loses_parts_and_is_told(bus: Bus) -> None:
    """Beyond its bound a queue is dropped: memory does not grow, and the watcher knows to read the log."""
    watcher = bus.subscribe("s")

    for sequence in range(1, MAX_PARTS + 2):
        bus.publish("s", [_part(sequence)])

    assert watcher.lost
    assert not watcher.take()
    assert not watcher.lost


async def test_the_bound_counts_bytes_too_but_lets_one_large_part_through(bus: Bus) -> None:
    """One part above a mebibyte is delivered; two are dropped."""
    watcher = bus.subscribe("s")
    bus.publish("s", [_part(1, 2 * 1024 * 1024)])
    assert not watcher.lost

    bus.publish("s", [_part(2, 2 * 1024 * 1024)])

    assert watcher.lost


async def test_nobody_is_heard_once_the_last_watcher_has_gone(bus: Bus) -> None:
    """Fragments for nobody need not be made."""
    assert not bus.heard("s")
    watcher = bus.subscribe("s")
    assert bus.heard("s")

    watcher.close()

    assert not bus.heard("s")


async def test_a_deleted_session_closes_its_watchers(bus: Bus) -> None:
    """The watcher is woken and told."""
    watcher = bus.subscribe("s")

    bus.close_session("s")

    assert await watcher.wait(1)
    assert watcher.closed
