"""A worker of which a test is the script: every frame is written by the test, and every answer is looked at.

    worker = await ScriptedWorker.attached(address, "get_weather")
    call = await worker.expect("call")
    await worker.send(result={"call_id": call.call_id, "attempt": call.attempt, "output": "18 °C"})
    await worker.expect("result_ack")

What comes must be expected in its order; heartbeats alone are passed over. Chunks are put together here as a
worker in any language would do it, and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from baton.v1 import handler_pb2

PATIENCE_S = 10.0
"""How long a test waits for what must come."""

CHANNEL = (
    # Of its own, so that a test can cut one worker's connection alone.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a stream ended. `reason` and `metadata` are those of its ErrorInfo; empty: it had none."""

    code: grpc.StatusCode
    message: str = ""
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    paths: tuple[str, ...] = ()


class ScriptedWorker:
    """One stream. `sizes`: of the messages that came, in bytes; `counts`: frames by arm, chunks included."""

    def __init__(self, address: str, *, reading: bool = True) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=CHANNEL)
        connect = self._channel.stream_stream("/baton.v1.HandlerService/Connect")  # bytes both ways
        self._stream: Any = connect()
        self._frames: asyncio.Queue[handler_pb2.ConnectResponse] = asyncio.Queue()
        self._beats: asyncio.Queue[handler_pb2.WorkerHeartbeat] = asyncio.Queue()
        self._slices: dict[int, list[handler_pb2.Chunk]] = {}
        self._sent: Counter[str] = Counter()
        self._chunk_ids = 0
        self._reader = asyncio.ensure_future(self._read()) if reading else None
        self.welcome = handler_pb2.Welcome()
        self.sizes: list[int] = []
        self.counts: Counter[str] = Counter()

    @classmethod
    async def attached(cls, address: str, *names: str, credit: int = 10, **hello: Any) -> ScriptedWorker:
        """Attach a worker that serves these names, and take its Welcome."""
        worker = cls(address)
        await worker.hello(*names, credit=credit, **hello)
        return worker

    # -- what the worker says --------------------------------------------------------------------

    async def hello(self, *names: str, credit: int | Mapping[str, int] = 10, **fields: Any) -> handler_pb2.Welcome:
        """Say Hello and take the Welcome, which must be the first frame. `handlers` in `fields` win over names.

        `credit`: messages, or the fields of a Credit.
        """
        granted = {"messages": credit} if isinstance(credit, int) else credit
        given = {"handlers": [{"name": name} for name in names], "credit": granted, **fields}
        await self.send(hello=given)
        self.welcome = await self.expect("welcome")
        return self.welcome

    async def send(self, **frame: Any) -> None:
        """Write a frame; the keyword is its arm. No keyword: a frame that says nothing."""
        await self.send_bytes(handler_pb2.ConnectRequest(**frame).SerializeToString())

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        async with asyncio.timeout(PATIENCE_S):
            await self._stream.write(data)

    async def send_in_chunks(self, size: int, **frame: Any) -> None:
        """Write a frame in slices of so many bytes."""
        for chunk in self.chunks(size, **frame):
            await self.send(chunk=chunk)

    def chunks(self, size: int, **frame: Any) -> list[dict[str, Any]]:
        """Cut a frame into slices, for the test to spoil or to send."""
        return self.chunks_of(handler_pb2.ConnectRequest(**frame).SerializeToString(), size)

    def chunks_of(self, data: bytes, size: int) -> list[dict[str, Any]]:
        """Cut bytes into slices."""
        self._chunk_ids += 1
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        made = [{"chunk_id": self._chunk_ids, "index": n, "data": piece} for n, piece in enumerate(pieces)]
        made[0]["total_bytes"] = len(data)
        made[-1].update(last=True, sha256=sha256(data).hexdigest())
        return made

    async def ack(self, call: handler_pb2.Call) -> None:
        """Say that a call has arrived."""
        await self.send(call_ack={"call_id": call.call_id, "attempt": call.attempt})

    async def settle(self, call: handler_pb2.Call, **outcome: Any) -> None:
        """Send a result: `output="…"` unless told otherwise."""
        await self.send(result=result_of(call, **outcome))

    async def finish(self, call: handler_pb2.Call, **outcome: Any) -> handler_pb2.ResultAck:
        """Send a result and take its ack, which must be the next frame and say DURABLE."""
        await self.settle(call, **outcome)
        ack: handler_pb2.ResultAck = await self.expect("result_ack")
        assert ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE, ack
        return ack

    # -- what comes ------------------------------------------------------------------------------

    async def frame(self) -> handler_pb2.ConnectResponse:
        """Take the next frame that is no heartbeat. Raises EOFError: the stream has ended."""
        async with asyncio.timeout(PATIENCE_S):
            frame = await self._frames.get()
        if frame.WhichOneof("frame") is None:
            self._frames.put_nowait(frame)
            raise EOFError("the stream has ended")
        return frame

    async def expect(self, arm: str) -> Any:
        """Take the next frame, which must be of this arm."""
        frame = await self.frame()
        assert frame.WhichOneof("frame") == arm, f"{arm} was expected, this came: {str(frame)[:500]}"
        return getattr(frame, arm)

    async def expect_all(self, arm: str, count: int) -> list[Any]:
        """Take so many frames, which must all be of this arm."""
        return [await self.expect(arm) for _ in range(count)]

    async def expect_error(self) -> handler_pb2.ProtocolError:
        """Take a ProtocolError."""
        error: handler_pb2.ProtocolError = await self.expect("protocol_error")
        return error

    async def nothing(self) -> None:
        """Make sure that the server has nothing more to say at the moment: a frame goes there and back."""
        await self.send()
        error = await self.expect_error()
        assert error.error.metadata["frame_number"] == str(error.frame_number)

    async def heartbeat(self) -> handler_pb2.WorkerHeartbeat:
        """Take the server's next heartbeat."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._beats.get()

    # -- the end ---------------------------------------------------------------------------------

    async def half_close(self) -> None:
        """Say that no frame will follow."""
        await self._stream.done_writing()

    async def break_connection(self) -> None:
        """Cut the connection, as a process does that is killed."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
        self._stream.cancel()
        await self._channel.close()

    async def ended(self) -> Ending:
        """Wait for the end of the stream; whatever frames came before it must have been taken."""
        try:
            frame = await self.frame()
        except EOFError:
            return await self._status()
        raise AssertionError(f"the end was expected, this came: {str(frame)[:500]}")

    async def close(self) -> None:
        """Let go of the stream; a second time changes nothing."""
        await self.break_connection()

    async def _status(self) -> Ending:
        async with asyncio.timeout(PATIENCE_S):
            code = await self._stream.code()
            trailers = dict(await self._stream.trailing_metadata() or ())
            message = await self._stream.details() or ""
        info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        for detail in status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b"")).details:
            detail.Unpack(info)
            detail.Unpack(bad)
        return Ending(
            code=code,
            message=message,
            reason=info.reason,
            metadata=dict(info.metadata),
            paths=tuple(violation.field for violation in bad.field_violations),
        )

    # -- reading ---------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while (data := await self._stream.read()) is not grpc.aio.EOF:
                self.sizes.append(len(data))
                self._take(handler_pb2.ConnectResponse.FromString(data))
        except grpc.aio.AioRpcError:
            pass  # `ended` tells
        self._frames.put_nowait(handler_pb2.ConnectResponse())

    def _take(self, frame: handler_pb2.ConnectResponse) -> None:
        arm = frame.WhichOneof("frame")
        assert arm is not None
        self.counts[arm] += 1
        if arm == "chunk":
            self._assemble(frame.chunk)
        elif arm == "heartbeat":
            self._beats.put_nowait(frame.heartbeat)
        else:
            self._frames.put_nowait(frame)

    def _assemble(self, chunk: handler_pb2.Chunk) -> None:
        slices = self._slices.setdefault(chunk.chunk_id, [])
        assert chunk.index == len(slices)
        slices.append(chunk)
        if chunk.last:
            whole = b"".join(piece.data for piece in self._slices.pop(chunk.chunk_id))
            assert len(whole) == slices[0].total_bytes
            assert sha256(whole).hexdigest() == chunk.sha256
            self._take(handler_pb2.ConnectResponse.FromString(whole))


def result_of(call: handler_pb2.Call, **outcome: Any) -> handler_pb2.Result:
    """Make the result of a call: an output, unless told otherwise."""
    return handler_pb2.Result(**{"call_id": call.call_id, "attempt": call.attempt, **(outcome or {"output": "done"})})


def held(*calls: handler_pb2.Call, finished: bool = False) -> list[handler_pb2.HeldAttempt]:
    """Name calls that a worker still holds."""
    return [
        handler_pb2.HeldAttempt(call_id=call.call_id, attempt=call.attempt, begun=True, finished=finished)
        for call in calls
    ]


async def acked(worker: ScriptedWorker) -> handler_pb2.Call:
    """Take a call and ack it, so that only its lease runs."""
    call: handler_pb2.Call = await worker.expect("call")
    await worker.ack(call)
    await worker.nothing()
    return call


async def close_all(workers: Iterable[ScriptedWorker]) -> None:
    """Let go of many streams."""
    await asyncio.gather(*(worker.close() for worker in workers))
