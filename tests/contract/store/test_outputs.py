"""What a call was settled with: its output, recorded at once or later, and whether it was a success."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.store.builders import (
    SESSION,
    call,
    call_of,
    ended,
    lease,
    new_session,
    opened,
    recorded,
    requeue,
    running,
    settle,
)

from baton_server.ports.store import Batch, CallState, Settled, Store

KEY = "refund of order 7"


@pytest.mark.parametrize("succeeded", [True, False])
async def test_settled_call_names_its_output(store: Store, succeeded: bool) -> None:
    """Recorded by the very commit that settles it, as a worker's result mostly is."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))

    await store.commit(settle("call_1", 1, digest="result", succeeded=succeeded, output_item_id="item_1"))

    row = await call_of(store, "call_1")
    assert (row.state, row.succeeded, row.output_item_id) == (CallState.SETTLED, succeeded, "item_1")


@pytest.mark.parametrize("succeeded", [True, False])
async def test_call_takes_an_output_that_is_recorded_after_it_was_settled(store: Store, succeeded: bool) -> None:
    """A result that waited in the inbox: the output joins, and whose result it was stays as it is."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(lease("call_1", 1))
    await store.commit(settle("call_1", 1, digest="result"))
    before = await call_of(store, "call_1")

    await store.commit(recorded("call_1", "item_1", succeeded))

    assert (before.succeeded, before.output_item_id) == (False, "")
    assert await call_of(store, "call_1") == replace(before, succeeded=succeeded, output_item_id="item_1")


async def test_first_output_stays(store: Store) -> None:
    """A call has one; neither another one nor a settling without one takes its place."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(recorded("call_1", "item_1"))
    before = await call_of(store, "call_1")

    await store.commit(recorded("call_1", "item_2", succeeded=False))
    await store.commit(Batch(session_id=SESSION, calls_settled=(Settled(call_id="call_1", succeeded=False),)))

    assert await call_of(store, "call_1") == before


