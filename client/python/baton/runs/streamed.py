"""A run whose course is told as it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal, TypeVar

from baton.agents.agent import Agent
from baton.context.run_context import RunContextWrapper
from baton.errors import UserError
from baton.hosting.own import Hosted
from baton.items.model_response import ModelResponse
from baton.items.run_items import RunItem, ToolApprovalItem
from baton.items.usage import RunningUsage, Usage
from baton.runs.course import Course, OldTurn, begin
from baton.runs.guardrail_results import GuardrailResults, TellsGuardrails
from baton.runs.outcome import Making, Outcome
from baton.runs.plan import Input, Plan
from baton.runs.printing import agent_line, output_line, printed
from baton.runs.rests import MAX_SERVED_RESTS, paused
from baton.runs.results import InputListMode, RunResult, listed, make_result, typed
from baton.runs.run_state import RunState
from baton.runs.stream_events import AgentUpdatedStreamEvent, Fragments, StreamEvent, item_event
from baton.runs.turn_status import served_by
from baton.server.cancelling import CANCEL_HERE_S, abandon, cancel_turn
from baton.server.connection import Connection, connection_for
from baton.server.content import complete_item, complete_response
from baton.transport.retry import Backoff
from baton.v1 import event_pb2, runner_pb2

T = TypeVar("T")

EVENTS_AHEAD = 1024
"""Events that are read before somebody takes them; then the run's stream waits. The run itself never does."""

CancelMode = Literal["immediate", "after_turn"]

_DO_NOT_COUNT = frozenset({event_pb2.WITHDRAWAL_REASON_FILTERED, event_pb2.WITHDRAWAL_REASON_FAILED})
"""Why items are taken back that were said to be made."""


