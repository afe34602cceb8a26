"""What a batch may do to calls, drawn by hypothesis: mostly what fits the calls that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hypothesis import strategies as st

from baton_server.core.agents import LostWorker
from baton_server.ports.store import (
    CallRow,
    CallState,
    Deadline,
    Lease,
    Parked,
    Requeue,
    Settled,
    SettleGuard,
)

CALLS = tuple(f"call_{n}" for n in range(5))
KEYS = ("", "k1", "k2")
NAMES = st.sampled_from(["f", "g"])
SCOPES = st.sampled_from([("",), ("a", ""), ("b",), ()])
LOST = st.sampled_from([None, *LostWorker])
TIMES = st.sampled_from([None, 0.0, 1_700_000_002.5])
OUTPUTS = st.sampled_from(["", "item_1", "item_2"])


class Amount(Protocol):
    """How many of something a batch has."""

    def __call__(
        self, strategy: st.SearchStrategy[Any], most: int = 2, *, if_any: object = True
    ) -> st.SearchStrategy[tuple[Any, ...]]:
        """Draw at most so many; none at all if there is nothing to take them from."""
        ...


def several(
    strategy: st.SearchStrategy[Any], most: int = 2, *, if_any: object = True
) -> st.SearchStrategy[tuple[Any, ...]]:
    """As many of something as may be, or none."""
    return st.lists(strategy, max_size=most).map(tuple) if if_any else st.just(())


def rows(session_id: str, turn_ids: Sequence[str], fresh: Sequence[str]) -> st.SearchStrategy[CallRow]:
    """Calls to open, in any state; now and then one that may be there already."""
    return st.builds(
        CallRow,
        call_id=st.sampled_from([*fresh * 4, CALLS[0]]),
        session_id=st.just(session_id),
        turn_id=st.sampled_from(turn_ids),
        name=NAMES,
        agent=st.just("agent"),
        arguments=st.sampled_from(["{}", "\x00"]),
        scopes=SCOPES,
        version=NAMES,
        state=st.sampled_from([CallState.QUEUED, CallState.QUEUED, CallState.LEASED, *CallState]),
        attempt=st.integers(0, 1),
        worker_id=st.sampled_from(["", "f"]),
        instance_id=NAMES,
        holder=NAMES,
        available_at=st.sampled_from([0.0, 1_700_000_002.0]),
        may_have_run=st.booleans(),
        lost_worker=LOST,
        idempotency_key=st.sampled_from(KEYS),
        timeout_s=TIMES,
        deadline=TIMES,
        expires_at=TIMES,
    )


@st.composite
def attempts(draw: st.DrawFn, calls: Sequence[CallRow], *usual: CallState) -> tuple[str, int]:
    """A call, mostly one in a usual state, and mostly the attempt that it is at."""
    fitting = [row for row in calls if row.state in usual] or calls
    row = draw(st.sampled_from([*fitting * 4, *calls]))
    return row.call_id, row.attempt + draw(st.sampled_from([0] * 5 + [1]))


@st.composite
def call_parts(
    draw: st.DrawFn, session_id: str, turn_ids: Sequence[str], calls: Sequence[CallRow], amount: Amount
) -> dict[str, Any]:
    """What a batch does to calls. `calls`: those that there are."""
    known = {row.call_id for row in calls}
    fresh = [call_id for call_id in CALLS if call_id not in known]
    queued, leased = CallState.QUEUED, CallState.LEASED
    checked, unknown = CallState.CHECKED, CallState.EFFECT_UNKNOWN
    leases = st.tuples(attempts(calls, queued), NAMES, LOST).map(
        lambda of: Lease(
            call_id=of[0][0], attempt=of[0][1] + 1, worker_id=of[1], instance_id="i", holder="h", lost_worker=of[2]
        )
    )
    parked = st.tuples(attempts(calls, leased, checked), st.sampled_from([checked, unknown])).map(
        lambda of: Parked(call_id=of[0][0], attempt=of[0][1], state=of[1])
    )
    requeues = st.tuples(attempts(calls, leased, checked, unknown), st.booleans(), TIMES).map(
        lambda of: Requeue(call_id=of[0][0], attempt=of[0][1], available_at=of[2] or 0.0, may_have_run=of[1])
    )
    guards = attempts(calls, leased).map(lambda of: SettleGuard(call_id=of[0], attempt=of[1]))
    settled = st.builds(
        Settled,
        call_id=st.sampled_from(CALLS),
        attempt=st.integers(0, 3),
        worker_id=st.sampled_from(["", "f"]),
        digest=NAMES,
        succeeded=st.booleans(),
        output_item_id=OUTPUTS,
    )
    deadlines = st.builds(Deadline, call_id=st.sampled_from(CALLS), at=st.floats(0, 9))
    return {
        "calls_opened": draw(amount(rows(session_id, turn_ids, fresh), if_any=fresh)),
        "settles": draw(amount(guards, 1, if_any=calls)),
        "calls_settled": draw(amount(settled)),
        "leases": draw(amount(leases, 1, if_any=calls)),
        "requeues": draw(amount(requeues, if_any=calls)),
        "parked": draw(amount(parked, if_any=calls)),
        "deadlines": draw(amount(deadlines)),
    }
