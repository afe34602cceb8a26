"""The proxy breaks connections as it says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from tests.faults.proxy import Proxy

PATIENCE_S = 5.0

T = TypeVar("T")


class Target:
    """A server that sends back what it gets. `connections`: those that came, as reader and writer."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand a connection to the test."""
        await self.arrived.put((reader, writer))


class Ends:
    """Both ends of one connection through the proxy."""

    def __init__(
        self,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.near, self.near_writer = near
        self.far, self.far_writer = far

    async def exchange(self) -> None:
        """Send a word both ways."""
        self.near_writer.write(b"ping")
        assert await soon(self.far.readexactly(4)) == b"ping"
        self.far_writer.write(b"pong")
        assert await soon(self.near.readexactly(4)) == b"pong"


async def soon(wait: Awaitable[T]) -> T:
    """Wait for what must come soon."""
    return await asyncio.wait_for(wait, PATIENCE_S)


@asynccontextmanager
async def proxied() -> AsyncIterator[tuple[Proxy, Target]]:
    """Run a target and a proxy before it."""
    target = Target()
    listening = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    async with Proxy(f"{host}:{port}") as proxy:
        yield proxy, target
    listening.close()
    await listening.wait_closed()


@asynccontextmanager
async def connected(proxy: Proxy, target: Target) -> AsyncIterator[Ends]:
    """Open a connection through the proxy, on which one word has gone each way."""
    host, _, port = proxy.address.partition(":")
    near = await asyncio.open_connection(host, int(port))
    ends = Ends(near, await soon(target.arrived.get()))
    try:
        await ends.exchange()
        yield ends
    finally:
        for writer in (ends.near_writer, ends.far_writer):
            writer.close()
        await asyncio.gather(
            *(writer.wait_closed() for writer in (ends.near_writer, ends.far_writer)), return_exceptions=True
        )


async def test_it_relays_much_both_ways_and_a_half_close() -> None:
    """Megabytes arrive whole, though neither side reads at first; and an end of one direction leaves the other."""
    large = bytes(range(256)) * 16_384
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        ends.near_writer.write(large)
        ends.far_writer.write(large)
        ends.near_writer.write_eof()
        assert await soon(ends.far.read()) == large
        assert await soon(ends.near.readexactly(len(large))) == large
        ends.far_writer.write(b"still")
        assert await soon(ends.near.readexactly(5)) == b"still"


async def test_a_drop_is_an_end_in_good_order_for_both() -> None:
    """Both read the end of the stream and no error; others of the proxy go on, and so does the next connection."""
    async with proxied() as (proxy, target):
        async with connected(proxy, target) as ends:
            assert proxy.drop() == 1
            assert await soon(ends.near.read()) == b""
            assert await soon(ends.far.read()) == b""
            assert proxy.live == 0
        async with connected(proxy, target):
            assert (proxy.live, proxy.accepted) == (1, 2)


async def test_a_reset_is_one_for_both() -> None:
    """Both get ECONNRESET."""
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        assert proxy.reset() == 1
        for reader in (ends.near, ends.far):
            with pytest.raises(ConnectionResetError):
                await soon(reader.read())


async def test_a_half_open_connection_stands_and_brings_nothing_until_it_is_reset() -> None:
    """What is written on it arrives nowhere; when its time is over both sides learn of it."""
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        assert proxy.half_open(0.1) == 1
        assert proxy.live == 0
        ends.near_writer.write(b"is anybody there?")
        await soon(ends.near_writer.drain())
        for reader in (ends.far, ends.near):
            with pytest.raises(ConnectionResetError):
                await soon(reader.read())


async def test_healing_ends_a_silence_early() -> None:
    """A connection that would be silent for an hour is reset."""
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        proxy.half_open(3600.0)
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            await soon(ends.near.read())


async def test_a_truncated_connection_ends_in_the_middle() -> None:
    """The half of what comes next arrives, then the end; the other side is told too."""
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        assert proxy.truncate() == 1
        ends.far_writer.write(b"0123456789")
        assert await soon(ends.near.read()) == b"01234"
        assert await soon(ends.far.read()) == b""


async def test_a_delay_keeps_the_order_and_ends_when_it_is_taken_back() -> None:
    """What is sent meanwhile comes later, nothing overtakes, and an exchange afterwards is quick again."""
    async with proxied() as (proxy, target), connected(proxy, target) as ends:
        assert proxy.delay(0.05) == 1
        began = asyncio.get_running_loop().time()
        ends.near_writer.write(b"first")
        assert await soon(ends.far.readexactly(5)) == b"first"
        assert asyncio.get_running_loop().time() - began >= 0.045
        ends.near_writer.write(b"a")
        await soon(ends.near_writer.drain())
        proxy.delay(0.0)
        ends.near_writer.write(b"b")
        assert await soon(ends.far.readexactly(2)) == b"ab"


async def test_a_target_that_is_away_costs_the_connection_alone() -> None:
    """Whoever connects is cut off at once, and the proxy listens on."""
    async with Proxy("127.0.0.1:1") as proxy:
        host, _, port = proxy.address.partition(":")
        for _ in range(2):
            reader, writer = await asyncio.open_connection(host, int(port))
            with pytest.raises(ConnectionResetError):
                await soon(reader.read())
            writer.close()
    assert proxy.accepted == 2
