"""What one batch does to calls."""

from __future__ import annotations

from dataclasses import replace

from baton_server.ports.store import (
    KEPT_BACK,
    Batch,
    CallRow,
    CallState,
    Conflict,
    ConflictKind,
    Deadline,
    Lease,
    Move,
    Parked,
    Requeue,
    Settled,
    SettleGuard,
)

Calls = dict[str, CallRow]

MAY_BE_PARKED = frozenset({CallState.LEASED, CallState.CHECKED})
MAY_BE_REQUEUED = frozenset({CallState.LEASED, CallState.CHECKED, CallState.EFFECT_UNKNOWN})


def write_calls(calls: Calls, batch: Batch, at: float) -> None:
    """Open, settle, move, park, take back, hand out: in this order. Raises Conflict, ValueError."""
    for opened in batch.calls_opened:
        if opened.call_id in calls:
            raise ValueError(f"there is a call {opened.call_id!r} already")
        calls[opened.call_id] = replace(opened, opened_at=at)
    for guard in batch.settles:
        _check_open(calls, guard)
    for settled in batch.calls_settled:
        _settle(calls, settled)
    for move in batch.moves:
        _move(calls, move)
    for parked in batch.parked:
        _park(calls, parked)
    for back in batch.requeues:
        _requeue(calls, back)
    for lease in batch.leases:
        _lease(calls, lease)
    for deadline in batch.deadlines:
        _time_out_at(calls, deadline)


def _check_open(calls: Calls, guard: SettleGuard) -> None:
    row = calls.get(guard.call_id)
    if row is None or row.state is CallState.SETTLED:
        raise Conflict(ConflictKind.CALL, f"the call {guard.call_id!r} is not open")
    if guard.state not in (None, row.state):
        raise Conflict(ConflictKind.CALL, f"the call {guard.call_id!r} is {row.state}, not {guard.state}")
    if guard.attempt and (row.state is not CallState.LEASED or row.attempt != guard.attempt):
        raise Conflict(ConflictKind.CALL, f"the call {guard.call_id!r} is {row.state} at attempt {row.attempt}")


def _settle(calls: Calls, settled: Settled) -> None:
    row = calls.get(settled.call_id)
    if row is None:
        return
    if row.state is not CallState.SETTLED:
        calls[row.call_id] = replace(
            row,
            state=CallState.SETTLED,
            instance_id=row.instance_id if row.worker_id == settled.worker_id else "",
            worker_id=settled.worker_id,
            holder="",
            settled_attempt=settled.attempt,
            result_digest=settled.digest,
            succeeded=settled.succeeded,
            output_item_id=settled.output_item_id,
            decide_by=None,
        )
    elif settled.output_item_id and not row.output_item_id:
        calls[row.call_id] = replace(row, succeeded=settled.succeeded, output_item_id=settled.output_item_id)


def _move(calls: Calls, move: Move) -> None:
    row = calls.get(move.call_id)
    if row is None or row.state not in KEPT_BACK:
        return
    row = replace(row, state=move.state, decide_by=move.decide_by)
    if move.state is CallState.AWAITING_DECISION:
        row = replace(row, arguments_digest=move.arguments_digest, definition_digest=move.definition_digest)
    calls[row.call_id] = row


def _park(calls: Calls, parked: Parked) -> None:
    row = calls.get(parked.call_id)
    if row is not None and row.state in MAY_BE_PARKED and row.attempt == parked.attempt:
        calls[row.call_id] = replace(row, state=parked.state, worker_id="", instance_id="", holder="")


def _requeue(calls: Calls, back: Requeue) -> None:
    row = calls.get(back.call_id)
    if row is not None and row.state in MAY_BE_REQUEUED and row.attempt == back.attempt:
        calls[row.call_id] = replace(
            row,
            state=CallState.QUEUED,
            worker_id="",
            instance_id="",
            holder="",
            available_at=back.available_at,
            may_have_run=row.may_have_run or back.may_have_run,
        )


def _lease(calls: Calls, lease: Lease) -> None:
    row = calls.get(lease.call_id)
    if row is None or row.state is not CallState.QUEUED or row.attempt != lease.attempt - 1:
        raise Conflict(ConflictKind.CALL, f"the call {lease.call_id!r} cannot be leased as attempt {lease.attempt}")
    calls[row.call_id] = replace(
        row,
        state=CallState.LEASED,
        attempt=lease.attempt,
        worker_id=lease.worker_id,
        instance_id=lease.instance_id,
        holder=lease.holder,
        lost_worker=lease.lost_worker if row.lost_worker is None else row.lost_worker,
    )


def _time_out_at(calls: Calls, deadline: Deadline) -> None:
    row = calls.get(deadline.call_id)
    if row is not None and row.state is not CallState.SETTLED and row.deadline is None:
        calls[row.call_id] = replace(row, deadline=deadline.at)
