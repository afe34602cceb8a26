"""Answered requests: a request_id is answered once, whatever else holds, until it is forgotten."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.contract.store.builders import SESSION, TURN, WallClock, ended, event, new_session, request, running

from baton_server.ports.store import Batch, Duplicate, RequestKey, SessionWrite, SettleGuard, Store


async def test_answer_is_kept_under_its_key(store: Store, clock: WallClock) -> None:
    """Rpc, session and request_id together; the time is the store's."""
    await store.commit(new_session())
    row = replace(request(), created_at=1.0)

    await store.commit(Batch(session_id=SESSION, request=row))

    assert await store.requests.get(row.key) == replace(row, created_at=clock.time)
    for other in (
        RequestKey(rpc="Run", session_id=SESSION, request_id="r-1"),
        RequestKey(rpc="SubmitInput", session_id="", request_id="r-1"),
        RequestKey(rpc="SubmitInput", session_id=SESSION, request_id="r-2"),
    ):
        assert await store.requests.get(other) is None


async def test_second_request_gets_the_first_answer_and_writes_nothing(store: Store) -> None:
    """Whatever its body: the digest tells whether it is the same."""
    await store.commit(new_session())
    first = request()
    await store.commit(Batch(session_id=SESSION, request=first))

    with pytest.raises(Duplicate) as duplicate:
        await store.commit(
            Batch(session_id=SESSION, request=replace(first, digest="other", answer=b"other"), events=(event(),))
        )

    assert duplicate.value.row == await store.requests.get(first.key)
    assert duplicate.value.row.answer == first.answer
    assert len(await store.events.after(SESSION, 0, 10)) == 1


@pytest.mark.parametrize(
    "batch",
    [
        Batch(session_id="sess_gone", events=(event(),)),
        Batch(session_id=SESSION, session=SessionWrite(expected_version=9)),
        replace(new_session(), events=()),
        ended(expected=9),
        Batch(session_id=SESSION, settles=(SettleGuard(call_id="call_unknown"),)),
        Batch(session_id=SESSION, inbox_consumed=((TURN, 99),)),
        Batch(session_id=SESSION, session_deleted=True),
        Batch(session_id=SESSION, agent_deleted="agent_unknown"),
    ],
    ids=["gone", "session version", "key", "turn version", "call", "inbox", "busy", "agent"],
)
async def test_duplicate_comes_before_every_conflict(store: Store, batch: Batch) -> None:
    """A repeated request is answered as at first, however things stand by now."""
    await running(store)
    await store.commit(Batch(session_id=SESSION, request=request()))

    with pytest.raises(Duplicate):
        await store.commit(replace(batch, request=request()))


async def test_failed_batch_leaves_its_request_unanswered(store: Store) -> None:
    """It can be sent again."""
    await store.commit(new_session())
    row = request()

    with pytest.raises(Exception, match="version"):
        await store.commit(Batch(session_id=SESSION, request=row, session=SessionWrite(expected_version=9)))
    unanswered = await store.requests.get(row.key)
    await store.commit(Batch(session_id=SESSION, request=row))

    assert unanswered is None


async def test_one_of_many_equal_requests_is_taken(store: Store) -> None:
    """Sent at once by an impatient client: one writes, the others get its answer."""
    await store.commit(new_session())
    batch = Batch(session_id=SESSION, request=request(), events=(event(),))

    outcomes = await asyncio.gather(*(store.commit(batch) for _ in range(20)), return_exceptions=True)

    assert sum(isinstance(outcome, Duplicate) for outcome in outcomes) == 19
    assert len(await store.events.after(SESSION, 0, 50)) == 2


async def test_old_answers_are_forgotten_oldest_first(store: Store, clock: WallClock) -> None:
    """Those from before a time, as many as allowed at once; then the request_id is new."""
    await store.commit(new_session())
    for n in (2, 1, 3, 4):
        await store.commit(Batch(session_id=SESSION, request=request(f"r-{n}")))
        clock.time += 1
    fourth = clock.time - 1

    async def kept() -> list[int]:
        found = [await store.requests.get(request(f"r-{n}").key) for n in range(1, 5)]
        return [n for n, row in enumerate(found, 1) if row is not None]

    assert await store.forget(fourth, 2) == 2
    assert await kept() == [3, 4]
    assert await store.forget(fourth, 10) == 1
    assert await kept() == [4]
    assert await store.forget(fourth, 10) == 0
    await store.commit(Batch(session_id=SESSION, request=request("r-1")))
