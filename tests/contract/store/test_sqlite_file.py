"""The SQLite store and its file: opened again, unusable, full, gone."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    WallClock,
    call,
    ended,
    event,
    new_session,
    reached,
    request,
    running,
    said,
    stamp,
    started,
    turn_write,
)
from tests.contract.store.dump import dump

from baton_server.core.events import TurnStatus
from baton_server.core.tools import LostWorker
from baton_server.ports.store import (
    AgentRow,
    Batch,
    CallState,
    Conflict,
    Deadline,
    Lease,
    Parked,
    SessionWrite,
    Settled,
    StoreUnavailable,
    TimerRow,
)
from baton_server.store.sqlite import SQLiteStore, open_sqlite
from baton_server.store.sqlite.connect import Synchronous


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "baton.db"


async def opened(path: Path, synchronous: Synchronous = "FULL") -> SQLiteStore:
    """Open the store."""
    return await open_sqlite(path, stamp=stamp, holder={}, synchronous=synchronous)


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let no file grow beyond the store's write-ahead log as it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(f"{path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_reopened_store_sees_all(path: Path, synchronous: Synchronous) -> None:
    """Every kind of row, and what is counted on from it."""
    names = {"calls": [f"call_{n}" for n in range(1, 5)], "digests": ["d"], "turns": [TURN, "turn_2"]}
    store = await opened(path, synchronous)
    await running(store)
    await store.commit(
        Batch(
            session_id=SESSION,
            request=request(),
            session=SessionWrite(bump=True, active_turn_id=TURN),
            turn=turn_write(status=TurnStatus.WAITING, expected=1),
            events=(event(TURN), said("item_1", TURN), said("item_2", TURN, 1)),
            documents={"d": b"document"},
            contents={"c": b"content"},
            calls_opened=(
                call("call_1", idempotency_key="key"),
                call("call_2", version="v", timeout_s=1.5),
                call("call_3", expires_at=9.5),
                call("call_4", state=CallState.LEASED, attempt=1, lost_worker=LostWorker.ASK),
            ),
            calls_settled=(Settled(call_id="call_1", digest="r", succeeded=True, output_item_id="item_2"),),
            parked=(Parked(call_id="call_4", attempt=1, state=CallState.CHECKED),),
            timers_set=(TimerRow(turn_id=TURN, name="t", at=1.5),),
            inbox_added=reached("a").inbox_added,
            agent=AgentRow(agent_id="agent_1", revision=1, digest="a", metadata={"k": "v"}),
        )
    )
    lease = Lease(call_id="call_2", attempt=1, worker_id="w", instance_id="i", holder="h", lost_worker=LostWorker.ASK)
    await store.commit(Batch(leases=(lease,), deadlines=(Deadline(call_id="call_2", at=4.25),)))
    await store.commit(Batch(session_id=SESSION, events=(event(),), withdrawn=("item_1",)))
    before = await dump(store, **names)
    await store.close()

    store = await opened(path, synchronous)
    after = await dump(store, **names)
    done = await store.commit(Batch(session_id=SESSION, events=(event(TURN),)))
    await store.commit(reached("b"))
    rows = await store.inbox.rows(TURN)
    answered = await store.calls.succeeded(SESSION, "key")

    assert after == before
    assert answered is not None and answered.call_id == "call_1"
    assert done.last_sequence == 7
    assert [row.n for row in rows] == [1, 2]
    assert await store.documents.content(SESSION, "c") == b"content"
    assert await store.requests.get(request().key) is not None
    await store.close()


async def test_unknown_durability_is_refused(path: Path) -> None:
    """SQLite itself would take any word and ignore it."""
    off: Synchronous = "OFF"  # type: ignore[assignment] # what a configuration might say

    with pytest.raises(ValueError, match="'OFF'"):
        await opened(path, off)
    await (await opened(path)).close()


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    """The store says so, and lets go of the lock."""
    path.write_bytes(content)

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"baton\.db cannot be used"):
            asyncio.run(opened(path))

    assert path.read_bytes() == content


async def test_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """Nothing is made silently in a place that nobody prepared."""
    with pytest.raises(StoreUnavailable, match="nowhere"):
        await opened(tmp_path / "nowhere" / "baton.db")


async def test_file_of_a_newer_version_is_refused(path: Path) -> None:
    """Its schema is not known here, so it is not touched."""
    await (await opened(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(StoreUnavailable, match="none of this version's"):
        await opened(path)


async def test_full_disk_fails_the_whole_group_and_passes(path: Path, clock: WallClock) -> None:
    """Nobody is told anything that depends on what was not written; when there is room again, all goes on."""
    store = await opened(path)
    await store.commit(new_session())
    batches = [Batch(session_id=SESSION, events=(event("", b"x" * 10_000),)) for _ in range(8)]
    stale = Batch(session_id=SESSION, session=SessionWrite(expected_version=9))

    with full_disk(path):
        outcomes = await asyncio.gather(*(store.commit(batch) for batch in (*batches, stale)), return_exceptions=True)
        healthy = await store.healthy()

    assert {type(outcome) for outcome in outcomes} <= {StoreUnavailable, Conflict}
    assert [type(outcome) for outcome in outcomes[:8]] == [StoreUnavailable] * 8
    assert not healthy
    assert await store.healthy()
    assert len(await store.events.after(SESSION, 0, 99)) == 1
    done = await store.commit(batches[0])
    assert done.last_sequence == 2
    await store.close()


async def test_batch_larger_than_the_disk_leaves_nothing(path: Path) -> None:
    """Also when it runs out amid the batch's own statements, long before the commit."""
    store = await opened(path)
    await store.commit(new_session())
    huge = Batch(session_id=SESSION, events=tuple(event("", b"x" * 1_000_000) for _ in range(40)))

    with full_disk(path), pytest.raises(StoreUnavailable):
        await store.commit(huge)

    assert len(await store.events.after(SESSION, 0, 99)) == 1
    assert (await store.commit(Batch(session_id=SESSION, events=(event(),)))).last_sequence == 2
    await store.close()


