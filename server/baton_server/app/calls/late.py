"""Results that did not count: the same one again is answered as at first, any other is discarded and shown."""

from __future__ import annotations

from baton_server.app.calls.frames import Ack, ResultVerdict
from baton_server.app.publish import publish
from baton_server.app.runtime import Runtime
from baton_server.app.turns.recording import Recording
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import ResultDiscarded
from baton_server.core.inputs import CallSettled
from baton_server.ports.store import Batch, CallRow, CallState, Conflict


def stale(row: CallRow, attempt: int) -> Failure:
    """Say why a result for a call that is not the sender's any more is not taken."""
    if row.state is CallState.SETTLED:
        by = "a worker" if row.settled_attempt else "something else"
        return Failure(
            reason=Reason.CALL_SETTLED,
            message=f"The call {row.call_id} was settled before by {by}; the first result stays.",
            metadata={"call_id": row.call_id, "settled_by": "worker" if row.settled_attempt else "outside"},
        )
    # An attempt that was given back, and one that is about to be, count as replaced by the next one.
    current = row.attempt + 1 if attempt == row.attempt or row.state is CallState.QUEUED else row.attempt
    return Failure(
        reason=Reason.ATTEMPT_STALE,
        message=f"Attempt {attempt} of the call {row.call_id} is not the sender's any more: attempt {current} "
        "takes its place.",
        metadata={"attempt": str(attempt), "current_attempt": str(current)},
    )


def call_not_found(call_id: str) -> Failure:
    """Say that there is no such call."""
    return Failure(
        reason=Reason.CALL_NOT_FOUND,
        message=f"There was never a call {call_id!r}, or its session was deleted.",
        metadata={"call_id": call_id},
    )


async def discard(runtime: Runtime, row: CallRow, given: CallSettled, failure: Failure) -> Failure:
    """Record that a result was not taken, once; a session that is gone needs no record.

    Returns what is said about it: what was said the first time, where it comes again.
    """
    key = (given.call_id, given.attempt, given.digest)
    known = runtime.discarded.get(key)
    if known is not None:
        return known
    runtime.discarded.put(key, failure)
    try:
        await _record(runtime, row, given, failure)
    except BaseException:
        runtime.discarded.discard(key)
        raise
    return failure


async def _record(runtime: Runtime, row: CallRow, given: CallSettled, failure: Failure) -> None:
    recording = Recording(runtime.codec)
    recording.add(
        ResultDiscarded(
            call_id=given.call_id,
            attempt=given.attempt,
            worker_id=given.worker_id,
            failure=failure,
            result_digest=given.digest,
        ),
        turn_id=row.turn_id,
    )
    try:
        done = await runtime.store.commit(Batch(session_id=row.session_id, events=tuple(recording.events)))
    except Conflict:
        return
    publish(runtime, row.session_id, recording, done)


async def late_ack(runtime: Runtime, given: CallSettled) -> Ack:
    """Answer a worker's result that did not settle its call."""
    failure = runtime.discarded.get((given.call_id, given.attempt, given.digest))
    if failure is not None:
        return _discarded(given, failure)
    row = await runtime.store.calls.get(given.call_id)
    if row is None:
        return _discarded(given, call_not_found(given.call_id))
    settled_by_this = row.state is CallState.SETTLED and row.settled_attempt == given.attempt
    if settled_by_this and row.result_digest == given.digest:
        return Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DURABLE)
    failure = stale(row, given.attempt)
    return _discarded(given, await discard(runtime, row, given, failure))


def _discarded(given: CallSettled, failure: Failure) -> Ack:
    return Ack(call_id=given.call_id, attempt=given.attempt, verdict=ResultVerdict.DISCARDED, failure=failure)
