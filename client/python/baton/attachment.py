"""A worker's attachment to the server: one stream after another under one instance id, until it is stopped."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import platform
import uuid
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

import grpc

from baton.errors import AgentsException, BatonConnectionError, error_from_pb, error_from_rpc
from baton.held import ACK_AFTER_S, Handler, HeldCalls
from baton.link import Ending, Link
from baton.retry import TERMINAL_STREAM_CODES, Backoff, Timing, is_break
from baton.v1 import error_pb2, handler_pb2, handler_pb2_grpc

MAX_CONCURRENCY = 64
"""Calls that a worker executes at a time, where nothing else is said."""

CLOSE_S = 2.0
"""How long the server may take to end a stream that was drained."""

_log = logging.getLogger("baton.worker")

Find = Callable[[handler_pb2.Call], Handler | None]


class Attachment:
    """Serves handlers over HandlerService.Connect. One per event loop; `start` it, `stop` it.

    Reconnects for ever, except after a status of TERMINAL_STREAM_CODES: then `failure` says why. `server`: how logs
    call it.
    """

    def __init__(
        self,
        stub: handler_pb2_grpc.HandlerServiceStub,
        find: Find,
        *,
        scopes: tuple[str, ...] = (),
        max_concurrency: int = MAX_CONCURRENCY,
        ack_after_s: float = ACK_AFTER_S,
        timing: Timing | None = None,
        server: str = "the server",
    ) -> None:
        self._server = server
        self._stub = stub
        self._find = find
        self._timing = timing or Timing()
        self._instance_id = f"python-{uuid.uuid4().hex}"
        self._specs: dict[str, handler_pb2.HandlerSpec] = {}
        self._verdicts: dict[str, asyncio.Future[AgentsException | None]] = {}
        self._calls = HeldCalls(self._send, max_concurrency, ack_after_s)
        self._backoff = Backoff(self._timing)
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._attached_before = False
        self._refusal: AgentsException | None = None
        self._refused = asyncio.Event()
        self.scopes = scopes
        self.attached = asyncio.Event()
        self.closed = asyncio.Event()
        self.failure: AgentsException | None = None
        self.given_up = 0
        self._dispatch: Mapping[str, Callable[[Any], None]] = {
            "welcome": self._welcome,
            "registered": self._registered,
            "call": self._call,
            "cancel": self._calls.cancel,
            "result_ack": self._calls.acked,
            "drain": self._drain,
            "protocol_error": self._protocol_error,
        }

    # -- for whoever owns it ---------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Calls that run, and results that the server does not have yet."""
        return len(self._calls)

    def start(self, variables: contextvars.Context | None = None) -> None:
        """Begin to attach. A second call changes nothing.

        `variables`: the context variables that functions see; None: those of this caller.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), name="baton worker", context=variables)

    async def register(self, specs: Iterable[handler_pb2.HandlerSpec]) -> None:
        """Serve more names, from the next answer of the server on. Waits for it; known names cost nothing.

        Raises HandlerRefusedError where the server does not take one, and what ended the attachment.
        """
        wanted = list(specs)
        new = [spec for spec in wanted if spec.name not in self._specs]
        for spec in new:
            self._specs[spec.name] = spec
            self._verdicts[spec.name] = asyncio.get_running_loop().create_future()
        if new and self.attached.is_set():
            self._send(handler_pb2.ConnectRequest(register=handler_pb2.Register(handlers=new)))
        if self.failure is not None:
            raise self.failure
        for verdict in [self._verdicts[spec.name] for spec in wanted]:
            refusal = await asyncio.shield(verdict)
            if refusal is not None:
                raise refusal

    async def wait_idle(self) -> None:
        """Wait until no call and no result is held."""
        await self._calls.idle.wait()

    async def wait_attached(self) -> None:
        """Wait until the server has said Welcome. Raises what ended the attachment."""
        await _first(self.attached, self.closed)
        if self.failure is not None:
            raise self.failure

    async def wait_over(self) -> None:
        """Wait until it has ended, or a server that came back refuses a function. Raises what it was."""
        await _first(self.closed, self._refused)
        raised = self._refusal or self.failure
        if raised is not None:
            raise raised

    async def stop(self, grace_s: float) -> None:
        """Take no new calls, finish those that are held for so long, end the stream; `given_up` counts the rest."""
        if self._task is None:
            return
        self._stopping = True
        if self.attached.is_set():
            self._say_drain()
        try:
            async with asyncio.timeout(grace_s):
                await self._calls.idle.wait()
        except TimeoutError:
            _log.warning("%d calls are given up: not done within %g s", len(self._calls), grace_s)
        self.given_up = len(self._calls)
        if self._link is not None:
            self._link.finish()
        try:
            async with asyncio.timeout(CLOSE_S if self.attached.is_set() else 0):
                await asyncio.shield(self._task)
        except TimeoutError:
            pass  # the server keeps the stream, or there is none: cut it
        await self.close()
        if self._attached_before:
            _log.info("detached from %s", self._server)

    async def close(self) -> None:
        """End at once. Calls that are held are given to another worker by the server."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._calls.close()

    # -- one stream after another ----------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while not await self._serve_stream():
                await self._backoff.wait()
        finally:
            if self.failure is None:
                self.failure = BatonConnectionError("this worker is not attached any more: it was stopped")
            self.attached.clear()
            self.closed.set()
            for verdict in self._verdicts.values():
                if not verdict.done():
                    verdict.set_result(self.failure)

    async def _serve_stream(self) -> bool:
        """Serve one stream to its end. Returns whether there is to be no other."""
        link = Link(self._stub.Connect(), self._receive, lambda: len(self._calls), self._timing)
        self._link = link
        try:
            ending = await link.run(self._hello())
        finally:
            self._link = None
            self.attached.clear()
        return self._is_over(ending)

    def _is_over(self, ending: Ending) -> bool:
        failed = ending.failed
        if failed is not None and failed.code() in TERMINAL_STREAM_CODES and not is_break(failed):
            self.failure = error_from_rpc(failed, "attaching a worker")
            _log.error("the worker is not attached any more: %s", self.failure)
            return True
        if self._stopping and self._calls.idle.is_set():
            return True
        self._log_break(ending.cut or (_why(failed) if failed else "the server ended it"))
        return False

    def _log_attached(self) -> None:
        again, self._attached_before = " again" if self._attached_before else "", True
        if self._specs:  # else all were refused, which was told
            where = f" in {', '.join(self.scopes)}" if self.scopes else ""
            _log.info("attached to %s%s, serving %s%s", self._server, again, ", ".join(self._specs), where)

    def _log_break(self, why: str) -> None:
        """Tell of the first failure, which a restart brings, and of an outage; of no more, it may last for days."""
        match self._backoff.failures:
            case 0 if self._attached_before:
                _log.info("lost %s (%s); reconnecting", self._server, why)
            case 1 if self._attached_before:
                _log.warning("%s does not answer (%s); trying again until it does", self._server, why)
            case 1:
                _log.warning("no answer from %s yet (%s); waiting for it", self._server, why)
            case _:
                _log.debug("%s does not answer (%s)", self._server, why)

    def _hello(self) -> handler_pb2.Hello:
        return handler_pb2.Hello(
            protocol_version=1,
            instance_id=self._instance_id,
            sdk=handler_pb2.Sdk(
                name="baton-python",
                version=_version(),
                language=f"python {platform.python_version()}",
            ),
            scopes=self.scopes,
            handlers=self._specs.values(),
            held=self._calls.manifest(),
            credit=handler_pb2.Credit(messages=0 if self._stopping else self._calls.opening_credit()),
        )

    def _send(self, frame: handler_pb2.ConnectRequest) -> None:
        """Send on the stream that has been welcomed. Without one nothing is lost: results are kept."""
        if self._link is not None and self._link.welcomed:
            self._link.send(frame)

    def _say_drain(self) -> None:
        drain = handler_pb2.Drain(reason="the worker is stopping")
        self._send(handler_pb2.ConnectRequest(drain=drain))

    # -- frames of the server --------------------------------------------------------------------

    def _receive(self, frame: handler_pb2.ConnectResponse) -> None:
        handle = self._dispatch.get(frame.WhichOneof("frame") or "")
        if handle is not None:  # a heartbeat has done its work; what a later version sends is passed over
            handle(getattr(frame, frame.WhichOneof("frame") or ""))

    def _welcome(self, welcome: handler_pb2.Welcome) -> None:
        link = self._link
        if link is None:
            return
        heartbeat_s = welcome.heartbeat_interval.ToTimedelta().total_seconds()
        link.welcome(heartbeat_s, welcome.max_message_bytes)
        self._calls.max_result_bytes = welcome.max_result_bytes or self._calls.max_result_bytes
        self._backoff.reset()
        self._judge(welcome.handlers)
        self._register_missing({verdict.name for verdict in welcome.handlers})
        self._calls.obey(welcome.attempts)
        self.attached.set()
        self._log_attached()
        if self._stopping:
            self._say_drain()

    def _register_missing(self, answered: set[str]) -> None:
        """Register what came between Hello and Welcome."""
        missing = [spec for name, spec in self._specs.items() if name not in answered]
        if missing:
            self._send(handler_pb2.ConnectRequest(register=handler_pb2.Register(handlers=missing)))

    def _registered(self, registered: handler_pb2.Registered) -> None:
        self._judge(registered.handlers)

    def _judge(self, verdicts: Iterable[handler_pb2.HandlerVerdict]) -> None:
        for verdict in verdicts:
            refusal = error_from_pb(verdict.error) if verdict.HasField("error") else None
            waiting = self._verdicts.get(verdict.name)
            if refusal is not None:
                _log.error("the server refuses the function %s: %s", verdict.name, refusal)
                self._specs.pop(verdict.name, None)
                self._verdicts.pop(verdict.name, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(refusal)
            elif refusal is not None:
                self._refusal = refusal
                self._refused.set()

    def _call(self, call: handler_pb2.Call) -> None:
        handler = None if self._stopping else self._find(call)
        if handler is not None:
            self._calls.accept(call, handler)
            return
        if not self._stopping:  # else the server would give it to us again and again
            self._specs.pop(call.name, None)
            self._verdicts.pop(call.name, None)
            gone = handler_pb2.Unregister(handlers=[handler_pb2.HandlerSpec(name=call.name)])
            self._send(handler_pb2.ConnectRequest(unregister=gone))
        nack = handler_pb2.Nack(call_id=call.call_id, attempt=call.attempt, reason="not served here any more")
        self._send(handler_pb2.ConnectRequest(nack=nack))

    def _drain(self, drain: handler_pb2.Drain) -> None:
        if self._link is not None:
            self._link.cut(f"the server drains: {drain.reason}")

    def _protocol_error(self, problem: handler_pb2.ProtocolError) -> None:
        _log.error("the server did not take frame %d: %s", problem.frame_number, problem.error.message)
        found = self._link.result_of_frame(problem.frame_number) if self._link is not None else None
        if found is None:
            return
        if problem.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID:
            self._calls.send_result(*found)
        else:
            self._calls.refused(*found, problem.error)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _why(failed: grpc.aio.AioRpcError) -> str:
    """Say why a call broke; of a failed connect the last error alone, without gRPC's list of addresses."""
    details = failed.details() or ""
    if details.startswith("failed to connect"):
        details = details.rpartition(": ")[2]
    return f"{failed.code().name}: {details}"


def _version() -> str:
    try:
        return metadata.version("baton-runtime")
    except metadata.PackageNotFoundError:
        return "unknown"  # run from a source tree that was not installed
