"""One attached worker's stream: a task reads frames, a task writes them, and neither waits for the other.

Facts of grpc.aio that shape it: a read must never be cancelled (it would end the call); EOF alone does not tell
a half-close from a death (a cancellation follows within milliseconds); two writes at once fail; a write to a
peer that does not read waits for ever, and so does the status behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError

from baton.v1 import handler_pb2 as pb
from baton_server.api.rpc import Context, Unreadable, abort
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import Ack, Deliver, End, Frame, Handler, Held, Leave, ResultVerdict, Stop
from baton_server.app.calls.registry import Worker
from baton_server.app.calls.workers import Introduction, Workers
from baton_server.app.runtime import Runtime
from baton_server.core.errors import BatonError, Failure, Reason, Refused, refuse
from baton_server.wire import check
from baton_server.wire.chunks import Assembler, chunks
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES
from baton_server.wire.frames import (
    call_frame,
    cancel_frame,
    drain_frame,
    heartbeat_frame,
    protocol_error_frame,
    read_result,
    registered_frame,
    result_ack_frame,
    welcome_frame,
)

log = structlog.get_logger(__name__)

AFTER_EOF_S = 0.05
"""How long a cancellation may take to follow the end of the reads (measured: 0.1 to 0.4 ms)."""

MAX_UNWRITTEN = 1000
"""Frames and answers that a worker may leave untaken; beyond them nothing more is read from it."""


class WorkerStream:
    """Serves one Connect. It is the worker's `Link`."""

    def __init__(
        self, runtime: Runtime, workers: Workers, dispatcher: Dispatcher, context: Context, version: str
    ) -> None:
        self._runtime, self._workers, self._dispatcher = runtime, workers, dispatcher
        self._context, self._version = context, version
        self._frames: deque[tuple[bytes, Deliver | None]] = deque()
        self._news, self._room, self._cut = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._ending: End | None = None
        self._over = False
        self._assembler = Assembler()
        self._chunk_id = 0
        self._read_count = 0
        self._limit = DEFAULT_MESSAGE_BYTES
        self._worker: Worker | None = None
        self._arms: dict[str, Callable[[Any], None]] = {
            "register": self._register,
            "unregister": self._unregister,
            "credit": self._credit,
            "call_ack": self._call_ack,
            "result": self._result,
            "nack": self._nack,
            "cancel_ack": self._cancel_ack,
            "heartbeat": lambda _: None,
            "drain": self._drain,
            "chunk": self._chunk,
            "hello": self._second_hello,
        }
        self._written: dict[type, Callable[[Any], bytes]] = {
            Deliver: lambda f: call_frame(f.call, f.scope),
            Stop: lambda f: cancel_frame(f.call_id, f.attempt, f.reason, f.grace_s),
            Ack: lambda f: result_ack_frame(f.call_id, f.attempt, f.verdict, f.failure),
            Leave: lambda f: drain_frame(f.reason),
        }

    # -- Link ------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Queue a frame."""
        if isinstance(frame, End):
            self._end(frame)
        else:
            self._queue(self._written[type(frame)](frame), frame if isinstance(frame, Deliver) else None)

    def _end(self, frame: End) -> None:
        if self._ending is None or frame.failure is not None:
            self._ending = frame
        self._news.set()
        self._room.set()
        if frame.failure is not None:
            self._cut.set()

    # -- the stream ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the worker leaves, dies, or the server ends the stream."""
        hello = await self._hello()
        self._limit = hello.max_message_bytes or DEFAULT_MESSAGE_BYTES
        worker = await self._attach(hello)
        reading = asyncio.ensure_future(self._read_all(worker))
        writing = asyncio.ensure_future(self._write_all())
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await self._until_over(worker, reading, writing, cut)
        finally:
            self._workers.broke(worker, self)
            self._over = True
            self._frames.clear()
            self._room.set()
            # With the rpc, the read ends by itself; what the three were about matters to nobody any more.
            for task in (writing, cut):
                task.cancel()
            await asyncio.gather(writing, cut, return_exceptions=True)
            reading.add_done_callback(_seen)
        if self._ending is not None and self._ending.failure is not None:
            await self._abort(self._ending.failure)

    async def _until_over(
        self, worker: Worker, reading: asyncio.Task[bool], writing: asyncio.Task[None], cut: asyncio.Task[Any]
    ) -> None:
        """Wait for the end of the stream; a half-close is not yet one."""
        await asyncio.wait({reading, writing, cut}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not writing.done() and not cut.done() and reading.result():
            self._workers.drain(worker)
            await asyncio.wait({writing, cut}, return_when=asyncio.FIRST_COMPLETED)

    async def _abort(self, failure: Failure) -> None:
        try:
            await abort(self._context, BatonError(failure))
        except grpc.aio.InternalError:
            log.info("a worker went before it took the status of its stream", reason=failure.reason)

    async def _hello(self) -> pb.Hello:
        reading = asyncio.ensure_future(self._context.read())
        reading.add_done_callback(_seen)
        done, _ = await asyncio.wait({reading}, timeout=self._runtime.limits.hello_timeout_s)
        frame = reading.result() if done else None
        self._read_count = 1
        arm = frame.WhichOneof("frame") if isinstance(frame, pb.ConnectRequest) else None
        if not isinstance(frame, pb.ConnectRequest) or arm != "hello":
            came = arm or ("one that cannot be read" if isinstance(frame, Unreadable) else "none")
            raise refuse(
                Reason.HELLO_EXPECTED,
                f"The first frame must be a Hello, within {self._runtime.limits.hello_timeout_s:g} s; it was {came}.",
                frame=arm or "",
            )
        _check_hello(frame)
        return frame.hello

    async def _attach(self, hello: pb.Hello) -> Worker:
        limits = self._runtime.limits
        declared = check.handler_failures(hello.handlers)
        good = [spec for spec, failure in zip(hello.handlers, declared, strict=True) if failure is None]
        attached = await self._workers.attach(
            Introduction(
                instance_id=hello.instance_id or self._runtime.ids.new("instance"),
                scopes=tuple(hello.scopes),
                handlers=tuple(_handler(spec) for spec in good),
                held=tuple(Held(call_id=h.call_id, attempt=h.attempt) for h in hello.held),
            ),
            self,
        )
        self._worker = worker = attached.worker
        self._queue(
            welcome_frame(
                worker_id=worker.worker_id,
                server_version=self._version,
                lease_s=limits.lease_s,
                heartbeat_s=limits.heartbeat_s,
                grace_s=limits.registration_grace_s,
                handlers=_verdicts(hello.handlers, declared, attached.handlers),
                attempts=[
                    (held.call_id, held.attempt, verdict)
                    for held, verdict in zip(hello.held, attached.held, strict=True)
                ],
            )
        )
        self._workers.welcomed(worker, hello.credit.messages)
        return worker

    async def _read_all(self, worker: Worker) -> bool:
        """Take frames until there are no more; True: the worker half-closed, False: it is gone."""
        while True:
            try:
                frame = await self._context.read()
            except grpc.aio.BaseError:
                return False
            if self._over or self._cut.is_set():
                return False  # the stream ends, or is replaced; what still comes over it does not count
            if not isinstance(frame, pb.ConnectRequest | Unreadable):
                self._workers.unheard(worker)
                await asyncio.sleep(AFTER_EOF_S)
                return not self._context.cancelled()
            self._read_count += 1
            self._workers.heard(worker)
            if isinstance(frame, Unreadable):
                self._refuse(self._unreadable(frame.failure))
            else:
                self._take(frame)
            await self._until_room(worker)

    async def _until_room(self, worker: Worker) -> None:
        """Wait while the worker leaves too much untaken, or too many of its results wait for the disk."""
        while not self._over and self._ending is None and len(self._frames) + worker.unanswered >= MAX_UNWRITTEN:
            self._room.clear()
            await self._room.wait()

    async def _write_all(self) -> None:
        """Write what is queued, and a heartbeat where nothing was written for its interval."""
        while True:
            try:
                async with asyncio.timeout(self._runtime.limits.heartbeat_s):
                    await self._news.wait()
            except TimeoutError:
                self._frames.append((heartbeat_frame(self._runtime.clock.wall()), None))
            self._news.clear()
            while self._frames:
                data, delivered = self._frames[0]
                await self._context.write(data)
                self._frames.popleft()
                self._room.set()
                if delivered is not None:
                    self._dispatcher.written(self._attached, delivered.call.call_id, delivered.call.attempt)
            if self._ending is not None:
                return

    def _queue(self, frame: bytes, delivers: Deliver | None = None) -> None:
        """Queue a frame, in slices where the worker takes less at once. `delivers`: the call that it brings."""
        if self._over:
            return
        pieces = [frame]
        if len(frame) > self._limit:
            self._chunk_id += 1
            about = ("", 0) if delivers is None else (delivers.call.call_id, delivers.call.attempt)
            pieces = list(chunks(frame, self._limit, self._chunk_id, *about))
        self._frames.extend((piece, None) for piece in pieces[:-1])
        self._frames.append((pieces[-1], delivers))
        self._news.set()

    # -- frames ----------------------------------------------------------------------------------

    def _take(self, frame: pb.ConnectRequest) -> None:
        try:
            check.check_frame(frame, self._read_count)
            arm = frame.WhichOneof("frame")
            assert arm is not None
            self._arms[arm](getattr(frame, arm))
        except BatonError as error:
            self._refuse(error.failure)

    def _refuse(self, failure: Failure) -> None:
        self._queue(protocol_error_frame(self._read_count, failure))

    def _unreadable(self, failure: Failure) -> Failure:
        if failure.reason is Reason.MESSAGE_TOO_LARGE:
            return failure
        return self._no_frame(Reason.FRAME_INVALID)

    def _no_frame(self, reason: Reason) -> Failure:
        number = self._read_count
        message = f"Frame {number} was not taken: its bytes are no ConnectRequest. The stream lives."
        return Failure(reason=reason, message=message, metadata={"frame_number": str(number), "field": ""})

    @property
    def _attached(self) -> Worker:
        assert self._worker is not None
        return self._worker

    def _register(self, frame: pb.Register) -> None:
        declared = check.handler_failures(frame.handlers)
        good = [spec for spec, failure in zip(frame.handlers, declared, strict=True) if failure is None]
        registered = self._workers.register(self._attached, [_handler(spec) for spec in good])
        self._queue(registered_frame(_verdicts(frame.handlers, declared, registered)))

    def _unregister(self, frame: pb.Unregister) -> None:
        self._workers.unregister(self._attached, [spec.name for spec in frame.handlers])

    def _credit(self, frame: pb.Credit) -> None:
        self._dispatcher.credit(self._attached, frame.messages)

    def _call_ack(self, frame: pb.CallAck) -> None:
        self._dispatcher.acked(self._attached, frame.call_id, frame.attempt)

    def _result(self, frame: pb.Result) -> None:
        try:
            check.check_result(frame, self._read_count)
        except BatonError as error:
            self._dispatcher.acked(self._attached, frame.call_id, frame.attempt)  # the call has arrived at least
            self.send(
                Ack(
                    call_id=frame.call_id,
                    attempt=frame.attempt,
                    verdict=ResultVerdict.REFUSED,
                    failure=error.failure,
                )
            )
            return
        self._dispatcher.result(self._attached, read_result(frame))

    def _nack(self, frame: pb.Nack) -> None:
        delay_s = frame.delay.ToTimedelta().total_seconds() if frame.HasField("delay") else 0.0
        self._dispatcher.nack(self._attached, frame.call_id, frame.attempt, delay_s)

    def _cancel_ack(self, frame: pb.CancelAck) -> None:
        if frame.outcome != pb.CANCEL_OUTCOME_NOT_STOPPED:
            self._dispatcher.stopped(self._attached, frame.call_id, frame.attempt)

    def _drain(self, _frame: pb.Drain) -> None:
        self._workers.drain(self._attached)

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
            frame_number=str(self._read_count),
            field="hello",
        )


def _seen(task: asyncio.Future[Any]) -> None:
    """Look at what became of a read that nobody waits for any more."""
    if not task.cancelled():
        task.exception()


def _check_hello(frame: pb.ConnectRequest) -> None:
    """Check a Hello. Nothing can go on without one, so what is wrong with it is a status, not a ProtocolError."""
    try:
        check.check_frame(frame, 1)
    except Refused as error:
        if error.failure.reason is Reason.FRAME_INVALID:
            facts = {"fields": str(len(error.violations))}
            failure = Failure(reason=Reason.INVALID_REQUEST, message=error.failure.message, metadata=facts)
            raise Refused(failure, error.violations) from None
        raise


def _handler(spec: pb.HandlerSpec) -> Handler:
    return Handler(name=spec.name, description=spec.description, parameters_json=spec.parameters_json)


def _verdicts(
    specs: Any, declared: list[Failure | None], registered: tuple[Failure | None, ...]
) -> list[tuple[str, Failure | None]]:
    """Put together what the declarations and the registry said, in the order of the declarations."""
    answers = iter(registered)
    return [
        (spec.name, failure if failure is not None else next(answers))
        for spec, failure in zip(specs, declared, strict=True)
    ]
