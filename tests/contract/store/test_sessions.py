"""Sessions: made once, guarded by version and key, listed, expired."""

from __future__ import annotations

import pytest
from tests.contract.store.builders import (
    SESSION,
    WallClock,
    ended,
    event,
    new_session,
    running,
    started,
    turn_write,
)

from baton_server.core.events import SessionStatus, TurnStatus
from baton_server.core.items import Usage
from baton_server.ports.store import Batch, Conflict, ConflictKind, Page, SessionRow, SessionWrite, Store


async def test_new_session_is_kept_whole_with_the_times_of_its_commit(store: Store, clock: WallClock) -> None:
    """Every field that a caller sets comes back; sequences and times are the store's."""
    row = SessionRow(
        session_id=SESSION,
        key="customer 7 ☃",
        status=SessionStatus.IN_PROGRESS,
        agent_id="agent_1",
        agent_revision=3,
        agent_digest="a",
        config_digest="c",
        scopes=("first", "second"),
        metadata={"b": "2", "a": "\u0000𝄞"},
        active_turn_id="turn_1",
        usage=Usage(requests=1, total_tokens=5),
        expires_after_s=60.5,
        last_sequence=99,
        version=40,
        created_at=1.0,
        last_active_at=2.0,
        history_keeper="MODEL",
    )

    done = await store.commit(
        Batch(session_id=SESSION, session=SessionWrite(new=row, bump=True), events=(event(), event()))
    )

    assert await store.sessions.get(SESSION) == SessionRow(
        session_id=SESSION,
        key="customer 7 ☃",
        status=SessionStatus.IN_PROGRESS,
        agent_id="agent_1",
        agent_revision=3,
        agent_digest="a",
        config_digest="c",
        scopes=("first", "second"),
        metadata={"b": "2", "a": "\u0000𝄞"},
        active_turn_id="turn_1",
        usage=Usage(requests=1, total_tokens=5),
        expires_after_s=60.5,
        last_sequence=2,
        created_at=clock.time,
        last_active_at=clock.time,
        version=1,
        history_keeper="MODEL",
    )
    assert (done.session_version, done.last_sequence, done.at) == (1, 2, clock.time)


async def test_first_turn_decides_who_keeps_the_history(store: Store) -> None:
    """Written when it is said, and left alone by everything else, new defaults too."""
    await store.commit(new_session())
    undecided = await store.sessions.get(SESSION)

    await store.commit(Batch(session_id=SESSION, session=SessionWrite(history_keeper="SESSION")))
    other = SessionRow(session_id=SESSION, history_keeper="MODEL", scopes=("new",))
    for write in (SessionWrite(bump=True, active_turn_id="turn_1"), SessionWrite(replace=other), None):
        await store.commit(Batch(session_id=SESSION, session=write, events=(event(),)))

    decided = await store.sessions.get(SESSION)
    assert undecided is not None and undecided.history_keeper == ""
    assert decided is not None and (decided.history_keeper, decided.scopes) == ("SESSION", ("new",))


async def test_new_session_may_be_written_with_its_keeper(store: Store) -> None:
    """A run that makes its session decides in the same batch: the write goes over the row."""
    write = SessionWrite(new=SessionRow(session_id=SESSION), history_keeper="MODEL")

    await store.commit(Batch(session_id=SESSION, session=write, events=(event(),)))

    row = await store.sessions.get(SESSION)
    assert row is not None and row.history_keeper == "MODEL"


async def test_what_is_not_there_reads_as_none(store: Store) -> None:
    """An unknown id, an unknown key, and no key at all."""
    await store.commit(new_session())

    assert await store.sessions.get("sess_unknown") is None
    assert await store.sessions.by_key("unknown") is None
    assert await store.sessions.by_key("") is None


async def test_key_finds_its_session_and_is_taken_by_one(store: Store) -> None:
    """Two first writers get one session; sessions without a key do not meet."""
    await store.commit(new_session("sess_1", key="k"))
    await store.commit(new_session("sess_2"))
    await store.commit(new_session("sess_3"))

    with pytest.raises(Conflict) as conflict:
        await store.commit(new_session("sess_4", key="k"))

    assert conflict.value.kind is ConflictKind.KEY
    found = await store.sessions.by_key("k")
    assert found is not None
    assert found.session_id == "sess_1"
    assert await store.sessions.get("sess_4") is None


