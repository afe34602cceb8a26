"""A batch as a whole: all or nothing, nothing silently ignored, nothing after close."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    TURN,
    WallClock,
    call,
    event,
    grant,
    item,
    new_session,
    reached,
    request,
    running,
    said,
    turn_row,
    turn_write,
)
from tests.contract.store.dump import dump

from baton_server.core.events import TurnStatus
from baton_server.core.items import Usage
from baton_server.ports.store import (
    AgentRow,
    Batch,
    CallState,
    Committed,
    Conflict,
    Deadline,
    Lease,
    Move,
    Page,
    Parked,
    RequestRow,
    SessionRow,
    SessionWrite,
    Settled,
    Store,
    StoreUnavailable,
    TimerRow,
    TurnWrite,
)


async def test_batch_that_fails_last_leaves_nothing_of_all_that_it_wrote(store: Store) -> None:
    """Every kind of write in one batch, and a guard that is asked at the end."""
    await running(store)
    await store.commit(reached("waiting"))
    await store.commit(
        Batch(
            session_id=SESSION,
            events=(said("item_1", TURN),),
            calls_opened=(
                call("call_1"),
                call("call_2"),
                call("call_3", state=CallState.LEASED, attempt=1),
                call("call_5", state=CallState.HELD),
            ),
            timers_set=(TimerRow(turn_id=TURN, name="old", at=1.0),),
        )
    )
    (waiting,) = await store.inbox.rows(TURN)
    names = {"calls": ["call_1", "call_2", "call_3", "call_4", "call_5"], "digests": ["d"], "turns": [TURN, "turn_2"]}
    before = await dump(store, **names)

    everything = Batch(
        session_id=SESSION,
        request=request(),
        session=SessionWrite(bump=True, active_turn_id=TURN, add_usage=Usage(requests=1), history_keeper="SESSION"),
        turn=turn_write(expected=1, status=TurnStatus.WAITING),
        next_turn=turn_write("turn_2", TurnStatus.QUEUED),
        events=(event(TURN), said("item_2", TURN, 1), event("turn_2")),
        withdrawn=("item_1",),
        documents={"d": b"document"},
        contents={"c": b"content"},
        calls_opened=(call("call_4"),),
        calls_settled=(Settled(call_id="call_1"),),
        moves=(Move(call_id="call_5", state=CallState.AWAITING_DECISION, decide_by=1.0),),
        leases=(Lease(call_id="call_2", attempt=1, worker_id="w", instance_id="i"),),
        parked=(Parked(call_id="call_3", attempt=1, state=CallState.EFFECT_UNKNOWN),),
        deadlines=(Deadline(call_id="call_2", at=1.0),),
        grants=(grant("pay"),),
        timers_set=(TimerRow(turn_id=TURN, name="new", at=1.0),),
        timers_cleared=((TURN, "old"),),
        inbox_added=reached("new").inbox_added,
        inbox_consumed=((TURN, waiting.n),),
        agent=AgentRow(agent_id="agent_1", revision=1, digest="a"),
        agent_deleted="agent_unknown",
    )
    with pytest.raises(Conflict):
        await store.commit(everything)
    after = await dump(store, **names)
    written = await store.commit(replace(everything, agent_deleted=""))

    assert after == before
    assert await store.requests.get(request().key) is not None
    assert (written.turn_version, written.inbox_left) == (2, 1)


async def test_batches_that_fail_take_no_others_with_them(store: Store) -> None:
    """In the same moment, in any mixture: the good ones are whole, the bad ones nothing."""
    for n in range(60):
        await store.commit(new_session(f"sess_{n}"))

    def batch(n: int) -> Batch:
        good = Batch(
            session_id=f"sess_{n}",
            events=(event(), said(f"item_{n}")),
            documents={f"d{n}": b""},
            timers_set=(TimerRow(turn_id=f"turn_{n}", name="t", at=float(n)),),
        )
        match n % 4:
            case 0:
                return replace(good, agent_deleted="agent_unknown")
            case 1:
                return replace(good, events=(*good.events, said(f"item_{n}")))
            case _:
                return good

    outcomes = await asyncio.gather(*(store.commit(batch(n)) for n in range(60)), return_exceptions=True)

    for n, outcome in enumerate(outcomes):
        good = isinstance(outcome, Committed)
        assert good is (n % 4 > 1), outcome
        assert len(await store.events.after(f"sess_{n}", 0, 10)) == (3 if good else 1)
        assert len(await store.items.page(f"sess_{n}", Page(size=9))) == int(good)
        assert (await store.documents.document(f"d{n}") is not None) is good
    assert [row.at for row in await store.timers.all()] == [float(n) for n in range(60) if n % 4 > 1]


async def test_stamp_that_raises_undoes_its_batch(store: Store) -> None:
    """Bytes that the codec cannot complete are the caller's error, not a broken store."""
    await store.commit(new_session())
    nonsense: bytes = 7  # type: ignore[assignment] # what the stamp of this suite cannot add to

    with pytest.raises(TypeError):
        await store.commit(Batch(session_id=SESSION, events=(event(), event("", nonsense))))

    assert len(await store.events.after(SESSION, 0, 10)) == 1
    assert await store.healthy()


