"""Events at rest as the core's values, by table. What an older release did not write is at its default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.v1 import event_pb2
from baton_server.core.events import (
    AgentChanged,
    ApprovalDecided,
    ApprovalRequested,
    AttemptLost,
    CallReturned,
    CancelRequested,
    EffectDecided,
    EffectUnknown,
    Event,
    EventBody,
    GuardrailTripped,
    HookSettled,
    ItemAdded,
    ItemDone,
    ItemsWithdrawn,
    ModelAttemptFailed,
    NestedRunClosed,
    NestedRunCreated,
    ResultDiscarded,
    RoundCompleted,
    SessionCreated,
    SessionIdle,
    SessionInProgress,
    SessionRequiresAction,
    SessionUpdated,
    Stage,
    TurnCreated,
    TurnEnded,
    TurnInProgress,
    Verdict,
    Withdrawal,
)
from baton_server.core.items import Item
from baton_server.wire.decisions import read_binding, read_decision
from baton_server.wire.errors import read_failure
from baton_server.wire.items import Contents, read_item, read_parts, read_usage
from baton_server.wire.names import (
    AFTER_LOSSES,
    CANCEL_MODES,
    GUARDRAIL_STAGES,
    GUARDRAIL_VERDICTS,
    HOOK_KINDS,
    SETTLEMENTS,
    WITHDRAWALS,
)
from baton_server.wire.omit import resolve
from baton_server.wire.times import read_duration
from baton_server.wire.turns import read_open_call, read_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What the log keeps beside an event: JSON texts of items by item_id, and omitted texts by digest."""

    texts: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=dict)


def read_event(message: event_pb2.Event, beside: Beside) -> Event:
    """Read an event. Raises LookupError: a content is missing; ValueError: its arm is not known here."""
    arm = message.WhichOneof("event")
    if arm is None:
        raise ValueError(
            f"event {message.sequence} of session {message.session_id!r} holds an arm that this release does "
            "not know; a later release wrote it. Run that one."
        )
    body = _READERS[arm](getattr(message, arm), beside)
    return Event(body=body, turn_id=message.turn_id, round=message.round, run_path=tuple(message.run_path))


# -- sessions and turns --------------------------------------------------------------------------


def _created(arm: event_pb2.SessionCreated, _beside: Beside) -> EventBody:
    return SessionCreated(key=arm.key, agent_digest=arm.agent_digest, metadata=dict(arm.metadata))


def _requires_action(arm: event_pb2.SessionRequiresAction, beside: Beside) -> EventBody:
    return SessionRequiresAction(
        calls=tuple(read_open_call(action, beside.contents) for action in arm.required_actions)
    )


def _updated(arm: event_pb2.SessionUpdated, _beside: Beside) -> EventBody:
    return SessionUpdated(paths=tuple(arm.paths), agent_digest=arm.agent_digest)


def _turn_created(arm: event_pb2.TurnCreated, beside: Beside) -> EventBody:
    return TurnCreated(turn=read_turn(arm.turn, beside.contents), carried_item_ids=tuple(arm.carried_item_ids))


def _turn_ended(
    arm: event_pb2.TurnCompleted | event_pb2.TurnFailed | event_pb2.TurnCancelled, beside: Beside
) -> EventBody:
    return TurnEnded(turn=read_turn(arm.turn, beside.contents))


def _cancel_requested(arm: event_pb2.CancelRequested, _beside: Beside) -> EventBody:
    return CancelRequested(mode=CANCEL_MODES.to_core[arm.mode], reason=arm.reason)


# -- items and rounds ----------------------------------------------------------------------------


def _item(arm: event_pb2.ItemAdded | event_pb2.ItemDone, beside: Beside) -> Item:
    return read_item(arm.item, beside.texts.get(arm.item.item_id, ""), beside.contents)


def _withdrawn(arm: event_pb2.ItemsWithdrawn, _beside: Beside) -> EventBody:
    reason = WITHDRAWALS.to_core.get(arm.reason, Withdrawal.REMOVED)
    return ItemsWithdrawn(item_ids=tuple(arm.item_ids), reason=reason)


def _round_completed(arm: event_pb2.RoundCompleted, _beside: Beside) -> EventBody:
    return RoundCompleted(
        model=arm.model,
        response_id=arm.response_id,
        usage=read_usage(arm.usage),
        duration_ms=arm.duration.seconds * 1000 + arm.duration.nanos // 1_000_000,
        model_attempts=arm.model_attempts or 1,  # logs of 0.0.1 do not count them
    )


def _model_attempt_failed(arm: event_pb2.ModelAttemptFailed, _beside: Beside) -> EventBody:
    return ModelAttemptFailed(
        model_attempt=arm.model_attempt,
        failure=read_failure(arm.error),
        retry_after_s=read_duration(arm.retry_after),
    )


