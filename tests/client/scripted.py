"""A server of which a test is the script: real gRPC on loopback, every frame and answer written by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from baton.transport.retry import Timing
from baton.v1 import (
    event_pb2,
    handler_pb2,
    handler_pb2_grpc,
    runner_pb2,
    runner_pb2_grpc,
    session_pb2_grpc,
)

PATIENCE_S = 5.0
"""How long a test waits for what must come."""

SHORT_S = 5.0
"""Sleeps of the fake clock up to this long, those of a backoff, are over at once."""


async def soon(wait: Awaitable[Any]) -> Any:
    """Wait for what must come soon."""
    return await asyncio.wait_for(wait, PATIENCE_S)


class FakeClock:
    """A clock that a test moves. Short sleeps cost nothing; `chance` says what the random source gives."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []
        self.asked: list[tuple[float, float]] = []
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        self._asleep = asyncio.Event()

    @property
    def timing(self) -> Timing:
        """Hand it to the code under test."""
        return Timing(sleep=self.sleep, now=lambda: self.time, uniform=self.uniform)

    async def sleep(self, seconds: float) -> None:
        """Sleep as long as the test says."""
        self.slept.append(seconds)
        if seconds <= SHORT_S:
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.time + seconds, waiting))
        self._asleep.set()
        await waiting

    def uniform(self, low: float, high: float) -> float:
        """Give the upper bound, and remember both."""
        self.asked.append((low, high))
        return high

    async def advance(self, seconds: float) -> None:
        """Let time pass as soon as somebody sleeps no longer than that; wake who slept until now."""
        while not any(until <= self.time + seconds for until, waiting in self._waiting if not waiting.done()):
            self._asleep.clear()
            await soon(self._asleep.wait())
        self.time += seconds
        due = [waiting for until, waiting in self._waiting if until <= self.time]
        self._waiting = [(until, waiting) for until, waiting in self._waiting if until > self.time]
        for waiting in due:
            if not waiting.done():
                waiting.set_result(None)


class Peer:
    """The server's end of one worker stream."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._over: asyncio.Future[tuple[grpc.StatusCode, str] | None] = asyncio.get_running_loop().create_future()
        self.hello = handler_pb2.Hello()
        self.passed_over: list[handler_pb2.ConnectRequest] = []

    async def run(self) -> None:
        """Stay until the test ends the stream, or the client goes."""
        ending = await self._over
        if ending is not None:
            await self._context.abort(*ending)

    def end(self, code: grpc.StatusCode | None = None, details: str = "") -> None:
        """End the stream: with a status, or with OK."""
        if not self._over.done():
            self._over.set_result(None if code is None else (code, details))

    async def send(self, **frame: Any) -> None:
        """Write a frame; the keyword is its arm."""
        await self._context.write(handler_pb2.ConnectResponse(**frame))

    async def next_frame(self) -> handler_pb2.ConnectRequest:
        """Read a frame of whatever kind; EOF is an EOFError."""
        frame = await soon(self._context.read())
        if frame is grpc.aio.EOF:
            raise EOFError
        assert isinstance(frame, handler_pb2.ConnectRequest)
        return frame

    async def receive(self, kind: str) -> Any:
        """Read up to a frame of a kind; what came before it is in `passed_over`."""
        while True:
            frame = await self.next_frame()
            if frame.WhichOneof("frame") == kind:
                return getattr(frame, kind)
            self.passed_over.append(frame)

    async def welcome(self, **changes: Any) -> None:
        """Read Hello, and welcome the worker with all that it has."""
        self.hello = await self.receive("hello")
        welcome = handler_pb2.Welcome(
            worker_id="worker_1",
            protocol_version=1,
            max_message_bytes=16 * 1024 * 1024,
            max_result_bytes=4_194_304,
            handlers=[
                handler_pb2.HandlerVerdict(kind=spec.kind, name=spec.name, version=spec.version)
                for spec in self.hello.handlers
            ],
            attempts=[
                handler_pb2.AttemptVerdict(
                    call_id=held.call_id,
                    attempt=held.attempt,
                    verdict=handler_pb2.HELD_VERDICT_CONTINUE,
                )
                for held in self.hello.held
            ],
        )
        welcome.heartbeat_interval.FromTimedelta(timedelta(seconds=10))
        for name, value in changes.items():
            welcome.ClearField(name)  # type: ignore[arg-type]  # names of fields, by the test
            welcome.MergeFrom(handler_pb2.Welcome(**{name: value}))
        await self.send(welcome=welcome)

    async def call(self, name: str, arguments: Any = None, **fields: Any) -> None:
        """Send a call of a function; `arguments` as JSON text or as what becomes it."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        fields = {"call_id": "call_1", "attempt": 1, **fields}
        await self.send(call=handler_pb2.Call(name=name, arguments_json=text, **fields))

    async def ask(self, kind: event_pb2.HandlerKind.ValueType, name: str, payload: Any = None, **fields: Any) -> None:
        """Ask one hook; `payload` is what becomes JSON, `fields` are the batch's."""
        notification = fields.pop("notification", False)
        hook = handler_pb2.Hook(
            hook_id=fields.pop("hook_id", "hook_1"),
            attempt=fields.pop("attempt", 1),
            kind=kind,
            name=name,
            payload_json=json.dumps(payload or {}),
            notification=notification,
        )
        fields = {"batch_id": "batch_1", "session_id": "sess_1", "turn_id": "turn_1", "agent": "Assistant", **fields}
        await self.send(hook_batch=handler_pb2.HookBatch(hooks=[hook], **fields))

    async def answer(self) -> handler_pb2.HookAnswer:
        """Read the next answer of a hook."""
        answers = await self.receive("hook_answers")
        (answer,) = answers.answers
        assert isinstance(answer, handler_pb2.HookAnswer)
        return answer

    async def ended(self) -> None:
        """Read up to the half-close, and end the stream."""
        with suppress(EOFError):
            while True:
                self.passed_over.append(await self.next_frame())
        self.end()

    async def settle(self, verdict: handler_pb2.ResultVerdict.ValueType = handler_pb2.RESULT_VERDICT_DURABLE) -> Any:
        """Read the next result and answer it."""
        result = await self.receive("result")
        ack = handler_pb2.ResultAck(call_id=result.call_id, attempt=result.attempt, verdict=verdict)
        await self.send(result_ack=ack)
        return result


