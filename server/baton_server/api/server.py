"""The gRPC server: services, health and reflection on one port."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from baton_server.api.reflection import SERVICES as REFLECTION
from baton_server.api.reflection import Reflection, published_pool
from baton_server.api.rpc import Rpc, generic_handler
from baton_server.ports.clock import Clock, Ids
from baton_server.wire.frames import RECEIVED_BYTES

HEALTH_INTERVAL_S = 1.0
"""Between two looks at the store."""

OPTIONS = (
    # Above the limit, so that a message that is a little too large gets our reason and not a bare status.
    ("grpc.max_receive_message_length", RECEIVED_BYTES + 1024 * 1024),
    ("grpc.max_send_message_length", -1),
    # Clients copy keepalive settings of 10 s; the default would cut them off after two pings.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A second server on the port must fail, not share it.
    ("grpc.so_reuseport", 0),
)


class AddressInUse(OSError):
    """The address cannot be listened on."""


def check_free(address: str) -> None:
    """Check that nobody listens at an address, as far as that can be seen. Raises AddressInUse.

    Whoever starts a server makes its store first; here it is found out that there is no need to.
    """
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return  # a name that gRPC resolves in its own way, or fails to
    for family, kind, protocol, _name, place in found if int(port) else ():
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that has just ended does not count
            try:
                probe.bind(place)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise _in_use(address) from error


class GrpcServer:
    """Listens, and tells how the services are."""

    def __init__(
        self, services: Mapping[str, Mapping[str, Rpc]], ids: Ids, clock: Clock, healthy: Callable[[], Awaitable[bool]]
    ) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        self._names = [f"baton.v1.{name}" for name in services]
        self._clock, self._is_healthy = clock, healthy
        self._health = health.aio.HealthServicer()
        self._watching: asyncio.Task[None] | None = None
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection = Reflection((*self._names, health.SERVICE_NAME, *REFLECTION), published_pool()).rpcs()
        served = {f"baton.v1.{name}": rpcs for name, rpcs in services.items()} | dict.fromkeys(REFLECTION, reflection)
        handlers = tuple(generic_handler(name, rpcs, ids) for name, rpcs in served.items())
        self._server.add_generic_rpc_handlers(handlers)

    async def start(self, address: str) -> int:
        """Listen; returns the port. Raises AddressInUse."""
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise _in_use(address) from error
        if port == 0:
            raise _in_use(address)
        await self._server.start()
        await self._tell(await self._is_healthy())
        self._watching = asyncio.ensure_future(self._watch_health())
        return port

    async def leave(self) -> None:
        """Say NOT_SERVING from now on, so that balancers send nobody here."""
        if self._watching is not None:
            self._watching.cancel()
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_s: float) -> None:
        """Take no new rpc, and end the others within the grace."""
        await self._server.stop(grace_s)

    async def _watch_health(self) -> None:
        while True:
            await self._clock.sleep(HEALTH_INTERVAL_S)
            await self._tell(await self._is_healthy())

    async def _tell(self, healthy: bool) -> None:
        serving = health_pb2.HealthCheckResponse.SERVING
        status: Any = serving if healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, status)


def _in_use(address: str) -> AddressInUse:
    return AddressInUse(f"cannot listen on {address}: is another server there?")
