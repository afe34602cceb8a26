"""Frames too large for one message: cut into slices on the way out, put together on the way in. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from baton.v1 import handler_pb2

SLICE_BYTES = 1024 * 1024
"""Larger frames are sliced, so that heartbeats are not held up behind them."""

MARGIN_BYTES = 1024
"""A slice stays so far below the receiver's largest message (handler.proto, Chunk.data)."""

MAX_UNFINISHED, MAX_UNFINISHED_BYTES = 4, 32 * 1024 * 1024
"""Frames that may be under way in slices at a time, and their bytes in all."""


class ChunkError(ValueError):
    """Slices do not add up. The stream is of no use any more: nothing says which frame was lost."""


def needs_slices(frame: handler_pb2.ConnectRequest, max_message_bytes: int) -> bool:
    """Tell whether a frame is to be sliced for a peer that takes messages of so many bytes."""
    return frame.ByteSize() > min(SLICE_BYTES, max_message_bytes - MARGIN_BYTES)


def slices(
    frame: handler_pb2.ConnectRequest, chunk_id: int, max_message_bytes: int
) -> Iterator[handler_pb2.ConnectRequest]:
    """Cut a frame into frames that each fit the peer."""
    whole = frame.SerializeToString()
    size = min(SLICE_BYTES, max_message_bytes - MARGIN_BYTES)
    digest = hashlib.sha256(whole).hexdigest()
    for index, start in enumerate(range(0, len(whole), size)):
        last = start + size >= len(whole)
        yield handler_pb2.ConnectRequest(
            chunk=handler_pb2.Chunk(
                chunk_id=chunk_id,
                index=index,
                data=whole[start : start + size],
                total_bytes=len(whole) if index == 0 else 0,
                sha256=digest if last else "",
                last=last,
                call_id=frame.result.call_id,
                attempt=frame.result.attempt,
            )
        )


@dataclass(slots=True)
class _Unfinished:
    total_bytes: int
    slices: int = 0
    data: bytearray = field(default_factory=bytearray)


class Assembler:
    """Puts slices together. One per stream."""

    def __init__(self) -> None:
        self._unfinished: dict[int, _Unfinished] = {}

    def feed(self, chunk: handler_pb2.Chunk) -> handler_pb2.ConnectResponse | None:
        """Take a slice; return the frame that it completes, or None. Raises ChunkError."""
        frame = self._unfinished.get(chunk.chunk_id)
        if frame is None:
            frame = self._begin(chunk)
        if chunk.index != frame.slices:
            raise ChunkError(f"chunk {chunk.chunk_id}: slice {chunk.index} came, {frame.slices} was due")
        frame.slices += 1
        frame.data += chunk.data
        if len(frame.data) > frame.total_bytes:
            raise ChunkError(f"chunk {chunk.chunk_id}: more than the {frame.total_bytes} bytes announced")
        if not chunk.last:
            return None
        del self._unfinished[chunk.chunk_id]
        return _whole(chunk, frame)

    def _begin(self, chunk: handler_pb2.Chunk) -> _Unfinished:
        if chunk.total_bytes <= 0:
            raise ChunkError(f"chunk {chunk.chunk_id}: its first slice says no length")
        bytes_in_all = chunk.total_bytes + sum(other.total_bytes for other in self._unfinished.values())
        if len(self._unfinished) >= MAX_UNFINISHED or bytes_in_all > MAX_UNFINISHED_BYTES:
            raise ChunkError(
                f"chunk {chunk.chunk_id}: {len(self._unfinished)} frames and {bytes_in_all} bytes under way, "
                f"at most {MAX_UNFINISHED} and {MAX_UNFINISHED_BYTES}"
            )
        return self._unfinished.setdefault(chunk.chunk_id, _Unfinished(total_bytes=chunk.total_bytes))


def _whole(chunk: handler_pb2.Chunk, frame: _Unfinished) -> handler_pb2.ConnectResponse:
    if len(frame.data) != frame.total_bytes:
        raise ChunkError(f"chunk {chunk.chunk_id}: {len(frame.data)} of {frame.total_bytes} bytes came")
    found = hashlib.sha256(frame.data).hexdigest()
    if found != chunk.sha256:
        raise ChunkError(f"chunk {chunk.chunk_id}: sha256 {found}, announced was {chunk.sha256}")
    return handler_pb2.ConnectResponse.FromString(bytes(frame.data))
