"""RunnerService: Run and RunStreamed, one turn each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager

from baton.v1 import event_pb2, runner_pb2
from baton_server.api.reading import agent_source, digest_fields, duration_or_none, if_busy
from baton_server.api.rpc import Context, Rpc, body_digest
from baton_server.api.views import Views
from baton_server.app.outcomes import IfBusy
from baton_server.app.requests import Request
from baton_server.app.runs import Run, Runs, Started
from baton_server.app.watch import Follow, Watch, Watcher
from baton_server.core.run_config import NOTHING_SAID
from baton_server.wire import check
from baton_server.wire.fit import DEFAULT_MESSAGE_BYTES
from baton_server.wire.inputs import read_continue, read_new_items
from baton_server.wire.run_config import read_config
from baton_server.wire.stream import frame_message, pack, parts_message

AnyRun = runner_pb2.RunRequest | runner_pb2.RunStreamedRequest

STARTED, RESULT = 5, 6
"""Field numbers of RunStreamedResponse's frames."""


class RunnerService:
    """Runs agents."""

    def __init__(self, runs: Runs, watcher: Watcher, views: Views, cancel: Callable[[str, str], None]) -> None:
        self._runs, self._watcher, self._views, self._cancel = runs, watcher, views, cancel

    def rpcs(self) -> dict[str, Rpc]:
        """List the methods."""
        return {
            "Run": Rpc(request=runner_pb2.RunRequest, unary=self.run),
            "RunStreamed": Rpc(request=runner_pb2.RunStreamedRequest, stream=self.run_streamed),
        }

    async def run(self, request: runner_pb2.RunRequest, _context: Context) -> runner_pb2.RunResponse:
        """Run an agent and wait until the turn rests."""
        check.check_run(request)
        started = await self._start(request)
        with self._leaving(request, started):
            await self._runs.wait(started)
            return await self._result(request, started)

    async def run_streamed(self, request: runner_pb2.RunStreamedRequest, _context: Context) -> AsyncIterator[bytes]:
        """Run an agent and stream what happens."""
        check.check_run_streamed(request)
        started = await self._start(request)
        with self._leaving(request, started):
            async with aclosing(self._messages(request, started)) as messages:
                async for message in messages:
                    yield message

    async def _messages(self, request: runner_pb2.RunStreamedRequest, started: Started) -> AsyncGenerator[bytes]:
        limit = request.max_message_bytes or DEFAULT_MESSAGE_BYTES
        message = runner_pb2.RunStarted(session_id=started.session_id, turn_id=started.turn_id, created=started.created)
        yield frame_message(STARTED, message.SerializeToString())
        first = started.first_sequence
        if not first:
            first = (await self._runs.turn(started.session_id, started.turn_id)).first_sequence
        watch = Watch(
            session_id=started.session_id,
            after_sequence=max(request.after_sequence, first - 1),
            follow=Follow.REST,
            deltas=request.deltas != event_pb2.DELTA_LEVEL_NONE,
            turn_id=started.turn_id,
            root_only=request.root_only,
            at_hand=started.events if request.after_sequence < first else (),
        )
        async with aclosing(self._watcher.parts(watch)) as watched:
            async for parts in watched:
                for group in pack(parts, limit):
                    yield parts_message(group)
        result = await self._result(request, started)
        yield frame_message(RESULT, result.SerializeToString())

    async def _start(self, request: AnyRun) -> Started:
        scope = request.session_id or (f"key:{request.session_key}" if request.session_key else "")
        asked = Request(
            rpc="Run",
            session_id=scope,
            request_id=request.request_id,
            digest=body_digest(request, digest_fields(request)),
        )
        starting = asyncio.ensure_future(self._runs.start(asked, self._read(request)))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if request.cancel_on_disconnect:
                starting.add_done_callback(self._left_early)
            raise

    def _read(self, request: AnyRun) -> Run:
        return Run(
            items=read_new_items(request) if request.WhichOneof("new_input") else (),
            continues=read_continue(request.continues) if request.HasField("continues") else None,
            session_id=request.session_id,
            session_key=request.session_key,
            agent=agent_source(request),
            config=read_config(request.run_config) if request.HasField("run_config") else NOTHING_SAID,
            if_busy=if_busy(request, IfBusy.QUEUE),
            expires_after_s=duration_or_none(request, "expires_after"),
            metadata=dict(request.metadata),
        )

    async def _result(self, request: AnyRun, started: Started) -> runner_pb2.RunResponse:
        rested = await self._runs.rested(started)
        return await self._views.run_response(
            rested,
            next_items=request.with_next_items,
            limit=(request.max_message_bytes or DEFAULT_MESSAGE_BYTES) - 16,
        )

    @contextmanager
    def _leaving(self, request: AnyRun, started: Started) -> Iterator[None]:
        """Cancel the turn of a caller who goes away meanwhile, where it asked for that."""
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            if request.cancel_on_disconnect:
                self._cancel(started.session_id, started.turn_id)
            raise

    def _left_early(self, starting: asyncio.Future[Started]) -> None:
        """Cancel the turn of a caller who went away before it was accepted."""
        if not starting.cancelled() and starting.exception() is None:
            self._cancel(starting.result().session_id, starting.result().turn_id)