async def test_session_is_not_made_twice(store: Store) -> None:
    """A second session of the same id is refused, and the first one stays."""
    await store.commit(new_session(metadata={"which": "first"}))

    with pytest.raises(Conflict) as conflict:
        await store.commit(new_session(metadata={"which": "second"}))

    assert conflict.value.kind is ConflictKind.KEY
    row = await store.sessions.get(SESSION)
    assert row is not None
    assert row.metadata == {"which": "first"}


@pytest.mark.parametrize(
    "batch",
    [
        Batch(session_id="sess_gone", events=(event(),)),
        Batch(session_id="sess_gone", session=SessionWrite(bump=True)),
        Batch(session_id="sess_gone", documents={"d": b""}),
        Batch(session_id="sess_gone", session_deleted=True),
    ],
)
async def test_batch_of_a_missing_session_is_told_that_it_is_gone(store: Store, batch: Batch) -> None:
    """Whatever the batch would have written, nothing of it is."""
    with pytest.raises(Conflict) as conflict:
        await store.commit(batch)

    assert conflict.value.kind is ConflictKind.GONE
    assert await store.documents.document("d") is None


async def test_version_grows_when_bumped_and_guards(store: Store) -> None:
    """A writer that read an older version is refused and leaves nothing."""
    await store.commit(new_session())
    first = await store.commit(Batch(session_id=SESSION, session=SessionWrite(expected_version=0, bump=True)))
    unbumped = await store.commit(Batch(session_id=SESSION, session=SessionWrite(expected_version=1)))

    with pytest.raises(Conflict) as conflict:
        await store.commit(
            Batch(
                session_id=SESSION,
                session=SessionWrite(expected_version=0, bump=True, active_turn_id="t"),
                events=(event(),),
            )
        )

    assert (first.session_version, unbumped.session_version) == (1, 1)
    assert conflict.value.kind is ConflictKind.VERSION
    row = await store.sessions.get(SESSION)
    assert row is not None
    assert (row.version, row.active_turn_id, row.last_sequence) == (1, "", 1)


async def test_write_changes_what_it_names_and_adds_usage_up(store: Store) -> None:
    """A field that is None stays; usage is a sum."""
    await store.commit(new_session(usage=Usage(requests=1, input_tokens=10)))

    added = Usage(requests=1, input_tokens=5, cached_input_tokens=1, output_tokens=2, reasoning_tokens=3)
    await store.commit(
        Batch(
            session_id=SESSION,
            session=SessionWrite(status=SessionStatus.REQUIRES_ACTION, active_turn_id="turn_9", add_usage=added),
        )
    )
    await store.commit(Batch(session_id=SESSION, session=SessionWrite(add_usage=Usage(total_tokens=7))))

    row = await store.sessions.get(SESSION)
    assert row is not None
    assert (row.status, row.active_turn_id) == (SessionStatus.REQUIRES_ACTION, "turn_9")
    assert row.usage == Usage(
        requests=2,
        input_tokens=15,
        cached_input_tokens=1,
        output_tokens=2,
        reasoning_tokens=3,
        total_tokens=7,
    )


async def test_replaced_defaults_leave_the_rest_of_the_row(store: Store) -> None:
    """Agent, configuration, scopes, metadata and expiry are taken over; key, status and usage are not."""
    await store.commit(new_session(key="k", metadata={"old": "1"}, expires_after_s=5.0))
    given = SessionRow(
        session_id=SESSION,
        key="other",
        status=SessionStatus.REQUIRES_ACTION,
        agent_id="agent_2",
        agent_revision=2,
        agent_digest="a2",
        config_digest="c2",
        scopes=("s",),
        metadata={"new": "2"},
        usage=Usage(requests=9),
        version=40,
    )

    await store.commit(Batch(session_id=SESSION, session=SessionWrite(replace=given, bump=True)))

    row = await store.sessions.get(SESSION)
    assert row is not None
    assert (row.agent_id, row.agent_revision, row.agent_digest, row.config_digest) == (
        "agent_2",
        2,
        "a2",
        "c2",
    )
    assert (row.scopes, row.metadata, row.expires_after_s) == (("s",), {"new": "2"}, None)
    assert (row.key, row.status, row.usage, row.version) == ("k", SessionStatus.IDLE, Usage(), 1)


