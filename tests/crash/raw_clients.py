"""A worker, a watcher and a caller that live through every death of the server, over plain grpc.aio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import grpc

from baton.v1 import event_pb2, handler_pb2, handler_pb2_grpc, item_pb2, session_pb2, session_pb2_grpc

RECONNECT_QUICKLY = [
    # Between tries. `min_reconnect_backoff_ms` stays alone: it is the time that one try has, on a busy machine too.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 50),
]
PATIENCE_S = 30.0
CREDIT = 64
BROKEN = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL})

Answer = TypeVar("Answer")
Body = Callable[[handler_pb2.Call], Awaitable[str]]
Hook = Callable[[Any], Any]
"""Takes a hook's payload, with its `hook_id`, and gives its answer, both as JSON values."""


@asynccontextmanager
async def channel_to(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel that is back soon after the server is."""
    async with grpc.aio.insecure_channel(address, options=RECONNECT_QUICKLY) as channel:
        yield channel


async def persist(send: Callable[[], Awaitable[Answer]]) -> Answer:
    """Send a request until it is answered; what is sent must be the same each time."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await send()
            except grpc.aio.AioRpcError as error:
                if error.code() not in BROKEN:
                    raise


class Fact(StrEnum):
    """What a worker writes into its journal."""

    RAN = "ran"
    DURABLE = "durable"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a worker's journal."""

    fact: Fact
    call_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A hook that a worker has answered, and what it said, as JSON."""

    hook_id: str
    name: str
    answer: str


class RawWorker:
    """Serves functions and hooks, keeps each result until it is acked, and attaches again whenever its stream ends.

    `journal`: shared with other workers; None: its own. `also`: names of more functions with the same body.
    `hooks`: by `KIND:name`. `answered`: what hooks said, in order. `forgets`: it names nothing in Hello of what it
    holds. `mute`: from now on it gives back nothing, neither results nor answers. `cancelled`: attempts that it was
    told to stop. `told`: a frame has come.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        body: Body,
        name: str = "echo",
        journal: list[Entry] | None = None,
        *,
        also: Sequence[str] = (),
        hooks: Mapping[str, Hook] | None = None,
    ) -> None:
        self._stub = handler_pb2_grpc.HandlerServiceStub(channel)
        self._body, self._handlers = body, [handler_pb2.HandlerSpec(name=one) for one in (name, *also)]
        self._hooks: dict[str, Hook] = {}
        for kind_and_name, hook in (hooks or {}).items():
            kind, _, hook_name = kind_and_name.partition(":")
            number = event_pb2.HandlerKind.Value(f"HANDLER_KIND_{kind}")
            self._handlers.append(handler_pb2.HandlerSpec(kind=number, name=hook_name))
            self._hooks[hook_name] = hook
        self.answered: list[Answered] = []
        self.cancelled: set[tuple[str, int]] = set()
        self.mute = False
        self._kept: dict[tuple[str, int], handler_pb2.ConnectRequest | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stream: Any = None
        self._token = ""
        self._writing = asyncio.Lock()
        self.attached, self.drained, self.told = asyncio.Event(), asyncio.Event(), asyncio.Condition()
        self.journal: list[Entry] = [] if journal is None else journal
        self.forgets = False

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            try:
                await self._serve()
            except grpc.aio.AioRpcError as error:
                assert error.code() in BROKEN, error
            self.attached.clear()

    @property
    def held(self) -> frozenset[tuple[str, int]]:
        """The attempts that it has: those that it works on, and those with a result that is not acked."""
        return frozenset(self._kept)

    def drop(self) -> None:
        """Forget the attempts that it was told to stop."""
        for key in self.cancelled:
            self._kept.pop(key, None)

    async def _serve(self) -> None:
        if self.forgets:
            self._kept.clear()
        stream = self._stub.Connect(wait_for_ready=True)
        hello = handler_pb2.Hello(
            instance_id=f"raw-{id(self)}",
            resume_token=self._token,
            handlers=self._handlers,
            credit=handler_pb2.Credit(messages=CREDIT - len(self._kept)),
            held=[
                handler_pb2.HeldAttempt(call_id=call_id, attempt=attempt, begun=True, finished=result is not None)
                for (call_id, attempt), result in self._kept.items()
            ],
        )
        await self._write(stream, handler_pb2.ConnectRequest(hello=hello))
        try:
            async for frame in stream:
                await self._take(stream, frame)
        finally:
            self._stream = None
            stream.cancel()

    async def _take(self, stream: Any, frame: handler_pb2.ConnectResponse) -> None:
        match frame.WhichOneof("frame"):
            case "welcome":
                assert not any(verdict.HasField("error") for verdict in frame.welcome.handlers), frame.welcome
                self._stream, self._token = stream, frame.welcome.resume_token
                for verdict in frame.welcome.attempts:
                    await self._settle_held(stream, verdict)
                self.attached.set()
            case "call":
                key = (frame.call.call_id, frame.call.attempt)
                assert key not in self._kept, f"{key} was delivered twice"
                self._kept[key] = None
                task = asyncio.ensure_future(self._execute(frame.call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case "result_ack":
                await self._acked(stream, frame.result_ack)
            case "hook_batch":
                await self._answer(stream, frame.hook_batch)
            case "heartbeat":
                beat = handler_pb2.WorkerHeartbeat(held=len(self._kept))
                await self._write(stream, handler_pb2.ConnectRequest(heartbeat=beat))
            case "drain":
                self.drained.set()
            case "cancel":
                self.cancelled.add((frame.cancel.call_id, frame.cancel.attempt))
            case other:
                raise AssertionError(f"unexpected {other}: {frame}")
        async with self.told:
            self.told.notify_all()

    async def _answer(self, stream: Any, batch: handler_pb2.HookBatch) -> None:
        shared = json.loads(batch.shared_payload_json or "{}")
        answers = []
        for hook in batch.hooks:
            asked = {**shared, **json.loads(hook.payload_json), "hook_id": hook.hook_id}
            answer = json.dumps(self._hooks[hook.name](asked))
            if not hook.notification and not self.mute:
                self.answered.append(Answered(hook_id=hook.hook_id, name=hook.name, answer=answer))
                answers.append(handler_pb2.HookAnswer(hook_id=hook.hook_id, attempt=hook.attempt, answer_json=answer))
        if answers:
            given = handler_pb2.HookAnswers(batch_id=batch.batch_id, answers=answers)
            await self._write(stream, handler_pb2.ConnectRequest(hook_answers=given))

    async def _settle_held(self, stream: Any, verdict: handler_pb2.AttemptVerdict) -> None:
        key = (verdict.call_id, verdict.attempt)
        if verdict.verdict == handler_pb2.HELD_VERDICT_CONTINUE:
            if (result := self._kept.get(key)) is not None:
                await self._write(stream, result)
            return
        self._kept.pop(key, None)
        if verdict.verdict == handler_pb2.HELD_VERDICT_ALREADY_SETTLED:
            self._note(Fact.DURABLE, *key)

    async def _execute(self, call: handler_pb2.Call) -> None:
        key = (call.call_id, call.attempt)
        self._note(Fact.RAN, *key)
        output = await self._body(call)
        result = handler_pb2.Result(call_id=call.call_id, attempt=call.attempt, output=output)
        if key not in self._kept or self.mute:
            return  # taken away meanwhile
        self._kept[key] = handler_pb2.ConnectRequest(result=result)
        if self._stream is not None:
            await self._write(self._stream, handler_pb2.ConnectRequest(result=result))

    async def _acked(self, stream: Any, ack: handler_pb2.ResultAck) -> None:
        assert ack.verdict != handler_pb2.RESULT_VERDICT_REFUSED, ack
        durable = ack.verdict == handler_pb2.RESULT_VERDICT_DURABLE
        self._note(Fact.DURABLE if durable else Fact.DISCARDED, ack.call_id, ack.attempt)
        self._kept.pop((ack.call_id, ack.attempt), None)
        await self._write(stream, handler_pb2.ConnectRequest(credit=handler_pb2.Credit(messages=1)))

    async def _write(self, stream: Any, frame: handler_pb2.ConnectRequest) -> None:
        try:
            async with self._writing:
                await stream.write(frame)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            pass  # the stream is broken, which its reader learns by itself

    def _note(self, fact: Fact, call_id: str, attempt: int) -> None:
        self.journal.append(Entry(fact=fact, call_id=call_id, attempt=attempt))


class RawWatcher:
    """Follows a session for ever, from the last sequence that it saw, and notes what it should not have seen.

    `texts`: the fragments of each message that is being written, by item; a broken stream voids them.
    """

    def __init__(self, channel: grpc.aio.Channel, session_id: str) -> None:
        self._stub = session_pb2_grpc.SessionServiceStub(channel)
        self.session_id = session_id
        self._changed = asyncio.Condition()
        self.events: list[event_pb2.Event] = []
        self.texts: dict[str, str] = {}
        self.faults: list[str] = []

    @property
    def last(self) -> int:
        """The last sequence that was seen."""
        return self.events[-1].sequence if self.events else 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            request = session_pb2.WatchRequest(
                session_id=self.session_id, after_sequence=self.last, follow=session_pb2.FOLLOW_FOREVER
            )
            self.texts.clear()
            try:
                async for response in self._stub.Watch(request, wait_for_ready=True):
                    async with self._changed:
                        for part in response.parts:
                            self.take(part)
                        self._changed.notify_all()
            except grpc.aio.AioRpcError as error:
                if error.code() not in BROKEN:
                    self.faults.append(f"the watch ended: {error}")
                    return

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what was seen."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: holds() or bool(self.faults))
        assert not self.faults, self.faults

    async def until_ended(self, turn_id: str) -> event_pb2.Turn:
        """Wait for a turn's end, and for the session's event about it; returns the turn as it ended."""
        await self.until(lambda: self._end_of(turn_id) is not None)
        turn = self._end_of(turn_id)
        assert turn is not None
        return turn

    def _end_of(self, turn_id: str) -> event_pb2.Turn | None:
        for event in self.events:
            arm = event.WhichOneof("event")
            if event.turn_id == turn_id and arm in ("turn_completed", "turn_failed", "turn_cancelled"):
                ended: event_pb2.Turn = getattr(event, arm).turn
                return ended
        return None

    def take(self, part: event_pb2.StreamPart) -> None:
        """Note one thing that came."""
        match part.WhichOneof("part"):
            case "event":
                if part.event.sequence != self.last + 1:
                    self.faults.append(f"sequence {part.event.sequence} came after {self.last}")
                self.events.append(part.event)
                self._end_text(part.event)
            case "heartbeat":
                if part.heartbeat.last_sequence != self.last:
                    self.faults.append(f"a heartbeat says {part.heartbeat.last_sequence} after {self.last}")
            case "reset":
                self.texts.clear()
                self.texts.update({item.item_id: text_of(item.message.content) for item in part.reset.items})
            case "delta":
                self._grow(part.delta)
            case None:
                self.faults.append("a part of no kind that is known")

    def _grow(self, delta: event_pb2.Delta) -> None:
        so_far = self.texts.get(delta.item_id, "")
        if delta.offset != len(so_far.encode()):
            self.faults.append(f"a fragment at {delta.offset} of {delta.item_id} follows {so_far!r}")
        self.texts[delta.item_id] = so_far + delta.output_text

    def _end_text(self, event: event_pb2.Event) -> None:
        item = event.item_done.item
        streamed = self.texts.pop(item.item_id, None)
        if streamed is None:
            return
        whole = text_of(item.message.content)
        cut_off = item.status == item_pb2.ITEM_STATUS_INCOMPLETE  # by a cancel: what was held back comes with it alone
        if streamed != whole and not (cut_off and whole.startswith(streamed)):
            self.faults.append(f"the fragments {streamed!r} became {whole!r}")


def text_of(content: Any) -> str:
    """Join the texts of a message's parts."""
    return "".join(part.text for part in content)


@asynccontextmanager
async def going(*loops: RawWorker | RawWatcher) -> AsyncIterator[None]:
    """Run workers and watchers beside a block. Raises what ended one of them before."""
    tasks = [asyncio.ensure_future(loop.run()) for loop in loops]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