async def test_success_without_an_output_changes_nothing_of_a_settled_call(store: Store) -> None:
    """The two are one word: what was recorded, and what it was."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(settle("call_1"))
    before = await call_of(store, "call_1")

    await store.commit(Batch(session_id=SESSION, calls_settled=(Settled(call_id="call_1", succeeded=True),)))

    assert await call_of(store, "call_1") == before


async def test_one_batch_opens_a_call_and_records_what_the_runner_answered(store: Store) -> None:
    """Whether it is opened as settled, or settled by the same batch, or both one after the other."""
    await running(store)
    outputs = (
        Settled(call_id="call_1", output_item_id="item_1"),
        Settled(call_id="call_2", succeeded=True, output_item_id="item_2"),
        Settled(call_id="call_3"),
        Settled(call_id="call_3", succeeded=True, output_item_id="item_3"),
    )
    rows = (call("call_1", state=CallState.SETTLED), call("call_2"), call("call_3"))

    await store.commit(Batch(session_id=SESSION, calls_opened=rows, calls_settled=outputs))

    found = [await call_of(store, f"call_{n}") for n in (1, 2, 3)]
    assert [row.state for row in found] == [CallState.SETTLED] * 3
    assert [(row.succeeded, row.output_item_id) for row in found] == [
        (False, "item_1"),
        (True, "item_2"),
        (True, "item_3"),
    ]


async def test_output_of_an_unknown_call_is_passed_over(store: Store) -> None:
    """Nothing comes into being by it."""
    await running(store)

    await store.commit(recorded("call_unknown", "item_1"))

    assert await store.calls.get("call_unknown") is None


# -- succeeded -----------------------------------------------------------------------------------


async def test_success_is_found_by_its_key(store: Store) -> None:
    """Whole, with the output that a later call of the key is answered by."""
    await running(store)
    await store.commit(opened(call("call_1", idempotency_key=KEY)))
    await store.commit(lease("call_1", 1))
    await store.commit(settle("call_1", 1, digest="result", succeeded=True, output_item_id="item_1"))

    found = await store.calls.succeeded(SESSION, KEY)

    assert found == await call_of(store, "call_1")
    assert found is not None and found.output_item_id == "item_1"


async def test_newest_success_is_found(store: Store) -> None:
    """By when the calls were opened, whichever was settled last; failures and open ones after it hide nothing."""
    await running(store)
    await store.commit(opened(*(call(f"call_{n}", idempotency_key=KEY) for n in (3, 1, 2, 5, 4))))
    await store.commit(recorded("call_1", "item_1"))
    await store.commit(recorded("call_3", "item_3"))
    await store.commit(recorded("call_2", "item_2", succeeded=False))
    await store.commit(settle("call_5", succeeded=True))  # its output waits in the inbox
    before = await store.calls.succeeded(SESSION, KEY)

    await store.commit(recorded("call_5", "item_5"))
    after = await store.calls.succeeded(SESSION, KEY)

    assert before is not None and before.call_id == "call_1"
    assert after is not None and after.call_id == "call_5"


async def test_success_counts_once_its_output_is_recorded(store: Store) -> None:
    """Until then there is nothing that another call could be given."""
    await running(store)
    await store.commit(opened(call("call_1", idempotency_key=KEY)))
    await store.commit(settle("call_1", succeeded=True))
    before = await store.calls.succeeded(SESSION, KEY)

    await store.commit(recorded("call_1", "item_1", succeeded=False))
    failed = await store.calls.succeeded(SESSION, KEY)

    assert before is failed is None


async def test_calls_that_are_open_or_failed_are_no_success(store: Store) -> None:
    """In whatever state, and however often they were taken back."""
    await running(store)
    await store.commit(opened(*(call(f"call_{n}", idempotency_key=KEY) for n in (1, 2, 3))))
    await store.commit(lease("call_1", 1))
    await store.commit(lease("call_2", 1))
    await store.commit(requeue("call_2", 1))
    await store.commit(recorded("call_3", "item_3", succeeded=False))

    assert await store.calls.succeeded(SESSION, KEY) is None


async def test_key_is_one_of_its_session(store: Store) -> None:
    """Another session's success is none here, nor is one under another key."""
    await running(store)
    await store.commit(new_session("sess_2"))
    await store.commit(opened(call("call_1", idempotency_key=KEY), call("call_2", idempotency_key=KEY + "0")))
    await store.commit(opened(call("call_9", idempotency_key="other", session_id="sess_2"), session_id="sess_2"))
    await store.commit(recorded("call_1", "item_1"))
    await store.commit(recorded("call_2", "item_2"))

    assert await store.calls.succeeded("sess_2", KEY) is None
    assert await store.calls.succeeded("sess_unknown", KEY) is None
    assert await store.calls.succeeded("sess_2", "other") is None
    found = await store.calls.succeeded(SESSION, KEY)
    assert found is not None and found.call_id == "call_1"


async def test_success_is_found_in_later_turns(store: Store) -> None:
    """A key is the session's, not the turn's."""
    await running(store)
    await store.commit(opened(call("call_1", idempotency_key=KEY)))
    await store.commit(recorded("call_1", "item_1"))
    await store.commit(ended())
    await store.commit(opened(call("call_2", idempotency_key=KEY, turn_id="turn_2")))

    found = await store.calls.succeeded(SESSION, KEY)

    assert found is not None and found.call_id == "call_1"


async def test_calls_without_a_key_are_never_joined(store: Store) -> None:
    """No key is no common key; a call's id is not looked up as one either."""
    await running(store)
    await store.commit(opened(call("call_1")))
    await store.commit(recorded("call_1", "item_1"))

    assert await store.calls.succeeded(SESSION, "") is None
    assert await store.calls.succeeded(SESSION, "call_1") is None
