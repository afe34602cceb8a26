"""Clocks of calls: when one times out, over all its attempts, and when it expires."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    call_of,
    deadline,
    lease,
    opened,
    park,
    requeue,
    running,
    settle,
)

from baton_server.ports.store import Batch, CallState, Deadline, Store


async def test_deadline_is_written_beside_the_sessions(store: Store) -> None:
    """It needs no session, changes nothing else, and is kept to the microsecond."""
    await running(store)
    await store.commit(opened(call("call_1", timeout_s=2.5, expires_at=9.0), call("call_2")))
    await store.commit(lease("call_1", 1))
    before = [await call_of(store, f"call_{n}") for n in (1, 2)]

    done = await store.commit(deadline("call_1", 1_700_000_002.500001))

    assert (done.last_sequence, done.session_version) == (0, 0)
    assert await call_of(store, "call_1") == replace(before[0], deadline=1_700_000_002.500001)
    assert await call_of(store, "call_2") == before[1]


async def test_first_deadline_stays(store: Store) -> None:
    """It runs from the first ack over all attempts: neither a later one nor an earlier one moves it."""
    await running(store)
    await store.commit(opened(call("call_1"), call("call_2", deadline=3.0)))
    twice = (Deadline(call_id="call_1", at=5.0), Deadline(call_id="call_1", at=4.0), Deadline(call_id="call_2", at=1.0))

    await store.commit(Batch(deadlines=twice))
    await store.commit(deadline("call_1", 6.0))

    assert (await call_of(store, "call_1")).deadline == 5.0
    assert (await call_of(store, "call_2")).deadline == 3.0


async def test_deadline_zero_is_one(store: Store) -> None:
    """A time in the past, however far, is not the absence of a time."""
    await running(store)
    await store.commit(opened(call("call_1")))

    await store.commit(deadline("call_1", 0.0))
    await store.commit(deadline("call_1", 6.0))

    assert (await call_of(store, "call_1")).deadline == 0.0


async def test_deadline_outlasts_what_becomes_of_the_attempt(store: Store) -> None:
    """Taken back, handed out, parked: the clock goes on."""
    await running(store)
    await store.commit(opened(call("call_1", expires_at=9.0)))
    await store.commit(lease("call_1", 1))
    await store.commit(deadline("call_1", 5.0))

    await store.commit(requeue("call_1", 1))
    await store.commit(lease("call_1", 2))
    await store.commit(park("call_1", 2, CallState.EFFECT_UNKNOWN))

    row = await call_of(store, "call_1")
    assert (row.deadline, row.expires_at) == (5.0, 9.0)


@pytest.mark.parametrize("state", [state for state in CallState if state is not CallState.SETTLED])
async def test_open_call_takes_a_deadline_in_any_state(store: Store, state: CallState) -> None:
    """It is written up to a second after the ack; the attempt may be lost by then."""
    await running(store)
    await store.commit(opened(call("call_1", state=state, attempt=1)))

    await store.commit(deadline("call_1", 5.0))

    row = await call_of(store, "call_1")
    assert (row.state, row.deadline) == (state, 5.0)


async def test_settled_call_takes_no_deadline(store: Store) -> None:
    """Nor does one that its batch settles, nor one that there never was; the batch goes on."""
    await running(store)
    await store.commit(opened(call("call_1"), call("call_2"), call("call_3")))
    await store.commit(settle("call_1"))
    late = tuple(Deadline(call_id=f"call_{n}", at=5.0) for n in range(4))

    await store.commit(replace(settle("call_2"), deadlines=late))

    assert [(await call_of(store, f"call_{n}")).deadline for n in (1, 2, 3)] == [None, None, 5.0]
    assert await store.calls.get("call_0") is None


async def test_one_batch_opens_hands_out_and_sets_the_deadline(store: Store) -> None:
    """It sees the call that the batch opens."""
    await running(store)

    await store.commit(
        Batch(
            session_id=SESSION,
            calls_opened=(call("call_1"),),
            leases=lease("call_1", 1).leases,
            deadlines=(Deadline(call_id="call_1", at=5.0),),
        )
    )

    row = await call_of(store, "call_1")
    assert (row.state, row.deadline) == (CallState.LEASED, 5.0)
