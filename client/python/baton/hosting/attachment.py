"""A worker's attachment to the server: one stream after another under one instance id, until it is stopped."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.errors import AgentsException, BatonConnectionError
from baton.hosting.asked import AskedHooks, FindHook
from baton.hosting.calling import not_begun
from baton.hosting.held import ACK_AFTER_S, Handler, HeldCalls
from baton.hosting.journal import Journal
from baton.hosting.link import Ending, Link
from baton.hosting.registrations import Registrations
from baton.reasons import error_from_pb, error_from_rpc, why_broken
from baton.sdk import sdk
from baton.transport.channels import Door
from baton.transport.retry import TERMINAL_STREAM_CODES, Backoff, Timing, is_break
from baton.v1 import error_pb2, handler_pb2

MAX_CONCURRENCY = 64
"""Calls that a worker executes at a time, where nothing else is said."""

CLOSE_S = 2.0
"""How long the server may take to end a stream that was drained."""

GRACE_S = 10.0
"""How long a server waits for a worker whose stream broke, until Welcome says otherwise."""

LEAST_AGE_S = 1.0
"""A stream that is to be left sooner than that is left after a wait: else two servers could keep a worker spinning."""

_log = logging.getLogger("baton.worker")

Find = Callable[[handler_pb2.Call], Handler | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a worker takes calls, and what it says of itself. `max_argument_bytes` None: no limit.

    `journal` None: what it keeps ends with the process. `labels`: for ListWorkers.
    """

    scopes: tuple[str, ...] = ()
    max_concurrency: int = MAX_CONCURRENCY
    max_argument_bytes: int | None = None
    ack_after_s: float = ACK_AFTER_S
    journal: Journal | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Attachment:
    """Serves handlers over HandlerService.Connect. One per event loop; `start` it, `stop` it.

    Reconnects for ever, except after a status of TERMINAL_STREAM_CODES: then `failure` says why. `trouble`: why there
    is no stream at the moment; empty: there is one, or it is the first try. `server`: how logs call it.

    There is one stream, but for a moment when the server asks to attach anew: then the old one is spoken on until the
    new one is welcomed. What the new one's Hello did not name must not begin any more, so that from then on calls of
    the old one are given back.
    """

    def __init__(
        self,
        door: Door,
        find: Find,
        find_hook: FindHook = lambda _batch, _hook: None,
        *,
        options: Options | None = None,
        timing: Timing | None = None,
        server: str = "the server",
    ) -> None:
        self._server = server
        self._door = door
        self._find = find
        self._timing = timing or Timing()
        self._options = options = options or Options()
        self._journal = options.journal
        self._instance_id = options.journal.instance_id if options.journal else f"python-{uuid.uuid4().hex}"
        self._resume_token = options.journal.resume_token if options.journal else ""
        self._wanted = Registrations()
        self._calls = HeldCalls(
            self._send,
            options.max_concurrency,
            options.ack_after_s,
            max_argument_bytes=options.max_argument_bytes,
            journal=options.journal,
            ready=lambda: self._link is not None and self._link.ready,
        )
        self._hooks = AskedHooks(find_hook)
        self._backoff = Backoff(self._timing)
        self._grace_s = GRACE_S
        self._link: Link | None = None
        self._newest: Link | None = None
        self._streams: set[asyncio.Task[Ending]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._attached_before = False
        self._breaks = 0
        self._refusal: AgentsException | None = None
        self._refused = asyncio.Event()
        self.scopes = options.scopes
        self.attached = asyncio.Event()
        self.closed = asyncio.Event()
        self.failure: AgentsException | None = None
        self.given_up = 0
        self.trouble = ""
        self._dispatch: Mapping[str, Callable[[Link, Any], None]] = {
            "welcome": self._welcome,
            "registered": lambda _link, registered: self._judge(registered.handlers),
            "call": self._call,
            "hook_batch": lambda link, batch: self._hooks.ask(batch, link),
            "cancel": self._cancel,
            "result_ack": lambda _link, ack: self._calls.acked(ack),
            "extend_ack": lambda _link, ack: self._calls.extended(ack),
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
        new = self._wanted.add(wanted)
        if new and self.attached.is_set():
            self._send(handler_pb2.ConnectRequest(register=handler_pb2.Register(handlers=new)))
        if self.failure is not None:
            raise self.failure
        await self._wanted.judged(wanted)

    async def wait_idle(self) -> None:
        """Wait until no call and no result is held, and no hook is asked."""
        await self._calls.idle.wait()
        await self._hooks.idle.wait()

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
                await self.wait_idle()
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
        await self._hooks.close()

    # -- one stream after another ----------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while True:
                ending = await self._serve_stream()
                if ending is not None and self._is_over(ending):
                    break
                if ending is not None or (self._newest is not None and self._newest.age_s < LEAST_AGE_S):
                    # Who holds something, or is asked, has to be back while a restarted server still waits for him.
                    longest = self._grace_s / 2 if len(self._calls) or self._wanted.hooks else None
                    await self._timing.sleep(self._backoff.next_delay(longest))
        finally:
            for stream in self._streams:
                stream.cancel()
            await asyncio.gather(*self._streams, return_exceptions=True)
            if self.failure is None:
                self.failure = BatonConnectionError("this worker is not attached any more: it was stopped")
            self.attached.clear()
            self.closed.set()
            self._wanted.give_up(self.failure)

    async def _serve_stream(self) -> Ending | None:
        """Serve one stream until it ends, or (None) until it is to be left and goes on beside the next one."""
        link = Link(self._door.open(), self._receive, lambda: len(self._calls), self._timing)
        self._newest = link
        stream = asyncio.create_task(self._run(link), name="baton worker stream")
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        to_leave = asyncio.create_task(link.to_leave.wait())
        try:
            await asyncio.wait({stream, to_leave}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            to_leave.cancel()
        return stream.result() if stream.done() else None

    async def _run(self, link: Link) -> Ending:
        try:
            return await link.run(self._hello())
        finally:
            self._hooks.left(link)
            if self._link is link:
                self._link = None
                self.attached.clear()

    def _is_over(self, ending: Ending) -> bool:
        failed = ending.failed
        if failed is not None and failed.code() in TERMINAL_STREAM_CODES and not is_break(failed):
            self.failure = error_from_rpc(failed, "attaching a worker")
            _log.error("the worker is not attached any more: %s", self.failure)
            return True
        if self._stopping and self._calls.idle.is_set():
            return True
        if ending.cut:
            self._door.renew()
        if self._link is not None:
            _log.debug("no new stream at %s yet (%s); the old one goes on", self._server, ending.cut or failed)
            return False
        self.trouble = ending.cut or (why_broken(failed) if failed else "the server ended it")
        self._log_break(self.trouble)
        return False

    def _log_attached(self, quietly: bool) -> None:
        """Tell where it is attached. `quietly`: it never was away."""
        again, self._attached_before = " again" if self._attached_before else "", True
        if self._wanted.specs:  # else all were refused, which was told
            where = f" in {', '.join(scope or 'the empty scope' for scope in self.scopes)}" if self.scopes else ""
            level = logging.DEBUG if quietly else logging.INFO
            _log.log(level, "attached to %s%s, serving %s%s", self._server, again, ", ".join(self._wanted.shown), where)

    def _log_break(self, why: str) -> None:
        """Tell of the first failure, which a restart brings, and of an outage; of no more, it may last for days."""
        match self._breaks:
            case 0 if self._attached_before:
                _log.info("lost %s (%s); reconnecting", self._server, why)
            case 1 if self._attached_before:
                _log.warning("%s does not answer (%s); trying again until it does", self._server, why)
            case 1:
                _log.warning("no answer from %s yet (%s); waiting for it", self._server, why)
            case _:
                _log.debug("%s does not answer (%s)", self._server, why)
        self._breaks += 1

    def _hello(self) -> handler_pb2.Hello:
        return handler_pb2.Hello(
            protocol_version=1,
            instance_id=self._instance_id,
            sdk=sdk(),
            scopes=self.scopes,
            handlers=self._wanted.specs,
            resume_token=self._resume_token,
            held=self._calls.manifest(),
            credit=handler_pb2.Credit() if self._stopping else self._calls.opening_credit(),
            metadata=self._options.labels,
        )

    def _send(self, frame: handler_pb2.ConnectRequest) -> None:
        """Send on the stream that has been welcomed. Without one nothing is lost: results are kept."""
        if self._link is not None and self._link.welcomed:
            self._link.send(frame)

    def _say_drain(self) -> None:
        drain = handler_pb2.Drain(reason="the worker is stopping")
        self._send(handler_pb2.ConnectRequest(drain=drain))

    # -- frames of the server --------------------------------------------------------------------

    def _receive(self, link: Link, frame: handler_pb2.ConnectResponse) -> None:
        handle = self._dispatch.get(frame.WhichOneof("frame") or "")
        if handle is not None:  # a heartbeat has done its work; what a later version sends is passed over
            handle(link, getattr(frame, frame.WhichOneof("frame") or ""))

    def _welcome(self, link: Link, welcome: handler_pb2.Welcome) -> None:
        former, self._link = self._link, link
        heartbeat_s = welcome.heartbeat_interval.ToTimedelta().total_seconds()
        link.welcome(heartbeat_s, welcome.max_message_bytes)
        if former is not None:
            former.cut("another one has taken its place")
        self._grace_s = welcome.registration_grace.ToTimedelta().total_seconds() or self._grace_s
        self._resume_token = welcome.resume_token
        if self._journal is not None:
            self._journal.token(welcome.resume_token)
        self._calls.max_result_bytes = welcome.max_result_bytes or self._calls.max_result_bytes
        self._backoff.reset()
        self._breaks, self.trouble = 0, ""
        self._judge(welcome.handlers)
        self._register_missing(welcome.handlers)
        self._calls.obey(welcome.attempts)
        self._log_attached(quietly=former is not None)
        self.attached.set()
        if self._stopping:
            self._say_drain()

    def _register_missing(self, answered: Iterable[handler_pb2.HandlerVerdict]) -> None:
        """Register what came between Hello and Welcome."""
        missing = self._wanted.missing(answered)
        if missing:
            self._send(handler_pb2.ConnectRequest(register=handler_pb2.Register(handlers=missing)))

    def _judge(self, verdicts: Iterable[handler_pb2.HandlerVerdict]) -> None:
        for verdict in verdicts:
            refusal = error_from_pb(verdict.error) if verdict.HasField("error") else None
            if refusal is not None:
                _log.error("the server refuses the function %s: %s", verdict.name, refusal)
            if not self._wanted.judge(verdict, refusal) and refusal is not None:
                self._refusal = refusal
                self._refused.set()

    def _call(self, link: Link, call: handler_pb2.Call) -> None:
        if link is not self._newest:  # a Hello was said that does not name it
            nack = not_begun(call, "the worker attaches anew")
            link.send(handler_pb2.ConnectRequest(nack=nack))
            return
        handler = None if self._stopping else self._find(call)
        if handler is not None:
            self._calls.accept(call, handler)
            return
        if not self._stopping:  # else the server would give it to us again and again
            gone = handler_pb2.HandlerSpec(name=call.name, version=call.version)
            self._wanted.remove(gone)
            self._send(handler_pb2.ConnectRequest(unregister=handler_pb2.Unregister(handlers=[gone])))
        self._calls.refuse(call, "not served here any more")

    def _cancel(self, _link: Link, cancel: handler_pb2.Cancel) -> None:
        if not self._hooks.cancel(cancel):
            self._calls.cancel(cancel)

    def _drain(self, link: Link, drain: handler_pb2.Drain) -> None:
        """Attach anew, unless this worker goes itself; a stream that was never welcomed is of no use."""
        if not link.welcomed:
            link.cut(f"the server drains: {drain.reason}")
        elif not self._stopping:
            _log.debug("%s asks to attach anew (%s)", self._server, drain.reason)
            link.to_leave.set()

    def _protocol_error(self, link: Link, problem: handler_pb2.ProtocolError) -> None:
        _log.error("the server did not take frame %d: %s", problem.frame_number, problem.error.message)
        found = link.result_of_frame(problem.frame_number)
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
