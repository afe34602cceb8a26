"""A channel that can be replaced, for a connection may be dead without anybody having said so.

A network that swallows packets ends no connection; gRPC finds out by its keepalive, after more than a minute. Who has
waited in vain for a heartbeat knows earlier, and goes on over a new connection. What is under way on the old one stays
there, since it may live.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import grpc

from baton.v1 import handler_pb2, handler_pb2_grpc

StreamCall = grpc.aio.StreamStreamCall[handler_pb2.ConnectRequest, handler_pb2.ConnectResponse]

KEPT = 2
"""Replaced channels that are kept for what is under way on them; an older one is closed."""

# Else a new channel would share the connection of the old one.
_OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)


class Channels:
    """The channel of now, and those that it took the place of. Belongs to the event loop in which it was made."""

    def __init__(self, address: str, options: Sequence[tuple[str, int]]) -> None:
        self._address, self._options = address, [*options, _OWN_CONNECTION]
        self._former: list[grpc.aio.Channel] = []
        self._closing: set[asyncio.Task[None]] = set()
        self.now = self._made()

    def renew(self) -> None:
        """Take a new connection for all calls that begin from here on."""
        self._former.append(self.now)
        self.now = self._made()
        if len(self._former) > KEPT:
            task = asyncio.ensure_future(self._former.pop(0).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(channel.close() for channel in (*self._former, self.now)), *self._closing)
        self._former.clear()

    def _made(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(self._address, self._options)


class Door(Protocol):
    """Where worker streams are opened."""

    def open(self) -> StreamCall:
        """Open a stream of HandlerService.Connect."""
        ...

    def renew(self) -> None:
        """Open the next ones over a new connection: the old one has fallen silent."""
        ...


class WorkerDoor:
    """The door of a server."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def open(self) -> StreamCall:
        """Open a stream of HandlerService.Connect."""
        return handler_pb2_grpc.HandlerServiceStub(self._channels.now).Connect()

    def renew(self) -> None:
        """Open the next ones over a new connection."""
        self._channels.renew()
