"""What each version wrote is brought to the schema of this one in place, whole or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from baton_server.core.tools import LostWorker
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    Deadline,
    Lease,
    Move,
    Page,
    Parked,
    Requeue,
    Settled,
    SettleGuard,
    StoreUnavailable,
)
from baton_server.store import migrations
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
    "run_path": (),
    "arguments_digest": "",
    "definition_digest": "",
    "decide_by": None,
}
"""Fields of a call that 0.0.1 did not know, as its calls have them now."""

MADE_SINCE = {"grants"}
"""Tables that 0.0.1 did not have."""

STEPS = Path(migrations.__file__).parent

Table = list[tuple[object, ...]]


def store_of(golden: Path, folder: Path) -> Path:
    """Make a store file of its text."""
    path = folder / "baton.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(golden.read_text())
    return path


def brought_to(path: Path, revision: str) -> None:
    """Take the steps up to one: the store is as the version left it whose newest step that was."""
    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    with open_engine(path) as engine, engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def written(path: Path, sql: str) -> None:
    """Change a store behind its back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
        db.commit()


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
    made = upgraded.keys() - before.keys()
    assert {name: rows for name, rows in kept.items() if name not in made} == before
    assert made <= MADE_SINCE
    assert not any(upgraded[name] for name in made)
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


async def test_calls_of_the_second_schema_have_what_it_did_not_know_unsaid(tmp_path: Path) -> None:
    """What it did know stays: no call is of a nested run, and no decision about one is asked."""
    path = store_of(FIRST, tmp_path)
    brought_to(path, "0002")
    known = "version = 'v2', holder = 'h', idempotency_key = 'key', deadline = 7.5, output_item_id = 'item_1'"
    written(path, f"UPDATE calls SET {known}")

    store = await opened(path)
    found = await calls_of(store, path)
    await store.close()

    assert len(found) == 10
    assert {(row.version, row.holder, row.key, row.deadline, row.output_item_id) for row in found} == {
        ("v2", "h", "key", 7.5, "item_1")
    }
    unsaid = {(row.run_path, row.arguments_digest, row.definition_digest, row.decide_by) for row in found}
    assert unsaid == {((), "", "", None)}


async def test_calls_of_an_older_store_are_kept_back_and_let_go(tmp_path: Path) -> None:
    """Beside those that were there: they are at the worker that had them, and in its queue."""
    path = store_of(FIRST, tmp_path)
    store = await opened(path)
    *_, held, queued, _ = await calls_of(store, path)
    new = replace(queued, call_id="call_new", state=CallState.HELD, run_path=(queued.call_id,))
    asked = {"arguments_digest": "a", "definition_digest": "d", "decide_by": 7.0}

    await store.commit(Batch(session_id=new.session_id, calls_opened=(new,)))
    await store.commit(
        Batch(
            session_id=new.session_id,
            moves=tuple(
                Move(call_id=row.call_id, state=CallState.AWAITING_DECISION, **asked) for row in (new, held, queued)
            ),
        )
    )
    rows = [await store.calls.get(row.call_id) for row in (new, held, queued)]
    await store.close()

    assert rows[0] is not None
    assert rows[0] == replace(new, state=CallState.AWAITING_DECISION, opened_at=rows[0].opened_at, **asked)
    assert rows[1:] == [held, queued]


async def test_sessions_with_turns_in_their_history_keep_it_themselves(tmp_path: Path) -> None:
    """Or the next turn could have the model's API remember what it was never told. The others are undecided."""
    path = store_of(FIRST, tmp_path)
    brought_to(path, "0002")
    with closing(sqlite3.connect(path)) as db:
        talked, silent = [session_id for (session_id,) in db.execute("SELECT session_id FROM sessions ORDER BY 1")]
    written(path, f"UPDATE items SET added = 0 WHERE session_id = '{silent}'")  # as turns that their callers remember

    store = await opened(path)
    keepers = {row.session_id: row.history_keeper for row in await store.sessions.newest(Page(size=9))}
    grants = [await store.sessions.grants(session_id) for session_id in keepers]
    await store.close()

    assert keepers == {talked: "SESSION", silent: ""}
    assert grants == [(), ()]


@pytest.mark.parametrize(
    ("revision", "thing", "on"),
    [
        ("0001", "INDEX calls_keyed", "ON calls (name)"),
        ("0001", "TABLE grants", "(name)"),
        ("0002", "TABLE grants", "(name)"),
    ],
)
async def test_upgrade_that_fails_leaves_the_store_to_the_version_that_wrote_it(
    tmp_path: Path, revision: str, thing: str, on: str
) -> None:
    """Whichever step cannot be taken: nothing of it or of those before it stays, and once it can, they are done."""
    path = store_of(FIRST, tmp_path)
    brought_to(path, revision)
    written(path, f"CREATE {thing} {on}")  # what an operator might have made
    before, rows = definitions(path), tables(path)

    with pytest.raises(StoreUnavailable, match=f"{thing.split()[1]} already exists"):
        await opened(path)
    failed, left = definitions(path), tables(path)
    with closing(sqlite3.connect(path)) as db:
        version = db.execute("SELECT version_num FROM alembic_version").fetchall()
    written(path, f"DROP {thing}")
    await (await opened(path)).close()

    assert (failed, left, version) == (before, rows, [(revision,)])
    assert "idempotency_key" in definitions(path)["calls"]
    assert "decided_by" in definitions(path)["grants"]
