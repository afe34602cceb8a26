"""Calls: opened, handed out, taken back, settled once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    WallClock,
    call,
    call_of,
    event,
    lease,
    leased,
    opened,
    requeue,
    running,
    settle,
)

from baton_server.core.tools import LostWorker
from baton_server.ports.store import (
    Batch,
    CallState,
    Conflict,
    ConflictKind,
    Move,
    Settled,
    SettleGuard,
    Store,
)


async def refused(store: Store, batch: Batch) -> ConflictKind:
    """Commit a batch that must fail; tells which guard did it."""
    with pytest.raises(Conflict) as conflict:
        await store.commit(batch)
    return conflict.value.kind


async def test_opened_call_is_kept_whole(store: Store, clock: WallClock) -> None:
    """Arguments byte for byte, whatever a model wrote; `opened_at` is the store's."""
    await running(store)
    row = call(
        "call_1",
        scopes=("b", "a", ""),
        arguments='{"a": "\x00 𝄞 \\u0000",  broken',
        version="v2",
        available_at=7.5,
        opened_at=1.0,
        may_have_run=True,
        lost_worker=LostWorker.ASK,
        idempotency_key="the key \x00 𝄞",
        timeout_s=0.1,
        deadline=1_700_000_000.123456,
        expires_at=1_700_000_030.5,
        run_path=("call_outer", "call_inner"),
        arguments_digest="a",
        definition_digest="d",
    )

    await store.commit(opened(row))

    kept = await store.calls.get("call_1")
    assert kept == replace(row, opened_at=clock.time)
    assert kept.lost_worker is LostWorker.ASK
    assert kept.succeeded is False
    assert await store.calls.get("call_unknown") is None


async def test_call_may_be_opened_in_a_workers_hands(store: Store) -> None:
    """Opening and handing out are one commit, as a row or as a lease."""
    await running(store)
    held = call("call_1", state=CallState.LEASED, attempt=1, worker_id="worker_1", instance_id="i", holder="token")

    await store.commit(Batch(session_id=SESSION, calls_opened=(held, call("call_2")), leases=lease("call_2", 1).leases))

    assert [(row.call_id, row.attempt, row.holder) for row in await leased(store)] == [
        ("call_1", 1, "token"),
        ("call_2", 1, "token of worker_1"),
    ]


async def test_call_is_not_opened_twice(store: Store) -> None:
    """A repeated id is a mistake of the writer: refused, with all of its batch."""
    await running(store)
    await store.commit(opened(call("call_1")))

    with pytest.raises(ValueError, match="already"):
        await store.commit(opened(call("call_2"), call("call_1")))

    assert await store.calls.get("call_2") is None


async def test_lease_hands_a_queued_call_to_a_worker(store: Store) -> None:
    """It is LEASED at that attempt, by that worker."""
    await running(store)
    await store.commit(opened(call("call_1")))

    await store.commit(lease("call_1", 1))

    row = await call_of(store, "call_1")
    assert (row.state, row.attempt, row.worker_id, row.instance_id, row.holder) == (
        CallState.LEASED,
        1,
        "worker_1",
        "at worker_1",
        "token of worker_1",
    )


@pytest.mark.parametrize("call_says", [None, *LostWorker])
@pytest.mark.parametrize("handler_says", [None, *LostWorker])
async def test_lease_fixes_what_a_loss_means_where_the_call_says_nothing(
    store: Store, call_says: LostWorker | None, handler_says: LostWorker | None
) -> None:
    """The call's own word stands; the first handler's does, once given, also after a lease that said nothing."""
    await running(store)
    await store.commit(opened(call("call_1", lost_worker=call_says)))

    await store.commit(lease("call_1", 1, lost_worker=handler_says))
    first = (await call_of(store, "call_1")).lost_worker
    await store.commit(requeue("call_1", 1))
    await store.commit(lease("call_1", 2))
    second = (await call_of(store, "call_1")).lost_worker
    await store.commit(requeue("call_1", 2))
    await store.commit(lease("call_1", 3, lost_worker=LostWorker.ASK))

    assert first is second is (call_says or handler_says)
    assert (await call_of(store, "call_1")).lost_worker is (first or LostWorker.ASK)


