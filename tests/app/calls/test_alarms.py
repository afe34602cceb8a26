"""Alarms: each rings once, at its time, whatever else is set, cleared or fails."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.room import quiet
from tests.support.stepped_clock import SteppedClock

from baton_server.app.calls.alarms import SPARE_ENTRIES, Alarms


class Bells:
    """Alarms over a clock that stands still. `rung`: keys, in order."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.alarms = Alarms(self.clock)
        self.rung: list[str] = []

    def set(self, key: str, in_s: float) -> None:
        """Set an alarm."""
        self.alarms.set(key, self.clock.wall() + in_s, lambda: self.rung.append(key))

    async def after(self, seconds: float) -> list[str]:
        """Let time pass; returns what has rung so far."""
        self.clock.advance(seconds)
        await quiet()
        return self.rung


@pytest.fixture
async def bells() -> Bells:
    """Give alarms."""
    return Bells()


async def test_they_ring_in_the_order_of_their_times(bells: Bells) -> None:
    """Whatever the order in which they were set; each once."""
    bells.set("late", 9)
    bells.set("early", 3)
    bells.set("middle", 6)
    await quiet()

    assert await bells.after(2) == []
    assert await bells.after(2) == ["early"]
    assert await bells.after(600) == ["early", "middle", "late"]
    assert len(bells.alarms) == 0


async def test_a_time_that_has_passed_rings_at_once(bells: Bells) -> None:
    """What a former process should have done is done first of all."""
    bells.set("overdue", -5)

    await quiet()

    assert bells.rung == ["overdue"]


async def test_one_that_is_set_again_rings_at_its_new_time_alone(bells: Bells) -> None:
    """Later or earlier."""
    bells.set("a", 5)
    bells.set("b", 5)
    bells.set("a", 9)
    bells.set("b", 1)
    await quiet()

    assert await bells.after(2) == ["b"]
    assert await bells.after(4) == ["b"]
    assert await bells.after(4) == ["b", "a"]


async def test_one_that_is_cleared_does_not_ring(bells: Bells) -> None:
    """Nor does one that was never set hurt when it is cleared."""
    bells.set("a", 5)
    bells.set("b", 6)
    await quiet()
    bells.alarms.clear("a")
    bells.alarms.clear("unknown")

    assert await bells.after(10) == ["b"]


async def test_what_rings_may_set_the_next_one(bells: Bells) -> None:
    """As a clock does that goes on and on."""

    def ring() -> None:
        bells.rung.append("again")
        bells.alarms.set("again", bells.clock.wall() + 10, ring)

    bells.alarms.set("again", bells.clock.wall() + 10, ring)
    await quiet()

    for times in range(1, 4):
        assert len(await bells.after(10)) == times


async def test_one_that_fails_does_not_keep_the_others_from_ringing(bells: Bells) -> None:
    """The fault is in the log."""

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    bells.alarms.set("bad", bells.clock.wall() + 1, fail)
    bells.set("good", 1)
    await quiet()

    assert await bells.after(1) == ["good"]


async def test_cleared_alarms_are_not_kept_until_their_time(bells: Bells) -> None:
    """A million calls with a timeout of a day, each settled after a second, cost no memory."""
    for number in range(1000):
        bells.set(f"call {number}", 86_400)
        bells.alarms.clear(f"call {number}")

    assert len(bells.alarms) == 0
    assert len(bells.alarms._heap) <= SPARE_ENTRIES + 1


async def test_after_closing_nothing_rings(bells: Bells) -> None:
    """And no task is left."""
    bells.set("a", 1)
    await quiet()

    await bells.alarms.close()

    assert await bells.after(5) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 200)),
        st.tuples(st.just("clear"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("pass"), st.just(0), st.integers(1, 100)),
    ),
    max_size=20,
)


@given(STEPS)
def test_they_ring_as_a_plain_table_of_times_says(steps: list[tuple[str, int, int]]) -> None:
    """Whatever is set, replaced and cleared, while time passes in steps of any size."""

    async def compare() -> None:
        bells, plain, expected, now = Bells(), dict[str, int](), list[tuple[int, str]](), 0
        for what, number, amount in steps:
            key = f"alarm {number}"
            if what == "set":
                bells.set(key, amount)
                plain[key] = now + amount
            elif what == "clear":
                bells.alarms.clear(key)
                plain.pop(key, None)
            else:
                now += amount
                bells.clock.advance(amount)
            for _ in range(8):
                await asyncio.sleep(0)
            due = sorted((at, key) for key, at in plain.items() if at <= now)
            expected += due
            for _, key in due:
                del plain[key]
            assert sorted(bells.rung) == sorted(key for _, key in expected)
            assert len(bells.alarms) == len(plain)
        await bells.alarms.close()

    asyncio.run(compare())