class RunResultStreaming(TellsGuardrails):
    """A run that goes on. Read `stream_events()` to its end, then what stands in the other attributes is whole.

    One that waits for decisions ends its events as one that is done; `interruptions` tells them apart.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._connection: Connection = connection_for(plan.address)
        self._events: asyncio.Queue[StreamEvent | None] = asyncio.Queue(EVENTS_AHEAD)
        self._making = Making(plan)
        self._fragments = Fragments()
        self._held: list[RunItem] = []
        self._used = RunningUsage()
        self._course: Course | None = None
        self._response = runner_pb2.RunResponse()
        self._result: RunResult | None = None
        self._outcome: Outcome | None = None
        self._cancelled: CancelMode | None = None
        self._error: BaseException | None = None
        self.last_agent: Agent[Any] = plan.agent
        self.current_turn = 0
        self.max_turns = plan.options.max_turns
        self.is_complete = False
        self._task = asyncio.create_task(self._run(), name="baton streamed run")

    def __str__(self) -> str:
        lines = [
            agent_line("Current", self.last_agent),
            f"Current turn: {self.current_turn}",
            f"Max turns: {self.max_turns}",
            f"Is complete: {self.is_complete}",
            output_line(self.final_output),
        ]
        return printed(self, lines)

    # -- what the run gave -----------------------------------------------------------------------

    @property
    def input(self) -> Input:
        """What it began with."""
        return self._making.input

    @property
    def new_items(self) -> list[RunItem]:
        """All that it has made so far."""
        return self._making.made

    @property
    def current_agent(self) -> Agent[Any]:
        """The agent that goes on, or ended the run; `last_agent` is the same."""
        return self.last_agent

    @property
    def final_output(self) -> Any:
        """The final output; None: there is none, or none yet."""
        return self._result.final_output if self._result is not None else None

    @property
    def raw_responses(self) -> list[ModelResponse]:
        """The model's replies; none before the run rests."""
        return self._outcome.raw_responses if self._outcome is not None else []

    @property
    def last_response_id(self) -> str | None:
        """The last reply's id at the provider; None: none yet, or none given."""
        return self._outcome.last_response_id if self._outcome is not None else None

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """Usage so far, the application's context, decisions."""
        if self._outcome is not None:
            return self._outcome.context_wrapper
        return RunContextWrapper(self._plan.context, self._used.so_far())

    @property
    def usage(self) -> Usage:
        """Requests and tokens of the run so far."""
        return self.context_wrapper.usage

    @property
    def session_id(self) -> str:
        """The server's id of the session; empty: not known yet."""
        return self._turn[0] if self._turn is not None else ""

    @property
    def turn_id(self) -> str:
        """The server's id of the turn; empty: not known yet."""
        return self._turn[1] if self._turn is not None else ""

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """Calls that wait for a decision; none before the run rests."""
        return self._outcome.interruptions if self._outcome is not None else []

    @property
    def guardrails(self) -> GuardrailResults:
        """What the guardrails said; nothing before the run rests."""
        return self._outcome.guardrails(self.final_output) if self._outcome is not None else GuardrailResults()

    @property
    def run_loop_exception(self) -> BaseException | None:
        """What the run failed with; None: it did not, or not yet."""
        return self._error

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, typed. With `raise_if_incorrect_type`, TypeError if it is of another."""
        return typed(self.final_output, cls, raise_if_incorrect_type)

    def to_input_list(self, *, mode: InputListMode = "preserve_all") -> list[dict[str, Any]]:
        """List input and new items, as input of the next run; empty before the run rests. As of `RunResult`."""
        return listed(self._result.next_items_json if self._result is not None else "", mode)

    def to_state(self) -> RunState[Any]:
        """Make a state to decide about `interruptions`, and to go on from. Raises UserError before the run rests."""
        if self._outcome is None:
            raise UserError("this run does not rest yet, or was given up at once; read its events to their end")
        return self._outcome.state()

    # -- its course ------------------------------------------------------------------------------

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield what happens until the run has ended or waits. Raises what it failed with, after its events.

        A caller that is cancelled while it waits here cancels the run.
        """
        try:
            while (event := await self._next()) is not None:
                yield event
        except asyncio.CancelledError:
            self.cancel()
            # Here and now: an event loop that ends would cancel the cancelling itself.
            await asyncio.wait({self._task}, timeout=CANCEL_HERE_S)
            raise
        if self._error is not None:
            raise self._error

    def cancel(self, mode: CancelMode = "immediate") -> None:
        """End the run: at once, or when the round that runs is finished with its functions.

        Then the events end without an exception, and there is no final output. After "after_turn" `to_state()` gives
        a state to go on from.
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
            self._cancel_after_round()

    async def _next(self) -> StreamEvent | None:
        """Take the next event; None: there will be no other."""
        if self._cancelled == "immediate" or (self.is_complete and self._events.empty()):
            return None
        return await self._events.get()

    # -- the task that reads the stream ----------------------------------------------------------

    @property
    def _turn(self) -> tuple[str, str] | None:
        return self._course.turn if self._course is not None else None

    async def _run(self) -> None:
        try:
            async with self._plan.serving(self._connection.host) as hosted:
                self._course = await begin(self._connection, self._plan, hosted)
                try:
                    await self._until_rest(self._course, hosted)
                except asyncio.CancelledError:
                    await abandon(self._connection, self._course.request, self._course.turn)
                    raise
        except asyncio.CancelledError as error:
            if self._cancelled != "immediate":  # somebody else's: the event loop ends
                self._error = error
                raise
        except Exception as error:  # noqa: BLE001 - handed to the reader: a hook may have raised anything
            self._error = error
        finally:
            self.is_complete = True
            if not self._events.full():  # a full queue has a reader, who will see `is_complete`
                self._events.put_nowait(None)

    async def _until_rest(self, course: Course, hosted: Hosted) -> None:
        if self._plan.state is not None:
            self._making.begin(course, course.seen if isinstance(course, OldTurn) else ())
        earlier = [response.turn.usage for response in course.earlier]
        if isinstance(course, OldTurn):
            self._used.begin([*earlier, course.used], course.used_until)
            await self._agent_goes_on(course.agent)
        else:
            self._used.begin(earlier, 0)
        backoff = Backoff(self._connection.timing)
        position = course.sequence
        for _ in range(MAX_SERVED_RESTS):
            async for message in course.messages(position):
                await self._take(course, message)
            position = self._response.turn.last_sequence
            if not served_by(self._response, hosted.names):
                break
            await hosted.attached()
            await backoff.wait()
        await self._tell_held()
        await complete_response(self._connection, self._response)
        shown, self._outcome = await paused(self._connection, self._plan, hosted, course, self._making, self._response)
        await self._emit_items(shown)
        self.last_agent = self._outcome.last_agent
        self._end(self._outcome)

    def _end(self, outcome: Outcome) -> None:
        """Take what came of it. Raises what it failed with, but for the cancel that was asked for."""
        cancelled = self._response.turn.status == event_pb2.TURN_STATUS_CANCELLED
        error = outcome.failure()
        if error is not None and not (cancelled and self._cancelled == "after_turn"):
            raise error
        self._result = make_result(outcome)

    async def _take(self, course: Course, message: runner_pb2.RunStreamedResponse) -> None:
        match message.WhichOneof("frame"):
            case "started":
                first = course.turn is None
                course.turn = (message.started.session_id, message.started.turn_id)
                if first and self._cancelled == "after_turn":
                    self._cancel_after_round()
            case "result":
                self._response = message.result
            case _:
                pass
        for part in message.parts:
            match part.WhichOneof("part"):
                case "event" if not part.event.run_path:
                    await self._take_event(part.event)
                case "delta" if not part.delta.run_path:
                    await self._tell_held()
                    await self._put(self._fragments.delta(part.delta))
                case "reset" if not part.reset.run_path:
                    await self._tell_held()
                    await self._put(self._fragments.reset(part.reset))
                case _:
                    pass

    async def _take_event(self, event: event_pb2.Event) -> None:
        self.current_turn = max(self.current_turn, event.round)
        self._used.take(event)
        await self._tell_held(event)
        match event.WhichOneof("event"):
            case "agent_changed":
                await self._agent_goes_on(event.agent_changed.agent)
            case "item_added":
                item = event.item_added.item
                await complete_item(self._connection, event.session_id, item)
                shown = self._making.take(item)
                if _is_output(event):
                    self._held += shown
                else:
                    await self._emit_items(shown)
            case "item_done":
                item = event.item_done.item
                await complete_item(self._connection, event.session_id, item)
                await self._put(self._fragments.whole(item, event.round))
                await self._emit_items(self._making.take(item))
            case _:
                pass

    async def _tell_held(self, event: event_pb2.Event | None = None) -> None:
        """Tell of the last outputs, but for those that the next event says do not count.

        One that a handoff's filter took out of the history; those of a reply over which the run fails.
        """
        if not self._held or (event is not None and _is_output(event)):
            return
        held, self._held = self._held, []
        void = self._void(event) if event is not None else frozenset()
        if void:
            self._making.forget([item for item in self._making.made if item.item_id in void])
        await self._emit_items(item for item in held if item.item_id not in void)

    def _void(self, event: event_pb2.Event) -> frozenset[str]:
        """Name the items that an event takes back, by Baton's ids."""
        match event.WhichOneof("event"):
            case "items_withdrawn" if event.items_withdrawn.reason in _DO_NOT_COUNT:
                return frozenset(event.items_withdrawn.item_ids)
            case "turn_failed":
                call_id = event.turn_failed.turn.error.metadata.get("call_id", "")
                culprit = self._making.items.outputs.get(call_id)
                return frozenset({culprit.item_id}) if culprit is not None else frozenset()
            case _:
                return frozenset()

    async def _agent_goes_on(self, name: str) -> None:
        self.last_agent = self._making.names.agent(name)
        await self._events.put(AgentUpdatedStreamEvent(new_agent=self.last_agent))

    async def _emit_items(self, items: Iterable[RunItem]) -> None:
        for item in items:
            event = item_event(item)
            if event is not None:
                await self._events.put(event)

    async def _put(self, events: Iterable[StreamEvent]) -> None:
        for event in events:
            await self._events.put(event)

    def _cancel_after_round(self) -> None:
        mode = event_pb2.CANCEL_MODE_AFTER_ROUND
        self._connection.spawn(cancel_turn(self._connection, None, self._turn, mode))


def _is_output(event: event_pb2.Event) -> bool:
    item = event.item_added.item
    return item.HasField("function_call_output") or item.HasField("handoff_output")
