"""A proxy on loopback that breaks connections in the ways in which networks do.

It relays bytes both ways, and knows nothing of what they mean. Each fault hits the connections that are open at the
moment, and says how many there were. Frames are not its matter: bytes sent twice would be no HTTP/2 any more.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import Enum, auto

MOST_QUEUED_BYTES = 256 * 1024
"""Of one direction, beyond which nothing more is read: a delay must not hide a peer that writes too much."""

LAST_WORDS_S = 0.2
"""How long a connection that is closed in good order reads on, so that unread bytes do not make a reset of it."""

_NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST, and what is not sent yet is dropped."""


class State(Enum):
    """Where a connection is. SILENT: both sockets stand, and nothing is relayed. CLOSING: both were sent FIN."""

    OPEN = auto()
    SILENT = auto()
    CLOSING = auto()
    OVER = auto()


class End(asyncio.Protocol):
    """One socket of a connection. What it reads goes to `other`, in order, so much later as `delay_s` says."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: deque[tuple[float, bytes]] = deque()
        self._queued = 0
        self._timer: asyncio.TimerHandle | None = None
        self._full = False
        self.transport: asyncio.Transport | None = None
        self.other: End
        self.delay_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._connection.made()

    def data_received(self, data: bytes) -> None:
        """Implement `asyncio.Protocol`."""
        if self._connection.state is State.OPEN:
            self._put(data)

    def eof_received(self) -> bool:
        """Implement `asyncio.Protocol`: a half-close is relayed behind what came before it."""
        if self._connection.state is State.OPEN:
            self._put(b"")
            return True
        return False  # both are closing: this one has had its last words

    def connection_lost(self, _error: Exception | None) -> None:
        """Implement `asyncio.Protocol`."""
        self._connection.lost(self)

    def pause_writing(self) -> None:
        """Implement `asyncio.Protocol`: this side does not read, so the other one is not read either."""
        self.other.full(True)

    def resume_writing(self) -> None:
        """Implement `asyncio.Protocol`."""
        self.other.full(False)

    def full(self, full: bool) -> None:
        """Read no more, as long as what was read has nowhere to go."""
        self._full = full
        self.look()

    def look(self) -> None:
        """Read, or do not, as everything stands."""
        if self.transport is None or self.transport.is_closing():
            return
        both = self.other.transport is not None
        match self._connection.state:
            case State.OPEN if both and not self._full and self._queued < MOST_QUEUED_BYTES:
                self.transport.resume_reading()
            case State.CLOSING:
                self.transport.resume_reading()
            case _:
                self.transport.pause_reading()

    def forget(self) -> None:
        """Drop what waits to be relayed."""
        self._queue.clear()
        self._queued = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def finish(self) -> None:
        """Send FIN behind what was written, and read on for a moment."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write_eof()
            self.look()

    def close(self) -> None:
        """Close in good order."""
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close with a reset."""
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()

    def _put(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self.delay_s
        if self._queue:
            due = max(due, self._queue[-1][0])
        self._queue.append((due, data))
        self._queued += len(data)
        self._relay()
        self.look()

    def _relay(self) -> None:
        """Write what is due, and wake for the next."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and self._queue[0][0] <= loop.time():
            _, data = self._queue.popleft()
            self._queued -= len(data)
            self._connection.relay(self.other, data)
        if self._queue:
            self._timer = loop.call_at(self._queue[0][0], self._relay)
        self.look()