@pytest.mark.parametrize("attempt", [0, 1, 3])
async def test_lease_takes_the_next_attempt_and_no_other(store: Store, attempt: int) -> None:
    """A dispatcher that missed an attempt must not give its number away again."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(requeue("call_1", 1))
    before = await call_of(store, "call_1")

    assert await refused(store, lease("call_1", attempt)) is ConflictKind.CALL
    assert await call_of(store, "call_1") == before
    await store.commit(lease("call_1", 2))


async def test_call_is_leased_to_one_worker_at_a_time(store: Store) -> None:
    """Not while another holds it, not once it is settled, not if it never was."""
    await running(store)
    await store.commit(opened(call("call_1"), call("call_2")))
    await store.commit(lease("call_1", 1))
    await store.commit(settle("call_2"))

    assert await refused(store, lease("call_1", 2, "worker_2")) is ConflictKind.CALL
    assert await refused(store, lease("call_2", 1)) is ConflictKind.CALL
    assert await refused(store, lease("call_unknown", 1)) is ConflictKind.CALL
    assert (await call_of(store, "call_1")).worker_id == "worker_1"


async def test_failed_lease_undoes_the_others_of_its_batch(store: Store) -> None:
    """All or nothing."""
    await running(store)
    await store.commit(opened(call("call_1")))
    both = Batch(leases=(*lease("call_1", 1).leases, *lease("call_unknown", 1).leases))

    assert await refused(store, both) is ConflictKind.CALL
    assert (await call_of(store, "call_1")).state is CallState.QUEUED


async def test_requeued_attempt_waits_for_any_worker(store: Store) -> None:
    """Nobody holds it, its attempt counts, and it is not delivered before its time."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))

    await store.commit(requeue("call_1", 1, available_at=9.25))

    row = await call_of(store, "call_1")
    assert (row.state, row.attempt) == (CallState.QUEUED, 1)
    assert (row.worker_id, row.instance_id, row.holder) == ("", "", "")
    assert (row.available_at, row.may_have_run) == (9.25, True)


async def test_call_that_may_have_run_stays_so(store: Store) -> None:
    """A later attempt that was surely not begun takes nothing back."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(requeue("call_1", 1, may_have_run=False))
    never = (await call_of(store, "call_1")).may_have_run
    await store.commit(lease("call_1", 2))
    await store.commit(requeue("call_1", 2, may_have_run=True))
    await store.commit(lease("call_1", 3))
    await store.commit(requeue("call_1", 3, may_have_run=False))

    assert never is False
    assert (await call_of(store, "call_1")).may_have_run is True


async def test_requeue_of_another_attempt_is_passed_over(store: Store) -> None:
    """A stale timer does not take a call from who holds it now, nor open a settled one; the batch goes on."""
    await running(store)
    await store.commit(opened(call("call_1"), call("call_2"), call("call_3")))
    await store.commit(lease("call_1", 1))
    await store.commit(settle("call_2"))
    before = [await store.calls.get(f"call_{n}") for n in range(5)]

    stale = (*requeue("call_1", 2).requeues, *requeue("call_2", 0).requeues, *requeue("call_3", 0).requeues)
    await store.commit(Batch(session_id=SESSION, requeues=stale, events=(event(),)))

    assert [await store.calls.get(f"call_{n}") for n in range(5)] == before
    assert (await store.events.after(SESSION, 0, 10))[-1].sequence == 3


async def test_one_batch_takes_a_call_back_and_hands_it_on(store: Store) -> None:
    """A lease sees what the requeue before it did."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))

    await store.commit(Batch(requeues=requeue("call_1", 1).requeues, leases=lease("call_1", 2, "worker_2").leases))

    row = await call_of(store, "call_1")
    assert (row.attempt, row.worker_id, row.holder, row.may_have_run) == (2, "worker_2", "token of worker_2", True)


