"""All processes of a measurement: model server, server and floor, and a worker for each of the two."""

from __future__ import annotations

import asyncio
import pickle
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from bench.processes import BenchFailed, Child
from bench.tape import Tape


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two that are compared: its process, and a channel to it."""

    process: Child
    channel: grpc.aio.Channel


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """What runs while it is measured. `model_address`: of the model server, its own paths."""

    server: Side
    floor: Side
    model_address: str


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """Run the model server in a process of its own; gives its address."""
    process = await Child.start("tests.modelserver", ["--port", "0"])
    try:
        yield process.line
    finally:
        await process.stop()


@asynccontextmanager
async def house(folder: Path, model_address: str, tapes: Sequence[Tape]) -> AsyncIterator[House]:
    """Run both sides with their workers."""
    url = f"{model_address}/v1"
    pickled = folder / "tapes"
    pickled.write_bytes(pickle.dumps(list(tapes)))
    async with AsyncExitStack() as stack:
        server = await _start(
            stack,
            "baton_server",
            ["serve", "--address", "127.0.0.1:0", "--store", str(folder / "server.db")],
            {"OPENAI_BASE_URL": url, "BATON_DRAIN_S": "0.2", "BATON_SYNCHRONOUS": "FULL"},
        )
        floor = await _start(stack, "bench.floor", [str(pickled), str(folder / "floor.db"), url], {})
        yield House(server=server, floor=floor, model_address=model_address)


async def _start(stack: AsyncExitStack, module: str, arguments: Sequence[str], settings: dict[str, str]) -> Side:
    process = await Child.start(module, arguments, settings)
    stack.push_async_callback(process.stop)
    found = re.search(r"127\.0\.0\.1:\d+", process.line)
    if found is None:
        raise BenchFailed(f"{module} did not say where it listens but {process.line!r}")
    worker = await Child.start("bench.worker", [found[0]])
    stack.push_async_callback(worker.stop)
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(found[0]))
    async with asyncio.timeout(10):
        await channel.channel_ready()
    return Side(process=process, channel=channel)