def _nested_closed(arm: event_pb2.NestedRunClosed, _beside: Beside) -> EventBody:
    return NestedRunClosed(
        call_id=arm.call_id,
        usage=read_usage(arm.usage),
        failure=read_failure(arm.error) if arm.HasField("error") else None,
    )


# -- hooks ---------------------------------------------------------------------------------------


def _tripped(arm: event_pb2.GuardrailTripped, _beside: Beside) -> EventBody:
    # Logs of 0.0.1 say neither stage nor verdict: there were guardrails of inputs alone.
    return GuardrailTripped(
        name=arm.name,
        info_json=arm.info_json,
        stage=GUARDRAIL_STAGES.to_core.get(arm.stage, Stage.INPUT),
        verdict=GUARDRAIL_VERDICTS.to_core.get(arm.verdict, Verdict.TRIPPED),
        call_id=arm.call_id,
    )


def _hook_settled(arm: event_pb2.HookSettled, beside: Beside) -> EventBody:
    omitted = arm.HasField("answer_omitted")
    return HookSettled(
        hook_id=arm.hook_id,
        kind=HOOK_KINDS.to_core[arm.kind],
        name=arm.name,
        payload_digest=arm.payload_digest,
        answer_json=resolve(arm.answer_omitted, beside.contents) if omitted else arm.answer_json,
        failure=read_failure(arm.error) if arm.HasField("error") else None,
        worker_id=arm.worker_id,
    )


# -- calls ---------------------------------------------------------------------------------------


def _returned(arm: event_pb2.CallReturned, beside: Beside) -> EventBody:
    return CallReturned(
        call_id=arm.call_id,
        settlement=SETTLEMENTS.to_core[arm.settlement],
        output=read_parts(arm.output, beside.contents),
        attempt=arm.attempt,
        worker_id=arm.worker_id,
        error=read_failure(arm.error) if arm.HasField("error") else None,
    )


def _approval_requested(arm: event_pb2.ApprovalRequested, _beside: Beside) -> EventBody:
    return ApprovalRequested(
        call_id=arm.call_id,
        binding=read_binding(arm.binding),
        expires_s=read_duration(arm.expires) if arm.HasField("expires") else None,
    )


def _approval_decided(arm: event_pb2.ApprovalDecided, _beside: Beside) -> EventBody:
    failure = read_failure(arm.error) if arm.HasField("error") else None
    return ApprovalDecided(decision=read_decision(arm.decision), failure=failure)


def _attempt_lost(arm: event_pb2.AttemptLost, _beside: Beside) -> EventBody:
    return AttemptLost(
        call_id=arm.call_id,
        attempt=arm.attempt,
        worker_id=arm.worker_id,
        next=AFTER_LOSSES.to_core[arm.next],
    )


def _effect_unknown(arm: event_pb2.EffectUnknown, _beside: Beside) -> EventBody:
    return EffectUnknown(call_id=arm.call_id, attempt=arm.attempt, idempotency_key=arm.idempotency_key)


def _discarded(arm: event_pb2.ResultDiscarded, _beside: Beside) -> EventBody:
    return ResultDiscarded(
        call_id=arm.call_id,
        attempt=arm.attempt,
        worker_id=arm.worker_id,
        failure=read_failure(arm.error),
        result_digest=arm.result_digest,
    )


# Any: each function takes the message of the arm that it stands under.
_READERS: Mapping[str, Callable[[Any, Beside], EventBody]] = {
    "session_created": _created,
    "session_in_progress": lambda _arm, _beside: SessionInProgress(),
    "session_requires_action": _requires_action,
    "session_idle": lambda _arm, _beside: SessionIdle(),
    "session_updated": _updated,
    "turn_created": _turn_created,
    "turn_in_progress": lambda _arm, _beside: TurnInProgress(),
    "turn_completed": _turn_ended,
    "turn_failed": _turn_ended,
    "turn_cancelled": _turn_ended,
    "cancel_requested": _cancel_requested,
    "item_added": lambda arm, beside: ItemAdded(item=_item(arm, beside), in_history=arm.in_history),
    "item_done": lambda arm, beside: ItemDone(item=_item(arm, beside), in_history=arm.in_history),
    "items_withdrawn": _withdrawn,
    "round_completed": _round_completed,
    "model_attempt_failed": _model_attempt_failed,
    "agent_changed": lambda arm, _beside: AgentChanged(agent=arm.agent),
    "nested_run_created": lambda arm, _beside: NestedRunCreated(call_id=arm.call_id, agent=arm.agent),
    "nested_run_closed": _nested_closed,
    "guardrail_tripped": _tripped,
    "hook_settled": _hook_settled,
    "call_returned": _returned,
    "approval_requested": _approval_requested,
    "approval_decided": _approval_decided,
    "attempt_lost": _attempt_lost,
    "effect_unknown": _effect_unknown,
    "effect_decided": lambda arm, _beside: EffectDecided(call_id=arm.call_id, decided_by=arm.decided_by),
    "result_discarded": _discarded,
}
