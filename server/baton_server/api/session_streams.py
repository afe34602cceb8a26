"""SessionService, its streams: Watch and Converse, the log by pages, and large texts in slices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import grpc

from baton.v1 import event_pb2
from baton.v1 import session_pb2 as pb
from baton_server.api.rpc import Context, Rpc, readable, unavailable
from baton_server.api.session_service import SessionService
from baton_server.app.runs import Runs
from baton_server.app.runtime import Runtime
from baton_server.app.sessions import Sessions
from baton_server.app.watch import Follow, Watch, Watcher
from baton_server.core.errors import BatonError, Failure, Reason, refuse
from baton_server.ports.store import StoreUnavailable
from baton_server.wire import check
from baton_server.wire.check.violations import Violations
from baton_server.wire.errors import write_failure
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES, close_page
from baton_server.wire.stream import find_text, pack, parts_message

SLICE_BYTES = 1024 * 1024
"""Of a content, in one message, where the peer takes that much."""

PAGE = 100
"""Events of a page where ListEvents says 0."""

SCAN = 500
"""Events read at once in search of a text that was omitted for a peer."""

FOLLOWS = {pb.FOLLOW_FOREVER: Follow.FOREVER, pb.FOLLOW_NONE: Follow.NONE}


class SessionStreams:
    """The streaming rpcs of SessionService."""

    def __init__(
        self, runtime: Runtime, sessions: Sessions, runs: Runs, watcher: Watcher, unary: SessionService
    ) -> None:
        self._runtime, self._sessions, self._runs = runtime, sessions, runs
        self._watcher, self._unary = watcher, unary

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {
            "Watch": Rpc(request=pb.WatchRequest, stream=self.watch),
            "Converse": Rpc(request=pb.ConverseRequest, bidi=self.converse),
            "ListEvents": Rpc(request=pb.ListEventsRequest, unary=self.list_events),
            "ReadContent": Rpc(request=pb.ReadContentRequest, stream=self.read_content),
        }

    async def watch(self, request: pb.WatchRequest, _: Context) -> AsyncIterator[bytes]:
        """Stream a session's events, then what happens."""
        check.check_watch(request)
        limit = request.max_message_bytes or DEFAULT_MESSAGE_BYTES
        async with aclosing(self._watcher.parts(watch_of(request))) as watched:
            async for parts in watched:
                for group in pack(parts, limit):
                    yield parts_message(group)

    async def list_events(self, request: pb.ListEventsRequest, _: Context) -> pb.ListEventsResponse:
        """List a session's events."""
        check.check_list_events(request)
        session = await self._sessions.find(request.session_id)
        if request.after_sequence > session.last_sequence:
            raise refuse(
                Reason.SEQUENCE_AHEAD,
                f"after_sequence {request.after_sequence} is above the session's last sequence "
                f"{session.last_sequence}.",
                after_sequence=str(request.after_sequence),
                last_sequence=str(session.last_sequence),
            )
        if request.turn_id:
            await self._runs.turn(request.session_id, request.turn_id)
        log = self._runtime.store.events
        rows = await log.after(request.session_id, request.after_sequence, request.page_size or PAGE, request.turn_id)
        events = (event_pb2.Event.FromString(row.data) for row in rows)
        shown = close_page(events, DEFAULT_MESSAGE_BYTES)
        last = shown[-1].sequence if shown else request.after_sequence
        # One read gives less than was asked for where events are large, so only another one tells the end.
        more = await log.after(request.session_id, last, 1, request.turn_id) if shown else ()
        return pb.ListEventsResponse(events=shown, last_sequence=last, has_more=bool(more))

    async def read_content(self, request: pb.ReadContentRequest, _: Context) -> AsyncIterator[bytes]:
        """Stream a text that was omitted elsewhere."""
        check.check_read_content(request)
        await self._sessions.find(request.session_id)
        data = await self._content(request)
        if request.offset > len(data):
            found = Violations()
            found.add("offset", f"is {request.offset}, behind the end of the content, which has {len(data)} bytes")
            found.raise_if_any()
        size = min(SLICE_BYTES, (request.max_message_bytes or DEFAULT_MESSAGE_BYTES) - 1024)
        for at in range(request.offset, len(data), size) or (request.offset,):
            slice_ = pb.ReadContentResponse(offset=at, data=data[at : at + size], total_bytes=len(data))
            yield slice_.SerializeToString()

    async def converse(self, context: Context) -> None:
        """Watch and SubmitInput on one stream."""
        await _Conversation(self._watcher, self._unary, self._runtime, context).run()

    async def _content(self, request: pb.ReadContentRequest) -> bytes:
        store = self._runtime.store
        data = await store.documents.content(request.session_id, request.sha256)
        after = 0
        while data is None and (rows := await store.events.after(request.session_id, after, SCAN)):
            data = next((text for row in rows if (text := find_text(row.data, request.sha256)) is not None), None)
            after = rows[-1].sequence
        if data is None:
            raise refuse(
                Reason.CONTENT_NOT_FOUND,
                f"The session has no content of the digest {request.sha256!r}.",
                sha256=request.sha256,
            )
        return data


