"""Calls that are kept back: held, awaiting a decision, and let go to the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    call_of,
    event,
    lease,
    moved,
    opened,
    park,
    recorded,
    requeue,
    running,
    settle,
)

from baton_server.core.tools import LostWorker
from baton_server.ports.store import KEPT_BACK, Batch, CallRow, CallState, Conflict, ConflictKind, Page, Settled, Store

HELD, AWAITING, QUEUED = CallState.HELD, CallState.AWAITING_DECISION, CallState.QUEUED
BACK = sorted(KEPT_BACK)
ASKED = {"arguments_digest": "a" * 64, "definition_digest": "d" * 64, "decide_by": 1_700_000_030.123456}


async def kept_back(store: Store, state: CallState = HELD, **fields: object) -> CallRow:
    """Make a call that no worker may have yet."""
    await running(store)
    await store.commit(opened(call("call_1", state=state, **fields)))
    return await call_of(store, "call_1")


async def refused(store: Store, batch: Batch) -> ConflictKind:
    """Commit a batch that must fail; tells which guard did it."""
    with pytest.raises(Conflict) as conflict:
        await store.commit(batch)
    return conflict.value.kind


@pytest.mark.parametrize("state", BACK)
async def test_call_that_is_kept_back_goes_to_no_worker(store: Store, state: CallState) -> None:
    """That is the promise: it does not run before its hooks have answered and somebody has allowed it."""
    before = await kept_back(store, state)

    assert await refused(store, lease("call_1", 1)) is ConflictKind.CALL
    assert await refused(store, settle("call_1", attempt=1)) is ConflictKind.CALL
    await store.commit(requeue("call_1", 0))
    await store.commit(park("call_1", 0))
    assert await call_of(store, "call_1") == before


async def test_decision_is_asked_with_what_it_is_bound_to(store: Store) -> None:
    """Digests, and until when; nothing else of the call changes, and the time is kept to the microsecond."""
    before = await kept_back(
        store,
        version="v1",
        lost_worker=LostWorker.ASK,
        idempotency_key="key",
        timeout_s=5.0,
        expires_at=9.0,
        run_path=("call_a", "call_b"),
    )

    await store.commit(moved("call_1", AWAITING, **ASKED))

    assert await call_of(store, "call_1") == replace(before, state=AWAITING, **ASKED)


async def test_decision_is_asked_again_about_what_has_become_of_it(store: Store) -> None:
    """A function that was defined anew while somebody thought about it: the newest question holds."""
    await kept_back(store)
    await store.commit(moved("call_1", AWAITING, **ASKED))

    await store.commit(moved("call_1", AWAITING, arguments_digest="a", definition_digest="e"))

    row = await call_of(store, "call_1")
    assert (row.arguments_digest, row.definition_digest, row.decide_by) == ("a", "e", None)


@pytest.mark.parametrize("state", [HELD, QUEUED])
async def test_clock_of_a_decision_ends_when_it_is_made(store: Store, state: CallState) -> None:
    """What it was bound to stays, so that one which comes again is recognised."""
    before = await kept_back(store, AWAITING, **ASKED)

    await store.commit(moved("call_1", state))

    assert await call_of(store, "call_1") == replace(before, state=state, decide_by=None)


@pytest.mark.parametrize("batch", [settle("call_1"), recorded("call_1", "item_1", succeeded=False)])
async def test_clock_of_a_decision_ends_with_the_call(store: Store, batch: Batch) -> None:
    """Rejected, cancelled, or answered by hand."""
    before = await kept_back(store, AWAITING, **ASKED)

    await store.commit(batch)

    row = await call_of(store, "call_1")
    assert (row.state, row.decide_by) == (CallState.SETTLED, None)
    assert row.arguments_digest == before.arguments_digest


@pytest.mark.parametrize("state", BACK)
async def test_call_that_is_kept_back_is_settled_from_outside(store: Store, state: CallState) -> None:
    """It is open: an answer to it is taken as for a call that is queued, and it is open no more."""
    await kept_back(store, state)

    await store.commit(settle("call_1", succeeded=True, output_item_id="item_1"))

    row = await call_of(store, "call_1")
    assert (row.state, row.settled_attempt, row.worker_id) == (CallState.SETTLED, 0, "")
    assert (row.succeeded, row.output_item_id) == (True, "item_1")
    assert list(await store.calls.open_in(SESSION)) == []
    assert await refused(store, settle("call_1")) is ConflictKind.CALL


@pytest.mark.parametrize("state", BACK)
async def test_call_that_is_let_go_is_handed_out(store: Store, state: CallState) -> None:
    """As attempt 1, and from then on like any other; it keeps its place among the calls."""
    before = await kept_back(store, state)
    await store.commit(opened(call("call_2")))

    await store.commit(moved("call_1", QUEUED))
    queued = await call_of(store, "call_1")
    order = [row.call_id for row in await store.calls.open_everywhere(Page(size=9))]
    await store.commit(lease("call_1", 1))
    await store.commit(requeue("call_1", 1))
    await store.commit(lease("call_1", 2))

    assert queued == replace(before, state=QUEUED)
    assert order == ["call_1", "call_2"]
    assert (await call_of(store, "call_1")).attempt == 2


async def test_one_batch_opens_lets_go_and_hands_out(store: Store) -> None:
    """The parts of a batch meet in their order, whatever stood before it."""
    await running(store)

    await store.commit(
        Batch(
            session_id=SESSION,
            calls_opened=(call("call_1", state=HELD),),
            moves=(*moved("call_1", AWAITING, **ASKED).moves, *moved("call_1", QUEUED).moves),
            leases=lease("call_1", 1).leases,
        )
    )

    row = await call_of(store, "call_1")
    assert (row.state, row.attempt, row.worker_id, row.decide_by) == (CallState.LEASED, 1, "worker_1", None)
    assert row.arguments_digest == ASKED["arguments_digest"]


async def test_settling_comes_before_moving(store: Store) -> None:
    """A call that its batch settles is not woken up by it: no settled call ever runs."""
    await kept_back(store)

    await store.commit(replace(settle("call_1"), moves=moved("call_1", QUEUED).moves))

    assert (await call_of(store, "call_1")).state is CallState.SETTLED


@pytest.mark.parametrize("to", [HELD, AWAITING, QUEUED])
async def test_move_of_a_call_that_is_not_kept_back_is_passed_over(store: Store, to: CallState) -> None:
    """Somebody settled it, a worker has it, it was let go, there never was one; the batch goes on."""
    await running(store)
    others = [state for state in CallState if state not in KEPT_BACK]
    await store.commit(opened(*(call(f"call_{state}", state=state, attempt=1) for state in others)))
    before = [await call_of(store, f"call_{state}") for state in others]

    moves = [part for state in (*others, "unknown") for part in moved(f"call_{state}", to).moves]
    await store.commit(Batch(session_id=SESSION, moves=tuple(moves), events=(event(),)))

    assert [await call_of(store, f"call_{state}") for state in others] == before
    assert await store.calls.get("call_unknown") is None
    assert (await store.events.after(SESSION, 0, 10))[-1].sequence == 3


async def test_failed_guard_undoes_the_moves_of_its_batch(store: Store) -> None:
    """All or nothing."""
    before = await kept_back(store)
    await store.commit(opened(call("call_2")))
    await store.commit(settle("call_2"))

    batch = replace(settle("call_2"), moves=moved("call_1", QUEUED).moves)

    assert await refused(store, batch) is ConflictKind.CALL
    assert await call_of(store, "call_1") == before


@pytest.mark.parametrize("state", sorted(set(CallState) - {*BACK, QUEUED}))
async def test_moving_is_for_calls_that_do_not_run_yet(store: Store, state: CallState) -> None:
    """Any other state is a mistake of the writer: refused, with all of its batch."""
    before = await kept_back(store)

    with pytest.raises(ValueError, match=f"moved to {state}"):
        await store.commit(replace(moved("call_1", state), events=(event(),)))

    assert await call_of(store, "call_1") == before
    assert len(await store.events.after(SESSION, 0, 10)) == 2


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("state", [HELD, QUEUED])
async def test_what_belongs_to_a_decision_is_said_when_it_is_asked(store: Store, state: CallState, asked: str) -> None:
    """With another state it would be written for nothing, or left out in silence."""
    await kept_back(store)

    with pytest.raises(ValueError, match="belongs to a decision"):
        await store.commit(moved("call_1", state, **{asked: ASKED[asked]}))


async def test_call_is_opened_with_a_decision_to_make(store: Store) -> None:
    """Where no hook was asked before; a time to decide by without a decision is refused."""
    row = await kept_back(store, AWAITING, **ASKED)
    assert {name: getattr(row, name) for name in ASKED} == ASKED

    with pytest.raises(ValueError, match=r"opened as held, with a `decide_by` of 5\.0"):
        await store.commit(opened(call("call_2", state=HELD, decide_by=5.0)))


async def test_calls_of_a_nested_run_say_what_encloses_them(store: Store) -> None:
    """Outermost first, to the end of their time; those of the turn's own run say nothing."""
    path = ("call_outer", 'call "inner" \x00 𝄞')
    await running(store)
    await store.commit(opened(call("call_1", run_path=path), call("call_2")))

    await store.commit(lease("call_1", 1))
    await store.commit(Batch(session_id=SESSION, calls_settled=(Settled(call_id="call_1", attempt=1),)))

    assert (await call_of(store, "call_1")).run_path == path
    assert (await call_of(store, "call_2")).run_path == ()
