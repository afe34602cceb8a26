"""Chunks: frames too large for one message, cut into slices and put together again.

Slices of several frames, and other frames, may come in between; a frame counts as arriving with its last
slice. Both directions keep to the same bounds: a few unfinished frames, and so many bytes of them in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from baton.v1 import handler_pb2
from baton_server.core.errors import Reason, Refused, refuse

UNFINISHED_FRAMES = 4
UNFINISHED_BYTES = 32 * 1024 * 1024
"""Most that may be unfinished in one direction (PROTOCOL.md §7)."""

_SLICE_ENVELOPE = 1024
"""Left free in each slice's message for what is not data (handler.proto, `Chunk.data`)."""

_REMEMBERED = 64
"""Refused frames whose further slices are passed over in silence."""


def chunks(frame: bytes, limit: int, chunk_id: int, call_id: str, attempt: int) -> Iterator[bytes]:
    """Cut a serialised ConnectResponse into messages of at most `limit` bytes, each a ConnectResponse."""
    size = limit - _SLICE_ENVELOPE
    count = max(1, -(-len(frame) // size))
    for index in range(count):
        last = index == count - 1
        slice_ = handler_pb2.Chunk(
            chunk_id=chunk_id,
            index=index,
            data=frame[index * size : (index + 1) * size],
            total_bytes=len(frame) if index == 0 else 0,
            sha256=sha256(frame).hexdigest() if last else "",
            last=last,
            call_id=call_id,
            attempt=attempt,
        )
        yield handler_pb2.ConnectResponse(chunk=slice_).SerializeToString()


@dataclass(slots=True)
class _Unfinished:
    total_bytes: int
    slices: int = 0
    data: bytearray = field(default_factory=bytearray)


class Assembler:
    """Puts a peer's chunks together. One per stream and direction."""

    def __init__(self) -> None:
        self._frames: dict[int, _Unfinished] = {}
        self._refused: dict[int, None] = {}

    def take(self, chunk: handler_pb2.Chunk) -> bytes | None:
        """Take a slice; returns the whole frame with its last one, until then None.

        Raises Refused with CHUNK_INVALID where slices do not add up or are too many; the frame is forgotten
        then, and its further slices are passed over until it comes again from index 0.
        """
        if chunk.index != 0 and chunk.chunk_id in self._refused:
            return None
        problem = self._begin(chunk) if chunk.index == 0 else self._problem(chunk)
        if problem is None:
            return self._add(chunk)
        self._drop(chunk.chunk_id)
        raise _invalid(chunk, *problem)

    def _drop(self, chunk_id: int) -> None:
        self._frames.pop(chunk_id, None)
        self._refused[chunk_id] = None
        while len(self._refused) > _REMEMBERED:
            del self._refused[next(iter(self._refused))]

    @property
    def unfinished(self) -> int:
        """Count the frames that are not whole yet."""
        return len(self._frames)

    def _begin(self, chunk: handler_pb2.Chunk) -> tuple[str, str] | None:
        self._refused.pop(chunk.chunk_id, None)
        self._frames.pop(chunk.chunk_id, None)
        held = sum(frame.total_bytes for frame in self._frames.values())
        if chunk.total_bytes <= 0:
            return "total_bytes", "the first slice must say the length of the whole frame"
        if held + chunk.total_bytes > UNFINISHED_BYTES:
            return "size", f"unfinished frames may hold {UNFINISHED_BYTES} bytes in all; finish some first"
        if len(self._frames) >= UNFINISHED_FRAMES:
            return "frames", f"at most {UNFINISHED_FRAMES} frames may be unfinished; finish one first"
        self._frames[chunk.chunk_id] = _Unfinished(chunk.total_bytes)
        return self._problem(chunk)

    def _problem(self, chunk: handler_pb2.Chunk) -> tuple[str, str] | None:
        frame = self._frames.get(chunk.chunk_id)
        if frame is None or chunk.index != frame.slices:
            expected = 0 if frame is None else frame.slices
            return "gap", f"slice {chunk.index} came where {expected} was expected"
        size = len(frame.data) + len(chunk.data)
        if size > frame.total_bytes or (chunk.last and size != frame.total_bytes):
            return "length", f"the slices have {size} bytes, the first one said {frame.total_bytes}"
        if not chunk.last and not chunk.data:
            return "length", "only the last slice may be empty"
        return None

    def _add(self, chunk: handler_pb2.Chunk) -> bytes | None:
        frame = self._frames[chunk.chunk_id]
        frame.slices += 1
        frame.data += chunk.data
        if not chunk.last:
            return None
        del self._frames[chunk.chunk_id]
        whole = bytes(frame.data)
        if sha256(whole).hexdigest() != chunk.sha256:
            raise _invalid(chunk, "sha256", "the digest of the slices is not the one that the last slice said")
        return whole


def _invalid(chunk: handler_pb2.Chunk, problem: str, words: str) -> Refused:
    return refuse(
        Reason.CHUNK_INVALID,
        f"Chunk {chunk.chunk_id} does not add up: {words}. Send the frame again from its first slice.",
        chunk_id=str(chunk.chunk_id),
        problem=problem,
    )