def watch_of(request: pb.WatchRequest) -> Watch:
    """Read what is to be watched."""
    return Watch(
        session_id=request.session_id,
        after_sequence=request.after_sequence,
        follow=FOLLOWS.get(request.follow, Follow.REST),
        deltas=request.deltas != event_pb2.DELTA_LEVEL_NONE,
        turn_id=request.turn_id,
        root_only=request.root_only,
    )


class _Conversation:
    """One Converse stream: a task reads and submits, another watches; a lock keeps their messages apart."""

    def __init__(self, watcher: Watcher, unary: SessionService, runtime: Runtime, context: Context) -> None:
        self._watcher, self._unary, self._runtime, self._context = watcher, unary, runtime, context
        self._writing = asyncio.Lock()
        self._half_closed = asyncio.Event()

    async def run(self) -> None:
        """Serve the stream until the caller has half-closed and the session rests, or the caller is gone."""
        watch, session = await self._first()
        await self._write(pb.ConverseResponse(session=session).SerializeToString())
        tasks = [asyncio.ensure_future(self._read(watch.session_id)), asyncio.ensure_future(self._follow(watch))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _first(self) -> tuple[pb.WatchRequest, pb.Session]:
        limit_s = self._runtime.limits.hello_timeout_s
        reading = asyncio.ensure_future(self._context.read())
        done, _ = await asyncio.wait({reading}, timeout=limit_s)
        if not done or reading.result() is grpc.aio.EOF:
            raise refuse(Reason.INVALID_REQUEST, f"The first frame must be watch or create, within {limit_s:g} s.")
        frame = readable(reading.result())
        check.check_converse_first(frame)
        if frame.WhichOneof("frame") == "create":
            made = await self._unary.create_checked(frame.create)
            after = 0 if made.created else made.session.last_sequence
            return pb.WatchRequest(session_id=made.session.session_id, after_sequence=after), made.session
        got = await self._unary.get(pb.GetSessionRequest(session_id=frame.watch.session_id), self._context)
        return frame.watch, got.session

    async def _read(self, session_id: str) -> None:
        """Take submits in, one after the other, until the caller half-closes."""
        while (frame := await self._context.read()) is not grpc.aio.EOF:
            # Nothing is written meanwhile, so that `submitted` comes before what follows from it.
            async with self._writing:
                answer = await self._answer(frame, session_id)
                await self._context.write(answer.SerializeToString())
        self._half_closed.set()

    async def _answer(self, frame: object, session_id: str) -> pb.ConverseResponse:
        submit = pb.SubmitInputRequest()
        try:
            given = readable(frame)
            check.check_converse_later(given)
            submit = given.submit
            check.check_submit_input(submit, session_id)
            return pb.ConverseResponse(submitted=await self._unary.submit_checked(submit, session_id))
        except StoreUnavailable as error:
            return _refusal(submit.request_id, unavailable(error).failure)
        except BatonError as error:
            return _refusal(submit.request_id, error.failure)

    async def _follow(self, watch: pb.WatchRequest) -> None:
        """Stream to the end by `follow`, which counts after the half-close; before it the stream stays."""
        wanted = watch_of(watch)
        limit = watch.max_message_bytes or DEFAULT_MESSAGE_BYTES
        live = Watch(
            session_id=wanted.session_id,
            after_sequence=wanted.after_sequence,
            follow=Follow.FOREVER,
            deltas=wanted.deltas,
            turn_id=wanted.turn_id,
            root_only=wanted.root_only,
        )
        async with aclosing(self._watcher.parts(live, until=self._half_closed, then=wanted.follow)) as watched:
            async for parts in watched:
                await self._write_parts(parts, limit)

    async def _write_parts(self, parts: Sequence[bytes], limit: int) -> None:
        for group in pack(parts, limit):
            await self._write(parts_message(group))

    async def _write(self, message: bytes) -> None:
        async with self._writing:
            await self._context.write(message)


def _refusal(request_id: str, failure: Failure) -> pb.ConverseResponse:
    return pb.ConverseResponse(error=pb.ConverseError(request_id=request_id, error=write_failure(failure)))


__all__ = ["SessionStreams", "watch_of"]
