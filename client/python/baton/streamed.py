"""A run whose course is told as it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal, TypeVar

from baton.agent import Agent
from baton.connection import Connection, connection_for
from baton.content import complete_item, complete_response
from baton.errors import AgentsException
from baton.hosting import Hosted
from baton.items import RunItem, RunItems
from baton.plan import (
    MAX_SERVED_RESTS,
    Plan,
    abandon,
    cancel_turn,
    served_here,
    streamed_request,
)
from baton.results import RunContextUsage, failure_of, input_list, next_items, typed
from baton.resume import follow
from baton.retry import Backoff
from baton.stream_events import AgentUpdatedStreamEvent, Fragments, StreamEvent, item_event
from baton.tripwires import tell_reasons
from baton.usage import Usage, usage_from_pb
from baton.v1 import event_pb2, runner_pb2

T = TypeVar("T")

EVENTS_AHEAD = 1024
"""Events that are read before somebody takes them; then the run's stream waits. The run itself never does."""


class RunResultStreaming:
    """A run that goes on. Read `stream_events()` to its end, then what stands in the other attributes is whole."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._connection: Connection = connection_for(plan.session.address if plan.session else None)
        self._events: asyncio.Queue[StreamEvent | None] = asyncio.Queue(EVENTS_AHEAD)
        self._items = RunItems(plan.agent)
        self._fragments = Fragments()
        self._request = runner_pb2.RunRequest()
        self._turn: tuple[str, str] | None = None
        self._response = runner_pb2.RunResponse()
        self._cancelled: Literal["immediate", "after_turn"] | None = None
        self._error: BaseException | None = None
        self.input = plan.input
        self.new_items: list[RunItem] = []
        self.current_turn = 0
        self.is_complete = False
        self.final_output: Any = None
        self._task = asyncio.create_task(self._run(), name="baton streamed run")

    # -- what the run gave -----------------------------------------------------------------------

    @property
    def last_agent(self) -> Agent[Any]:
        """The agent that goes on, or ended the run."""
        return self._plan.agent

    current_agent = last_agent

    @property
    def last_response_id(self) -> str | None:
        """The last reply's id at the provider; None: none yet, or none given."""
        return self._response.turn.last_response_id or None

    @property
    def context_wrapper(self) -> RunContextUsage:
        """Usage so far at the server's last word, and the application's context."""
        return RunContextUsage(usage=self.usage, context=self._plan.context)

    @property
    def usage(self) -> Usage:
        """Requests and tokens of the run; nothing before it has ended."""
        return usage_from_pb(self._response.turn.usage)

    @property
    def session_id(self) -> str:
        """The server's id of the session; empty: not known yet."""
        return self._turn[0] if self._turn else ""

    @property
    def turn_id(self) -> str:
        """The server's id of the turn; empty: not known yet."""
        return self._turn[1] if self._turn else ""

    @property
    def interruptions(self) -> list[Any]:
        """Approvals that are waited for. Always empty: this version has none."""
        return []

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, typed. With `raise_if_incorrect_type`, TypeError if it is of another."""
        return typed(self.final_output, cls, raise_if_incorrect_type)

    def to_input_list(self) -> list[dict[str, Any]]:
        """List input and new items, as input of the next run; empty before the run has ended."""
        return input_list(next_items(self._response))

    # -- its course ------------------------------------------------------------------------------

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield what happens until the run has ended. Raises what the run failed with, after its events.

        A caller that is cancelled while it waits here cancels the run.
        """
        try:
            while (event := await self._next()) is not None:
                yield event
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """End the run: at once, or when the round that runs is finished with its functions.

        Then the events end without an exception, and there is no final output.
        """
        if mode not in ("immediate", "after_turn"):
            raise ValueError(f"mode must be 'immediate' or 'after_turn', not {mode!r}")
        if self.is_complete or self._cancelled == "immediate":
            return
        self._cancelled = mode
        if mode == "immediate":
            self.is_complete = True
            self._task.cancel()
        elif self._turn is not None:
            self._cancel_turn(event_pb2.CANCEL_MODE_AFTER_ROUND)

    async def _next(self) -> StreamEvent | None:
        """Take the next event; None: there will be no other."""
        if self._cancelled == "immediate" or (self.is_complete and self._events.empty()):
            return None
        return await self._events.get()

    # -- the task that reads the stream ----------------------------------------------------------

    async def _run(self) -> None:
        try:
            async with self._plan.serving(self._connection.host) as hosted:
                self._request = self._plan.request(hosted)
                try:
                    await self._until_ended(hosted)
                except asyncio.CancelledError:
                    await abandon(self._connection, self._request, self._turn)
                    raise
        except asyncio.CancelledError as error:
            if self._cancelled != "immediate":  # somebody else's: the event loop ends
                self._error = error
                raise
        except AgentsException as error:
            self._error = error
        finally:
            self.is_complete = True
            if not self._events.full():  # a full queue has a reader, who will see `is_complete`
                self._events.put_nowait(None)

    async def _until_ended(self, hosted: Hosted) -> None:
        backoff = Backoff(self._connection.timing)
        for _ in range(MAX_SERVED_RESTS):
            await self._read_stream()
            if not served_here(self._response, hosted):
                break
            await hosted.attached()
            await backoff.wait()
        await self._emit_items(self._items.flush())
        await complete_response(self._connection, self._response)
        turn = self._response.turn
        if turn.status == event_pb2.TURN_STATUS_CANCELLED and self._cancelled == "after_turn":
            return
        error = failure_of(self._response, self._plan.agent, self.input, self.new_items)
        if error is not None:
            await tell_reasons(self._connection, self._response, error, self._plan.guardrails)
            raise error
        self.final_output = turn.output

    async def _read_stream(self) -> None:
        request = streamed_request(self._request)

        def open_stream(position: int) -> Any:
            request.after_sequence = position
            return self._connection.runner.RunStreamed(request)

        messages = follow(
            self._connection,
            open_stream,
            "RunStreamed",
            after_sequence=self._response.turn.last_sequence,
            is_last=lambda message: message.HasField("result"),
        )
        async for message in messages:
            await self._take(message)

    async def _take(self, message: runner_pb2.RunStreamedResponse) -> None:
        match message.WhichOneof("frame"):
            case "started":
                first = self._turn is None
                self._turn = (message.started.session_id, message.started.turn_id)
                if first and self._cancelled == "after_turn":
                    self._cancel_turn(event_pb2.CANCEL_MODE_AFTER_ROUND)
            case "result":
                self._response = message.result
            case _:
                pass
        for part in message.parts:
            match part.WhichOneof("part"):
                case "event":
                    await self._take_event(part.event)
                case "delta":
                    for event in self._fragments.delta(part.delta):
                        await self._events.put(event)
                case "reset":
                    for event in self._fragments.reset(part.reset):
                        await self._events.put(event)
                case _:
                    pass

    async def _take_event(self, event: event_pb2.Event) -> None:
        self.current_turn = max(self.current_turn, event.round)
        match event.WhichOneof("event"):
            case "agent_changed":
                await self._events.put(AgentUpdatedStreamEvent(new_agent=self._plan.agent))
            case "item_added":
                await complete_item(self._connection, event.session_id, event.item_added.item)
                await self._emit_items(self._items.feed(event.item_added.item))
            case "item_done":
                await complete_item(self._connection, event.session_id, event.item_done.item)
                for fragment in self._fragments.whole(event.item_done.item, event.round):
                    await self._events.put(fragment)
                await self._emit_items(self._items.feed(event.item_done.item))
            case _:
                pass

    async def _emit_items(self, items: Any) -> None:
        for item in items:
            self.new_items.append(item)
            await self._events.put(item_event(item))

    def _cancel_turn(self, mode: event_pb2.CancelMode.ValueType) -> None:
        self._connection.spawn(cancel_turn(self._connection, self._request, self._turn, mode))