async def test_only_events_make_a_session_active(store: Store, clock: WallClock) -> None:
    """`last_active_at` is the time of the last event."""
    await store.commit(new_session())
    born = clock.time
    clock.time += 10
    await store.commit(Batch(session_id=SESSION, session=SessionWrite(bump=True)))
    untouched = await store.sessions.get(SESSION)
    await store.commit(Batch(session_id=SESSION, events=(event(),)))
    touched = await store.sessions.get(SESSION)

    assert untouched is not None
    assert touched is not None
    assert (untouched.last_active_at, touched.last_active_at) == (born, born + 10)
    assert touched.created_at == born


@pytest.mark.parametrize("size", range(1, 7))
async def test_sessions_are_listed_newest_first_to_the_end(store: Store, size: int) -> None:
    """Pages of every size show each session once."""
    ids = [f"sess_{n}" for n in range(5)]
    for session_id in ids:
        await store.commit(new_session(session_id))

    seen: list[str] = []
    after = ""
    while page := await store.sessions.newest(Page(size=size, after=after)):
        assert len(page) <= size
        seen += [row.session_id for row in page]
        after = seen[-1]

    assert seen == ids[::-1]


async def test_sessions_are_filtered_by_status_and_metadata(store: Store) -> None:
    """All wanted pairs must be there; any of the statuses will do."""
    await store.commit(new_session("sess_1", metadata={"team": "a", "x": "1"}))
    await store.commit(new_session("sess_2", metadata={"team": "a"}, status=SessionStatus.REQUIRES_ACTION))
    await store.commit(new_session("sess_3", metadata={"team": "b"}, status=SessionStatus.IN_PROGRESS))
    everything = Page(size=10)

    async def found(**filters: object) -> list[str]:
        rows = await store.sessions.newest(everything, **filters)  # type: ignore[arg-type] # by name
        return [row.session_id for row in rows]

    assert await found(metadata={"team": "a"}) == ["sess_2", "sess_1"]
    assert await found(metadata={"team": "a", "x": "1"}) == ["sess_1"]
    assert await found(metadata={"team": "a", "x": "2"}) == []
    assert await found(metadata={}) == ["sess_3", "sess_2", "sess_1"]
    assert await found(statuses=[SessionStatus.REQUIRES_ACTION, SessionStatus.IN_PROGRESS]) == [
        "sess_3",
        "sess_2",
    ]
    assert await found(statuses=[SessionStatus.IDLE], metadata={"team": "b"}) == []


async def test_session_expires_after_its_last_event(store: Store, clock: WallClock) -> None:
    """The first moment is last event plus `expires_after_s`; without one a session stays."""
    await store.commit(new_session("sess_short", expires_after_s=10.0))
    await store.commit(new_session("sess_ever"))
    clock.time += 5
    await store.commit(Batch(session_id="sess_short", events=(event(),)))
    last = clock.time

    assert await store.sessions.expired(last + 9.999, 10) == []
    assert await store.sessions.expired(last + 10, 10) == ["sess_short"]


async def test_session_with_a_turn_under_way_does_not_expire(store: Store, clock: WallClock) -> None:
    """Neither while a turn runs nor while one is queued; ended turns do not count."""
    await store.commit(new_session(expires_after_s=10.0))
    late = clock.time + 100

    await store.commit(started("turn_1"))
    while_running = await store.sessions.expired(late, 10)
    await store.commit(
        Batch(session_id=SESSION, turn=turn_write("turn_2", TurnStatus.QUEUED), events=(event("turn_2"),))
    )
    await store.commit(ended("turn_1"))
    while_queued = await store.sessions.expired(late, 10)
    await store.commit(ended("turn_2"))

    assert (while_running, while_queued) == ([], [])
    assert await store.sessions.expired(late, 10) == [SESSION]


async def test_expired_sessions_come_in_bounded_portions(store: Store, clock: WallClock) -> None:
    """At most `limit` at once, the ones that may have waited longest first."""
    for n in (3, 1, 2):
        await store.commit(new_session(f"sess_{n}", expires_after_s=float(n)))

    assert await store.sessions.expired(clock.time + 60, 2) == ["sess_1", "sess_2"]


async def test_deleted_session_leaves_nothing_but_documents(store: Store) -> None:
    """See test_deletion for what belongs to a session; here: it is gone from every list."""
    await running(store)
    await store.commit(ended())

    await store.commit(Batch(session_id=SESSION, session_deleted=True))

    assert await store.sessions.get(SESSION) is None
    assert await store.sessions.newest(Page(size=10)) == []
