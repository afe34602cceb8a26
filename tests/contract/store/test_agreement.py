"""The fake and the SQLite store agree on any sequence of batches: same answers, same refusals, same rows."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.store.builders import WallClock, new_session, stamp, turn_row
from tests.contract.store.drawn_calls import CALLS, KEYS, NAMES, SCOPES, call_parts, several
from tests.contract.store.dump import dump

from baton_server.core.events import TERMINAL, SessionStatus, TurnStatus
from baton_server.core.items import Usage
from baton_server.ports.store import (
    AgentRow,
    Batch,
    CallRow,
    Conflict,
    Duplicate,
    GrantRow,
    InboxRow,
    ItemRow,
    NewEvent,
    RequestKey,
    RequestRow,
    SessionRow,
    SessionWrite,
    Store,
    TimerRow,
    TurnWrite,
)
from baton_server.store.memory import MemoryStore
from baton_server.store.sqlite import open_sqlite

SESSIONS = ("sess_1", "sess_2")
TURNS = {"turn_1": "sess_1", "turn_2": "sess_1", "turn_3": "sess_2", "turn_4": "sess_1"}
ITEMS = tuple(f"item_{n}" for n in range(12))
DIGESTS = ("d1", "d2")
KEEPERS = ("", "SESSION", "MODEL")
SMALL = st.integers(0, 3)
Tuples = st.SearchStrategy[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What there is, so that most batches fit it: versions of turns, calls, and inbox rows."""

    versions: dict[str, int]
    calls: list[CallRow]
    waiting: list[tuple[str, int]]

    @classmethod
    async def of(cls, store: Store) -> World:
        """Look at a store."""
        turns = [await store.turns.get(turn_id) for turn_id in TURNS]
        calls = [await store.calls.get(call_id) for call_id in CALLS]
        inboxes = [await store.inbox.rows(turn_id) for turn_id in TURNS]
        return cls(
            versions={row.turn_id: row.version for row in turns if row is not None},
            calls=[row for row in calls if row is not None],
            waiting=[(row.turn_id, row.n) for rows in inboxes for row in rows],
        )


def some(
    strategy: st.SearchStrategy[Any], most: int = 2, *, if_any: object = True
) -> st.SearchStrategy[tuple[Any, ...]]:
    """Few of something, mostly none; none at all if there is nothing to take them from."""
    none = st.just(())
    if not if_any:
        return none
    return st.one_of(none, none, none, st.lists(strategy, min_size=1, max_size=most).map(tuple))


