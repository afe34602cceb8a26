"""Parked calls: a lost attempt that must not run twice waits for an answer, then goes on or is settled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    call_of,
    event,
    lease,
    opened,
    park,
    requeue,
    running,
    settle,
)

from baton_server.core.tools import LostWorker
from baton_server.ports.store import Batch, CallRow, CallState, Conflict, ConflictKind, Store

PARKED = (CallState.CHECKED, CallState.EFFECT_UNKNOWN)


async def held(store: Store, **fields: object) -> CallRow:
    """Make a call that a worker holds at attempt 1."""
    await running(store)
    await store.commit(opened(call("call_1", **fields)))
    await store.commit(lease("call_1", 1))
    return await call_of(store, "call_1")


async def refused(store: Store, batch: Batch) -> ConflictKind:
    """Commit a batch that must fail; tells which guard did it."""
    with pytest.raises(Conflict) as conflict:
        await store.commit(batch)
    return conflict.value.kind


@pytest.mark.parametrize("state", PARKED)
async def test_parked_call_is_held_by_nobody(store: Store, state: CallState) -> None:
    """Its attempt stays, and whether it may have run is said when it is taken back; nothing else changes."""
    before = await held(
        store,
        version="v1",
        lost_worker=LostWorker.ASK,
        idempotency_key="key",
        timeout_s=5.0,
        deadline=7.0,
        expires_at=9.0,
    )

    await store.commit(park("call_1", 1, state))

    assert await call_of(store, "call_1") == replace(before, state=state, worker_id="", instance_id="", holder="")


async def test_call_is_parked_again_once_its_check_has_answered(store: Store) -> None:
    """CHECKED, and then nobody knows."""
    await held(store)
    await store.commit(park("call_1", 1, CallState.CHECKED))

    await store.commit(park("call_1", 1, CallState.EFFECT_UNKNOWN))

    assert (await call_of(store, "call_1")).state is CallState.EFFECT_UNKNOWN


async def test_unknown_effect_is_not_checked_again(store: Store) -> None:
    """A stale answer does not take a decision back that waits for people."""
    await held(store)
    await store.commit(park("call_1", 1, CallState.EFFECT_UNKNOWN))

    await store.commit(park("call_1", 1, CallState.CHECKED))

    assert (await call_of(store, "call_1")).state is CallState.EFFECT_UNKNOWN


async def test_parking_of_another_attempt_is_passed_over(store: Store) -> None:
    """Of one that was handed on, of a queued or a settled call, of none at all; the batch goes on."""
    await held(store)
    await store.commit(requeue("call_1", 1))
    await store.commit(lease("call_1", 2))
    await store.commit(opened(call("call_2"), call("call_3"), call("call_4", attempt=1)))
    await store.commit(lease("call_3", 1))
    await store.commit(settle("call_3", 1))
    before = [await store.calls.get(f"call_{n}") for n in range(6)]

    stale = [part for n in range(6) for part in park(f"call_{n}", 1).parked]
    await store.commit(Batch(session_id=SESSION, parked=(*stale, *park("call_2", 0).parked), events=(event(),)))

    assert [await store.calls.get(f"call_{n}") for n in range(6)] == before
    assert (await store.events.after(SESSION, 0, 10))[-1].sequence == 3


@pytest.mark.parametrize("state", PARKED)
async def test_parked_call_is_leased_to_nobody(store: Store, state: CallState) -> None:
    """That is the promise: it does not run again before somebody says so."""
    await held(store)
    await store.commit(park("call_1", 1, state))
    before = await call_of(store, "call_1")

    assert await refused(store, lease("call_1", 2)) is ConflictKind.CALL
    assert await refused(store, lease("call_1", 1)) is ConflictKind.CALL
    assert await call_of(store, "call_1") == before


@pytest.mark.parametrize("state", PARKED)
@pytest.mark.parametrize("may_have_run", [False, True])
async def test_parked_call_is_taken_back_and_handed_out_again(
    store: Store, state: CallState, may_have_run: bool
) -> None:
    """A check that knows it did not run leaves no doubt behind; a decision of people does."""
    await held(store)
    await store.commit(park("call_1", 1, state))

    await store.commit(requeue("call_1", 1, available_at=3.5, may_have_run=may_have_run))
    queued = await call_of(store, "call_1")
    await store.commit(lease("call_1", 2, "worker_2"))

    row = await call_of(store, "call_1")
    assert (queued.state, queued.attempt, queued.available_at) == (CallState.QUEUED, 1, 3.5)
    assert (queued.worker_id, queued.instance_id, queued.holder) == ("", "", "")
    assert queued.may_have_run is row.may_have_run is may_have_run
    assert (row.state, row.attempt, row.holder) == (CallState.LEASED, 2, "token of worker_2")


@pytest.mark.parametrize("state", PARKED)
async def test_doubt_of_an_earlier_attempt_stays_through_a_check(store: Store, state: CallState) -> None:
    """The check speaks of one attempt."""
    await held(store, may_have_run=True)
    await store.commit(park("call_1", 1, state))

    await store.commit(requeue("call_1", 1, may_have_run=False))

    assert (await call_of(store, "call_1")).may_have_run is True


@pytest.mark.parametrize("state", PARKED)
@pytest.mark.parametrize("attempt", [0, 2])
async def test_parked_call_is_taken_back_at_its_attempt_alone(store: Store, state: CallState, attempt: int) -> None:
    """A decision over what is long gone is passed over."""
    await held(store)
    await store.commit(park("call_1", 1, state))

    await store.commit(requeue("call_1", attempt))

    assert (await call_of(store, "call_1")).state is state


@pytest.mark.parametrize("state", PARKED)
async def test_parked_call_is_open_to_a_result_from_outside_alone(store: Store, state: CallState) -> None:
    """The attempt was lost: no result settles it as a worker's lease any more; who knows what happened does."""
    await held(store)
    await store.commit(park("call_1", 1, state))

    assert await refused(store, settle("call_1", 1)) is ConflictKind.CALL
    await store.commit(settle("call_1", 0, digest="outside", succeeded=True, output_item_id="item_1"))

    row = await call_of(store, "call_1")
    assert (row.state, row.settled_attempt, row.succeeded, row.output_item_id) == (
        CallState.SETTLED,
        0,
        True,
        "item_1",
    )
    await store.commit(park("call_1", 1, state))
    await store.commit(requeue("call_1", 1))
    assert await call_of(store, "call_1") == row