class ScriptedHandlers(handler_pb2_grpc.HandlerServiceServicer):
    """Hands each stream to the test; answers the rest by functions that the test sets by the rpc's name."""

    def __init__(self) -> None:
        self.peers: asyncio.Queue[Peer] = asyncio.Queue(100)
        self.requests: list[Any] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    async def Connect(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        peer = Peer(context)
        self.peers.put_nowait(peer)
        await peer.run()

    async def ListWorkers(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return self.answers["ListWorkers"](request)

    async def ExplainCall(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return self.answers["ExplainCall"](request)


class ScriptedRunner(runner_pb2_grpc.RunnerServiceServicer):
    """Answers runs by two functions that the test sets."""

    def __init__(self) -> None:
        self.requests: list[runner_pb2.RunRequest | runner_pb2.RunStreamedRequest] = []
        self.on_run: Callable[[runner_pb2.RunRequest], Awaitable[runner_pb2.RunResponse]] | None = None
        self.on_stream: (
            Callable[[runner_pb2.RunStreamedRequest], AsyncIterator[runner_pb2.RunStreamedResponse]] | None
        ) = None

    async def Run(self, request: runner_pb2.RunRequest, context: Any) -> runner_pb2.RunResponse:
        self.requests.append(request)
        assert self.on_run is not None, "no Run was expected"
        try:
            return await self.on_run(request)
        except Failing as failing:
            await failing.abort(context)
            raise

    async def RunStreamed(
        self, request: runner_pb2.RunStreamedRequest, context: Any
    ) -> AsyncIterator[runner_pb2.RunStreamedResponse]:
        self.requests.append(request)
        assert self.on_stream is not None, "no RunStreamed was expected"
        try:
            async for message in self.on_stream(request):
                yield message
        except Failing as failing:
            await failing.abort(context)


def _unary(name: str) -> Any:
    async def method(self: ScriptedSessions, request: Any, context: Any) -> Any:
        self.requests.append(request)
        try:
            return self.answers[name](request)
        except Failing as failing:
            await failing.abort(context)
            raise

    return method


def _stream(name: str) -> Any:
    async def method(self: ScriptedSessions, request: Any, context: Any) -> AsyncIterator[Any]:
        self.requests.append(request)
        try:
            async for message in self.answers[name](request):
                yield message
        except Failing as failing:
            await failing.abort(context)

    return method


class ScriptedSessions(session_pb2_grpc.SessionServiceServicer):
    """Answers by functions that the test sets by the rpc's name, and remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    CreateSession, GetSession, DeleteSession = map(_unary, ("CreateSession", "GetSession", "DeleteSession"))
    ListSessions, UpdateSession, SubmitInput = map(_unary, ("ListSessions", "UpdateSession", "SubmitInput"))
    ListItems, AddItems, RemoveItems = map(_unary, ("ListItems", "AddItems", "RemoveItems"))
    ListTurns, GetTurn, ListEvents = map(_unary, ("ListTurns", "GetTurn", "ListEvents"))
    ListRequiredActions = _unary("ListRequiredActions")
    Watch, ReadContent, Converse = map(_stream, ("Watch", "ReadContent", "Converse"))


class Failing(Exception):
    """Fails an rpc: with a reason of ours in the trailers, or, with none, as gRPC itself would."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str = "",
        details: Sequence[Any] = (),
        message: str = "refused",
        **metadata: str,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.details, self.metadata = code, reason, details, metadata

    async def abort(self, context: Any) -> None:
        """End the rpc."""
        if not self.reason:
            await context.abort(self.code, str(self))
        status = status_pb2.Status(code=self.code.value[0], message=str(self))
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain="baton.v1", metadata=self.metadata)
        for detail in (info, *self.details):
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        rich = rpc_status.to_status(status)
        context.set_trailing_metadata(rich.trailing_metadata)
        await context.abort(rich.code, rich.details)


class ScriptedServer:
    """The three services on a port of this machine."""

    def __init__(self) -> None:
        self.handlers = ScriptedHandlers()
        self.runner = ScriptedRunner()
        self.sessions = ScriptedSessions()
        self._server = grpc.aio.server()
        handler_pb2_grpc.add_HandlerServiceServicer_to_server(self.handlers, self._server)
        runner_pb2_grpc.add_RunnerServiceServicer_to_server(self.runner, self._server)
        session_pb2_grpc.add_SessionServiceServicer_to_server(self.sessions, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def start(self) -> None:
        """Listen."""
        await self._server.start()

    async def stop(self) -> None:
        """End all that is under way."""
        await self._server.stop(None)

    async def peer(self) -> Peer:
        """Wait for the next worker stream."""
        peer = await soon(self.handlers.peers.get())
        assert isinstance(peer, Peer)
        return peer

    async def attached(self, **welcome: Any) -> Peer:
        """Wait for the next worker stream and welcome its worker."""
        peer = await self.peer()
        await peer.welcome(**welcome)
        return peer
