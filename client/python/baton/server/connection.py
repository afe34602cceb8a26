"""The way to one server from one event loop: two channels, the services, and what outlives a single call."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import grpc

from baton.address import resolve_address
from baton.errors import BatonConnectionError, UserError
from baton.hosting.own import Host
from baton.reasons import error_from_rpc, why_broken
from baton.transport.channels import Channels, WorkerDoor
from baton.transport.retry import Backoff, Timing, broke_off, is_break
from baton.v1 import agent_pb2_grpc, handler_pb2_grpc, runner_pb2_grpc, session_pb2_grpc

CALL_S = 60.0
"""How long a call that is no run may take, tries again included."""

CLOSE_S = 1.0
"""How long closing waits for cancels and for worker streams that end."""

LAST_WORDS_S = 0.02
"""How long an event loop that ends listens to gRPC after that; it needs less than 2 ms (measured)."""

REPORT_AFTER = 3
"""Failures in a row after which a warning is logged."""

_KEEPALIVE = [
    ("grpc.keepalive_time_ms", 60_000),  # finds a dead connection under a Run, which carries no heartbeats
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.initial_reconnect_backoff_ms", 100),  # gRPC's own waits stay below ours
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # no wait, but the time that one try to connect has
]

_log = logging.getLogger("baton")

T = TypeVar("T")
A = TypeVar("A")


class Connection:
    """The way to one server. Belongs to the event loop in which it was made."""

    def __init__(self, address: str, timing: Timing | None = None) -> None:
        self.address = address
        self.timing = timing or Timing()
        # Two, so that large answers do not hold up the worker's frames.
        self._calls, self._streams = Channels(address, _KEEPALIVE), Channels(address, _KEEPALIVE)
        self._make_stubs()
        self.door = WorkerDoor(self._streams)
        self.host = Host(self.door, self.timing, self.spawn, self.first_contact)
        self._background: set[asyncio.Task[None]] = set()
        self._watchers: list[Callable[[bool], None]] = []
        self._contacted = False
        self._away = False
        self.closed = False

    def _make_stubs(self) -> None:
        channel = self._calls.now
        self.runner = runner_pb2_grpc.RunnerServiceStub(channel)
        self.sessions = session_pb2_grpc.SessionServiceStub(channel)
        self.agents = agent_pb2_grpc.AgentServiceStub(channel)
        self.dispatch = handler_pb2_grpc.HandlerServiceStub(channel)

    def silent(self) -> None:
        """Take note that nothing came for too long: calls from here on go over a new connection."""
        self._calls.renew()
        self._make_stubs()
        self.lost()

    def on_change(self, told: Callable[[bool], None]) -> None:
        """Have `told` called when the server is lost, with False, and when it answers again, with True."""
        self._watchers.append(told)

    def contacted(self) -> None:
        """Take note that the server has answered."""
        self._contacted = True
        if self._away:
            self._away = False
            self._tell(True)

    def lost(self) -> None:
        """Take note that the server does not answer any more. One that never answered is not lost."""
        if self._contacted and not self._away:
            self._away = True
            self._tell(False)

    async def unary(self, method: Callable[..., Awaitable[A]], request: Any, timeout: float | None = CALL_S) -> A:
        """Make a call that is safe to send again, and send it again after breaks. `timeout` in seconds."""
        kind = type(request).__name__.removesuffix("Request")

        async def call() -> A:
            return await method(request, timeout=timeout)

        return await self.persist(call, kind, timeout)

    async def persist(self, operation: Callable[[], Awaitable[T]], doing: str, timeout: float | None = CALL_S) -> T:
        """Do what is safe to do again, and again after each break. Raises the error of any other end.

        `timeout`: seconds for all tries; None: for ever, once the server has ever answered.
        """
        backoff = Backoff(self.timing)
        began = self.timing.now()
        while True:
            try:
                answer = await operation()
            except grpc.aio.AioRpcError as failed:
                await self.pause(failed, backoff, doing, began, timeout)
            else:
                self.contacted()
                return answer

    async def pause(
        self,
        failed: grpc.aio.AioRpcError,
        backoff: Backoff,
        doing: str,
        began: float,
        timeout: float | None = None,
    ) -> None:
        """Wait before the next try after a break. Raises where there is to be none."""
        if not is_break(failed):
            raise error_from_rpc(failed, doing) from None  # it says all, and gRPC's own takes a page to say it
        if broke_off(failed):  # a long first call is answered at its end alone
            self._contacted = True
        self.lost()
        self._give_up(began, timeout, failed)
        if backoff.failures == REPORT_AFTER and self._contacted:
            why = why_broken(failed)
            _log.warning("%s does not answer (%s); trying %s again until it does", self.address, why, doing)
        patience = self.timing.first_contact_s(_words(failed))
        left = None if self._contacted else patience - (self.timing.now() - began)
        await backoff.wait(left)

    async def first_contact(self, attempt: Awaitable[None], trouble: Callable[[], str]) -> None:
        """Wait for what shows that a server is there; not for long if none was seen so far.

        `trouble`: says why the last try failed; empty: none has.
        """
        waiting = asyncio.ensure_future(attempt)
        waited, patience = 0.0, min(self.timing.refused_s, self.timing.connect_s)
        try:
            while True:
                left = None if self._contacted else patience - waited
                await asyncio.wait({waiting}, timeout=left)
                if waiting.done():
                    break
                waited, patience = patience, self.timing.first_contact_s(trouble())
                if patience <= waited and not self._contacted:
                    raise self._absent(trouble() or "it does not answer")
        finally:
            waiting.cancel()
        await waiting
        self.contacted()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Own a task that outlives the call which needs it. It logs what it has to say itself."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """End the worker streams, then the channels."""
        self.closed = True
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSE_S)
        await self.host.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._calls.close()
        await self._streams.close()

    def _tell(self, there: bool) -> None:
        for told in self._watchers:
            told(there)

    def _give_up(self, began: float, timeout: float | None, failed: grpc.aio.AioRpcError) -> None:
        waited = self.timing.now() - began
        if not self._contacted and waited >= self.timing.first_contact_s(_words(failed)):
            raise self._absent(why_broken(failed)) from None
        if timeout is not None and waited >= timeout:
            raise error_from_rpc(failed, f"no answer within {timeout:g} s") from None

    def _absent(self, why: str) -> BatonConnectionError:
        return BatonConnectionError(
            f"no Baton server at {self.address} ({why}). Start one (baton serve), or say where it is: "
            "BATON_ADDRESS, --address of a command, or baton.set_default_address"
        )


def _words(failed: grpc.aio.AioRpcError) -> str:
    return failed.details() or failed.code().name


class _OfLoop:
    """The connections of one event loop, by address. They end with it, also where nobody closes them."""

    def __init__(self) -> None:
        self.by_address: dict[str, Connection] = {}
        self._end = self._at_the_end()
        with suppress(StopIteration):  # begins it, without a task: there is nothing to wait for
            anext(self._end).__await__().__next__()

    async def close(self) -> None:
        """Close them now."""
        await self._close()
        await self._end.aclose()

    async def _at_the_end(self) -> AsyncGenerator[None, None]:
        """Close them when the event loop does, which closes every generator that was begun in it."""
        try:
            yield
        finally:
            if self.by_address:
                await self._close()
                # The loop has cancelled its tasks before, and with them calls whose ends gRPC has yet to tell it. It
                # would tell a closed loop, by a traceback in whichever loop comes next.
                await asyncio.sleep(LAST_WORDS_S)

    async def _close(self) -> None:
        closing, self.by_address = self.by_address, {}
        for connection in closing.values():
            await connection.close()


class Connections:
    """The connections of this process, one per event loop and address. Event loops may be of several threads."""

    def __init__(self) -> None:
        self._open: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
        self._process = 0

    def get(self, address: str | None = None, timing: Timing | None = None) -> Connection:
        """Find the running loop's connection to a server, or make it: see `connection_for`."""
        self._check_process()
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            for known in [*self._open]:  # no loop over the dict itself: another thread may add to it meanwhile
                if known.is_closed():
                    self._open.pop(known, None)
            self._open[loop] = _OfLoop()
        of_loop = self._open[loop].by_address
        resolved = resolve_address(address)
        if resolved not in of_loop:
            of_loop[resolved] = Connection(resolved, timing)
        return of_loop[resolved]

    async def close(self) -> None:
        """Close the running loop's connections."""
        of_loop = self._open.pop(asyncio.get_running_loop(), None)
        if of_loop is not None:
            await of_loop.close()

    def _check_process(self) -> None:
        """Refuse a process that was forked: gRPC's threads are not in it, so that it would wait for ever."""
        here = os.getpid()
        self._process = self._process or here
        if self._process != here:
            raise UserError(
                f"the process {here} was forked from one that had connected to a server ({self._process}), and cannot "
                "connect itself. Start it by spawn, as multiprocessing.get_context('spawn') does, or fork before the "
                "first run"
            )

    def forked(self) -> None:
        """Have this process, which was forked, collect nothing of the other's: gRPC's part of it is gone."""
        if self._process:
            gc.freeze()


connections = Connections()
"""The one of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=connections.forked)


def connection_for(address: str | None = None, timing: Timing | None = None) -> Connection:
    """Find the running loop's connection to a server, or make it. `timing`: of one that is made now.

    Raises UserError in a process that was forked from one that had any.
    """
    return connections.get(address, timing)


async def close_connections() -> None:
    """Close the running event loop's connections to all servers. Runs after it make new ones."""
    await connections.close()