def perhaps(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of something, mostly None."""
    return st.one_of(st.none(), st.none(), st.none(), strategy)


def rarely(usual: Any, other: Any) -> st.SearchStrategy[Any]:
    """The usual value, and one time in ten another."""
    return st.sampled_from([usual] * 9 + [other])


@st.composite
def turn_writes(draw: st.DrawFn, session_id: str, versions: dict[str, int]) -> TurnWrite:
    """A turn's write, whose expected version is mostly the one there is."""
    turn_id = draw(st.sampled_from([own for own, of in TURNS.items() if of == session_id]))
    status = draw(st.sampled_from(TurnStatus))
    expected = draw(rarely(versions.get(turn_id), 1))
    return TurnWrite(
        row=turn_row(turn_id, status, session_id=session_id, snapshot=draw(st.binary(max_size=3))),
        expected_version=expected,
        starts=draw(st.booleans()),
        ends=status in TERMINAL,
    )


@st.composite
def events(draw: st.DrawFn, session_id: str, turn_ids: list[str]) -> NewEvent:
    """An event of the session or of a turn, often with an item."""
    turn_id = draw(st.sampled_from(["", *turn_ids]))
    item_id = draw(st.one_of(st.none(), st.sampled_from(ITEMS)))
    row = None
    if item_id is not None:
        row = ItemRow(
            item_id=item_id,
            turn_id=turn_id,
            rank=draw(SMALL),
            data=draw(st.binary(max_size=2)),
            json=draw(st.sampled_from(["", "json", "\x00𝄞"])),
            in_history=draw(st.booleans()),
        )
    return NewEvent(turn_id=turn_id, data=draw(st.binary(max_size=3)), item=row)


@st.composite
def session_writes(draw: st.DrawFn, session_id: str) -> SessionWrite:
    """What becomes of the session, perhaps that it is made."""
    row = SessionRow(
        session_id=session_id,
        key=draw(st.sampled_from(["", "", "k"])),
        scopes=draw(SCOPES),
        metadata=draw(st.dictionaries(NAMES, NAMES, max_size=1)),
        expires_after_s=draw(st.sampled_from([None, 0.0, 5.0])),
        history_keeper=draw(st.sampled_from(KEEPERS)),
    )
    return SessionWrite(
        new=draw(rarely(None, row)),
        expected_version=draw(rarely(None, 1)),
        bump=draw(st.booleans()),
        status=draw(perhaps(st.sampled_from(SessionStatus))),
        active_turn_id=draw(perhaps(st.sampled_from(["", *TURNS]))),
        add_usage=draw(perhaps(st.just(Usage(requests=1, total_tokens=3)))),
        replace=draw(perhaps(st.just(row))),
        history_keeper=draw(perhaps(st.sampled_from(KEEPERS))),
    )


@st.composite
def batches(draw: st.DrawFn, world: World) -> Batch:
    """Any batch, mostly one that could be written."""
    session_id = draw(st.sampled_from(SESSIONS))
    if draw(st.integers(0, 39)) == 39:
        return Batch(session_id=session_id, session_deleted=True, request=draw(perhaps(requests(session_id))))
    writes = draw(st.lists(turn_writes(session_id, world.versions), max_size=2))
    turn_ids = [own for own, of in TURNS.items() if of == session_id]
    written = {write.row.turn_id for write in writes}
    known = [turn_id for turn_id in turn_ids if turn_id in world.versions or turn_id in written]
    rows = draw(st.lists(events(session_id, known), max_size=3))
    rows += [NewEvent(turn_id=write.row.turn_id, data=b"start") for write in writes if write.starts]
    turn_of_any = st.sampled_from(tuple(TURNS))
    return Batch(
        session_id=session_id,
        request=draw(perhaps(requests(session_id))),
        session=draw(perhaps(session_writes(session_id))),
        turn=writes[0] if writes else None,
        next_turn=writes[1] if len(writes) > 1 and writes[0].row.turn_id != writes[1].row.turn_id else None,
        events=tuple(rows),
        withdrawn=draw(some(st.sampled_from(ITEMS))) if rows else (),
        documents=draw(st.dictionaries(st.sampled_from(DIGESTS), st.binary(max_size=2), max_size=1)),
        contents=draw(st.dictionaries(st.sampled_from(DIGESTS), st.binary(max_size=2), max_size=1)),
        grants=draw(some(grants(session_id))),
        timers_set=draw(some(st.builds(TimerRow, turn_id=turn_of_any, name=NAMES, at=st.floats(0, 9)))),
        timers_cleared=draw(some(st.tuples(turn_of_any, NAMES))),
        inbox_added=draw(some(st.builds(InboxRow, turn_id=turn_of_any, source=NAMES, data=st.binary(max_size=2)))),
        inbox_consumed=draw(some(st.deferred(lambda: st.sampled_from(world.waiting)), 1, if_any=world.waiting)),
        agent=draw(perhaps(st.builds(AgentRow, agent_id=NAMES, revision=st.integers(1, 3), digest=NAMES))),
        agent_deleted=draw(rarely("", "f")),
        **draw(call_parts(session_id, turn_ids, world.calls, some)),
    )


@st.composite
def batches_of_calls(draw: st.DrawFn, world: World) -> Batch:
    """A batch that does several things to calls, and nothing else."""
    session_id = draw(st.sampled_from(SESSIONS))
    turn_ids = [own for own, of in TURNS.items() if of == session_id]
    return Batch(session_id=session_id, **draw(call_parts(session_id, turn_ids, world.calls, several)))


def grants(session_id: str) -> st.SearchStrategy[GrantRow]:
    """A grant of the session, now and then of another."""
    return st.builds(
        GrantRow,
        session_id=rarely(session_id, SESSIONS[0]),
        agent=NAMES,
        tool=NAMES,
        definition_digest=st.sampled_from(DIGESTS),
        approve=st.booleans(),
        message=st.sampled_from(["", "\x00𝄞"]),
        decided_by=NAMES,
    )


def requests(session_id: str) -> st.SearchStrategy[RequestRow]:
    """A request of the session."""
    keys = st.builds(RequestKey, rpc=NAMES, session_id=st.just(session_id), request_id=NAMES)
    return st.builds(RequestRow, key=keys, digest=NAMES, answer=st.binary(max_size=2))


async def outcome(store: Store, batch: Batch) -> object:
    """Commit; returns what it gave, or in comparable form what it raised."""
    try:
        return await store.commit(batch)
    except Conflict as conflict:
        return conflict.kind
    except Duplicate as duplicate:
        return duplicate.row
    except ValueError:
        return ValueError


async def seen(store: Store) -> dict[str, Any]:
    """Read all that there may be."""
    now = 1_700_000_020.0
    return await dump(store, calls=CALLS, digests=DIGESTS, turns=tuple(TURNS)) | {
        "contents": [await store.documents.content(own, digest) for own in SESSIONS for digest in DIGESTS],
        "expired": await store.sessions.expired(now, 10),
        "succeeded": [await store.calls.succeeded(own, key) for own in SESSIONS for key in KEYS],
    }


Batches = Callable[[World], st.SearchStrategy[Batch]]


async def compare(data: st.DataObject, path: Path, drawn: Batches) -> None:
    """Give both stores the same batches, and look at both after each."""
    clock = WallClock()
    fake: Store = MemoryStore(stamp=stamp, clock=clock)
    real: Store = await open_sqlite(path, stamp=stamp, holder={}, synchronous="NORMAL", clock=clock)
    try:
        for session_id in SESSIONS:
            assert await outcome(fake, new_session(session_id)) == await outcome(real, new_session(session_id))
        for _ in range(data.draw(st.integers(1, 15))):
            batch = data.draw(drawn(await World.of(fake)))
            clock.time += 1
            assert await outcome(real, batch) == await outcome(fake, batch)
            assert await seen(real) == await seen(fake)
        assert await real.forget(clock.time, 3) == await fake.forget(clock.time, 3)
    finally:
        await real.close()
        await fake.close()


def on_a_copy(data: st.DataObject, empty_database: Path, drawn: Batches) -> None:
    """Compare the stores, the real one on a database of its own."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "baton.db"
        shutil.copy(empty_database, path)
        asyncio.run(compare(data, path, drawn))


MANY = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@MANY
@given(data=st.data())
def test_fake_and_sqlite_agree_on_any_batches(data: st.DataObject, empty_database: Path) -> None:
    """The fake is the specification: whatever it does, SQLite does too."""
    on_a_copy(data, empty_database, batches)


@MANY
@given(data=st.data())
def test_fake_and_sqlite_agree_on_what_becomes_of_calls(data: st.DataObject, empty_database: Path) -> None:
    """Few calls and much that happens to them: so that each step meets each state that another one left."""
    on_a_copy(data, empty_database, batches_of_calls)
