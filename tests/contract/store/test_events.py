"""The log: sequences without gaps, bytes as they are sent, reads from any point."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    WallClock,
    event,
    new_session,
    running,
    stamp,
    started,
    turn_write,
)

from baton_server.ports.store import Batch, Conflict, EventRow, SessionWrite, Store

MIB = 1024 * 1024


async def test_commit_answers_the_stored_bytes(store: Store, clock: WallClock) -> None:
    """What a commit gave can be sent as it is: a later read finds the same."""
    await store.commit(new_session())

    done = await store.commit(Batch(session_id=SESSION, events=(event("", b"a"), event("", b"b\x00"))))

    assert done.events == (
        EventRow(sequence=2, turn_id="", data=stamp(b"a", SESSION, 2, clock.time)),
        EventRow(sequence=3, turn_id="", data=stamp(b"b\x00", SESSION, 3, clock.time)),
    )
    assert tuple(await store.events.after(SESSION, 1, 10)) == done.events
    assert (done.last_sequence, done.at) == (3, clock.time)


async def test_sequences_start_at_one_in_each_session(store: Store) -> None:
    """Sessions do not share them."""
    first = await store.commit(new_session("sess_1"))
    second = await store.commit(new_session("sess_2"))

    assert [row.sequence for row in (*first.events, *second.events)] == [1, 1]


async def test_batch_without_events_gives_no_sequence(store: Store) -> None:
    """It says where the log stands."""
    await store.commit(new_session())

    done = await store.commit(Batch(session_id=SESSION, documents={"d": b""}))

    assert (done.events, done.last_sequence) == ((), 1)


async def test_sequences_have_no_gap_when_many_write_and_some_fail(store: Store) -> None:
    """Batches that fail in the same moment take no sequence with them and leave no event."""
    await store.commit(new_session())

    async def write(n: int) -> bool:
        guard = SessionWrite(expected_version=1) if n % 3 == 0 else None
        try:
            await store.commit(
                Batch(session_id=SESSION, session=guard, events=(event("", b"%d" % n), event("", b"%d" % n)))
            )
        except Conflict:
            return False
        return True

    written = await asyncio.gather(*(write(n) for n in range(300)))

    events = await store.events.after(SESSION, 0, 1000)
    assert [row.sequence for row in events] == list(range(1, 402))
    told = {row.data.split(b"|")[0] for row in events[1:]}
    assert told == {b"%d" % n for n, ok in enumerate(written) if ok}
    assert written.count(False) == 100


async def test_time_never_goes_back(store: Store, clock: WallClock) -> None:
    """A wall clock that is set back does not take the store's with it; microseconds are kept."""
    clock.time = 1_700_000_000.123456
    first = await store.commit(new_session())
    clock.time -= 3600
    second = await store.commit(Batch(session_id=SESSION, events=(event(),)))
    clock.time += 3600.000001
    third = await store.commit(Batch(session_id=SESSION, events=(event(),)))

    assert (first.at, second.at, third.at) == (
        1_700_000_000.123456,
        1_700_000_000.123456,
        1_700_000_000.123457,
    )


async def test_events_are_read_after_a_sequence_up_to_a_limit(store: Store) -> None:
    """In order; nothing above the last one, nothing of another session."""
    await store.commit(new_session("sess_other"))
    await store.commit(new_session())
    await store.commit(Batch(session_id=SESSION, events=tuple(event() for _ in range(5))))

    async def read(after: int, limit: int) -> list[int]:
        return [row.sequence for row in await store.events.after(SESSION, after, limit)]

    assert await read(0, 3) == [1, 2, 3]
    assert await read(3, 100) == [4, 5, 6]
    assert await read(6, 100) == []
    assert await store.events.after("sess_unknown", 0, 100) == []


@pytest.mark.parametrize("size", range(1, 8))
async def test_log_is_walked_to_its_end(store: Store, size: int) -> None:
    """Reads of every size show each event once, in order."""
    await store.commit(new_session())
    await store.commit(Batch(session_id=SESSION, events=tuple(event() for _ in range(5))))

    seen: list[int] = []
    while page := await store.events.after(SESSION, seen[-1] if seen else 0, size):
        assert len(page) <= size
        seen += [row.sequence for row in page]

    assert seen == [1, 2, 3, 4, 5, 6]


async def test_events_of_one_turn_are_read_apart(store: Store) -> None:
    """Between them may be the session's own and another turn's."""
    await running(store)
    await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write("turn_2", starts=True),
            events=(event("turn_2"), event(), event(TURN), event("turn_2")),
        )
    )

    async def read(turn_id: str, after: int, limit: int = 100) -> list[int]:
        return [row.sequence for row in await store.events.after(SESSION, after, limit, turn_id)]

    assert await read(TURN, 0) == [2, 5]
    assert await read("turn_2", 0, 1) == [3]
    assert await read("turn_2", 3) == [6]
    assert [row.sequence for row in await store.events.of_turn(TURN)] == [2, 5]
    assert [row.sequence for row in await store.events.of_turn("turn_2")] == [3, 6]
    assert await store.events.of_turn("turn_unknown") == []


async def test_one_read_gives_about_a_mebibyte(store: Store) -> None:
    """Large events come in several reads; one that is larger alone still comes."""
    await store.commit(new_session())
    sizes = (MIB // 2, MIB // 3, MIB // 2, 4 * MIB, 10)
    await store.commit(Batch(session_id=SESSION, events=tuple(event("", b"x" * size) for size in sizes)))

    async def read(after: int) -> list[int]:
        return [row.sequence for row in await store.events.after(SESSION, after, 100)]

    assert await read(1) == [2, 3]
    assert await read(3) == [4]
    assert await read(4) == [5]
    assert await read(5) == [6]


async def test_turn_is_read_whole_whatever_its_size(store: Store) -> None:
    """A driver needs all of it."""
    await store.commit(new_session())
    await store.commit(started(events=tuple(event(TURN, b"x" * MIB) for _ in range(3))))

    assert [len(row.data) > MIB for row in await store.events.of_turn(TURN)] == [True] * 3


async def test_event_of_a_turn_that_is_not_there_is_refused(store: Store) -> None:
    """It would belong to nothing; the batch leaves nothing."""
    await store.commit(new_session())

    with pytest.raises(ValueError, match="turn_unknown"):
        await store.commit(Batch(session_id=SESSION, events=(event("turn_unknown"),)))

    assert len(await store.events.after(SESSION, 0, 10)) == 1
