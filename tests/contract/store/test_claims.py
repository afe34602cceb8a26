"""Claims, and the lists by which calls are found."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.store.builders import (
    SESSION,
    WallClock,
    call,
    call_of,
    claim,
    lease,
    new_session,
    opened,
    requeue,
    running,
    settle,
)

from baton_server.ports.store import (
    Batch,
    CallState,
    Page,
    Settled,
    Store,
)


async def test_claim_takes_the_oldest_calls_that_a_worker_serves(store: Store) -> None:
    """In the order in which they were opened, up to the limit; each is leased at its next attempt."""
    await running(store)
    for n in (3, 1, 2):
        await store.commit(opened(call(f"call_{n}")))

    done = await store.commit(claim(limit=2))

    assert [row.call_id for row in done.claimed] == ["call_3", "call_1"]
    assert list(done.claimed) == [await call_of(store, "call_3"), await call_of(store, "call_1")]
    assert {(row.state, row.attempt, row.worker_id, row.instance_id) for row in done.claimed} == {
        (CallState.LEASED, 1, "worker_1", "at worker_1")
    }
    assert (await call_of(store, "call_2")).state is CallState.QUEUED
    assert [row.call_id for row in (await store.commit(claim())).claimed] == ["call_2"]
    assert (await store.commit(claim())).claimed == ()


async def test_claim_takes_the_oldest_whatever_its_name(store: Store) -> None:
    """A worker that serves several names does not prefer one."""
    await running(store)
    await store.commit(opened(call("call_1", "g"), call("call_2", "f"), call("call_3", "g")))

    done = await store.commit(claim(("f", "g"), limit=2))

    assert [row.call_id for row in done.claimed] == ["call_1", "call_2"]


async def test_claim_goes_by_name_and_scope(store: Store) -> None:
    """One of the names and one of the scopes; the empty scope is a scope like others."""
    await running(store)
    await store.commit(
        opened(
            call("call_1", "f", ("a", "")),
            call("call_2", "g", ("b",)),
            call("call_3", "f", ("b", 'c"]')),
            call("call_4", "f", ()),
            call("call_5", "h", ("a", "b")),
        )
    )

    async def claimed(names: tuple[str, ...], scopes: tuple[str, ...]) -> list[str]:
        return [row.call_id for row in (await store.commit(claim(names, scopes))).claimed]

    assert await claimed((), ("a", "b", "")) == []
    assert await claimed(("f", "g", "h"), ()) == []
    assert await claimed(("f",), ("d",)) == []
    assert await claimed(("f", "g"), ("", "zz")) == ["call_1"]
    assert await claimed(("f",), ('c"]',)) == ["call_3"]
    assert await claimed(("f", "g", "h"), ("a", "b", "")) == ["call_2", "call_5"]


async def test_claim_waits_for_the_time_of_a_call(store: Store, clock: WallClock) -> None:
    """`available_at` by the store's clock; the moment itself has come."""
    await running(store)
    await store.commit(opened(call("call_1", available_at=clock.time + 5)))
    early = await store.commit(claim())
    clock.time += 5
    due = await store.commit(claim())

    assert early.claimed == ()
    assert [row.call_id for row in due.claimed] == ["call_1"]


async def test_claim_counts_attempts_on(store: Store) -> None:
    """A call that was taken back is delivered again as the next attempt, with what is known of earlier ones."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(claim())
    await store.commit(requeue("call_1", 1))

    (row,) = (await store.commit(claim())).claimed

    assert (row.attempt, row.may_have_run) == (2, True)


async def test_concurrent_claims_share_no_call(store: Store) -> None:
    """Many workers at once: each call goes to one."""
    await running(store)
    await store.commit(opened(*(call(f"call_{n:03}") for n in range(100))))

    done = await asyncio.gather(*(store.commit(claim(limit=7)) for _ in range(20)))

    claimed = [row.call_id for committed in done for row in committed.claimed]
    assert sorted(claimed) == [f"call_{n:03}" for n in range(100)]


async def test_open_calls_of_a_session_are_listed_in_call_order(store: Store) -> None:
    """Queued and leased ones, in the order in which they were opened."""
    await running(store)
    await store.commit(opened(call("call_3"), call("call_1"), call("call_2")))
    await store.commit(new_session("sess_2"))
    await store.commit(opened(call("call_9", session_id="sess_2"), session_id="sess_2"))
    await store.commit(lease("call_2", 1))
    await store.commit(settle("call_1"))

    assert [row.call_id for row in await store.calls.open_in(SESSION)] == ["call_3", "call_2"]
    assert [row.call_id for row in await store.calls.leased()] == ["call_2"]


async def test_names_of_queued_calls_are_told_once(store: Store) -> None:
    """A name without a queued call is not among them."""
    await running(store)
    await store.commit(opened(call("call_1", "g"), call("call_2", "f"), call("call_3", "g"), call("call_4", "h")))
    await store.commit(lease("call_4", 1))

    assert await store.calls.queued_names() == ["f", "g"]


@pytest.mark.parametrize("size", range(1, 7))
async def test_open_calls_everywhere_are_listed_to_the_end(store: Store, size: int) -> None:
    """Pages of every size show each open call once, oldest first; a token may name a call that settled since."""
    await store.commit(new_session("sess_2"))
    await running(store)
    for n in (4, 2, 5, 1, 3):
        session_id = SESSION if n % 2 else "sess_2"
        await store.commit(opened(call(f"call_{n}", session_id=session_id), session_id=session_id))

    seen: list[str] = []
    after = ""
    while page := await store.calls.open_everywhere(Page(size=size, after=after)):
        assert len(page) <= size
        seen += [row.call_id for row in page]
        after = seen[-1]
        await store.commit(Batch(session_id=SESSION, calls_settled=(Settled(call_id=after),)))

    assert seen == ["call_4", "call_2", "call_5", "call_1", "call_3"]


async def test_open_calls_everywhere_are_filtered(store: Store) -> None:
    """By name and by scope; empty filters let everything through."""
    await running(store)
    await store.commit(opened(call("call_1", "f", ("a", "b")), call("call_2", "g", ("b",)), call("call_3", "f", ())))

    async def listed(names: tuple[str, ...] = (), scopes: tuple[str, ...] = ()) -> list[str]:
        return [row.call_id for row in await store.calls.open_everywhere(Page(size=9), names, scopes)]

    assert await listed() == ["call_1", "call_2", "call_3"]
    assert await listed(("f",)) == ["call_1", "call_3"]
    assert await listed((), ("b", "c")) == ["call_1", "call_2"]
    assert await listed(("f", "g"), ("a",)) == ["call_1"]
