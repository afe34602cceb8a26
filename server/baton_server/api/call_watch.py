"""One WatchCalls: what a stream of a worker brings, for who cannot send anything back on it.

A call counts as acked once it is written. What is unsettled then outlives the stream by its lease, so that the stream
may end whenever the caller likes: after so many calls, or when there is nothing to do.
"""

from __future__ import annotations

import asyncio
import math

import grpc

from baton.v1 import handler_pb2 as pb
from baton_server.api.attaching import Reception
from baton_server.api.outgoing import WRITERS_OF_WATCH, Outgoing
from baton_server.api.rpc import Context
from baton_server.api.worker_frames import Desk
from baton_server.app.calls.frames import Ask, Credit, Deliver, Frame
from baton_server.app.calls.worker import Worker
from baton_server.app.runtime import Runtime
from baton_server.wire import check
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES
from baton_server.wire.frames import heartbeat_frame
from baton_server.wire.times import read_duration

ON_ITS_WAY_S = 0.05
"""Between two looks at a call that is set aside for an idle watcher, and whose lease is on its way to the disk."""


class CallWatch:
    """Serves one WatchCalls. It is the worker's `Link`, so that it can count what it brings."""

    def __init__(
        self, runtime: Runtime, desk: Desk, reception: Reception, request: pb.WatchCallsRequest, context: Context
    ) -> None:
        """Make it. Raises Refused: the request is wrong."""
        check.check_watch_calls(request)
        self._runtime, self._desk, self._reception = runtime, desk, reception
        self._hello, self._end_after = request.hello, request.end_after
        self._idle_s = read_duration(request.end_when_idle) if request.HasField("end_when_idle") else math.inf
        limit = request.hello.max_message_bytes or DEFAULT_MESSAGE_BYTES
        self._out = Outgoing(context, desk.dispatcher, limit, WRITERS_OF_WATCH)
        self._worker: Worker | None = None
        self._brought = 0

    # -- Link ------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Tell whether the caller takes frames more slowly than they come."""
        return self._out.full

    def send(self, frame: Frame) -> None:
        """Queue a frame; with the last call or batch that was asked for, nothing more is taken on."""
        self._out.send(frame)
        if isinstance(frame, Deliver | Ask):
            self._brought += 1
            if self._has_all:
                self._take_nothing_new()

    def withdraw(self, call_id: str, attempt: int) -> bool:
        """Take back a call of which nothing was written."""
        return self._out.withdraw(call_id, attempt)

    # -- the stream ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the caller leaves or has what it asked for, or the server ends the stream."""
        came = await self._reception.attach(self._hello, self, half_duplex=True)
        worker = self._worker = came.worker
        self._out.answer(came.welcome)
        self._desk.workers.welcomed(worker, self._bounded(worker, came.introduction.credit))
        writing = asyncio.ensure_future(self._write_all(worker))
        cut = asyncio.ensure_future(self._out.cut.wait())
        try:
            await asyncio.wait({writing, cut}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._desk.workers.broke(worker, self)
            await self._out.close(writing, cut)
        await self._out.say_status()
        _look_at(writing)

    @property
    def _has_all(self) -> bool:
        return 0 < self._end_after <= self._brought

    def _bounded(self, worker: Worker, credit: Credit) -> Credit:
        """Keep from a caller that wants so many calls what would only be taken back from it."""
        if not self._end_after:
            return credit
        most = worker.taken.total() + self._end_after
        return Credit(messages=min(credit.messages, most), bytes=credit.bytes)

    async def _write_all(self, worker: Worker) -> None:
        """Write what is queued, and heartbeats in silence, until the stream is to end."""
        out, clock = self._out, asyncio.get_running_loop()
        beat_s = self._runtime.limits.heartbeat_s
        idle_since = beat_at = clock.time()
        while out.waiting or not (self._has_all or out.ending is not None):
            idle_left = idle_since + self._idle_s - clock.time()
            if idle_left <= 0 and not out.waiting:
                if not self._desk.dispatcher.sets_aside(worker):
                    self._take_nothing_new()
                    return
                idle_left = ON_ITS_WAY_S
            beat_left = beat_at + beat_s - clock.time()
            if await out.news(max(0.0, min(idle_left, beat_left))):
                await out.write_waiting(worker)
                idle_since = beat_at = clock.time()
            elif beat_left <= idle_left:
                await out.write(heartbeat_frame(self._runtime.clock.wall()))
                beat_at = clock.time()

    def _take_nothing_new(self) -> None:
        """Have nothing more brought over this stream, which is about to end in good order."""
        if self._worker is not None:
            self._desk.workers.ends_soon(self._worker, self)


def _look_at(writing: asyncio.Task[None]) -> None:
    """Raise what went wrong in writing, but that nobody reads any more."""
    error = None if writing.cancelled() or not writing.done() else writing.exception()
    if error is not None and not isinstance(error, grpc.aio.BaseError):
        raise error
