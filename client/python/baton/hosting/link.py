"""One worker stream from its Hello to its end: one task reads, one writes, one tells the time.

A read is never cancelled, since that ends the call; the call is, and the read ends with it. Only one task
writes, since grpc allows no two writes at once. End of file without a status of its own means nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from baton.hosting.frames import Assembler, ChunkError, needs_slices, slices
from baton.transport.retry import Timing
from baton.v1 import handler_pb2

HEARTBEAT_S = 10.0
"""Interval of heartbeats until Welcome says another."""

SILENT_INTERVALS = 3
"""So many intervals without a frame: the server is gone."""

OUTBOX_FRAMES = 4096
"""Frames that wait to be written. More: the server has stopped reading, and the stream is cut."""

BUSY_FRAMES = 64
"""Frames that wait to be written beyond which what may be skipped is."""

RESULTS_REMEMBERED = 1024
"""Results whose frame numbers are kept, for a ProtocolError that names one."""

DEFAULT_MAX_MESSAGE = 3 * 1024 * 1024
"""What a server takes at least, until Welcome says more."""

_log = logging.getLogger("baton.worker")

StreamCall = grpc.aio.StreamStreamCall[handler_pb2.ConnectRequest, handler_pb2.ConnectResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a stream ended. `failed` None: with OK, or cut from this side; `cut` says why."""

    failed: grpc.aio.AioRpcError | None = None
    cut: str = ""


