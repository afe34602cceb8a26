"""Open calls: what settles them, what the loss of a worker leads to, which of them share one result.

Nothing here goes on with the turn: a handler says whether the last open call was settled (`Runner` goes on then).

Calls with one idempotency key take effect once. The oldest of them is served; when it succeeds, its output is that of
the others too, and when it fails, the next one is served.
"""

from __future__ import annotations

from baton_server.core import texts
from baton_server.core.course import ending, results
from baton_server.core.course.here import Here
from baton_server.core.errors import Failure, Reason
from baton_server.core.events import AfterLoss, AttemptLost, EffectDecided, EffectUnknown, HookSettled
from baton_server.core.hooks import answers
from baton_server.core.inputs import (
    AttemptFailed,
    CallExpired,
    CallSettled,
    CallTimedOut,
    HookAnswered,
    RedeliveryAsked,
)
from baton_server.core.items import Settlement, TextPart
from baton_server.core.recorder import Recorder
from baton_server.core.run import CallRecord, Doubt, Run
from baton_server.core.state import TurnState
from baton_server.core.tools import FunctionTool

MAX_LOST_ATTEMPTS = 5
"""Of one call, where the agent does not say; the last one settles it. What a worker gave back is not lost."""


def settled(record: Recorder, given: CallSettled) -> None:
    """Take the result of an open call, for itself and for those that wait for it."""
    if given.call_id in record.state.open_calls:
        _came(record, given)
        _join(record, given.call_id)


def join_opened(record: Recorder) -> bool:
    """Settle the open calls whose key has succeeded in this turn before; tell whether there were any."""
    keyed = [call.call_id for call in record.state.open_calls.values() if call.key != call.call_id]
    joined = [_join_earlier(record, call_id) for call_id in keyed]
    return any(joined)


def attempt_failed(record: Recorder, given: AttemptFailed) -> None:
    """Take note of a lost attempt: another one, a check, a question to the outside, or the end of the call."""
    state = record.state
    call = state.calls.get(given.call_id)
    if call is None or not _is_open(state, given.call_id) or given.attempt <= call.lost_attempt:
        return
    after = _after_loss(state, call, given)
    run = state.runs[call.run_path]
    record(AttemptLost(call_id=given.call_id, attempt=given.attempt, worker_id=given.worker_id, next=after), run)
    if state.cancel is not None:
        ending.close(record, (given.call_id,))
    elif after is AfterLoss.EFFECT_UNKNOWN:
        record(
            EffectUnknown(call_id=given.call_id, attempt=given.attempt, idempotency_key=call.key), _run(record, call)
        )
    elif after is AfterLoss.FAILED:
        _lost(record, given.call_id, given.attempt)


def _after_loss(state: TurnState, call: CallRecord, given: AttemptFailed) -> AfterLoss:
    if state.cancel is not None:
        return AfterLoss.FAILED
    if given.check:
        return AfterLoss.CHECKED
    if given.ask:
        return AfterLoss.EFFECT_UNKNOWN
    again = given.may_retry and call.losses + 1 < _allowed(state, call)
    return AfterLoss.REDELIVERED if again else AfterLoss.FAILED


def checked(record: Recorder, given: HookAnswered) -> None:
    """Draw the consequence of what a check says: its result, another attempt, or a question to the outside."""
    state = record.state
    call = _in_doubt(state, given.hook_id)
    if call is None:
        return
    answer = answers.Checked(effect=answers.Effect.UNKNOWN)
    failure = given.failure
    if failure is None:
        try:
            answer = answers.read_checked(given.answer_json)
        except answers.AnswerError as error:
            failure = answers.nonsense(given.hook, given.name, error)
    record(settled_hook(given, failure), _run(record, call))
    call_id, attempt = call.call.call_id, call.lost_attempt
    if answer.output is not None:
        result = CallSettled(
            call_id=call_id,
            settlement=Settlement.OUTPUT,
            output=answer.output,
            attempt=attempt,
            worker_id=given.worker_id,
        )
        settled(record, result)
    elif answer.effect is answers.Effect.TOOK_EFFECT or (answer.effect is answers.Effect.UNKNOWN and given.ask):
        record(EffectUnknown(call_id=call_id, attempt=attempt, idempotency_key=call.key), _run(record, call))
    elif call.losses >= _allowed(state, call):
        _lost(record, call_id, attempt)


