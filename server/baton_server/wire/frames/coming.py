"""Frames from a worker as plain values. They have passed `check` before; results are read in `results`."""

from __future__ import annotations

from collections.abc import Iterable

from baton.v1 import event_pb2, handler_pb2
from baton_server.ports.bus import Progress
from baton_server.ports.frames import (
    CancelOutcome,
    Credit,
    Handler,
    HandlerKey,
    Held,
    HookReply,
    Introduction,
)
from baton_server.wire.names import CANCEL_OUTCOMES, HOOK_KINDS, SIDE_EFFECTS
from baton_server.wire.texts import cut, cut_front
from baton_server.wire.times import read_duration

DEFAULT_HOOK_BATCHES = 16
"""Hook batches without all answers at once, where the worker does not say (handler.proto, `Hello`)."""

WATCHED_AT_ONCE = 1
"""Calls that a half-duplex worker has unsettled at once, where it does not say (handler.proto, `WatchCallsRequest`)."""

HOOK_WORDS_BYTES = 768
"""Kept of what a hook says about its failure: the message of an error has 1 KiB."""


def read_introduction(
    hello: handler_pb2.Hello, handlers: Iterable[handler_pb2.HandlerSpec], *, half_duplex: bool = False
) -> Introduction:
    """Read who a worker is. `handlers`: those of its own that may be registered. `half_duplex`: by WatchCalls."""
    unsaid = half_duplex and not hello.HasField("credit")
    return Introduction(
        instance_id=hello.instance_id,
        scopes=tuple(hello.scopes),
        handlers=tuple(read_handler(spec) for spec in handlers),
        held=tuple(read_held(held) for held in hello.held),
        resume_token=hello.resume_token,
        credit=Credit(messages=WATCHED_AT_ONCE) if unsaid else read_credit(hello.credit),
        metadata=dict(hello.metadata),
        sdk=(hello.sdk.name, hello.sdk.version, hello.sdk.language),
        max_hook_batches=hello.max_hook_batches or DEFAULT_HOOK_BATCHES,
        half_duplex=half_duplex,
    )


def read_handler(spec: handler_pb2.HandlerSpec) -> Handler:
    """Read what a worker serves under one name."""
    execution = spec.execution
    return Handler(
        name=spec.name,
        kind=HOOK_KINDS.to_core.get(spec.kind),
        version=spec.version,
        description=spec.description,
        parameters_json=spec.parameters_json,
        timeout_s=read_duration(execution.timeout) if execution.HasField("timeout") else None,
        side_effects=SIDE_EFFECTS.to_core.get(execution.side_effects),
        idempotency_fields=tuple(execution.idempotency_fields),
        max_concurrency=spec.max_concurrency,
    )


def read_key(spec: handler_pb2.HandlerSpec) -> HandlerKey:
    """Read which handler is meant, by kind, name and version alone."""
    return HandlerKey(kind=HOOK_KINDS.to_core.get(spec.kind), name=spec.name, version=spec.version)


def read_held(held: handler_pb2.HeldAttempt) -> Held:
    """Read an attempt that a worker says it holds."""
    return Held(call_id=held.call_id, attempt=held.attempt, begun=held.begun, finished=held.finished)


def read_credit(credit: handler_pb2.Credit) -> Credit:
    """Read a grant of credit."""
    return Credit(messages=credit.messages, bytes=credit.bytes)


def read_progress(progress: event_pb2.CallProgress) -> Progress:
    """Read what a handler reports. Raises ValueError if it reports nothing, which `check` refuses."""
    arm = progress.WhichOneof("progress")
    if arm is None:
        raise ValueError(f"the progress of {progress.call_id!r} says nothing")
    said = {arm: getattr(progress, arm)}
    return Progress(call_id=progress.call_id, attempt=progress.attempt, number=progress.number, **said)


def read_nack(nack: handler_pb2.Nack) -> tuple[float, bool]:
    """Read after how many seconds a call that is given back may be delivered again, and whether it was not begun."""
    return read_duration(nack.delay), nack.not_begun


def read_extend(extend: handler_pb2.Extend) -> float:
    """Read how long a lease is to last, in seconds from now."""
    return read_duration(extend.lease)


def read_cancel_outcome(ack: handler_pb2.CancelAck) -> CancelOutcome:
    """Read what became of a Cancel."""
    return CANCEL_OUTCOMES.to_core[ack.outcome]


def read_hook_answers(answers: handler_pb2.HookAnswers) -> tuple[HookReply, ...]:
    """Read what programs say, in the order in which they said it."""
    return tuple(_read_answer(answer) for answer in answers.answers)


def _read_answer(answer: handler_pb2.HookAnswer) -> HookReply:
    hook_id, attempt = answer.hook_id, answer.attempt
    match answer.WhichOneof("outcome"):
        case "answer_json":
            return HookReply(hook_id=hook_id, attempt=attempt, answer_json=answer.answer_json)
        case "crash":
            return HookReply(
                hook_id=hook_id,
                attempt=attempt,
                failure=cut_front(answer.crash.text, HOOK_WORDS_BYTES),  # the end of a stack says most
                crash_type=answer.crash.type or "an exception",
            )
        case "failure":
            return HookReply(hook_id=hook_id, attempt=attempt, failure=cut(answer.failure, HOOK_WORDS_BYTES))
        case _:
            raise ValueError(f"the answer to {hook_id!r} has no outcome")
