"""What becomes of calls."""

from __future__ import annotations

from baton_server.ports.store import CallState, Conflict, ConflictKind, Lease, Move, SettleGuard
from baton_server.store.sql import rows
from baton_server.store.sql.applying.step import Step


def write_calls(step: Step) -> None:
    """Open, settle, move, park, take back, hand out: in this order, so that one batch can do several."""
    batch, sql = step.batch, step.sql.calls
    if batch.calls_opened:
        opened = [rows.new_call_params(row, step.at) for row in batch.calls_opened]
        step.db.executemany(sql.insert, opened)
    _settle(step)
    for move in batch.moves:
        _move(step, move)
    for parked in batch.parked:
        step.db.execute(sql.park, {"call_id": parked.call_id, "attempt": parked.attempt, "state": parked.state})
    for requeue in batch.requeues:
        given = {
            "call_id": requeue.call_id,
            "attempt": requeue.attempt,
            "available_at": requeue.available_at,
            "may_have_run": requeue.may_have_run,
        }
        step.db.execute(sql.requeue, given)
    for lease in batch.leases:
        _lease(step, lease)
    for deadline in batch.deadlines:
        step.db.execute(sql.time_out_at, {"call_id": deadline.call_id, "at": deadline.at})


def _settle(step: Step) -> None:
    sql = step.sql.calls
    for guard in step.batch.settles:
        _check_open(step, guard)
    for settled in step.batch.calls_settled:
        given = {
            "call_id": settled.call_id,
            "attempt": settled.attempt,
            "worker_id": settled.worker_id,
            "digest": settled.digest,
            "succeeded": settled.succeeded,
            "output_item_id": settled.output_item_id,
        }
        was_open = step.db.execute(sql.settle, given).rowcount
        if not was_open and settled.output_item_id:
            step.db.execute(sql.record, given)


def _move(step: Step, move: Move) -> None:
    statement = step.sql.calls.ask if move.state is CallState.AWAITING_DECISION else step.sql.calls.move
    given = {
        "call_id": move.call_id,
        "state": move.state,
        "arguments_digest": move.arguments_digest,
        "definition_digest": move.definition_digest,
        "decide_by": move.decide_by,
    }
    step.db.execute(statement, given)


def _lease(step: Step, lease: Lease) -> None:
    given = {
        "call_id": lease.call_id,
        "attempt": lease.attempt,
        "worker_id": lease.worker_id,
        "instance_id": lease.instance_id,
        "holder": lease.holder,
        "lost_worker": lease.lost_worker,
    }
    if step.db.execute(step.sql.calls.lease, given).rowcount == 0:
        raise Conflict(
            ConflictKind.CALL,
            f"the call {lease.call_id!r} cannot be leased as attempt {lease.attempt}",
        )


def _check_open(step: Step, guard: SettleGuard) -> None:
    call_id, attempt = guard.call_id, guard.attempt
    found = step.db.execute(step.sql.calls.standing, {"call_id": call_id}).fetchone()
    if found is None or found[0] == CallState.SETTLED:
        raise Conflict(ConflictKind.CALL, f"the call {call_id!r} is not open")
    if guard.state not in (None, found[0]):
        raise Conflict(ConflictKind.CALL, f"the call {call_id!r} is {found[0]}, not {guard.state}")
    if attempt and (found[0] != CallState.LEASED or found[1] != attempt):
        raise Conflict(
            ConflictKind.CALL,
            f"the call {call_id!r} is {found[0]} at attempt {found[1]}, not leased at {attempt}",
        )
