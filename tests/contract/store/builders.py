"""Batches and rows of the contract suite, with only what a test is about spelled out."""

from __future__ import annotations

from typing import Any

from baton_server.core.events import TERMINAL, TurnStatus
from baton_server.ports.store import (
    Batch,
    CallRow,
    CallState,
    Committed,
    Deadline,
    GrantRow,
    InboxRow,
    ItemRow,
    Lease,
    Move,
    NewEvent,
    Page,
    Parked,
    RequestKey,
    RequestRow,
    Requeue,
    SessionRow,
    SessionWrite,
    Settled,
    SettleGuard,
    Store,
    TurnRow,
    TurnWrite,
)

SESSION = "sess_1"
TURN = "turn_1"


def stamp(event: bytes, session_id: str, sequence: int, at: float) -> bytes:
    """Complete an event the way a codec does: by bytes behind its own."""
    return event + f"|{session_id}|{sequence}|{at!r}".encode()


class WallClock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        """Read it."""
        return self.time


def event(turn_id: str = "", data: bytes = b"event", item: ItemRow | None = None) -> NewEvent:
    """An event, perhaps with its item."""
    return NewEvent(turn_id=turn_id, data=data, item=item)


def item(item_id: str, turn_id: str = "", rank: int = 0, in_history: bool = True, **fields: Any) -> ItemRow:
    """An item whose JSON text is its id."""
    given = {"data": f"<{item_id}>".encode(), "json": item_id} | fields
    return ItemRow(item_id=item_id, turn_id=turn_id, rank=rank, in_history=in_history, **given)


def said(item_id: str, turn_id: str = "", rank: int = 0, in_history: bool = True, **fields: Any) -> NewEvent:
    """The event that records an item."""
    return event(turn_id, item=item(item_id, turn_id, rank, in_history, **fields))


def new_session(session_id: str = SESSION, **fields: Any) -> Batch:
    """A batch that makes a session, with its first event."""
    row = SessionRow(session_id=session_id, **fields)
    return Batch(session_id=session_id, session=SessionWrite(new=row), events=(event(),))


def turn_row(turn_id: str = TURN, status: TurnStatus = TurnStatus.IN_PROGRESS, **fields: Any) -> TurnRow:
    """A turn's row."""
    given = {
        "session_id": SESSION,
        "snapshot": f"{turn_id} {status}".encode(),
        "agent_digest": "agent-digest",
        "config_digest": "config-digest",
        "request_id": "request",
    } | fields
    return TurnRow(turn_id=turn_id, status=status, **given)


def turn_write(
    turn_id: str = TURN,
    status: TurnStatus = TurnStatus.IN_PROGRESS,
    expected: int | None = None,
    *,
    starts: bool = False,
    **fields: Any,
) -> TurnWrite:
    """A write of a turn; it ends where its status says so."""
    return TurnWrite(
        row=turn_row(turn_id, status, **fields),
        expected_version=expected,
        starts=starts,
        ends=status in TERMINAL,
    )


def started(turn_id: str = TURN, session_id: str = SESSION, **fields: Any) -> Batch:
    """A batch that makes a turn and starts it, with one event."""
    given = {"events": (event(turn_id),)} | fields
    return Batch(session_id=session_id, turn=turn_write(turn_id, starts=True, session_id=session_id), **given)


def ended(turn_id: str = TURN, expected: int = 1, session_id: str = SESSION, **fields: Any) -> Batch:
    """A batch that completes a turn, with one event."""
    given = {"events": (event(turn_id),)} | fields
    write = turn_write(turn_id, TurnStatus.COMPLETED, expected, session_id=session_id)
    return Batch(session_id=session_id, turn=write, **given)


def call(call_id: str, name: str = "f", scopes: tuple[str, ...] = ("",), **fields: Any) -> CallRow:
    """A call of the turn, QUEUED unless said otherwise."""
    given = {"session_id": SESSION, "turn_id": TURN, "agent": "agent", "arguments": "{}"} | fields
    return CallRow(call_id=call_id, name=name, scopes=scopes, **given)


