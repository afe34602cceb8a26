"""What each frame of an attached worker does. Frames are checked, read, and handed to who takes them; never waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from baton.v1 import event_pb2
from baton.v1 import handler_pb2 as pb
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import Ack, Frame, HandlerKey, ResultVerdict
from baton_server.app.calls.hooks import Hooks
from baton_server.app.calls.worker import Worker
from baton_server.app.calls.workers import Workers
from baton_server.core.errors import BatonError, Failure, Reason, refuse
from baton_server.wire import check
from baton_server.wire.check.execution import VERSION_CHARACTERS
from baton_server.wire.check.violations import FUNCTION_NAME
from baton_server.wire.chunks import Assembler
from baton_server.wire.frames import (
    Verdict,
    protocol_error_frame,
    read_cancel_outcome,
    read_credit,
    read_extend,
    read_handler,
    read_hook_answers,
    read_key,
    read_nack,
    read_progress,
    read_result,
    registered_frame,
)


class Stream(Protocol):
    """The way back to the worker."""

    def send(self, frame: Frame) -> None:
        """Queue a frame of the dispatcher's."""
        ...

    def answer(self, frame: bytes) -> None:
        """Queue an answer to a frame."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Who takes what workers say."""

    workers: Workers
    dispatcher: Dispatcher
    hooks: Hooks


