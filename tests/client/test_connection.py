"""The connections of a process: one for each event loop, whatever threads and processes there are."""

from __future__ import annotations

import asyncio
import threading

from tests.client.end_to_end import ended, program

from baton.server.connection import Connection, Connections
from baton.transport.retry import Timing

NOWHERE = "127.0.0.1:1"

FORKED = """
    import asyncio, gc, os, sys
    from baton import Agent, Runner, UserError
    from baton.server.connection import connection_for

    async def connect():
        connection_for()

    asyncio.run(connect())
    child = os.fork()
    if child == 0:
        gc.collect()  # which comes sooner or later, and finds what gRPC has left
        try:
            Runner.run_sync(Agent(name="A"), "Hi")
        except UserError as error:
            print(str(error).partition(".")[2], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


async def test_a_forked_process_is_told_so_and_does_not_wait_for_ever() -> None:
    """gRPC does not live on in a process that is forked from one that has used it."""
    async with program(NOWHERE, FORKED) as forking:
        code, output, _errors = await ended(forking)

    assert code == 0
    assert "spawn" in output
    assert "fork before the first run" in output


class Beside:
    """A thread that connects, and does so again once it is told to."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._connected, self._again = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._connect()))
        self.kept = False

    async def _connect(self) -> None:
        first = self._connections.get(NOWHERE)
        self._connected.set()
        await asyncio.to_thread(self._again.wait)
        self.kept = self._connections.get(NOWHERE) is first

    def begin(self) -> None:
        """Connect for the first time."""
        self._thread.start()
        self._connected.wait()

    def end(self) -> None:
        """Connect for the second time."""
        self._again.set()
        self._thread.join()


class Disturbed(asyncio.SelectorEventLoop):
    """A loop beside which a thread connects, in the very moment in which somebody asks whether it is closed."""

    beside: Beside | None = None

    def is_closed(self) -> bool:
        """Say it, once the thread has connected."""
        beside, self.beside = self.beside, None
        if beside is not None:
            beside.begin()
        return super().is_closed()


async def connect(connections: Connections) -> None:
    """Connects from the running loop."""
    connections.get(NOWHERE)


def test_threads_may_connect_at_the_same_time() -> None:
    """Whoever forgets the loops that have ended does not forget that of another thread, which adds its own."""
    connections, ended_loop = Connections(), Disturbed()
    ended_loop.run_until_complete(connect(connections))
    ended_loop.run_until_complete(ended_loop.shutdown_asyncgens())
    ended_loop.close()
    ended_loop.beside = beside = Beside(connections)

    asyncio.run(connect(connections))
    beside.end()

    assert beside.kept


async def test_a_worker_stream_is_waited_for_where_the_server_has_answered_meanwhile() -> None:
    """What was refused before says nothing of a server that is there now."""
    connection, attached = Connection(NOWHERE, Timing(connect_s=0.01)), asyncio.Event()

    async def attach() -> None:
        await attached.wait()

    def trouble() -> str:
        connection.contacted()
        attached.set()
        return "Connection refused"

    try:
        await connection.first_contact(attach(), trouble)
    finally:
        await connection.close()