def opened(*calls: CallRow, session_id: str = SESSION) -> Batch:
    """A batch that opens calls."""
    return Batch(session_id=session_id, calls_opened=calls)


def reached(source: str, turn_id: str = TURN, data: bytes = b"input") -> Batch:
    """A batch that puts one row into a turn's inbox."""
    row = InboxRow(turn_id=turn_id, source=source, data=data)
    return Batch(session_id=SESSION, inbox_added=(row,))


def request(
    request_id: str = "r-1", rpc: str = "SubmitInput", session_id: str = SESSION, digest: str = "digest"
) -> RequestRow:
    """A request that was answered."""
    key = RequestKey(rpc=rpc, session_id=session_id, request_id=request_id)
    return RequestRow(key=key, digest=digest, answer=f"answer of {request_id}".encode())


async def running(store: Store, turn_id: str = TURN, session_id: str = SESSION) -> Committed:
    """Make a session with a turn under way."""
    await store.commit(new_session(session_id))
    return await store.commit(started(turn_id, session_id))


def lease(call_id: str, attempt: int, worker_id: str = "worker_1", **fields: Any) -> Batch:
    """A batch that hands out one call."""
    given = {"instance_id": f"at {worker_id}", "holder": f"token of {worker_id}"} | fields
    return Batch(leases=(Lease(call_id=call_id, attempt=attempt, worker_id=worker_id, **given),))


def requeue(call_id: str, attempt: int, available_at: float = 0.0, may_have_run: bool = True) -> Batch:
    """A batch that takes one attempt back."""
    given = Requeue(call_id=call_id, attempt=attempt, available_at=available_at, may_have_run=may_have_run)
    return Batch(requeues=(given,))


def park(call_id: str, attempt: int, state: CallState = CallState.CHECKED) -> Batch:
    """A batch that parks a call at one attempt."""
    return Batch(session_id=SESSION, parked=(Parked(call_id=call_id, attempt=attempt, state=state),))


def moved(call_id: str, state: CallState, **asked: Any) -> Batch:
    """A batch that keeps a call back, or lets it go."""
    return Batch(session_id=SESSION, moves=(Move(call_id=call_id, state=state, **asked),))


def grant(tool: str, agent: str = "agent", **fields: Any) -> GrantRow:
    """An approval of all later calls of a function, unless said otherwise."""
    given = {"session_id": SESSION, "definition_digest": "d", "approve": True} | fields
    return GrantRow(agent=agent, tool=tool, **given)


def granted(*grants: GrantRow, session_id: str = SESSION) -> Batch:
    """A batch that notes grants."""
    return Batch(session_id=session_id, grants=grants)


def deadline(call_id: str, at: float) -> Batch:
    """A batch that says when a call times out."""
    return Batch(deadlines=(Deadline(call_id=call_id, at=at),))


def settle(call_id: str, attempt: int = 0, guard: int | None = None, digest: str = "", **fields: Any) -> Batch:
    """A batch that settles a call, guarded at `guard` or at the attempt itself."""
    worker_id = "worker_1" if attempt else ""
    settled = Settled(call_id=call_id, attempt=attempt, worker_id=worker_id, digest=digest, **fields)
    return Batch(
        session_id=SESSION,
        settles=(SettleGuard(call_id=call_id, attempt=attempt if guard is None else guard),),
        calls_settled=(settled,),
    )


def recorded(call_id: str, output_item_id: str, succeeded: bool = True) -> Batch:
    """A batch that records the output of a call; one that is open is settled by it, from outside."""
    return Batch(
        session_id=SESSION,
        calls_settled=(Settled(call_id=call_id, succeeded=succeeded, output_item_id=output_item_id),),
    )


async def call_of(store: Store, call_id: str) -> CallRow:
    """Read a call that must be there."""
    row = await store.calls.get(call_id)
    assert row is not None
    return row


async def leased(store: Store) -> list[CallRow]:
    """List the calls that workers hold, in call order."""
    return [row for row in await store.calls.open_everywhere(Page(size=10_000)) if row.state is CallState.LEASED]
