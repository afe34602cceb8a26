"""Turns: guarded by version, placed in the log by sequences, listed by age and by what they wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    WallClock,
    ended,
    event,
    new_session,
    running,
    started,
    turn_row,
    turn_write,
)

from baton_server.core.events import TurnStatus
from baton_server.ports.store import Batch, Conflict, ConflictKind, Page, SessionWrite, Store, TurnRow, TurnWrite


async def row_of(store: Store, turn_id: str = TURN) -> TurnRow:
    """Read a turn that must be there."""
    row = await store.turns.get(turn_id)
    assert row is not None
    return row


async def test_new_turn_is_kept_whole_with_version_one(store: Store, clock: WallClock) -> None:
    """What a caller sets comes back; version, sequences and times are the store's."""
    await store.commit(new_session())
    given = turn_row(
        snapshot=b"\x00\xff" * 10,
        version=40,
        first_sequence=50,
        started_sequence=60,
        last_sequence=70,
        created_at=1.0,
        started_at=2.0,
        ended_at=3.0,
    )

    done = await store.commit(
        Batch(
            session_id=SESSION,
            turn=TurnWrite(row=given, starts=True),
            events=(event(TURN), event(), event(TURN)),
        )
    )

    assert done.turn_version == 1
    assert await store.turns.get(TURN) == replace(
        given,
        version=1,
        first_sequence=2,
        started_sequence=2,
        last_sequence=4,
        created_at=clock.time,
        started_at=clock.time,
        ended_at=None,
    )
    assert await store.turns.get("turn_unknown") is None


async def test_turn_is_not_made_twice(store: Store) -> None:
    """A second turn of the same id is refused and leaves nothing."""
    await running(store)

    with pytest.raises(Conflict) as conflict:
        await store.commit(started())

    assert conflict.value.kind is ConflictKind.VERSION
    assert (await row_of(store)).version == 1
    assert len(await store.events.after(SESSION, 0, 10)) == 2


async def test_version_grows_with_each_batch_that_writes_the_turn(store: Store) -> None:
    """The version that a commit answers is the one that the next must bring."""
    done = await running(store)
    versions = [done.turn_version]

    for _ in range(3):
        done = await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=versions[-1])))
        versions.append(done.turn_version)

    assert versions == [1, 2, 3, 4]
    assert (await row_of(store)).version == 4


@pytest.mark.parametrize("expected", [0, 2])
async def test_other_version_is_refused_and_changes_nothing(store: Store, expected: int) -> None:
    """Neither an older nor a newer version will do."""
    await running(store)
    before = await row_of(store)

    with pytest.raises(Conflict) as conflict:
        await store.commit(
            Batch(
                session_id=SESSION,
                turn=turn_write(status=TurnStatus.WAITING, expected=expected),
                events=(event(TURN),),
                documents={"d": b"x"},
            )
        )

    assert conflict.value.kind is ConflictKind.VERSION
    assert await row_of(store) == before
    assert len(await store.events.after(SESSION, 0, 10)) == 2
    assert await store.documents.document("d") is None


async def test_write_of_an_unknown_turn_is_a_version_conflict(store: Store) -> None:
    """Nothing has the version that the writer expects."""
    await store.commit(new_session())

    with pytest.raises(Conflict) as conflict:
        await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=1)))

    assert conflict.value.kind is ConflictKind.VERSION


@pytest.mark.parametrize("status", [TurnStatus.IN_PROGRESS, TurnStatus.FAILED])
async def test_ended_turn_is_not_written_again(store: Store, status: TurnStatus) -> None:
    """A turn never leaves its terminal status, even for a writer that knows its version."""
    await running(store)
    await store.commit(ended())
    before = await row_of(store)

    with pytest.raises(Conflict) as conflict:
        await store.commit(Batch(session_id=SESSION, turn=turn_write(status=status, expected=2)))

    assert conflict.value.kind is ConflictKind.ENDED
    assert await row_of(store) == before


async def test_write_changes_status_and_snapshot_but_not_what_is_pinned(store: Store) -> None:
    """Digests, request and session stay those with which the turn was accepted."""
    await running(store)
    changed = turn_row(
        status=TurnStatus.WAITING,
        snapshot=b"new",
        agent_digest="other",
        config_digest="other",
        request_id="other",
    )

    await store.commit(Batch(session_id=SESSION, turn=TurnWrite(row=changed, expected_version=1)))

    row = await row_of(store)
    assert (row.status, row.snapshot) == (TurnStatus.WAITING, b"new")
    assert (row.agent_digest, row.config_digest, row.request_id) == (
        "agent-digest",
        "config-digest",
        "request",
    )


