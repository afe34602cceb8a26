"""Recording one run: a server in this process, whose store, model and streams are listened to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from baton.v1 import handler_pb2
from baton_server.config import Settings
from baton_server.core.inputs import ModelReplied
from baton_server.main import Baton, build
from baton_server.model.body import BodyWriter
from baton_server.model.openai import OpenAIModel
from baton_server.ports.model import ModelRequest, TextDelta
from baton_server.ports.store import Batch, Committed, Store
from baton_server.store.sqlite import open_sqlite
from baton_server.wire.codec import stamp
from bench.load import Caller
from bench.tape import Recorded
from bench.worker import work

AGGREGATES = ("sessions", "turns", "events", "items", "calls", "agents", "documents", "inbox", "requests", "timers")


class ListeningModel:
    """Passes on to a model, and keeps the bodies of its requests. A `ports.model.Model`."""

    def __init__(self, model: OpenAIModel) -> None:
        self._model, self._bodies = model, BodyWriter()
        self.requests: list[bytes] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | ModelReplied]:
        """Stream what the model does."""
        self.requests.append(self._bodies.write(request, request.model))
        async for part in self._model.stream(request):
            yield part

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()


class ListeningStore:
    """Passes on to a store, and keeps what was committed and read. A `ports.store.Store`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commits: list[bytes] = []
        self.reads: Counter[str] = Counter()
        for name in AGGREGATES:
            setattr(self, name, _Listening(getattr(store, name), name, self.reads))

    async def commit(self, batch: Batch) -> Committed:
        """Commit a batch."""
        self.commits.append(_bytes(batch))
        return await self._store.commit(batch)

    def __getattr__(self, name: str) -> Any:  # Any: whatever else a store has
        return getattr(self._store, name)


class _Listening:
    """Passes on to one aggregate, and counts."""

    def __init__(self, aggregate: Any, name: str, reads: Counter[str]) -> None:
        self._aggregate, self._name, self._reads = aggregate, name, reads

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self._reads[f"{self._name}.{name}"] += 1
        method: Callable[..., Any] = getattr(self._aggregate, name)
        return method


async def record(folder: Path, model_url: str, model: str) -> Recorded:
    """Make one run with a worker that answers at once, and return what it moved and counted."""
    listening = ListeningModel(OpenAIModel(base_url=model_url))
    given: dict[str, Any] = {"address": "127.0.0.1:0", "store": folder / "recorded.db"}
    settings = Settings(**given)
    opened = await open_sqlite(settings.store, stamp=stamp, holder={"program": "bench"})
    store: Any = ListeningStore(opened)  # Any: it is a Store by what it passes on
    async with (
        _serving(build(settings, store, listening)) as baton,
        grpc.aio.insecure_channel(baton.address) as channel,
    ):
        frames: list[bytes] = []
        attached = asyncio.Event()
        working = asyncio.ensure_future(work(channel, attached.set, frames))
        try:
            await attached.wait()
            await Caller(channel, model).run()  # so that what is kept in memory is there
            for kept in (listening.requests, store.commits, store.reads, frames):
                kept.clear()
            messages = await Caller(channel, model).run()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    return Recorded(
        model=model,
        requests=tuple(listening.requests),
        messages=tuple(message.data for message in messages),
        calls=tuple((_call_id(frame), frame) for frame in frames if _call_id(frame)),
        acks=tuple(frame for frame in frames if _is_ack(frame)),
        commits=tuple(store.commits),
        reads=dict(sorted(store.reads.items())),
    )


@asynccontextmanager
async def _serving(baton: Baton) -> AsyncIterator[Baton]:
    try:
        await baton.start()
        yield baton
    finally:
        await baton.drain(0.0)
        await baton.close()


def _bytes(batch: Batch) -> bytes:
    """Put together the bytes that a batch brings to the disk."""
    pieces = [event.data for event in batch.events]
    for event in batch.events:
        if event.item is not None:
            pieces += [event.item.data, event.item.json.encode()]
    pieces += [write.row.snapshot for write in (batch.turn, batch.next_turn) if write is not None]
    pieces += [*batch.documents.values(), *batch.contents.values()]
    pieces += [call.arguments.encode() for call in batch.calls_opened]
    pieces += [row.data for row in batch.inbox_added]
    return b"".join(pieces)


def _call_id(frame: bytes) -> bytes:
    return handler_pb2.ConnectResponse.FromString(frame).call.call_id.encode()


def _is_ack(frame: bytes) -> bool:
    return handler_pb2.ConnectResponse.FromString(frame).HasField("result_ack")
