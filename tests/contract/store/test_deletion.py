"""Deleting a session: all that belongs to it goes, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    call,
    ended,
    event,
    grant,
    new_session,
    reached,
    request,
    running,
    said,
    started,
    turn_write,
)
from tests.contract.store.dump import dump

from baton_server.core.events import TurnStatus
from baton_server.ports.store import Batch, Conflict, ConflictKind, Duplicate, Page, Settled, Store, TimerRow

DELETE = Batch(session_id=SESSION, session_deleted=True)


async def full(store: Store, session_id: str, turn_id: str, name: str) -> None:
    """Make a session that has something of everything, its turn ended but for an inbox row that came before."""
    await store.commit(new_session(session_id, key=f"key of {name}"))
    await store.commit(started(turn_id, session_id))
    await store.commit(
        Batch(
            session_id=session_id,
            request=request(f"of {name}", session_id=session_id),
            events=(said(f"item_{name}", turn_id), said(f"item_{name}_turnless")),
            contents={"c": name.encode()},
            grants=(grant("pay", session_id=session_id),),
            documents={"d": b"document"},
            calls_opened=(
                call(f"call_{name}", session_id=session_id, turn_id=turn_id),
                call(f"call_{name}_keyed", session_id=session_id, turn_id=turn_id, idempotency_key="key"),
            ),
            calls_settled=(Settled(call_id=f"call_{name}_keyed", succeeded=True, output_item_id=f"item_{name}"),),
            timers_set=(TimerRow(turn_id=turn_id, name="t", at=1.0),),
        )
    )
    await store.commit(
        Batch(
            session_id=session_id,
            turn=turn_write(turn_id, TurnStatus.COMPLETED, 1, session_id=session_id),
            events=(event(turn_id),),
        )
    )


async def test_everything_of_the_session_goes(store: Store) -> None:
    """Rows that no list of the session shows too; only documents stay, since others may have pinned them."""
    await full(store, SESSION, TURN, "one")

    await store.commit(DELETE)

    left = await dump(store, calls=["call_one"], digests=["d"], turns=[TURN])
    assert left == {
        "sessions": [],
        "of_sessions": {},
        "unfinished": [],
        "inboxes": {TURN: []},
        "calls": {"call_one": None},
        "open": [],
        "timers": [],
        "agents": {},
        "newest_agents": [],
        "documents": {"d": b"document"},
    }
    assert await store.sessions.by_key("key of one") is None
    assert await store.turns.get(TURN) is None
    assert await store.turns.newest(SESSION, Page(size=9)) == []
    assert await store.events.after(SESSION, 0, 9) == []
    assert await store.events.of_turn(TURN) == []
    assert await store.items.page(SESSION, Page(size=9)) == []
    assert dict(await store.items.texts(TURN)) == {}
    assert await store.documents.content(SESSION, "c") is None
    assert await store.sessions.grants(SESSION) == ()
    assert await store.requests.get(request("of one").key) is None
    assert await store.calls.get("call_one_keyed") is None
    assert await store.calls.succeeded(SESSION, "key") is None


async def test_other_sessions_keep_all_of_theirs(store: Store) -> None:
    """Not one row of theirs is touched."""
    await full(store, "sess_2", "turn_2", "two")
    names = {"calls": ["call_two", "call_two_keyed"], "digests": ["d"], "turns": ["turn_2"]}
    before = await dump(store, **names)
    await full(store, SESSION, TURN, "one")

    await store.commit(DELETE)

    assert await dump(store, **names) == before
    assert await store.documents.content("sess_2", "c") == b"two"
    assert await store.calls.succeeded("sess_2", "key") is not None
    assert await store.requests.get(request("of two", session_id="sess_2").key) is not None


@pytest.mark.parametrize("status", [TurnStatus.QUEUED, TurnStatus.IN_PROGRESS, TurnStatus.WAITING])
async def test_session_with_a_turn_under_way_is_not_deleted(store: Store, status: TurnStatus) -> None:
    """Whether it runs, waits or is queued; ended turns do not hold it."""
    await store.commit(new_session())
    await store.commit(Batch(session_id=SESSION, turn=turn_write(status=status), events=(event(TURN),)))

    with pytest.raises(Conflict) as conflict:
        await store.commit(DELETE)
    assert conflict.value.kind is ConflictKind.BUSY
    assert len(await store.events.after(SESSION, 0, 9)) == 2

    await store.commit(ended())
    await store.commit(DELETE)


async def test_deletion_itself_is_answered_once(store: Store) -> None:
    """Its own answer outlives the session, so that a retry is told the same."""
    await running(store)
    await store.commit(ended())
    await store.commit(Batch(session_id=SESSION, request=request("r-1")))
    deletion = replace(DELETE, request=request("r-1", rpc="DeleteSession"))

    await store.commit(deletion)

    with pytest.raises(Duplicate):
        await store.commit(deletion)
    assert await store.requests.get(request("r-1").key) is None


async def test_session_may_be_made_anew(store: Store) -> None:
    """Key, sequences and ids start over; nothing of the old one shines through."""
    await full(store, SESSION, TURN, "one")
    await store.commit(DELETE)

    await full(store, SESSION, TURN, "one")
    await store.commit(Batch(session_id=SESSION, turn=turn_write("turn_2", starts=True), events=(event("turn_2"),)))
    await store.commit(reached("a", "turn_2"))

    assert [row.sequence for row in await store.events.after(SESSION, 0, 99)] == [1, 2, 3, 4, 5, 6]
    assert [row.n for row in await store.inbox.rows("turn_2")] == [1]