async def test_times_are_those_of_the_batches_that_accept_start_and_end(store: Store, clock: WallClock) -> None:
    """Each is set once, by the store's clock."""
    await store.commit(new_session())
    accepted = clock.time
    await store.commit(Batch(session_id=SESSION, turn=turn_write(status=TurnStatus.QUEUED), events=(event(TURN),)))
    queued = await row_of(store)
    clock.time += 1
    await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=1, starts=True), events=(event(TURN),)))
    clock.time += 1
    await store.commit(Batch(session_id=SESSION, turn=turn_write(expected=2)))
    clock.time += 1
    await store.commit(ended(expected=3))
    row = await row_of(store)

    assert (queued.created_at, queued.started_at, queued.ended_at) == (accepted, None, None)
    assert (queued.first_sequence, queued.started_sequence) == (2, 0)
    assert (row.created_at, row.started_at, row.ended_at) == (accepted, accepted + 1, accepted + 3)
    assert (row.first_sequence, row.started_sequence, row.last_sequence) == (2, 3, 4)


async def test_turn_that_never_starts_has_no_started_sequence(store: Store) -> None:
    """A queued turn that is cancelled was never anywhere in a history."""
    await store.commit(new_session())
    await store.commit(Batch(session_id=SESSION, turn=turn_write(status=TurnStatus.QUEUED), events=(event(TURN),)))

    await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write(status=TurnStatus.CANCELLED, expected=1),
            events=(event(TURN),),
        )
    )

    row = await row_of(store)
    assert (row.started_sequence, row.started_at, row.status) == (0, None, TurnStatus.CANCELLED)
    assert row.ended_at is not None


async def test_one_batch_ends_a_turn_and_starts_the_next(store: Store) -> None:
    """The next one starts at its own first event, behind what the first one recorded."""
    await running(store)
    await store.commit(
        Batch(session_id=SESSION, turn=turn_write("turn_2", TurnStatus.QUEUED), events=(event("turn_2"),))
    )

    done = await store.commit(
        Batch(
            session_id=SESSION,
            turn=turn_write(status=TurnStatus.COMPLETED, expected=1),
            next_turn=turn_write("turn_2", expected=1, starts=True),
            events=(event(TURN), event(TURN), event("turn_2")),
        )
    )

    first, second = await row_of(store), await row_of(store, "turn_2")
    assert done.turn_version == first.version == 2
    assert (first.last_sequence, second.started_sequence, second.last_sequence) == (5, 6, 6)
    assert second.first_sequence == 3


async def test_either_turn_of_a_batch_guards_it(store: Store) -> None:
    """A stale second turn undoes the first one's write too."""
    await running(store)

    with pytest.raises(Conflict) as conflict:
        await store.commit(
            Batch(
                session_id=SESSION,
                turn=turn_write(status=TurnStatus.COMPLETED, expected=1),
                next_turn=turn_write("turn_2", expected=7),
                events=(event(TURN),),
            )
        )

    assert conflict.value.kind is ConflictKind.VERSION
    assert (await row_of(store)).status is TurnStatus.IN_PROGRESS


async def test_late_event_moves_the_last_sequence_but_not_the_version(store: Store) -> None:
    """An event of an ended turn belongs to it, although nobody writes its row."""
    await running(store)
    await store.commit(ended())

    await store.commit(Batch(session_id=SESSION, events=(event(), event(TURN, b"late"))))

    row = await row_of(store)
    assert (row.version, row.last_sequence) == (2, 5)
    assert [found.sequence for found in await store.events.of_turn(TURN)] == [2, 3, 5]


@pytest.mark.parametrize("size", range(1, 6))
async def test_turns_are_listed_newest_first_to_the_end(store: Store, size: int) -> None:
    """Pages of every size show each turn of the session once, and no other's."""
    ids = [f"turn_{n}" for n in range(4)]
    await store.commit(new_session())
    await running(store, "turn_9", "sess_other")
    for turn_id in ids:
        await store.commit(started(turn_id))
        await store.commit(ended(turn_id))

    seen: list[str] = []
    after = ""
    while page := await store.turns.newest(SESSION, Page(size=size, after=after)):
        assert len(page) <= size
        seen += [row.turn_id for row in page]
        after = seen[-1]

    assert seen == ids[::-1]


async def test_queued_turns_of_a_session_are_found_oldest_first(store: Store) -> None:
    """Those that wait, and not the one that runs."""
    await running(store)
    for turn_id in ("turn_5", "turn_4"):
        await store.commit(
            Batch(session_id=SESSION, turn=turn_write(turn_id, TurnStatus.QUEUED), events=(event(turn_id),))
        )
    await running(store, "turn_9", "sess_2")

    assert [row.turn_id for row in await store.turns.queued(SESSION)] == ["turn_4", "turn_5"]
    assert await store.turns.queued("sess_2") == []


async def test_active_turns_of_all_sessions_are_found_oldest_first(store: Store) -> None:
    """What a session names as its active turn is what a new process drives on, queued or not."""
    await store.commit(new_session("sess_1", active_turn_id="turn_3"))
    await store.commit(new_session("sess_2", active_turn_id="turn_1"))
    await store.commit(new_session("sess_3", active_turn_id="turn_2"))
    await store.commit(new_session("sess_4"))
    await store.commit(Batch(session_id="sess_3", session=SessionWrite(active_turn_id="")))

    assert await store.turns.unfinished() == ["turn_1", "turn_3"]
