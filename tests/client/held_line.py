"""A line between a program and a server that a test can hold: what comes from the program then goes no further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PIECE_BYTES = 65_536


class HeldLine:
    """Relays connections to a server until it is held. `seen`: a text that stood in what was held back."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted = b""
        self._held = b""
        self.address = ""
        self.seen = asyncio.Event()

    def hold(self, text: str) -> None:
        """Hold back all that comes from now on, and look for a text in it."""
        self._wanted = text.encode()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection."""
        there, back = await asyncio.open_connection(self._host, self._port)
        tasks = {asyncio.create_task(self._go(reader, back)), asyncio.create_task(self._come(there, writer))}
        self._tasks |= tasks
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        back.close()

    async def _go(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE_BYTES):
            if not self._wanted:
                back.write(data)
                continue
            self._held += data
            if self._wanted in self._held:
                self.seen.set()

    async def _come(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(PIECE_BYTES):
            writer.write(data)


@asynccontextmanager
async def held_line(target: str) -> AsyncIterator[HeldLine]:
    """Open a line to a server; it is closed when the block ends."""
    line = HeldLine(target)
    server = await asyncio.start_server(line.accept, "127.0.0.1", 0)
    line.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        server.close()