# -- in one batch --------------------------------------------------------------------------------


def together(*batches: Batch) -> Batch:
    """One batch of what several do to calls."""
    return Batch(
        session_id=SESSION,
        calls_opened=tuple(part for batch in batches for part in batch.calls_opened),
        settles=tuple(part for batch in batches for part in batch.settles),
        calls_settled=tuple(part for batch in batches for part in batch.calls_settled),
        parked=tuple(part for batch in batches for part in batch.parked),
        requeues=tuple(part for batch in batches for part in batch.requeues),
        leases=tuple(part for batch in batches for part in batch.leases),
    )


async def test_one_batch_opens_parks_takes_back_and_hands_on(store: Store) -> None:
    """Each part sees what those before it did, in whatever order they are named."""
    await running(store)
    row = call("call_1", state=CallState.LEASED, attempt=1, worker_id="worker_1", holder="token")

    await store.commit(together(lease("call_1", 2, "worker_2"), requeue("call_1", 1), park("call_1", 1), opened(row)))

    found = await call_of(store, "call_1")
    assert (found.state, found.attempt, found.worker_id) == (CallState.LEASED, 2, "worker_2")
    assert found.may_have_run is True


@pytest.mark.parametrize("state", PARKED)
async def test_one_batch_parks_and_takes_back(store: Store, state: CallState) -> None:
    """Taking back comes after parking: the call is queued."""
    await held(store)

    await store.commit(together(requeue("call_1", 1), park("call_1", 1, state)))

    assert (await call_of(store, "call_1")).state is CallState.QUEUED


async def test_result_goes_before_parking_in_one_batch(store: Store) -> None:
    """The guard sees the lease; then there is nothing left to park, nor to take back."""
    await held(store)

    await store.commit(together(park("call_1", 1), requeue("call_1", 1), settle("call_1", 1, digest="result")))

    row = await call_of(store, "call_1")
    assert (row.state, row.settled_attempt, row.result_digest) == (CallState.SETTLED, 1, "result")


async def test_lease_of_a_call_that_its_batch_parks_fails_and_nothing_is_written(store: Store) -> None:
    """Parked is parked, also within the batch."""
    before = await held(store)

    assert await refused(store, together(park("call_1", 1), lease("call_1", 2))) is ConflictKind.CALL
    assert await call_of(store, "call_1") == before


@pytest.mark.parametrize("state", sorted(set(CallState) - set(PARKED)))
async def test_parking_is_for_calls_that_wait_for_an_answer(store: Store, state: CallState) -> None:
    """Any other state is a mistake of the writer: refused, with all of its batch."""
    before = await held(store)

    with pytest.raises(ValueError, match=f"parked as {state}"):
        await store.commit(replace(park("call_1", 1, state), events=(event(),)))

    assert await call_of(store, "call_1") == before
    assert len(await store.events.after(SESSION, 0, 10)) == 2
