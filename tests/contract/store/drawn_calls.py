"""What a batch may do to calls, drawn by hypothesis: mostly what fits the calls that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from hypothesis import strategies as st

from baton_server.core.tools import LostWorker
from baton_server.ports.store import (
    KEPT_BACK,
    CallRow,
    CallState,
    Deadline,
    Lease,
    Move,
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
PATHS = st.sampled_from([(), (), ("call_0",), ("call_1", "call_0")])
DIGESTS = st.sampled_from(["", "d1", "d2"])


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
    """Calls to open, in any state; now and then one that may be there already, or that contradicts itself."""
    drawn = st.builds(
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
        run_path=PATHS,
        arguments_digest=DIGESTS,
        definition_digest=DIGESTS,
    )
    return st.tuples(drawn, TIMES, st.integers(0, 19)).map(
        lambda of: replace(of[0], decide_by=of[1]) if of[0].state is CallState.AWAITING_DECISION or not of[2] else of[0]
    )


def moves(calls: Sequence[CallRow]) -> st.SearchStrategy[Move]:
    """Moves of calls that are kept back, mostly; what belongs to a decision mostly goes with one."""
    fitting = [row for row in calls if row.state in KEPT_BACK] or calls
    call_ids = st.sampled_from([row.call_id for row in (*fitting * 4, *calls)])
    asked = st.builds(
        Move,
        call_id=call_ids,
        state=st.just(CallState.AWAITING_DECISION),
        arguments_digest=DIGESTS,
        definition_digest=DIGESTS,
        decide_by=TIMES,
    )
    let_go = st.builds(Move, call_id=call_ids, state=st.sampled_from([*[CallState.QUEUED] * 4, *CallState]))
    return st.one_of(asked, let_go)


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
    guards = st.one_of(
        attempts(calls, leased).map(lambda of: SettleGuard(call_id=of[0], attempt=of[1])),
        st.tuples(attempts(calls, *KEPT_BACK), st.sampled_from([None, *KEPT_BACK])).map(
            lambda of: SettleGuard(call_id=of[0][0], state=of[1])
        ),
    )
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
        "moves": draw(amount(moves(calls), if_any=calls)),
        "settles": draw(amount(guards, 1, if_any=calls)),
        "calls_settled": draw(amount(settled)),
        "leases": draw(amount(leases, 1, if_any=calls)),
        "requeues": draw(amount(requeues, if_any=calls)),
        "parked": draw(amount(parked, if_any=calls)),
        "deadlines": draw(amount(deadlines)),
    }