class Connection:
    """Two sockets. `near`: the client's, `far`: the target's. `over` is called when both are gone."""

    def __init__(self, over: Callable[[Connection], None]) -> None:
        self._over = over
        self._cutting = False
        self._timer: asyncio.TimerHandle | None = None
        self.state = State.OPEN
        self.near, self.far = End(self), End(self)
        self.near.other, self.far.other = self.far, self.near

    # -- what its ends say -----------------------------------------------------------------------

    def made(self) -> None:
        """Begin to read, once there are both; one that is over already has no use for another."""
        for end in (self.near, self.far):
            if self.state is State.OVER:
                end.abort()
            end.look()

    def relay(self, end: End, data: bytes) -> None:
        """Write to one end; no data: it is to have no more."""
        if end.transport is None or end.transport.is_closing() or self.state is not State.OPEN:
            return
        if self._cutting:
            end.transport.write(data[: len(data) // 2])
            self.drop()
        elif data:
            end.transport.write(data)
        else:
            end.transport.write_eof()

    def lost(self, end: End) -> None:
        """Close the other end too: with a reset where this was one."""
        other = end.other
        if self.state is State.OPEN and other.transport is not None:
            self.drop()
        elif self.state is State.SILENT:
            return  # the other end is not told: that is what silence is about
        if all(one.transport is None or one.transport.is_closing() for one in (self.near, self.far)):
            self._end()

    # -- faults ----------------------------------------------------------------------------------

    def drop(self) -> None:
        """Send FIN to both sides."""
        if self.state is not State.OPEN:
            return
        self.state = State.CLOSING
        for end in (self.near, self.far):
            end.forget()
            end.finish()
        self._later(LAST_WORDS_S, self._close)

    def reset(self) -> None:
        """Send RST to both sides."""
        for end in (self.near, self.far):
            end.forget()
            end.abort()
        self._end()

    def fall_silent(self, seconds: float) -> None:
        """Relay nothing and read nothing for so long, then reset."""
        self.state = State.SILENT
        for end in (self.near, self.far):
            end.forget()
            end.look()
        self._later(seconds, self.reset)

    def truncate(self) -> None:
        """Cut the next bytes in two, and drop the connection behind the first half."""
        self._cutting = True

    def delay(self, seconds: float) -> None:
        """Deliver so much later what comes from now on."""
        self.near.delay_s = self.far.delay_s = seconds

    # -- inside ----------------------------------------------------------------------------------

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, what)

    def _close(self) -> None:
        for end in (self.near, self.far):
            end.close()
        self._end()

    def _end(self) -> None:
        self.state = State.OVER
        if self._timer is not None:
            self._timer.cancel()
        self._over(self)


class Proxy:
    """Listens on a free port, and relays to `target` (host:port). A target that is away costs only the connection.

    `accepted`: connections so far.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self.accepted = 0

    async def __aenter__(self) -> Proxy:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut everything, and listen no more."""
        assert self._server is not None
        self._server.close()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self.reset()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None, "the proxy is not started"
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def live(self) -> int:
        """Connections that are open at the moment."""
        return len(self._open())

    # -- faults ----------------------------------------------------------------------------------

    def drop(self) -> int:
        """Close both sides at once, in good order (FIN); what is under way is lost."""
        return self._each(Connection.drop)

    def reset(self) -> int:
        """Reset both sides (RST), of connections that are silent too."""
        hit = self.live
        for connection in tuple(self._connections):
            connection.reset()
        return hit

    def half_open(self, seconds: float) -> int:
        """Relay nothing more and keep both sockets open for so long; then reset them."""
        return self._each(lambda connection: connection.fall_silent(seconds))

    def truncate(self) -> int:
        """Relay only the first half of the next bytes that come, from either side, and then close."""
        return self._each(Connection.truncate)

    def delay(self, seconds: float) -> int:
        """Deliver what comes so much later, in its order. 0: no delay any more."""
        return self._each(lambda connection: connection.delay(seconds))

    def heal(self) -> None:
        """End all delays, and the connections that are silent."""
        for connection in tuple(self._connections):
            connection.delay(0.0)
            if connection.state is State.SILENT:
                connection.reset()

    # -- inside ----------------------------------------------------------------------------------

    def _open(self) -> list[Connection]:
        return [connection for connection in self._connections if connection.state is State.OPEN]

    def _each(self, fault: Callable[[Connection], None]) -> int:
        hit = self._open()
        for connection in hit:
            fault(connection)
        return len(hit)

    def _accept(self) -> End:
        self.accepted += 1
        connection = Connection(self._connections.discard)
        self._connections.add(connection)
        task = asyncio.ensure_future(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        return connection.near

    async def _connect(self, connection: Connection) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection.far, host, int(port))
        except OSError:
            connection.reset()
