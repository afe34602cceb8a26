"""What each released version wrote is brought to the schema of this one in place, whole or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest

from baton_server.core.agents import LostWorker
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    Deadline,
    Lease,
    Page,
    Parked,
    Requeue,
    Settled,
    SettleGuard,
    StoreUnavailable,
)
from baton_server.store.sql.schema import metadata
from baton_server.store.sqlite import SQLiteStore, open_sqlite
from baton_server.store.sqlite.engine import open_engine
from tests.contract.store.builders import stamp
from tests.contract.store.test_sqlite_schema import definitions

FOLDER = Path(__file__).parent
GOLDEN = sorted(FOLDER.glob("*.sql"))
FIRST = FOLDER / "0.0.1.sql"
ADDED_SINCE = {
    "version": "",
    "holder": "",
    "lost_worker": None,
    "idempotency_key": "",
    "timeout_s": None,
    "deadline": None,
    "expires_at": None,
    "succeeded": False,
    "output_item_id": "",
}
"""Fields of a call that 0.0.1 did not know, as its calls have them now."""

Table = list[tuple[object, ...]]


def store_of(golden: Path, folder: Path) -> Path:
    """Make a store file of its text."""
    path = folder / "baton.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(golden.read_text())
    return path


def tables(path: Path) -> dict[str, Table]:
    """Read all rows of all tables, as they are stored."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: list(db.execute(f"SELECT * FROM {name}")) for name in names if name != "alembic_version"}


async def opened(path: Path) -> SQLiteStore:
    """Open the store, which upgrades it."""
    return await open_sqlite(path, stamp=stamp, holder={})


async def calls_of(store: SQLiteStore, path: Path) -> list[CallRow]:
    """Read all calls through the store, in their order."""
    with closing(sqlite3.connect(path)) as db:
        ids = [call_id for (call_id,) in db.execute("SELECT call_id FROM calls ORDER BY number")]
    return [row for call_id in ids if (row := await store.calls.get(call_id)) is not None]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
async def test_upgraded_store_has_the_schema_of_a_new_one(golden: Path, tmp_path: Path) -> None:
    """To the letter: an index that is missing, or a default that differs, would be found only much later."""
    path = store_of(golden, tmp_path)
    made = tmp_path / "made.db"
    with open_engine(made) as engine:
        metadata.create_all(engine)

    await (await opened(path)).close()

    assert definitions(path) == definitions(made)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
async def test_upgrade_leaves_every_row_as_it_was(golden: Path, tmp_path: Path) -> None:
    """Tables gain columns; what was in them stays, byte for byte, and opening again changes nothing more."""
    path = store_of(golden, tmp_path)
    before = tables(path)

    await (await opened(path)).close()
    upgraded = tables(path)
    await (await opened(path)).close()

    kept = {name: [row[: len(before[name][n])] for n, row in enumerate(rows)] for name, rows in upgraded.items()}
    assert kept == before
    assert tables(path) == upgraded


async def test_calls_of_the_first_version_have_what_it_did_not_know_unsaid(tmp_path: Path) -> None:
    """Any version serves them, nobody's token holds them, no key joins them, no clock runs."""
    path = store_of(FIRST, tmp_path)
    store = await opened(path)

    found = await calls_of(store, path)
    everywhere = await store.calls.open_everywhere(Page(size=99))
    keyed = await store.calls.succeeded(found[0].session_id, "")
    await store.close()

    assert len(found) == 10
    assert ADDED_SINCE.keys() <= {field.name for field in fields(CallRow)}
    assert all({name: getattr(row, name) for name in ADDED_SINCE} == ADDED_SINCE for row in found)
    assert [row.key for row in found] == [row.call_id for row in found]
    assert [row.call_id for row in everywhere] == [row.call_id for row in found if row.state is not CallState.SETTLED]
    assert keyed is None


async def test_calls_of_the_first_version_go_on(tmp_path: Path) -> None:
    """Every step that a call can take now, from rows that were written before there were such steps."""
    path = store_of(FIRST, tmp_path)
    store = await opened(path)
    found = await calls_of(store, path)
    *settled, held, queued, waiting = found
    assert (held.state, queued.state, waiting.state) == (CallState.LEASED, CallState.QUEUED, CallState.QUEUED)
    lease = Lease(call_id=queued.call_id, attempt=1, worker_id="w", instance_id="i", holder="h")
    success = {"succeeded": True, "output_item_id": "item_new"}

    await store.commit(
        Batch(
            leases=(replace(lease, lost_worker=LostWorker.ASK),),
            deadlines=(Deadline(call_id=queued.call_id, at=7.0),),
        )
    )
    unknown = Parked(call_id=held.call_id, attempt=held.attempt, state=CallState.EFFECT_UNKNOWN)
    await store.commit(Batch(session_id=held.session_id, parked=(unknown,)))
    parked = await store.calls.get(held.call_id)
    await store.commit(Batch(requeues=(Requeue(call_id=held.call_id, attempt=held.attempt),)))
    await store.commit(
        Batch(
            session_id=held.session_id,
            settles=(SettleGuard(call_id=waiting.call_id),),
            calls_settled=(
                Settled(call_id=waiting.call_id, **success),
                Settled(call_id=settled[0].call_id, **success),
            ),
            calls_opened=(replace(held, call_id="call_new", state=CallState.QUEUED, idempotency_key="key"),),
        )
    )
    await store.commit(
        Batch(session_id=held.session_id, calls_settled=(Settled(call_id="call_new", attempt=2, **success),))
    )

    leased, back, done, joined = [
        await store.calls.get(call_id)
        for call_id in (queued.call_id, held.call_id, waiting.call_id, settled[0].call_id)
    ]
    newest = await store.calls.succeeded(held.session_id, "key")
    await store.close()
    assert leased == replace(
        queued,
        state=CallState.LEASED,
        attempt=1,
        worker_id="w",
        instance_id="i",
        holder="h",
        lost_worker=LostWorker.ASK,
        deadline=7.0,
    )
    assert parked == replace(held, state=CallState.EFFECT_UNKNOWN, worker_id="", instance_id="")
    assert back == replace(parked, state=CallState.QUEUED, may_have_run=True)
    assert done == replace(waiting, state=CallState.SETTLED, **success)
    assert joined == replace(settled[0], **success)
    assert newest is not None and newest.call_id == "call_new"


async def test_upgrade_that_fails_leaves_the_store_to_the_version_that_wrote_it(tmp_path: Path) -> None:
    """Its last step is in the way of nothing but itself: no column of it stays, and once it can, it is done."""
    path = store_of(FIRST, tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE INDEX calls_keyed ON calls (name)")  # what an operator might have made
    before, rows = definitions(path), tables(path)

    with pytest.raises(StoreUnavailable, match="calls_keyed already exists"):
        await opened(path)
    failed, left = definitions(path), tables(path)
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("SELECT version_num FROM alembic_version").fetchall()
        db.execute("DROP INDEX calls_keyed")
    await (await opened(path)).close()

    assert (failed, left, version) == (before, rows, [("0001",)])
    assert "idempotency_key" in definitions(path)["calls"]
