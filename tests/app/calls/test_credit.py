"""Who gets how much: credit in messages and bytes, and what a handler takes at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hand import Hand, held
from tests.support.room import Room, quiet

from baton_server.app.calls.frames import Credit, Deliver, Handler
from baton_server.app.calls.worker import MAX_CREDIT_BYTES
from baton_server.ports.store import CallRow, CallState


def grant(room: Room, worker: Hand, messages: int = 0, size: int = 0) -> None:
    """Grant credit."""
    room.dispatcher.credit(worker.attached.worker, Credit(messages=messages, bytes=size))


async def count(room: Room, worker: Hand) -> int:
    """Count the calls that a worker was sent since it last looked, and look at them."""
    await quiet()
    delivered = sum(isinstance(frame, Deliver) for frame in worker.frames)
    worker.frames.clear()
    return delivered


# -- bytes ---------------------------------------------------------------------------------------


async def test_without_any_grant_of_bytes_there_is_no_limit(room: Room) -> None:
    """A worker that knows nothing of bytes gets what its messages allow."""
    worker = await room.worker("f", credit=5)
    for _ in range(5):
        await room.open(arguments="x" * 1_000_000)

    assert await count(room, worker) == 5


async def test_one_call_may_take_the_bytes_below_zero_and_the_next_waits(room: Room) -> None:
    """Until they are above; UTF-8 counts."""
    worker = await room.worker("f", credit=Credit(messages=10, bytes=100))
    for _ in range(3):
        await room.open(arguments="ö" * 60)
    assert await count(room, worker) == 1
    assert worker.attached.worker.credit_bytes == -20

    grant(room, worker, size=20)
    assert await count(room, worker) == 0
    grant(room, worker, size=1)

    assert await count(room, worker) == 1
    assert worker.attached.worker.credit_bytes == -119


async def test_bytes_are_limited_from_the_first_grant_on(room: Room) -> None:
    """What came before was not counted."""
    worker = await room.worker("f", credit=2)
    await room.open(arguments="x" * 500)
    assert await count(room, worker) == 1
    grant(room, worker, messages=5, size=10)

    for _ in range(2):
        await room.open(arguments="x" * 500)

    assert await count(room, worker) == 1


async def test_a_flood_of_bytes_is_bounded(room: Room) -> None:
    """At a tebibyte."""
    worker = await room.worker("f", credit=Credit(messages=1, bytes=2**40))

    grant(room, worker, size=2**40)

    assert worker.attached.worker.credit_bytes == MAX_CREDIT_BYTES


async def test_a_new_stream_grants_anew(room: Room) -> None:
    """Neither messages nor bytes outlive the stream, nor does their limit."""
    worker = await room.worker("f", credit=Credit(messages=5, bytes=5))
    await worker.breaks()
    back = await worker.back("f", credit=3)

    for _ in range(4):
        await room.open(arguments="x" * 100)

    assert await count(room, back) == 3


async def test_what_is_withdrawn_is_paid_back_by_the_stream_not_here(room: Room) -> None:
    """A worker that does not read gets nothing more instead of what it did not take."""
    worker = await room.worker("f", credit=1)
    worker.takes = False
    opened = await room.open()
    await room.pass_time(29)
    worker.beat()

    await room.pass_time(2)

    assert worker.attached.worker.credit == 0
    assert await room.state(opened) is CallState.QUEUED


# -- concurrency ---------------------------------------------------------------------------------


async def test_a_handler_gets_no_more_calls_at_once_than_it_says(room: Room) -> None:
    """Credit or not; the next one comes with the end of one."""
    worker = await room.worker(Handler(name="f", max_concurrency=2), "g", credit=100)
    for _ in range(4):
        await room.open()
    await room.open("g")
    first, _, other = (worker.expect(Deliver) for _ in range(3))
    assert other.call.name == "g"
    worker.nothing()

    await worker.result(first)

    assert worker.frames.pop(0)
    worker.expect(Deliver)
    worker.nothing()


@pytest.mark.parametrize("end", ["nack", "lost", "outside"])
async def test_however_a_call_ends_its_place_is_free(room: Room, end: str) -> None:
    """Given back, lost, or settled from outside."""
    worker = await room.worker(Handler(name="f", max_concurrency=1), credit=100)
    first, second = await room.open(), await room.open()
    call = worker.expect(Deliver)
    if end == "nack":
        await worker.nack(call, delay_s=600.0)
    elif end == "outside":
        await room.settle_outside(first, "by hand")
    else:
        await room.pass_time(6)
    await quiet()

    got = [frame.call.call_id for frame in worker.frames if isinstance(frame, Deliver)]
    assert got == [first.call_id if end == "lost" else second.call_id]


async def test_each_version_has_places_of_its_own(room: Room) -> None:
    """They are other handlers."""
    worker = await room.worker(
        Handler(name="f", version="1", max_concurrency=1), Handler(name="f", version="2", max_concurrency=1)
    )
    for version in ("1", "2", ""):
        await room.open(version=version)

    got = [worker.expect(Deliver).version for _ in range(2)]

    assert got == ["1", "2"]
    worker.nothing()


async def test_what_a_worker_holds_counts_when_it_comes_back(room: Room) -> None:
    """Over a restart of the server too, which does not know which version has it."""
    bounded = Handler(name="f", version="2", max_concurrency=1)
    worker = await room.worker(bounded)
    await room.open()
    call = worker.expect(Deliver)
    room = await room.restarted()
    await room.open()

    back = await room.worker(bounded, resume_token=worker.token, held=held(call))

    back.nothing()
    await back.result(call)
    assert await count(room, back) == 1


# -- the invariant -------------------------------------------------------------------------------

OPENS = st.tuples(st.just("open"), st.integers(0, 2), st.sampled_from(["", "1", "2"]))
RESULTS = st.tuples(st.just("result"), st.integers(0, 3), st.just(""))
STEPS = st.lists(
    st.one_of(
        OPENS,
        OPENS,
        OPENS,
        RESULTS,
        RESULTS,
        st.tuples(st.just("grant"), st.integers(0, 2), st.sampled_from([0, 3])),
        st.tuples(st.just("nack"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("break"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("attach"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("outside"), st.integers(0, 9), st.just("")),
        st.tuples(st.just("pass"), st.integers(1, 12), st.just("")),
    ),
    min_size=10,
    max_size=40,
)

HANDLERS = (
    (Handler(name="f", version="1"), Handler(name="g")),
    (Handler(name="f", version="2", max_concurrency=1),),
    (Handler(name="f"), Handler(name="h", max_concurrency=2)),
    (Handler(name="f", version="1"), Handler(name="f", version="2"), Handler(name="h")),
)


class Crowd:
    """Workers that do whatever comes to mind."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.hands: dict[int, Hand] = {}
        self.opened: list[CallRow] = []

    async def do(self, what: str, number: int, more: Any) -> None:
        """Do one thing, and let everybody react."""
        hand = self.hands[number % 4]
        match what:
            case "open":
                self.opened.append(await self.room.open("fgh"[number], version=more))
            case "attach":
                await self.attach(number, with_token=more)
            case "grant":
                grant(self.room, hand, 1, more)
            case "result" | "nack":
                for call in self.out(hand)[:1]:
                    await (hand.result(call) if what == "result" else hand.nack(call))
            case "break":
                await hand.breaks()
            case "outside" if number < len(self.opened):
                await self.room.settle_outside(self.opened[number], "by hand")
            case "pass":
                await self.room.pass_time(number)
        for one in self.hands.values():
            if not one.over:
                one.beat()
        await quiet(40)

    async def attach(self, number: int, *, with_token: bool) -> None:
        """Attach a worker, perhaps as itself with half of what it has."""
        hello: dict[str, Any] = {"credit": 2, "instance_id": f"pod {number}", "half_duplex": number == 3}
        former = self.hands.get(number)
        if former is not None and with_token:
            calls = self.out(former)
            hello |= {"resume_token": former.token, "held": held(*calls[::2])}
        self.hands[number] = await self.room.worker(*HANDLERS[number], **hello)
        if former is not None and with_token:
            self.hands[number].frames[:0] = calls[::2]

    def out(self, hand: Hand) -> list[Deliver]:
        """List what a worker was sent and has not settled, oldest first."""
        leases = self.room.dispatcher.leases
        delivered = [frame for frame in hand.frames if isinstance(frame, Deliver)]
        return [one for one in delivered if leases.of(hand.id, one.call.call_id, one.call.attempt)]

    async def check(self) -> None:
        """Nobody waits whom somebody could take, and the counts are those of the leases."""
        for row in await self.room.store.calls.open_in("sess_1"):
            due = row.available_at <= self.room.clock.wall()
            if row.state is CallState.QUEUED and due and self.room.dispatcher.leases.get(row.call_id) is None:
                assert self.room.registry.find(row.name, row.version, row.scopes) is None, row
        for worker in self.room.registry.workers():
            held_ = self.room.dispatcher.leases.held_by(worker)
            assert worker.taken.total() == len(held_)
            assert worker.taken_bytes == sum(lease.size_bytes for lease in held_)
            for key, handler in worker.handlers.items():
                assert not handler.max_concurrency or worker.taken[key] <= handler.max_concurrency


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_no_call_waits_while_a_worker_could_take_it(steps: list[tuple[str, int, Any]]) -> None:
    """Whatever workers do: come, go, grant, settle, give back; and no place is counted twice or lost."""

    async def go() -> None:
        room = await Room().prepare()
        crowd = Crowd(room)
        for number in range(4):
            await crowd.attach(number, with_token=False)
        for what, number, more in steps:
            await crowd.do(what, number, more)
            await crowd.check()
        await room.close()

    asyncio.run(go())
