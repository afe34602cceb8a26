"""One attached worker's stream: a task reads frames, a task writes them, and neither waits for the other.

Facts of grpc.aio that shape it, beside those of `outgoing`: a read must never be cancelled (it would end the call); EOF
alone does not tell a half-close from a death (a cancellation follows within milliseconds).
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from baton.v1 import handler_pb2 as pb
from baton_server.api.attaching import Reception
from baton_server.api.outgoing import Outgoing
from baton_server.api.rpc import Context, Unreadable
from baton_server.api.worker_frames import Desk, WorkerFrames
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.core.errors import Failure, Reason, Refused, refuse
from baton_server.wire import check
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES
from baton_server.wire.frames import heartbeat_frame

AFTER_EOF_S = 0.05
"""How long a cancellation may take to follow the end of the reads (measured: 0.1 to 0.4 ms)."""

MAX_UNWRITTEN = 1000
"""Frames and answers that a worker may leave untaken; beyond them nothing more is read from it."""


class WorkerStream:
    """Serves one Connect."""

    def __init__(self, runtime: Runtime, desk: Desk, reception: Reception, context: Context) -> None:
        self._runtime, self._desk, self._reception, self._context = runtime, desk, reception, context
        self._workers = desk.workers
        self._out: Outgoing

    async def run(self) -> None:
        """Serve until the worker leaves, dies, or the server ends the stream."""
        hello = await self._hello()
        limit = hello.max_message_bytes or DEFAULT_MESSAGE_BYTES
        out = self._out = Outgoing(self._context, self._desk.dispatcher, limit)
        came = await self._reception.attach(hello, out)
        worker = came.worker
        out.answer(came.welcome)
        self._workers.welcomed(worker, came.introduction.credit)
        reading = asyncio.ensure_future(self._read_all(worker))
        writing = asyncio.ensure_future(self._write_all(worker))
        cut = asyncio.ensure_future(out.cut.wait())
        try:
            await self._until_over(worker, reading, writing, cut)
        finally:
            self._workers.broke(worker, out)
            # With the rpc, the read ends by itself; what the others were about matters to nobody any more.
            await out.close(writing, cut)
            reading.add_done_callback(_seen)
        await out.say_status()

    async def _until_over(
        self, worker: Worker, reading: asyncio.Task[bool], writing: asyncio.Task[None], cut: asyncio.Task[Any]
    ) -> None:
        """Wait for the end of the stream; a half-close is not yet one."""
        await asyncio.wait({reading, writing, cut}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not writing.done() and not cut.done() and reading.result():
            self._workers.drain(worker)
            await asyncio.wait({writing, cut}, return_when=asyncio.FIRST_COMPLETED)

    async def _hello(self) -> pb.Hello:
        reading = asyncio.ensure_future(self._context.read())
        reading.add_done_callback(_seen)
        done, _ = await asyncio.wait({reading}, timeout=self._runtime.limits.hello_timeout_s)
        frame = reading.result() if done else None
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

    async def _read_all(self, worker: Worker) -> bool:
        """Take frames until there are no more; True: the worker half-closed, False: it is gone."""
        frames = WorkerFrames(self._desk, worker, self._out)
        while True:
            try:
                frame = await self._context.read()
            except grpc.aio.BaseError:
                return False
            if self._out.closed or self._out.cut.is_set():
                return False  # the stream ends, or is replaced; what still comes over it does not count
            if not isinstance(frame, pb.ConnectRequest | Unreadable):
                self._workers.unheard(worker)
                await asyncio.sleep(AFTER_EOF_S)
                return not self._context.cancelled()
            self._workers.heard(worker)
            if isinstance(frame, Unreadable):
                frames.refuse(frame.failure)
            else:
                frames.take(frame)
            await self._until_room(worker)

    async def _until_room(self, worker: Worker) -> None:
        """Wait while the worker leaves too much untaken, or too many of its results wait for the disk."""
        out = self._out
        while not out.closed and out.ending is None and out.waiting + worker.unanswered >= MAX_UNWRITTEN:
            out.room.clear()
            await out.room.wait()

    async def _write_all(self, worker: Worker) -> None:
        """Write what is queued, and a heartbeat where nothing was written for its interval."""
        while self._out.ending is None or self._out.waiting:
            if not await self._out.news(self._runtime.limits.heartbeat_s):
                self._out.answer(heartbeat_frame(self._runtime.clock.wall()))
            await self._out.write_waiting(worker)


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
