"""The lists by which open calls are found."""

from __future__ import annotations

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    lease,
    leased,
    moved,
    new_session,
    opened,
    park,
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


async def test_open_calls_of_a_session_are_listed_in_call_order(store: Store) -> None:
    """Queued and leased ones, in the order in which they were opened."""
    await running(store)
    await store.commit(opened(call("call_3"), call("call_1"), call("call_2")))
    await store.commit(new_session("sess_2"))
    await store.commit(opened(call("call_9", session_id="sess_2"), session_id="sess_2"))
    await store.commit(lease("call_2", 1))
    await store.commit(settle("call_1"))

    assert [row.call_id for row in await store.calls.open_in(SESSION)] == ["call_3", "call_2"]
    assert [row.call_id for row in await leased(store)] == ["call_2"]


async def test_calls_that_wait_for_an_answer_are_open(store: Store) -> None:
    """Whoever starts anew finds them: those that a check is asked about, and those that nobody knows of."""
    await running(store)
    await store.commit(opened(*(call(f"call_{n}") for n in (1, 2, 3, 4))))
    for n in (1, 2, 3):
        await store.commit(lease(f"call_{n}", 1))
    await store.commit(park("call_1", 1, CallState.CHECKED))
    await store.commit(park("call_2", 1, CallState.EFFECT_UNKNOWN))

    states = {
        "call_1": CallState.CHECKED,
        "call_2": CallState.EFFECT_UNKNOWN,
        "call_3": CallState.LEASED,
        "call_4": CallState.QUEUED,
    }
    assert {row.call_id: row.state for row in await store.calls.open_in(SESSION)} == states
    assert {row.call_id: row.state for row in await store.calls.open_everywhere(Page(size=9))} == states
    named = await store.calls.open_everywhere(Page(size=9, after="call_1"), ("f",), ("",))
    assert [row.call_id for row in named] == ["call_2", "call_3", "call_4"]


async def test_calls_that_are_kept_back_are_open(store: Store) -> None:
    """Whoever starts anew finds them, and until when each is to be decided, beside all other clocks of calls."""
    await running(store)
    held, asked = CallState.HELD, CallState.AWAITING_DECISION
    await store.commit(
        opened(
            call("call_1", state=asked, decide_by=5.0),
            call("call_2", state=held, expires_at=9.0),
            call("call_3", state=held),
            call("call_4", state=asked),
        )
    )
    await store.commit(moved("call_3", asked, decide_by=7.0))
    await store.commit(moved("call_4", CallState.QUEUED))

    found = {"call_1": (asked, 5.0), "call_2": (held, None), "call_3": (asked, 7.0), "call_4": (CallState.QUEUED, None)}
    rows = list(await store.calls.open_everywhere(Page(size=9)))
    assert {row.call_id: (row.state, row.decide_by) for row in rows} == found
    assert list(await store.calls.open_in(SESSION)) == rows


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