def redelivery(record: Recorder, given: RedeliveryAsked) -> None:
    """Have a call of unknown effect delivered again, since somebody says so."""
    call = record.state.calls.get(given.call_id)
    if call is not None and _is_open(record.state, given.call_id) and call.doubt is Doubt.UNKNOWN:
        record(EffectDecided(call_id=given.call_id, decided_by=given.decided_by), _run(record, call))


def timed_out(record: Recorder, given: CallTimedOut) -> None:
    """Settle a call whose function took too long, or end the turn over it, as the agent says."""
    call = record.state.calls.get(given.call_id)
    if call is None or not _is_open(record.state, given.call_id):
        return
    function = _function(record.state, call)
    seconds = f"{function.execution.timeout_s or 0:g}"
    words = texts.TIMED_OUT.format(name=function.name, seconds=seconds)
    failure = Failure(
        reason=Reason.TOOL_TIMEOUT,
        message=f"The function {function.name!r} took longer than its timeout of {seconds} s.",
        metadata={"tool": function.name, "call_id": given.call_id, "timeout": f"{seconds}s"},
    )
    _give_up(record, given.call_id, Settlement.TIMEOUT, words, failure)


def expired(record: Recorder, given: CallExpired) -> None:
    """Settle a call that nobody settled in time."""
    call = record.state.calls.get(given.call_id)
    if call is None or not _is_open(record.state, given.call_id):
        return
    seconds = f"{_function(record.state, call).execution.expires_s or 0:g}s"
    failure = Failure(
        reason=Reason.CALL_EXPIRED,
        message=f"The call was not settled within {seconds} after it was made.",
        metadata={"call_id": given.call_id, "expires": seconds},
    )
    _give_up(record, given.call_id, Settlement.EXPIRED, texts.CALL_EXPIRED, failure)


def settled_hook(given: HookAnswered, failure: Failure | None) -> HookSettled:
    """Say what became of a hook; an answer that cannot be used is a failure."""
    return HookSettled(
        hook_id=given.hook_id,
        kind=given.hook,
        name=given.name,
        payload_digest=given.payload_digest,
        answer_json="" if failure is not None else given.answer_json,
        failure=failure,
        worker_id=given.worker_id,
    )


def _lost(record: Recorder, call_id: str, attempt: int) -> None:
    failure = Failure(
        reason=Reason.WORKER_LOST,
        message=f"Attempt {attempt} of the call lost its worker, and no other is allowed.",
        metadata={"attempts": str(attempt)},
    )
    _give_up(record, call_id, Settlement.WORKER_LOST, texts.FUNCTION_FAILED, failure)


def _give_up(record: Recorder, call_id: str, settlement: Settlement, words: str, failure: Failure) -> None:
    _came(
        record,
        CallSettled(call_id=call_id, settlement=settlement, output=(TextPart(text=words),), error=failure),
    )


def _came(record: Recorder, given: CallSettled) -> None:
    call = record.state.calls[given.call_id]
    results.returned(Here(record.state, record.state.runs[call.run_path], record.rules), record, given)


def _join(record: Recorder, call_id: str) -> None:
    """Give the output of a call to those that wait for it, if it is no failure."""
    key = record.state.calls[call_id].call.idempotency_key
    for other in tuple(record.state.open_calls):
        if key and record.state.calls[other].call.idempotency_key == key:
            _join_earlier(record, other)


def _join_earlier(record: Recorder, call_id: str) -> bool:
    earlier = record.state.succeeded(record.state.calls[call_id].call.idempotency_key)
    if earlier is not None:
        record.output(
            CallSettled(
                call_id=call_id,
                settlement=Settlement.OUTPUT,
                output=earlier.output,
                joined_call_id=earlier.call_id,
            )
        )
    return earlier is not None


def _in_doubt(state: TurnState, hook_id: str) -> CallRecord | None:
    """Find the call that a check is about, if that is still what is asked."""
    asked = (
        call for call in state.calls.values() if call.doubt is Doubt.CHECKED and _is_open(state, call.call.call_id)
    )
    return next((call for call in asked if hook_id == state.check_of(call)), None)


def _allowed(state: TurnState, call: CallRecord) -> int:
    return _function(state, call).execution.max_attempts or MAX_LOST_ATTEMPTS


def _function(state: TurnState, call: CallRecord) -> FunctionTool:
    function = state.function(call.call.call_id)
    assert function is not None, "a call of something else is never delivered"
    return function


def _is_open(state: TurnState, call_id: str) -> bool:
    return call_id in state.open_calls


def _run(record: Recorder, call: CallRecord) -> Run:
    return record.state.runs[call.run_path]