class Link:
    """One stream. `on_frame` gets it and each frame of the server, chunks put together, in order.

    `to_leave` is set when the server asks to attach anew; the stream goes on meanwhile.
    """

    def __init__(
        self,
        call: StreamCall,
        on_frame: Callable[[Link, handler_pb2.ConnectResponse], None],
        held: Callable[[], int],
        timing: Timing,
    ) -> None:
        self._call = call
        self._on_frame = on_frame
        self._held = held
        self._timing = timing
        self._outbox: asyncio.Queue[handler_pb2.ConnectRequest | None] = asyncio.Queue(OUTBOX_FRAMES)
        self._large: deque[handler_pb2.ConnectRequest] = deque()
        self._assembler = Assembler()
        self._heard = timing.now()
        self._written = 0
        self._chunk_id = 0
        self._results: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._cut = ""
        self._welcomed = asyncio.Event()
        self._heartbeat_s = HEARTBEAT_S
        self._max_message_bytes = DEFAULT_MAX_MESSAGE
        self._welcomed_at = self._heard
        self.to_leave = asyncio.Event()

    @property
    def welcomed(self) -> bool:
        """Frames beside Hello may be sent."""
        return self._welcomed.is_set()

    @property
    def ready(self) -> bool:
        """Frames may be sent that are not owed."""
        return self.welcomed and self._outbox.qsize() < BUSY_FRAMES

    @property
    def age_s(self) -> float:
        """How long ago it was welcomed, or, if it was not, began."""
        return self._timing.now() - self._welcomed_at

    def welcome(self, heartbeat_s: float, max_message_bytes: int) -> None:
        """Go on by what Welcome says; 0: the default stays."""
        self._welcomed_at = self._timing.now()
        self._heartbeat_s = heartbeat_s or self._heartbeat_s
        self._max_message_bytes = max_message_bytes or self._max_message_bytes
        self._welcomed.set()

    def send(self, frame: handler_pb2.ConnectRequest) -> None:
        """Queue a frame. Cuts the stream if the server has stopped reading."""
        try:
            self._outbox.put_nowait(frame)
        except asyncio.QueueFull:
            self.cut(f"{OUTBOX_FRAMES} frames wait to be written; the server does not read")

    def finish(self) -> None:
        """Half-close behind all that is queued; the server ends the stream when nothing is held."""
        try:
            self._outbox.put_nowait(None)
        except asyncio.QueueFull:
            self.cut("the server does not read")

    def cut(self, why: str) -> None:
        """End the stream from this side, at once."""
        self._cut = self._cut or why
        self._call.cancel()

    def result_of_frame(self, number: int) -> tuple[str, int] | None:
        """Name the call and attempt whose result travelled in a frame; None: no result did, or long ago."""
        return self._results.get(number)

    async def run(self, hello: handler_pb2.Hello) -> Ending:
        """Say Hello and serve until the stream has ended."""
        self._outbox.put_nowait(handler_pb2.ConnectRequest(hello=hello))
        reader = asyncio.create_task(self._read(), name="baton worker stream: read")
        writer = asyncio.create_task(self._write(), name="baton worker stream: write")
        clock = asyncio.create_task(self._beat(), name="baton worker stream: heartbeat")
        try:
            waiting = {reader, writer, clock}
            while reader in waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if writer in done and (writer.cancelled() or writer.exception() is not None):
                    self._call.cancel()  # the reader learns the status
                if clock in done:
                    self.cut(f"nothing was heard for {SILENT_INTERVALS} intervals of {self._heartbeat_s:g} s")
        finally:
            self._call.cancel()
            writer.cancel()
            clock.cancel()
            await asyncio.gather(reader, writer, clock, return_exceptions=True)
        return self._ending(reader)

    def _ending(self, reader: asyncio.Task[None]) -> Ending:
        if reader.cancelled():
            return Ending(cut=self._cut or "the call was cancelled")
        failed = reader.exception()
        if failed is None:
            return Ending()
        if isinstance(failed, grpc.aio.AioRpcError):
            return Ending(failed=failed)
        if isinstance(failed, ChunkError | DecodeError):
            return Ending(cut=f"a frame cannot be read: {failed}")
        _log.error("a frame of the server could not be dealt with", exc_info=failed)
        return Ending(cut=f"a frame could not be dealt with: {failed!r}")

    async def _read(self) -> None:
        while True:
            frame = await self._call.read()
            if frame is grpc.aio.EOF:
                return
            self._heard = self._timing.now()
            assert isinstance(frame, handler_pb2.ConnectResponse)
            whole = self._assembler.feed(frame.chunk) if frame.HasField("chunk") else frame
            if whole is not None:
                self._on_frame(self, whole)

    async def _write(self) -> None:
        """Write what is queued. Large frames go in slices, with whatever else is queued between them."""
        under_way: Iterator[handler_pb2.ConnectRequest] | None = None
        key = ("", 0)
        while True:
            if under_way is None and self._large:
                frame = self._large.popleft()
                self._chunk_id += 1
                under_way = slices(frame, self._chunk_id, self._max_message_bytes)
                key = (frame.result.call_id, frame.result.attempt)
            if under_way is None or not self._outbox.empty():
                queued = await self._outbox.get()
                if queued is None:
                    break
                await self._write_or_set_aside(queued)
            if under_way is not None:
                piece = next(under_way, None)
                if piece is None:
                    under_way = None
                else:
                    await self._put(piece, key)
        await self._call.done_writing()

    async def _write_or_set_aside(self, frame: handler_pb2.ConnectRequest) -> None:
        if self.welcomed and needs_slices(frame, self._max_message_bytes):
            self._large.append(frame)
        else:
            await self._put(frame, (frame.result.call_id, frame.result.attempt))

    async def _put(self, frame: handler_pb2.ConnectRequest, result: tuple[str, int]) -> None:
        self._written += 1
        if result[0]:
            self._results[self._written] = result
            while len(self._results) > RESULTS_REMEMBERED:
                self._results.popitem(last=False)
        await self._call.write(frame)

    async def _beat(self) -> None:
        """Send heartbeats; end when the server has been silent for too long."""
        if not await self._welcome_in_time():
            return
        while True:
            await self._timing.sleep(self._heartbeat_s)
            if self._timing.now() - self._heard >= SILENT_INTERVALS * self._heartbeat_s:
                return
            beat = handler_pb2.WorkerHeartbeat(held=self._held())
            beat.now.GetCurrentTime()
            self.send(handler_pb2.ConnectRequest(heartbeat=beat))

    async def _welcome_in_time(self) -> bool:
        waits = [
            asyncio.ensure_future(self._timing.sleep(SILENT_INTERVALS * self._heartbeat_s)),
            asyncio.ensure_future(self._welcomed.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self.welcomed