MISTAKES = {
    "no session": Batch(events=(event(),)),
    "no session to delete": Batch(session_deleted=True),
    "contents of no session": Batch(contents={"d": b""}),
    "calls of no session": Batch(calls_opened=(call("call_1"),)),
    "call of another session": Batch(session_id=SESSION, calls_opened=(call("call_1", session_id="sess_2"),)),
    "new session of another id": Batch(session_id=SESSION, session=SessionWrite(new=SessionRow(session_id="sess_2"))),
    "turn of another session": Batch(session_id=SESSION, turn=turn_write(session_id="sess_2")),
    "deletes and writes": Batch(session_id=SESSION, session_deleted=True, events=(event(),)),
    "ends without a terminal status": Batch(session_id=SESSION, turn=TurnWrite(row=turn_row(), ends=True)),
    "terminal without an end": Batch(session_id=SESSION, turn=TurnWrite(row=turn_row(status=TurnStatus.FAILED))),
    "starts without an event": Batch(session_id=SESSION, turn=turn_write(starts=True), events=(event(),)),
    "withdraws without an event": Batch(session_id=SESSION, withdrawn=("item_1",)),
    "parks as queued": Batch(session_id=SESSION, parked=(Parked(call_id="call_1", attempt=1, state=CallState.QUEUED),)),
    "grant of no session": Batch(grants=(grant("pay"),)),
    "grant of another session": Batch(session_id=SESSION, grants=(grant("pay", session_id="sess_2"),)),
    "deletes and grants": Batch(session_id=SESSION, session_deleted=True, grants=(grant("pay"),)),
    "moves to a worker": Batch(session_id=SESSION, moves=(Move(call_id="call_1", state=CallState.LEASED),)),
    "lets go with a time to decide by": Batch(
        session_id=SESSION, moves=(Move(call_id="call_1", state=CallState.QUEUED, decide_by=1.0),)
    ),
    "item of another turn": Batch(session_id=SESSION, events=(event(TURN, item=item("item_1")),)),
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_batch_that_contradicts_itself_is_refused(store: Store, name: str) -> None:
    """No guard could ever let it pass, and nothing in it is silently ignored."""
    await store.commit(new_session())
    before = await dump(store)

    with pytest.raises(ValueError, match="cannot be written"):
        await store.commit(MISTAKES[name])

    assert await dump(store) == before


async def test_batch_may_touch_no_session(store: Store) -> None:
    """It has no sequence and no versions."""
    done = await store.commit(Batch(documents={"d": b""}))

    assert (done.events, done.turn_version, done.session_version, done.last_sequence) == ((), 0, 0, 0)


async def test_empty_write_of_a_session_only_asks_how_it_stands(store: Store, clock: WallClock) -> None:
    """The commit answers version and sequence, and the time of the store's clock."""
    await store.commit(new_session())
    clock.time += 2

    done = await store.commit(Batch(session_id=SESSION))

    assert done == Committed(at=clock.time, session_version=0, last_sequence=1)


async def test_reads_see_what_was_committed_before_them(store: Store) -> None:
    """Many readers, each right after its own commit."""
    await store.commit(new_session())

    async def write_and_read(n: int) -> bool:
        done = await store.commit(Batch(session_id=SESSION, events=(event("", b"%d" % n),)))
        found = await store.events.after(SESSION, done.last_sequence - 1, 1)
        return list(found) == list(done.events)

    assert all(await asyncio.gather(*(write_and_read(n) for n in range(100))))


async def test_store_is_healthy_until_it_is_closed(store: Store) -> None:
    """A closed store is not healthy, and closing twice is no mistake."""
    assert await store.healthy()
    assert await store.healthy()

    await store.close()
    await store.close()

    assert not await store.healthy()


async def test_closed_store_refuses_everything(store: Store) -> None:
    """Reads and writes raise StoreUnavailable."""
    await store.close()
    page = Page(size=1)

    with pytest.raises(StoreUnavailable):
        await store.commit(Batch(documents={"d": b""}))
    with pytest.raises(StoreUnavailable):
        await store.forget(0.0, 1)
    for read in (
        store.sessions.get("s"),
        store.sessions.newest(page),
        store.sessions.grants("s"),
        store.turns.unfinished(),
        store.events.of_turn("t"),
        store.items.history("s", 1),
        store.calls.open_in("s"),
        store.calls.succeeded("s", "k"),
        store.agents.newest(page),
        store.documents.document("d"),
        store.inbox.rows("t"),
        store.requests.get(request().key),
        store.timers.all(),
    ):
        with pytest.raises(StoreUnavailable):
            await read


async def test_close_finishes_what_was_asked_before(store: Store) -> None:
    """Commits and reads that are under way get their answers."""
    await store.commit(new_session())
    commits = [asyncio.ensure_future(store.commit(Batch(session_id=SESSION, events=(event(),)))) for _ in range(50)]
    reads = [asyncio.ensure_future(store.sessions.get(SESSION)) for _ in range(50)]
    await asyncio.sleep(0)  # they have asked now

    await store.close()

    done = await asyncio.gather(*commits)
    assert sorted(committed.last_sequence for committed in done) == list(range(2, 52))
    assert all(row is not None for row in await asyncio.gather(*reads))


async def test_caller_who_goes_away_leaves_the_store_working(store: Store) -> None:
    """A cancelled commit is whole or nothing; the next one goes on."""
    await store.commit(new_session())
    gone = [
        asyncio.ensure_future(store.commit(Batch(session_id=SESSION, events=(event(), event())))) for _ in range(30)
    ]
    await asyncio.sleep(0)  # they have asked now
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)

    done = await store.commit(Batch(session_id=SESSION, events=(event(),)))

    events = await store.events.after(SESSION, 0, 1000)
    assert [row.sequence for row in events] == list(range(1, done.last_sequence + 1))
    assert done.last_sequence % 2 == 0


async def test_answers_are_kept_to_the_byte(store: Store) -> None:
    """An answer is bytes that only the codec reads."""
    await store.commit(new_session())
    row: RequestRow = replace(request(), answer=bytes(range(256)))

    await store.commit(Batch(session_id=SESSION, request=row))

    kept = await store.requests.get(row.key)
    assert kept is not None
    assert kept.answer == bytes(range(256))
