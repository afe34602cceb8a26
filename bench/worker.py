"""A worker that answers every call at once, without the client library: `python -m bench.worker ADDRESS`.

It sends no CallAck, which a Result makes needless. Its first line of output says that it is attached.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable

import grpc

from baton.v1 import handler_pb2 as pb
from bench.load import FUNCTION, PARAMETERS, StreamStream

CONNECT = "/baton.v1.HandlerService/Connect"

CREDIT = 4000
"""Calls that may be under way. Granted again when that many have come, so that hardly a frame is about it."""

HEARTBEAT_S = 5.0


async def work(channel: grpc.aio.Channel, attached: Callable[[], None], seen: list[bytes] | None = None) -> None:
    """Serve until the server ends the stream or the task is cancelled. `seen`: takes the frames that came."""
    connect: StreamStream = channel.stream_stream(CONNECT)
    stream = connect()
    writing = asyncio.Lock()

    async def send(frame: pb.ConnectRequest) -> None:
        async with writing:
            await stream.write(frame.SerializeToString())

    async def live() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await send(pb.ConnectRequest(heartbeat=pb.WorkerHeartbeat()))

    handler = pb.HandlerSpec(name=FUNCTION, parameters_json=PARAMETERS)
    await send(pb.ConnectRequest(hello=pb.Hello(handlers=[handler], credit=pb.Credit(messages=2 * CREDIT))))
    await stream.read()
    attached()
    beating = asyncio.ensure_future(live())
    calls = 0
    try:
        while isinstance(data := await stream.read(), bytes):
            if seen is not None:
                seen.append(data)
            frame = pb.ConnectResponse.FromString(data)
            if not frame.HasField("call"):
                continue
            call = frame.call
            result = pb.Result(call_id=call.call_id, attempt=call.attempt, output=call.arguments_json)
            await send(pb.ConnectRequest(result=result))
            calls += 1
            if calls % CREDIT == 0:
                await send(pb.ConnectRequest(credit=pb.Credit(messages=CREDIT)))
    finally:
        beating.cancel()


async def _main(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        working = asyncio.ensure_future(work(channel, lambda: print("attached", flush=True)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await working


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