async def test_settled_call_remembers_whose_result_it_took(store: Store) -> None:
    """So the same result is recognised when it comes again."""
    await running(store)
    await store.commit(opened(call("call_1"), call("call_2")))
    await store.commit(lease("call_1", 1))
    await store.commit(lease("call_2", 1))

    await store.commit(settle("call_1", 1, digest="result"))
    await store.commit(settle("call_2", 0, digest="outside"))

    first, second = await call_of(store, "call_1"), await call_of(store, "call_2")
    assert (first.state, first.settled_attempt, first.result_digest) == (CallState.SETTLED, 1, "result")
    assert (first.worker_id, first.instance_id, first.attempt, first.holder) == ("worker_1", "at worker_1", 1, "")
    assert (second.state, second.settled_attempt, second.result_digest) == (CallState.SETTLED, 0, "outside")
    assert (second.worker_id, second.instance_id, second.attempt, second.holder) == ("", "", 1, "")


async def test_first_result_stays(store: Store) -> None:
    """A second one is refused by its guard; a write without a guard changes nothing."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(settle("call_1", 1, digest="first"))
    before = await call_of(store, "call_1")

    unguarded = Batch(session_id=SESSION, calls_settled=(Settled(call_id="call_1", digest="third"),))

    assert await refused(store, settle("call_1", 1, digest="second")) is ConflictKind.CALL
    assert await refused(store, settle("call_1", 0, digest="second")) is ConflictKind.CALL
    await store.commit(unguarded)
    assert await call_of(store, "call_1") == before


@pytest.mark.parametrize("guard", [1, 3])
async def test_result_of_another_attempt_is_refused(store: Store, guard: int) -> None:
    """Only the attempt that is out may settle as a worker."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(requeue("call_1", 1))
    await store.commit(lease("call_1", 2))

    assert await refused(store, settle("call_1", guard)) is ConflictKind.CALL
    assert (await call_of(store, "call_1")).state is CallState.LEASED


async def test_result_for_an_attempt_that_was_taken_back_is_refused(store: Store) -> None:
    """The call is queued again: its last attempt has no right to it, an outside result has."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(requeue("call_1", 1))

    assert await refused(store, settle("call_1", 1)) is ConflictKind.CALL
    await store.commit(settle("call_1", 0))


async def test_guard_of_an_unknown_call_fails_and_nothing_is_written(store: Store) -> None:
    """One failed guard undoes what the batch settles besides."""
    await running(store)
    await store.commit(opened(call("call_1")))
    batch = replace(settle("call_1"), settles=(SettleGuard(call_id="call_1"), SettleGuard(call_id="call_unknown")))

    assert await refused(store, batch) is ConflictKind.CALL
    assert (await call_of(store, "call_1")).state is CallState.QUEUED


async def test_guard_of_a_state_fails_in_any_other_one(store: Store) -> None:
    """Whoever decides about a call that awaits it must not be late, though the call is open either way."""
    await running(store)
    await store.commit(opened(call("call_1", state=CallState.AWAITING_DECISION)))
    guard = SettleGuard(call_id="call_1", state=CallState.AWAITING_DECISION)
    decided = Batch(session_id=SESSION, settles=(guard,), moves=(Move(call_id="call_1", state=CallState.HELD),))

    await store.commit(decided)

    assert await refused(store, decided) is ConflictKind.CALL
    assert (await call_of(store, "call_1")).state is CallState.HELD


async def test_call_may_be_opened_and_settled_in_one_batch(store: Store) -> None:
    """The Runner answers some calls itself; the guard sees the call that the batch opens."""
    await running(store)

    await store.commit(replace(settle("call_1"), calls_opened=(call("call_1"),)))

    assert (await call_of(store, "call_1")).state is CallState.SETTLED
    assert await store.calls.open_in(SESSION) == []
