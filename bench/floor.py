"""The floor: a server that moves the bytes of recorded runs and does nothing else.

    python -m bench.floor TAPES STORE MODEL_URL        its first line of output is its address

It is called as the real server is, by the same callers and workers in the same other processes. For each run it
sends the requests to the model through the same transport and reads the bytes, writes the messages of the
caller's stream, sends each call to the worker and waits for its result, and commits the same bytes as often, with
synchronous=FULL, in groups. Nothing is parsed, decided, checked or remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import pickle
import signal
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, Omit

from baton.v1 import handler_pb2
from bench.flush import Flusher
from bench.tape import TURN_ID_LENGTH, Call, Round, Tape

ROUND_TRIPS = "/bench.Floor/RoundTrips"
"""Our own rpc: {"at_once": 1, "times": 10} → the seconds that each call took, as JSON."""

_ID = b"call_"
_ID_LENGTH = len(_ID) + TURN_ID_LENGTH + len("_000000")

Context = grpc.aio.ServicerContext[bytes, bytes]


class WorkerLink:
    """The stream of the worker: raw frames there, raw frames back, told apart by the id in them."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._results: dict[bytes, asyncio.Future[None]] = {}

    def send(self, frame: bytes) -> None:
        """Queue a frame."""
        self._frames.append(frame)
        self._news.set()

    async def call(self, call_id: bytes, frame: bytes) -> None:
        """Send a call and wait for the frame that answers it."""
        result = self._results[call_id] = asyncio.get_running_loop().create_future()
        self.send(frame)
        await result

    async def serve(self, _requests: object, context: Context) -> None:
        """Serve Connect."""
        await context.read()
        self.send(handler_pb2.ConnectResponse(welcome=handler_pb2.Welcome()).SerializeToString())
        writing = asyncio.ensure_future(self._write(context))
        try:
            while isinstance(frame := await context.read(), bytes):
                at = frame.find(_ID)
                result = self._results.pop(frame[at : at + _ID_LENGTH], None)
                if result is not None:
                    result.set_result(None)
        finally:
            writing.cancel()

    async def _write(self, context: Context) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._frames:
                await context.write(self._frames.popleft())


class Transport:
    """The server's transport to the model: bytes there, bytes back."""

    def __init__(self, base_url: str) -> None:
        self._client = AsyncOpenAI(
            api_key="none", admin_api_key="", base_url=base_url, max_retries=0, http_client=DefaultAioHttpClient()
        )
        self._headers: dict[str, str | Omit] = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Authorization": Omit(),
        }

    async def ask(self, body: bytes, meanwhile: Callable[[int], Awaitable[None]]) -> None:
        """Ask, and read the reply to its end. `meanwhile` is told after each read how many bytes it gave."""
        answer: Any = await self._client.post(
            "/responses",
            cast_to=httpx2.Response,
            content=body,
            options={"headers": self._headers},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        try:
            async for chunk in answer.aiter_bytes():
                await meanwhile(len(chunk))
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class Floor:
    """Replays tapes."""

    def __init__(self, tapes: list[Tape], flusher: Flusher, transport: Transport) -> None:
        self._tapes, self._flusher, self._transport = tapes, flusher, transport
        self._numbers = itertools.count(1)
        self._sizes: dict[bytes, int] = {}
        self.link = WorkerLink()

    async def run_streamed(self, request: bytes, context: Context) -> None:
        """Serve RunStreamed by the tape of the model that the request names."""
        tape = next(tape for tape in self._tapes if tape.model in request)
        ours = tape.for_turn(next(self._numbers))

        async def write(messages: tuple[bytes, ...]) -> None:
            for message in messages:
                await context.write(ours(message))

        await self._flusher.commit(tape.accept)
        await write(tape.after_accept)
        for played in tape.rounds:
            await self._ask(played, write)
            await self._flusher.commit(played.reply)
            await write(played.after_reply)
            for call in played.calls:
                await self._call(call, ours)
            await write(played.after_calls)

    async def round_trips(self, request: bytes, _context: Context) -> bytes:
        """Serve RoundTrips: calls of the first tape, so many at once, so many times, each with its commit."""
        asked, call = json.loads(request), self._tapes[0].rounds[0].calls[0]

        async def one() -> float:
            ours = self._tapes[0].for_turn(next(self._numbers))
            began = time.perf_counter()
            await self.link.call(ours(call.call_id), ours(call.frame))
            await self._flusher.commit(call.settling)
            took = time.perf_counter() - began
            self.link.send(ours(call.ack))
            return took

        took: list[float] = []
        for _ in range(asked["times"]):
            took += await asyncio.gather(*(one() for _ in range(asked["at_once"])))
        return json.dumps(took).encode()

    async def _ask(self, played: Round, write: Callable[[tuple[bytes, ...]], Awaitable[None]]) -> None:
        """Ask the model, and spread the messages that the caller gets meanwhile over the bytes of the reply."""
        messages = played.during
        whole = self._sizes.get(played.request, 0)  # as it was the last time
        read = written = 0

        async def meanwhile(size: int) -> None:
            nonlocal read, written
            read += size
            due = len(messages) * read // whole if whole else 0
            if due > written:
                await write(messages[written:due])
                written = due

        await self._transport.ask(played.request, meanwhile)
        await write(messages[written:])
        self._sizes[played.request] = read

    async def _call(self, call: Call, ours: Callable[[bytes], bytes]) -> None:
        await self.link.call(ours(call.call_id), ours(call.frame))
        await self._flusher.commit(call.settling)
        self.link.send(ours(call.ack))


async def serve(tapes: list[Tape], store: Path, model_url: str) -> None:
    """Serve until SIGTERM; the first line written is the address."""
    flusher, transport = Flusher(store), Transport(model_url)
    floor, server = Floor(tapes, flusher, transport), grpc.aio.server()
    handlers: dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]] = {
        "baton.v1.RunnerService": {"RunStreamed": grpc.unary_stream_rpc_method_handler(floor.run_streamed)},
        "baton.v1.HandlerService": {"Connect": grpc.stream_stream_rpc_method_handler(floor.link.serve)},
        "bench.Floor": {"RoundTrips": grpc.unary_unary_rpc_method_handler(floor.round_trips)},
    }
    for service, methods in handlers.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(f"127.0.0.1:{port}", flush=True)
    await stop.wait()
    await server.stop(0.2)
    await transport.close()
    flusher.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        # Written a moment ago by the process that started this one.
        asyncio.run(serve(pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2]), sys.argv[3]))
