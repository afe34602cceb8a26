"""The SQLite store between processes: one at a time, and none that is killed takes anything with it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tests.contract.store.builders import SESSION, stamp
from tests.contract.store.processes import EVENTS, start

from baton_server.ports.store import EventRow, Page, StoreUnavailable
from baton_server.store.sqlite import StoreHeld, open_sqlite


@pytest.mark.slow
async def test_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    """By pid, host, time and what the holder says of itself; when the holder is killed, the next one gets it."""
    path = tmp_path / "baton.db"
    holder = start(path, "--hold")

    with pytest.raises(StoreHeld) as held:
        await open_sqlite(path, stamp=stamp, holder={})
    holder.kill()
    store = await open_sqlite(path, stamp=stamp, holder={})
    await store.close()

    told = held.value.holder
    assert (told["pid"], told["host"]) == (str(holder.process.pid), socket.gethostname())
    assert told["address"] == "127.0.0.1:7233"
    assert held.value.path == path
    for word in (str(path), f"process {holder.process.pid}", socket.gethostname(), "address 127.0.0.1:7233"):
        assert word in str(held.value)
    assert "since 20" in str(held.value)
    assert isinstance(held.value, StoreUnavailable)


async def test_second_store_in_one_process_is_refused(tmp_path: Path) -> None:
    """Until the first one is closed; by any name of the file."""
    path = tmp_path / "baton.db"
    first = await open_sqlite(path, stamp=stamp, holder={"role": "first"})

    with pytest.raises(StoreHeld, match="role first") as held:
        await open_sqlite(str(path), stamp=stamp, holder={})
    await first.close()
    second = await open_sqlite(path, stamp=stamp, holder={})
    await second.close()

    assert held.value.holder["pid"] == str(os.getpid())


def empty(lock: Path) -> None:
    """Bring a lock file back to the moment before its holder has named itself."""
    lock.write_bytes(b"")


async def test_holder_that_has_not_named_itself_yet_is_no_riddle(tmp_path: Path) -> None:
    """Between taking the lock and writing its name a holder is caught with an empty file."""
    path = tmp_path / "baton.db"
    first = await open_sqlite(path, stamp=stamp, holder={})
    empty(Path(f"{path}.lock"))

    with pytest.raises(StoreHeld, match="only starting"):
        await open_sqlite(path, stamp=stamp, holder={})
    await first.close()


@pytest.mark.slow
async def test_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    """Three lives, each killed amid group commits: acknowledged batches are whole, no other is half there."""
    path = tmp_path / "baton.db"
    acknowledged: set[str] = set()

    for life in ("a", "b", "c"):
        process = start(path, life)
        acknowledged |= {process.line() for _ in range(200)}
        acknowledged |= set(process.kill())

    store = await open_sqlite(path, stamp=stamp, holder={})
    events: list[EventRow] = []
    while page := await store.events.after(SESSION, len(events), 1000):
        events += page
    items = {row.item_id for row in await store.items.page(SESSION, Page(size=100_000))}
    timers = {row.name for row in await store.timers.all()}
    assert [row.sequence for row in events] == list(range(1, len(events) + 1))
    assert (len(events) - 1) % EVENTS == 0
    assert acknowledged <= timers
    assert items == {f"item_{name}" for name in timers}
    assert len(events) - 1 == EVENTS * len(timers)
    for name in acknowledged:
        assert await store.documents.document(f"document_{name}") == name.encode()
    await store.close()
    assert len(acknowledged) >= 600
