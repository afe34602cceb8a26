"""Workers and calls as HandlerService tells of them, and its answers to who has no stream."""

from __future__ import annotations

from collections.abc import Iterable

from baton.v1 import event_pb2, handler_pb2
from baton_server.ports.frames import Ack, Extended, Handler, Held, Stop
from baton_server.ports.workers import Cause, Explanation, WorkerView
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES, close_page
from baton_server.wire.frames import write_ack, write_stop
from baton_server.wire.names import CAUSE_KINDS, HOOK_KINDS, SETTLEMENTS, SIDE_EFFECTS, WORKER_STATES
from baton_server.wire.times import write_duration, write_time


def write_worker(view: WorkerView) -> handler_pb2.Worker:
    """Write a worker, its handlers without their schemas."""
    name, version, language = view.sdk
    return handler_pb2.Worker(
        worker_id=view.worker_id,
        instance_id=view.instance_id,
        sdk=handler_pb2.Sdk(name=name, version=version, language=language),
        scopes=view.scopes,
        handlers=[write_handler(handler) for handler in view.handlers],
        state=WORKER_STATES.to_wire[view.state],
        credit_messages=view.credit.messages,
        credit_bytes=view.credit.bytes,
        held=[_write_held(held) for held in view.held],
        attached_at=write_time(view.attached_at),
        last_heard_at=write_time(view.last_heard_at),
        half_duplex=view.half_duplex,
        metadata=view.metadata,
    )


def close_workers(views: Iterable[WorkerView]) -> list[handler_pb2.Worker]:
    """Write workers, in order, as many as one answer holds; of one that is too large alone without descriptions."""
    return close_page((_bounded(write_worker(view)) for view in views), DEFAULT_MESSAGE_BYTES)


def _bounded(worker: handler_pb2.Worker) -> handler_pb2.Worker:
    """Leave out the descriptions of a worker that declares so many that they fill an answer by themselves."""
    if worker.ByteSize() > DEFAULT_MESSAGE_BYTES // 2:
        for handler in worker.handlers:
            handler.ClearField("description")
    return worker


def write_handler(handler: Handler) -> handler_pb2.HandlerSpec:
    """Write what a worker serves under one name, without its schema."""
    kind = event_pb2.HANDLER_KIND_FUNCTION if handler.kind is None else HOOK_KINDS.to_wire[handler.kind]
    spec = handler_pb2.HandlerSpec(
        kind=kind,
        name=handler.name,
        version=handler.version,
        description=handler.description,
        max_concurrency=handler.max_concurrency,
    )
    if handler.timeout_s is not None:
        spec.execution.timeout.CopyFrom(write_duration(handler.timeout_s))
    if handler.side_effects is not None:
        spec.execution.side_effects = SIDE_EFFECTS.to_wire[handler.side_effects]
    if handler.idempotency_fields:
        spec.execution.idempotency_fields.extend(handler.idempotency_fields)
    return spec


def _write_held(held: Held) -> handler_pb2.HeldAttempt:
    return handler_pb2.HeldAttempt(call_id=held.call_id, attempt=held.attempt, begun=held.begun, finished=held.finished)


def write_explanation(
    explanation: Explanation, action: event_pb2.RequiredAction | None
) -> handler_pb2.ExplainCallResponse:
    """Write why a call does not run. `action`: `explanation.call` as it is open; None: it was settled."""
    response = handler_pb2.ExplainCallResponse(
        required_action=action, causes=[_write_cause(cause) for cause in explanation.causes]
    )
    if explanation.settlement is not None:
        response.settlement = SETTLEMENTS.to_wire[explanation.settlement]
    return response


def _write_cause(cause: Cause) -> handler_pb2.Cause:
    return handler_pb2.Cause(
        kind=CAUSE_KINDS.to_wire[cause.kind],
        text=cause.text,
        worker_id=cause.worker_id,
        until=None if cause.until is None else write_time(cause.until),
    )


def write_settled(acks: Iterable[Ack]) -> handler_pb2.SettleCallResponse:
    """Answer SettleCall: one for a result, one per answer of hooks, none for a Nack."""
    return handler_pb2.SettleCallResponse(acks=[write_ack(ack) for ack in acks])


def write_extended(extended: Extended, stop: Stop | None) -> handler_pb2.ExtendCallResponse:
    """Answer ExtendCall. `stop` None: nobody wants the call to stop."""
    return handler_pb2.ExtendCallResponse(
        until=write_time(extended.until), cancel=None if stop is None else write_stop(stop)
    )
