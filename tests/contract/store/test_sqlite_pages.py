"""What a commit of calls writes: pages of which b-trees, read from the write-ahead log."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    deadline,
    lease,
    moved,
    opened,
    park,
    requeue,
    running,
    settle,
    stamp,
)

from baton_server.ports.store import Batch, CallState, Deadline
from baton_server.store.sql.statements import Writes
from baton_server.store.sqlite import SQLiteStore, open_sqlite
from baton_server.store.sqlite.dialect import SQLiteDialect

WAL_HEADER, FRAME_HEADER = 32, 24
"""Bytes before the frames, and before the page in each; a frame begins with its page's number. SQLite file format."""


def roots(path: Path) -> dict[int, str]:
    """Name the first page of each table and index, by number. A small store has no other pages in most."""
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT rootpage, name FROM sqlite_master WHERE rootpage > 0"))


class Log:
    """The write-ahead log of an open store, read frame by frame."""

    def __init__(self, path: Path) -> None:
        self._wal = Path(f"{path}-wal")
        self._roots = roots(path)
        self._seen = self._wal.stat().st_size

    def written(self) -> list[str]:
        """Name the tables and indexes whose pages were written since this was asked last."""
        text = self._wal.read_bytes()
        page_size = int.from_bytes(text[8:12], "big")
        frames = range(self._seen or WAL_HEADER, len(text), FRAME_HEADER + page_size)
        self._seen = len(text)
        return sorted(self._roots[int.from_bytes(text[at : at + 4], "big")] for at in frames)


@pytest.fixture
async def store(tmp_path: Path) -> SQLiteStore:
    """A store with a turn under way and one call, so that the page of every index is there."""
    store = await open_sqlite(tmp_path / "baton.db", stamp=stamp, holder={})
    await running(store)
    await store.commit(opened(call("call_0", idempotency_key="key")))
    return store


async def test_call_without_a_key_writes_nothing_for_keys(store: SQLiteStore, tmp_path: Path) -> None:
    """A plain run pays for the table, its two keys and the list of open calls, as it always did."""
    log = Log(tmp_path / "baton.db")

    await store.commit(opened(call("call_1", state=CallState.LEASED, attempt=1, holder="token", timeout_s=1.0)))
    opening = log.written()
    await store.commit(settle("call_1", 1, digest="d", succeeded=True, output_item_id="item_1"))
    settling = log.written()
    await store.close()

    assert opening == ["calls", "calls_by_tenant_session_id_number", "calls_open", "sqlite_autoindex_calls_1"]
    assert settling == ["calls", "calls_open"]


async def test_keyed_call_costs_one_page_more_and_only_when_it_is_opened(store: SQLiteStore, tmp_path: Path) -> None:
    """Whatever becomes of it later, its key stays."""
    log = Log(tmp_path / "baton.db")

    await store.commit(opened(call("call_1", idempotency_key="key")))
    opening = log.written()
    for batch in (
        lease("call_1", 1),
        deadline("call_1", 5.0),
        park("call_1", 1),
        requeue("call_1", 1),
        settle("call_1", succeeded=True, output_item_id="item_1"),
    ):
        await store.commit(batch)
    afterwards = log.written()
    await store.close()

    assert opening.count("calls_keyed") == 1
    assert set(afterwards) == {"calls", "calls_open"}


async def test_call_that_is_kept_back_costs_no_more_than_one_that_is_handed_out(
    store: SQLiteStore, tmp_path: Path
) -> None:
    """What a decision is bound to is in no index; that a call is let go and leased by one batch is one write more."""
    log = Log(tmp_path / "baton.db")
    asked = {"arguments_digest": "a" * 64, "definition_digest": "d" * 64, "decide_by": 5.0}

    await store.commit(opened(call("call_1", state=CallState.HELD, run_path=("call_0",))))
    opening = log.written()
    await store.commit(moved("call_1", CallState.AWAITING_DECISION, **asked))
    asking = log.written()
    await store.commit(Batch(moves=moved("call_1", CallState.QUEUED).moves, leases=lease("call_1", 1).leases))
    handing_out = log.written()
    await store.close()

    assert opening == ["calls", "calls_by_tenant_session_id_number", "calls_open", "sqlite_autoindex_calls_1"]
    assert asking == ["calls", "calls_open"]
    assert handing_out == ["calls", "calls_open"]


async def test_parts_that_are_passed_over_write_nothing(store: SQLiteStore, tmp_path: Path) -> None:
    """Stale timers and answers cost a look."""
    await store.commit(settle("call_0", succeeded=True, output_item_id="item_1"))
    log = Log(tmp_path / "baton.db")

    await store.commit(
        Batch(
            session_id=SESSION,
            moves=moved("call_0", CallState.QUEUED).moves,
            parked=park("call_0", 1).parked,
            requeues=requeue("call_0", 1).requeues,
            deadlines=(Deadline(call_id="call_0", at=5.0),),
        )
    )
    nothing = log.written()
    await store.close()

    assert nothing == []


def test_no_update_of_a_call_opens_the_index_of_keys(tmp_path: Path, empty_database: Path) -> None:
    """By SQLite's own plan: an index whose columns are not set is not touched, however full it is."""
    updates = {
        name: sql for name, sql in vars(Writes(SQLiteDialect()).calls).items() if sql.lstrip().startswith("UPDATE")
    }
    by_root = {name: root for root, name in roots(empty_database).items()}
    with closing(sqlite3.connect(empty_database)) as db:
        opened_by = {
            name: {row[3] for row in db.execute(f"EXPLAIN {sql}", _Anything()) if row[1] == "OpenWrite"}
            for name, sql in updates.items()
        }

    assert {"settle", "record", "move", "ask", "park", "requeue", "lease", "time_out_at"} == set(updates)
    assert all(by_root["calls"] in pages for pages in opened_by.values())
    assert not [name for name, pages in opened_by.items() if by_root["calls_keyed"] in pages]
    assert not [name for name in ("record", "time_out_at") if by_root["calls_open"] in opened_by[name]]


class _Anything(dict[str, object]):
    def __missing__(self, name: str) -> object:
        return ""
