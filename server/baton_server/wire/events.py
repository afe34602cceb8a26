"""Events: each body of the core as its arm of `baton.v1.Event`, and back, by table.

Session, sequence and time are not written here; `stamp` appends them when the event is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.v1 import event_pb2
from baton_server.core.events import (
    AgentChanged,
    AttemptLost,
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
from baton_server.core.items import Item
from baton_server.wire.errors import read_failure, write_failure
from baton_server.wire.items import Contents, read_item, read_usage, write_item, write_usage
from baton_server.wire.names import AFTER_LOSSES, CANCEL_MODES, HOOK_KINDS
from baton_server.wire.omit import Omission, resolve
from baton_server.wire.turns import read_open_call, read_turn, write_open_call, write_turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What the log keeps beside an event: JSON texts of items by item_id, and omitted texts by digest."""

    texts: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=dict)


def write_event(event: Event, omit: Omission) -> event_pb2.Event:
    """Write an event without session, sequence and time."""
    message = event_pb2.Event(turn_id=event.turn_id, round=event.round)
    WRITERS[type(event.body)](message, event.body, omit)
    return message


def read_event(message: event_pb2.Event, beside: Beside) -> Event:
    """Read an event. Raises LookupError: a content is missing; ValueError: its arm is not known here."""
    arm = message.WhichOneof("event")
    if arm is None:
        raise ValueError(
            f"event {message.sequence} of session {message.session_id!r} holds an arm that this release does "
            "not know; a later release wrote it. Run that one."
        )
    body = _READERS[arm](getattr(message, arm), beside)
    return Event(body=body, turn_id=message.turn_id, round=message.round)


# -- writing -------------------------------------------------------------------------------------


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


def _item_added(message: event_pb2.Event, body: ItemAdded, omit: Omission) -> None:
    message.item_added.item.CopyFrom(write_item(body.item, omit))
    message.item_added.in_history = body.in_history


def _item_done(message: event_pb2.Event, body: ItemDone, omit: Omission) -> None:
    message.item_done.item.CopyFrom(write_item(body.item, omit))
    message.item_done.in_history = body.in_history


def _withdrawn(message: event_pb2.Event, body: ItemsWithdrawn, _omit: Omission) -> None:
    message.items_withdrawn.item_ids.extend(body.item_ids)
    message.items_withdrawn.reason = event_pb2.WITHDRAWAL_REASON_REMOVED


def _round_completed(message: event_pb2.Event, body: RoundCompleted, _omit: Omission) -> None:
    done = message.round_completed
    done.model, done.response_id = body.model, body.response_id
    done.usage.CopyFrom(write_usage(body.usage))
    done.duration.seconds, rest = divmod(body.duration_ms, 1000)
    done.duration.nanos = rest * 1_000_000


def _agent_changed(message: event_pb2.Event, body: AgentChanged, _omit: Omission) -> None:
    message.agent_changed.agent = body.agent
    message.agent_changed.SetInParent()


def _attempt_lost(message: event_pb2.Event, body: AttemptLost, _omit: Omission) -> None:
    lost = message.attempt_lost
    lost.call_id, lost.attempt, lost.worker_id = body.call_id, body.attempt, body.worker_id
    lost.next = AFTER_LOSSES.to_wire[body.next]


def _effect_unknown(message: event_pb2.Event, body: EffectUnknown, _omit: Omission) -> None:
    unknown = message.effect_unknown
    unknown.call_id, unknown.attempt, unknown.idempotency_key = body.call_id, body.attempt, body.idempotency_key


def _effect_decided(message: event_pb2.Event, body: EffectDecided, _omit: Omission) -> None:
    message.effect_decided.call_id, message.effect_decided.decided_by = body.call_id, body.decided_by


def _tripped(message: event_pb2.Event, body: GuardrailTripped, _omit: Omission) -> None:
    message.guardrail_tripped.name, message.guardrail_tripped.info_json = body.name, body.info_json


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
    AgentChanged: _agent_changed,
    AttemptLost: _attempt_lost,
    EffectUnknown: _effect_unknown,
    EffectDecided: _effect_decided,
    GuardrailTripped: _tripped,
    HookSettled: _hook_settled,
    ResultDiscarded: _discarded,
}

# -- reading -------------------------------------------------------------------------------------