def remove(path: Path, *, replaced: bool) -> None:
    """Take the file away, and perhaps put another one in its place."""
    path.unlink()
    if replaced:
        path.write_bytes(b"")


@pytest.mark.parametrize("replaced", [False, True])
async def test_file_that_is_gone_takes_no_more_commits(path: Path, replaced: bool) -> None:
    """SQLite would go on writing into a file that nobody will find again."""
    store = await opened(path)
    await store.commit(new_session())
    remove(path, replaced=replaced)

    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await store.commit(Batch(session_id=SESSION, events=(event(),)))

    assert not await store.healthy()
    await store.close()


async def test_more_work_than_the_queue_holds_is_done_in_order(path: Path) -> None:
    """Callers wait for a place; none is turned away."""
    store = await opened(path, "NORMAL")
    await store.commit(new_session())

    done = await asyncio.gather(*(store.commit(Batch(session_id=SESSION, events=(event(),))) for _ in range(3000)))

    assert [committed.last_sequence for committed in done] == list(range(2, 3002))
    await store.close()


async def test_close_waits_for_callers_who_wait_for_a_place(path: Path) -> None:
    """More than the queues hold had asked before: all of them are answered."""
    store = await opened(path, "NORMAL")
    await store.commit(new_session())
    batch = Batch(session_id=SESSION, events=(event(),))
    commits = [asyncio.ensure_future(store.commit(batch)) for _ in range(1500)]
    reads = [asyncio.ensure_future(store.sessions.get(SESSION)) for _ in range(600)]
    await asyncio.sleep(0)  # they have asked now

    await store.close()

    assert [committed.last_sequence for committed in await asyncio.gather(*commits)] == list(range(2, 1502))
    assert all(row is not None for row in await asyncio.gather(*reads))


async def test_loop_that_ends_first_leaves_a_file_that_opens_again(path: Path) -> None:
    """A program that forgot to close has lost nothing that was acknowledged."""

    def forgetful() -> None:
        async def work() -> None:
            store = await opened(path)
            await store.commit(new_session())
            await store.commit(started())
            await store.commit(ended())
            store_of_the_past.append(store)

        asyncio.run(work())

    store_of_the_past: list[SQLiteStore] = []
    await asyncio.to_thread(forgetful)

    with pytest.raises(StoreUnavailable):
        await opened(path)  # it still holds the file, as long as its process lives
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
    connection.close()
    assert count == 3
