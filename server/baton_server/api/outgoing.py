"""The way out to one worker: frames that wait to be written, in slices where they are large.

Facts of grpc.aio that shape it: two writes at once fail; a write to a peer that does not read waits for ever, and so
does the status behind it. So frames are queued here, one task writes them, and `cut` tells when there is no use in
waiting for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import structlog

from baton_server.api.rpc import Context, abort
from baton_server.app.calls.dispatch import Dispatcher
from baton_server.app.calls.frames import Ack, Ask, Credit, Deliver, End, Extended, Frame, Leave, Stop
from baton_server.app.calls.worker import Worker
from baton_server.core.errors import BatonError
from baton_server.wire.chunks import chunks
from baton_server.wire.frames import (
    ask_frame,
    call_frame,
    cancel_frame,
    drain_frame,
    extend_ack_frame,
    result_ack_frame,
)

log = structlog.get_logger(__name__)

MANY_UNWRITTEN = 100
"""Frames that may wait before what can be lost is lost."""

Writers = Mapping[type, Callable[[Any], bytes]]
"""How each frame is written, but an End. A frame that is missing has no place on the stream, and is passed over."""

WRITERS_OF_WATCH: Writers = {Deliver: call_frame, Ask: ask_frame, Stop: cancel_frame, Leave: drain_frame}
"""Of WatchCalls. Its messages have the numbers of those of Connect."""

WRITERS: Writers = {**WRITERS_OF_WATCH, Ack: result_ack_frame, Extended: extend_ack_frame}
"""Of Connect."""


@dataclass(slots=True)
class _Piece:
    """A frame that waits to be written, or a slice of one. `brings`: the call that it is about, None: it brings none.

    `first`, `last`: of the frame's slices. `void`: what it brought was withdrawn.
    """

    data: bytes
    brings: Deliver | None = None
    first: bool = True
    last: bool = True
    void: bool = False


class Outgoing:
    """Holds what is to be written, and writes it. It is a worker's `Link`.

    `ending`: how the stream is to end, None: it goes on. `room`: set whenever less waits than before. `cut`: set when
    the stream ends with a status, which is not to wait for frames.
    """

    def __init__(self, context: Context, dispatcher: Dispatcher, limit: int, writers: Writers = WRITERS) -> None:
        """Make it. `limit`: largest message that the worker takes."""
        self._context, self._dispatcher, self._returns = context, dispatcher, dispatcher.returns
        self._limit, self._writers = limit, writers
        self._pieces: deque[_Piece] = deque()
        self._news = asyncio.Event()
        self._chunk_id = 0
        self.room, self.cut = asyncio.Event(), asyncio.Event()
        self.ending: End | None = None
        self.closed = False

    @property
    def waiting(self) -> int:
        """Count what waits to be written."""
        return len(self._pieces)

    # -- Link ------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Tell whether the worker takes frames more slowly than they come."""
        return len(self._pieces) >= MANY_UNWRITTEN

    def send(self, frame: Frame) -> None:
        """Queue a frame."""
        if isinstance(frame, End):
            self._end(frame)
            return
        write = self._writers.get(type(frame))
        if write is not None:
            self._queue(write(frame), frame if isinstance(frame, Deliver) else None)

    def withdraw(self, call_id: str, attempt: int) -> bool:
        """Take back a call of which nothing was written; its credit comes back when its turn would have come."""
        mine = [
            piece
            for piece in self._pieces
            if piece.brings is not None and (piece.brings.call.call_id, piece.brings.call.attempt) == (call_id, attempt)
        ]
        if not mine or not mine[0].first:
            return False
        for piece in mine:
            piece.data, piece.void = b"", True
        return True

    # -- for the stream --------------------------------------------------------------------------

    def answer(self, frame: bytes) -> None:
        """Queue a frame that was written already."""
        self._queue(frame)

    async def news(self, within_s: float) -> bool:
        """Wait until there is something to write, or the stream is to end; False: for so long there was nothing."""
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    async def write(self, frame: bytes) -> None:
        """Write a frame before all that waits."""
        await self._context.write(frame)

    async def write_waiting(self, worker: Worker) -> None:
        """Write all that waits."""
        while self._pieces:
            await self._write(worker, self._pieces.popleft())
            self.room.set()

    async def close(self, *tasks: asyncio.Task[Any]) -> None:
        """Drop what was not written, and end the tasks that were about it."""
        self.closed = True
        self._pieces.clear()
        self.room.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def say_status(self) -> None:
        """End the rpc with the status that was asked for, if any was."""
        if self.ending is None or self.ending.failure is None:
            return
        try:
            await abort(self._context, BatonError(self.ending.failure))
        except grpc.aio.InternalError:
            log.info("a worker went before it took the status of its stream", reason=self.ending.failure.reason)

    # -- inside ----------------------------------------------------------------------------------

    def _end(self, frame: End) -> None:
        if self.ending is None or frame.failure is not None:
            self.ending = frame
        if frame.failure is not None:
            self._pieces.clear()  # what waits must not be written any more: its calls may be somebody else's
            self.cut.set()
        self._news.set()
        self.room.set()

    async def _write(self, worker: Worker, piece: _Piece) -> None:
        brings = piece.brings if piece.last else None
        if piece.void:
            if brings is not None and not worker.half_duplex:  # the twin's credit was not used up
                size = 0 if worker.credit_bytes is None else len(brings.call.arguments.encode())
                self._dispatcher.credit(worker, Credit(messages=1, bytes=size))
            return
        if brings is not None:
            self._returns.writing(worker, brings.call.call_id, brings.call.attempt)
        await self._context.write(piece.data)
        if brings is not None:
            self._returns.written(worker, brings.call.call_id, brings.call.attempt)

    def _queue(self, frame: bytes, brings: Deliver | None = None) -> None:
        """Queue a frame, in slices where the worker takes less at once. `brings`: the call that it brings."""
        if self.closed:
            return
        pieces = [frame]
        if len(frame) > self._limit:
            self._chunk_id += 1
            about = ("", 0) if brings is None else (brings.call.call_id, brings.call.attempt)
            pieces = list(chunks(frame, self._limit, self._chunk_id, *about))
        last = len(pieces) - 1
        for number, data in enumerate(pieces):
            self._pieces.append(_Piece(data, brings, first=number == 0, last=number == last))
        self._news.set()