def _read_created(arm: event_pb2.SessionCreated, _beside: Beside) -> EventBody:
    return SessionCreated(key=arm.key, agent_digest=arm.agent_digest, metadata=dict(arm.metadata))


def _read_requires_action(arm: event_pb2.SessionRequiresAction, beside: Beside) -> EventBody:
    return SessionRequiresAction(
        calls=tuple(read_open_call(action, beside.contents) for action in arm.required_actions)
    )


def _read_updated(arm: event_pb2.SessionUpdated, _beside: Beside) -> EventBody:
    return SessionUpdated(paths=tuple(arm.paths), agent_digest=arm.agent_digest)


def _read_turn_created(arm: event_pb2.TurnCreated, beside: Beside) -> EventBody:
    return TurnCreated(turn=read_turn(arm.turn, beside.contents), carried_item_ids=tuple(arm.carried_item_ids))


def _read_turn_ended(
    arm: event_pb2.TurnCompleted | event_pb2.TurnFailed | event_pb2.TurnCancelled, beside: Beside
) -> EventBody:
    return TurnEnded(turn=read_turn(arm.turn, beside.contents))


def _read_cancel_requested(arm: event_pb2.CancelRequested, _beside: Beside) -> EventBody:
    return CancelRequested(mode=CANCEL_MODES.to_core[arm.mode], reason=arm.reason)


def _item(arm: event_pb2.ItemAdded | event_pb2.ItemDone, beside: Beside) -> Item:
    return read_item(arm.item, beside.texts.get(arm.item.item_id, ""), beside.contents)


def _read_round_completed(arm: event_pb2.RoundCompleted, _beside: Beside) -> EventBody:
    return RoundCompleted(
        model=arm.model,
        response_id=arm.response_id,
        usage=read_usage(arm.usage),
        duration_ms=arm.duration.seconds * 1000 + arm.duration.nanos // 1_000_000,
    )


def _read_attempt_lost(arm: event_pb2.AttemptLost, _beside: Beside) -> EventBody:
    return AttemptLost(
        call_id=arm.call_id,
        attempt=arm.attempt,
        worker_id=arm.worker_id,
        next=AFTER_LOSSES.to_core[arm.next],
    )


def _read_hook_settled(arm: event_pb2.HookSettled, beside: Beside) -> EventBody:
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


def _read_effect_unknown(arm: event_pb2.EffectUnknown, _beside: Beside) -> EventBody:
    return EffectUnknown(call_id=arm.call_id, attempt=arm.attempt, idempotency_key=arm.idempotency_key)


def _read_discarded(arm: event_pb2.ResultDiscarded, _beside: Beside) -> EventBody:
    return ResultDiscarded(
        call_id=arm.call_id,
        attempt=arm.attempt,
        worker_id=arm.worker_id,
        failure=read_failure(arm.error),
        result_digest=arm.result_digest,
    )


# Any: each function takes the message of the arm that it stands under.
_READERS: Mapping[str, Callable[[Any, Beside], EventBody]] = {
    "session_created": _read_created,
    "session_in_progress": lambda _arm, _beside: SessionInProgress(),
    "session_requires_action": _read_requires_action,
    "session_idle": lambda _arm, _beside: SessionIdle(),
    "session_updated": _read_updated,
    "turn_created": _read_turn_created,
    "turn_in_progress": lambda _arm, _beside: TurnInProgress(),
    "turn_completed": _read_turn_ended,
    "turn_failed": _read_turn_ended,
    "turn_cancelled": _read_turn_ended,
    "cancel_requested": _read_cancel_requested,
    "item_added": lambda arm, beside: ItemAdded(item=_item(arm, beside), in_history=arm.in_history),
    "item_done": lambda arm, beside: ItemDone(item=_item(arm, beside), in_history=arm.in_history),
    "items_withdrawn": lambda arm, _beside: ItemsWithdrawn(item_ids=tuple(arm.item_ids)),
    "round_completed": _read_round_completed,
    "agent_changed": lambda arm, _beside: AgentChanged(agent=arm.agent),
    "attempt_lost": _read_attempt_lost,
    "effect_unknown": _read_effect_unknown,
    "effect_decided": lambda arm, _beside: EffectDecided(call_id=arm.call_id, decided_by=arm.decided_by),
    "guardrail_tripped": lambda arm, _beside: GuardrailTripped(name=arm.name, info_json=arm.info_json),
    "hook_settled": _read_hook_settled,
    "result_discarded": _read_discarded,
}