class WorkerFrames:
    """Takes the frames of one worker, after its Hello. Frames are counted from 1."""

    def __init__(self, desk: Desk, worker: Worker, stream: Stream) -> None:
        self._workers, self._dispatcher, self._hooks = desk.workers, desk.dispatcher, desk.hooks
        self._returns = desk.dispatcher.returns
        self._worker, self._stream = worker, stream
        self._assembler = Assembler()
        self._count = 1
        self._arms: Mapping[str, Callable[[Any], None]] = {
            "register": self._register,
            "unregister": self._unregister,
            "credit": self._credit,
            "call_ack": self._call_ack,
            "progress": self._progress,
            "result": self._result,
            "hook_answers": self._hook_answers,
            "nack": self._nack,
            "extend": self._extend,
            "cancel_ack": self._cancel_ack,
            "heartbeat": lambda _: None,
            "drain": self._drain,
            "chunk": self._chunk,
            "hello": self._second_hello,
        }

    def take(self, frame: pb.ConnectRequest) -> None:
        """Take the next frame; what is wrong with it is told, and nothing of it is done."""
        self._count += 1
        self._take(frame)

    def refuse(self, failure: Failure) -> None:
        """Take the next frame as one that could not be read."""
        self._count += 1
        known = failure.reason is Reason.MESSAGE_TOO_LARGE
        self._refuse(failure if known else self._no_frame(Reason.FRAME_INVALID))

    def _take(self, frame: pb.ConnectRequest) -> None:
        try:
            check.check_frame(frame, self._count)
            arm = frame.WhichOneof("frame")
            assert arm is not None
            self._arms[arm](getattr(frame, arm))
        except BatonError as error:
            self._refuse(error.failure)

    def _refuse(self, failure: Failure) -> None:
        self._stream.answer(protocol_error_frame(self._count, failure))

    def _no_frame(self, reason: Reason) -> Failure:
        message = f"Frame {self._count} was not taken: its bytes are no ConnectRequest. The stream lives."
        return Failure(reason=reason, message=message, metadata={"frame_number": str(self._count), "field": ""})

    # -- what it serves --------------------------------------------------------------------------

    def _register(self, frame: pb.Register) -> None:
        declared = check.handler_failures(frame.handlers)
        handlers = [read_handler(spec) for spec in good(frame.handlers, declared)]
        registered = self._workers.register(self._worker, handlers)
        self._workers.refused(self._worker, malformed(frame.handlers, declared))
        self._stream.answer(registered_frame(verdicts(frame.handlers, declared, registered)))

    def _unregister(self, frame: pb.Unregister) -> None:
        self._workers.unregister(self._worker, [read_key(spec) for spec in frame.handlers])

    def _credit(self, frame: pb.Credit) -> None:
        self._dispatcher.credit(self._worker, read_credit(frame))

    def _drain(self, _frame: pb.Drain) -> None:
        self._workers.drain(self._worker)

    # -- what it says about calls ----------------------------------------------------------------

    def _call_ack(self, frame: pb.CallAck) -> None:
        self._returns.acked(frame.call_id, frame.attempt, self._worker.worker_id)

    def _progress(self, frame: event_pb2.CallProgress) -> None:
        self._returns.progress(read_progress(frame), self._worker.worker_id)

    def _result(self, frame: pb.Result) -> None:
        try:
            check.check_result(frame, self._count)
        except BatonError as error:
            # The call has arrived at least.
            self._returns.acked(frame.call_id, frame.attempt, self._worker.worker_id)
            refused = Ack(
                call_id=frame.call_id, attempt=frame.attempt, verdict=ResultVerdict.REFUSED, failure=error.failure
            )
            self._stream.send(refused)
            return
        self._returns.result(self._worker, read_result(frame))

    def _nack(self, frame: pb.Nack) -> None:
        delay_s, not_begun = read_nack(frame)
        self._returns.nack(
            frame.call_id,
            frame.attempt,
            self._worker.worker_id,
            delay_s=delay_s,
            not_begun=not_begun,
            reason=frame.reason,
        )

    def _extend(self, frame: pb.Extend) -> None:
        self._returns.extend_for(self._worker, frame.call_id, frame.attempt, read_extend(frame))

    def _cancel_ack(self, frame: pb.CancelAck) -> None:
        self._returns.stopped(frame.call_id, frame.attempt, read_cancel_outcome(frame), self._worker.worker_id)

    def _hook_answers(self, frame: pb.HookAnswers) -> None:
        self._hooks.replied(self._worker.worker_id, read_hook_answers(frame))

    # -- about the stream ------------------------------------------------------------------------

    def _chunk(self, frame: pb.Chunk) -> None:
        whole = self._assembler.take(frame)
        if whole is None:
            return
        try:
            inner = pb.ConnectRequest.FromString(whole)
        except DecodeError:
            raise BatonError(self._no_frame(Reason.FRAME_INVALID)) from None
        if inner.WhichOneof("frame") == "chunk":
            raise refuse(Reason.CHUNK_INVALID, "A chunk holds another chunk.", problem="nested")
        self._take(inner)

    def _second_hello(self, _frame: pb.Hello) -> None:
        raise refuse(
            Reason.FRAME_INVALID,
            "Hello is the first frame, and only the first. Register handlers by Register.",
            frame_number=str(self._count),
            field="hello",
        )


def good(specs: Sequence[pb.HandlerSpec], declared: Sequence[Failure | None]) -> list[pb.HandlerSpec]:
    """List the declarations that are well-formed."""
    return [spec for spec, failure in zip(specs, declared, strict=True) if failure is None]


def malformed(
    specs: Sequence[pb.HandlerSpec], declared: Sequence[Failure | None]
) -> Iterator[tuple[HandlerKey, Failure]]:
    """List the declarations that are not, as far as any function or hook can have their name."""
    for spec, failure in zip(specs, declared, strict=True):
        if failure is not None and FUNCTION_NAME.fullmatch(spec.name) and len(spec.version) <= VERSION_CHARACTERS:
            yield read_key(spec), failure


def verdicts(
    specs: Sequence[pb.HandlerSpec], declared: Sequence[Failure | None], registered: Sequence[Failure | None]
) -> list[Verdict]:
    """Put together what the declarations and the registry said, in the order of the declarations."""
    answers = iter(registered)
    return [
        (spec, failure if failure is not None else next(answers)) for spec, failure in zip(specs, declared, strict=True)
    ]
