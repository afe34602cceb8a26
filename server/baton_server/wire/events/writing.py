"""Events on their way out: each body of the core as its arm of `baton.v1.Event`, by table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    TurnCreated,
    TurnEnded,
    TurnInProgress,
    TurnStatus,
)
from baton_server.wire.decisions import write_binding, write_decision
from baton_server.wire.errors import write_failure
from baton_server.wire.items import write_item, write_parts, write_usage
from baton_server.wire.names import (
    AFTER_LOSSES,
    CANCEL_MODES,
    GUARDRAIL_STAGES,
    GUARDRAIL_VERDICTS,
    HOOK_KINDS,
    SETTLEMENTS,
    WITHDRAWALS,
)
from baton_server.wire.omit import Omission
from baton_server.wire.times import write_duration
from baton_server.wire.turns import write_open_call, write_turn


def write_event(event: Event, omit: Omission) -> event_pb2.Event:
    """Write an event without session, sequence and time."""
    message = event_pb2.Event(turn_id=event.turn_id, run_path=event.run_path, round=event.round)
    WRITERS[type(event.body)](message, event.body, omit)
    return message


# -- sessions and turns --------------------------------------------------------------------------


def _created(message: event_pb2.Event, body: SessionCreated, _omit: Omission) -> None:
    message.session_created.CopyFrom(
        event_pb2.SessionCreated(key=body.key, agent_digest=body.agent_digest, metadata=body.metadata)
    )


def _requires_action(message: event_pb2.Event, body: SessionRequiresAction, omit: Omission) -> None:
    message.session_requires_action.SetInParent()
    actions = message.session_requires_action.required_actions
    actions.extend(write_open_call(call, omit) for call in body.calls)


def _updated(message: event_pb2.Event, body: SessionUpdated, _omit: Omission) -> None:
    message.session_updated.CopyFrom(event_pb2.SessionUpdated(paths=body.paths, agent_digest=body.agent_digest))


def _turn_created(message: event_pb2.Event, body: TurnCreated, omit: Omission) -> None:
    message.turn_created.turn.CopyFrom(write_turn(body.turn, omit))
    message.turn_created.carried_item_ids.extend(body.carried_item_ids)


_ENDS: Mapping[TurnStatus, str] = {
    TurnStatus.COMPLETED: "turn_completed",
    TurnStatus.FAILED: "turn_failed",
    TurnStatus.CANCELLED: "turn_cancelled",
}


def _turn_ended(message: event_pb2.Event, body: TurnEnded, omit: Omission) -> None:
    getattr(message, _ENDS[body.turn.status]).turn.CopyFrom(write_turn(body.turn, omit))


def _cancel_requested(message: event_pb2.Event, body: CancelRequested, _omit: Omission) -> None:
    message.cancel_requested.mode = CANCEL_MODES.to_wire[body.mode]
    message.cancel_requested.reason = body.reason


# -- items and rounds ----------------------------------------------------------------------------


def _item_added(message: event_pb2.Event, body: ItemAdded, omit: Omission) -> None:
    message.item_added.item.CopyFrom(write_item(body.item, omit))
    message.item_added.in_history = body.in_history


def _item_done(message: event_pb2.Event, body: ItemDone, omit: Omission) -> None:
    message.item_done.item.CopyFrom(write_item(body.item, omit))
    message.item_done.in_history = body.in_history


def _withdrawn(message: event_pb2.Event, body: ItemsWithdrawn, _omit: Omission) -> None:
    message.items_withdrawn.item_ids.extend(body.item_ids)
    message.items_withdrawn.reason = WITHDRAWALS.to_wire[body.reason]


def _round_completed(message: event_pb2.Event, body: RoundCompleted, _omit: Omission) -> None:
    done = message.round_completed
    done.model, done.response_id, done.model_attempts = body.model, body.response_id, body.model_attempts
    done.usage.CopyFrom(write_usage(body.usage))
    done.duration.seconds, rest = divmod(body.duration_ms, 1000)
    done.duration.nanos = rest * 1_000_000


def _model_attempt_failed(message: event_pb2.Event, body: ModelAttemptFailed, _omit: Omission) -> None:
    failed = message.model_attempt_failed
    failed.model_attempt = body.model_attempt
    failed.error.CopyFrom(write_failure(body.failure))
    failed.retry_after.CopyFrom(write_duration(body.retry_after_s))


def _agent_changed(message: event_pb2.Event, body: AgentChanged, _omit: Omission) -> None:
    message.agent_changed.agent = body.agent
    message.agent_changed.SetInParent()


def _nested_created(message: event_pb2.Event, body: NestedRunCreated, _omit: Omission) -> None:
    message.nested_run_created.CopyFrom(event_pb2.NestedRunCreated(call_id=body.call_id, agent=body.agent))


def _nested_closed(message: event_pb2.Event, body: NestedRunClosed, _omit: Omission) -> None:
    closed = message.nested_run_closed
    closed.call_id = body.call_id
    closed.usage.CopyFrom(write_usage(body.usage))
    if body.failure is not None:
        closed.error.CopyFrom(write_failure(body.failure))


# -- hooks ---------------------------------------------------------------------------------------


def _tripped(message: event_pb2.Event, body: GuardrailTripped, _omit: Omission) -> None:
    message.guardrail_tripped.CopyFrom(
        event_pb2.GuardrailTripped(
            name=body.name,
            stage=GUARDRAIL_STAGES.to_wire[body.stage],
            call_id=body.call_id,
            verdict=GUARDRAIL_VERDICTS.to_wire[body.verdict],
            info_json=body.info_json,
        )
    )


def _hook_settled(message: event_pb2.Event, body: HookSettled, omit: Omission) -> None:
    hook = message.hook_settled
    hook.hook_id, hook.kind, hook.name = body.hook_id, HOOK_KINDS.to_wire[body.kind], body.name
    hook.payload_digest, hook.worker_id = body.payload_digest, body.worker_id
    omitted = omit(body.answer_json)
    if body.failure is not None:
        hook.error.CopyFrom(write_failure(body.failure))
    elif omitted is None:
        hook.answer_json = body.answer_json
    else:
        hook.answer_omitted.CopyFrom(omitted)


# -- calls ---------------------------------------------------------------------------------------


def _returned(message: event_pb2.Event, body: CallReturned, omit: Omission) -> None:
    returned = message.call_returned
    returned.call_id, returned.attempt, returned.worker_id = body.call_id, body.attempt, body.worker_id
    returned.settlement = SETTLEMENTS.to_wire[body.settlement]
    returned.output.extend(write_parts(body.output, omit))
    if body.error is not None:
        returned.error.CopyFrom(write_failure(body.error))


def _approval_requested(message: event_pb2.Event, body: ApprovalRequested, _omit: Omission) -> None:
    asked = message.approval_requested
    asked.call_id = body.call_id
    asked.binding.CopyFrom(write_binding(body.binding))
    if body.expires_s is not None:
        asked.expires.CopyFrom(write_duration(body.expires_s))


def _approval_decided(message: event_pb2.Event, body: ApprovalDecided, _omit: Omission) -> None:
    decided = message.approval_decided
    decided.decision.CopyFrom(write_decision(message.turn_id, body.decision))
    if body.failure is not None:
        decided.error.CopyFrom(write_failure(body.failure))


def _attempt_lost(message: event_pb2.Event, body: AttemptLost, _omit: Omission) -> None:
    lost = message.attempt_lost
    lost.call_id, lost.attempt, lost.worker_id = body.call_id, body.attempt, body.worker_id
    lost.next = AFTER_LOSSES.to_wire[body.next]


def _effect_unknown(message: event_pb2.Event, body: EffectUnknown, _omit: Omission) -> None:
    unknown = message.effect_unknown
    unknown.call_id, unknown.attempt, unknown.idempotency_key = body.call_id, body.attempt, body.idempotency_key


def _effect_decided(message: event_pb2.Event, body: EffectDecided, _omit: Omission) -> None:
    message.effect_decided.call_id, message.effect_decided.decided_by = body.call_id, body.decided_by


def _discarded(message: event_pb2.Event, body: ResultDiscarded, _omit: Omission) -> None:
    gone = message.result_discarded
    gone.call_id, gone.attempt, gone.worker_id = body.call_id, body.attempt, body.worker_id
    gone.error.CopyFrom(write_failure(body.failure))
    gone.result_digest = body.result_digest


def _empty(arm: str) -> Callable[[event_pb2.Event, Any, Omission], None]:
    def write(message: event_pb2.Event, _body: Any, _omit: Omission) -> None:
        getattr(message, arm).SetInParent()

    return write


# Any: each function takes the class that it stands under.
WRITERS: Mapping[type, Callable[[event_pb2.Event, Any, Omission], None]] = {
    SessionCreated: _created,
    SessionInProgress: _empty("session_in_progress"),
    SessionRequiresAction: _requires_action,
    SessionIdle: _empty("session_idle"),
    SessionUpdated: _updated,
    TurnCreated: _turn_created,
    TurnInProgress: _empty("turn_in_progress"),
    TurnEnded: _turn_ended,
    CancelRequested: _cancel_requested,
    ItemAdded: _item_added,
    ItemDone: _item_done,
    ItemsWithdrawn: _withdrawn,
    RoundCompleted: _round_completed,
    ModelAttemptFailed: _model_attempt_failed,
    AgentChanged: _agent_changed,
    NestedRunCreated: _nested_created,
    NestedRunClosed: _nested_closed,
    GuardrailTripped: _tripped,
    HookSettled: _hook_settled,
    CallReturned: _returned,
    ApprovalRequested: _approval_requested,
    ApprovalDecided: _approval_decided,
    AttemptLost: _attempt_lost,
    EffectUnknown: _effect_unknown,
    EffectDecided: _effect_decided,
    ResultDiscarded: _discarded,
}
