"""The spans of one turn, event by event.

    task > agent > round > generation, handoff, function (> guardrail, and the agent of a nested run)
                 > guardrail of an input or of a final output

What is kept is what goes on: the spans of the task, of each run's agent and round and of open calls, and the texts of
the round that comes, cut to the size of an attribute. What is over is with the exporter. So a turn of a thousand rounds
takes no more room than one of two; and it can be looked at while it goes on.

Times are those of commits: a function's span begins with the commit of its call, or of the decision that allowed it.
A generation began as long before its commit as its event says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Span

from baton_server.core.events import (
    AgentChanged,
    ApprovalDecided,
    CallReturned,
    Event,
    GuardrailTripped,
    HookSettled,
    ItemAdded,
    ItemDone,
    ModelAttemptFailed,
    NestedRunClosed,
    NestedRunCreated,
    RoundCompleted,
    TurnEnded,
    TurnInProgress,
    TurnStatus,
)
from baton_server.core.items import FunctionCallOutput, HandoffOutput, Item
from baton_server.core.run_config import Pinned, Tracing
from baton_server.telemetry.spans import facts
from baton_server.telemetry.spans.calls import CallWriter
from baton_server.telemetry.spans.guardrails import GuardrailWriter
from baton_server.telemetry.spans.ids import SpanMaker
from baton_server.telemetry.spans.runs import RunSpans, RunWriter
from baton_server.telemetry.spans.writing import Writer

DEFAULT_WORKFLOW = "Agent workflow"
"""Name of a workflow where the run says none: the Agents SDK's."""


class TurnSpans:
    """Makes the spans of a turn. `sensitive`: with what was said."""

    def __init__(self, maker: SpanMaker, session_id: str, turn_id: str, pinned: Pinned, *, sensitive: bool) -> None:
        self._tracing = pinned.config.tracing or Tracing()
        self._start = pinned.start.name
        self._writer = Writer(maker, session_id, turn_id, self._tracing, sensitive=sensitive)
        self._by_run = RunWriter(self._writer, pinned, self._tracing)
        self._calls = CallWriter(self._writer)
        self._guardrails = GuardrailWriter(self._writer, turn_id, pinned, self._calls)
        self._task: Span | None = None
        self._runs: dict[tuple[str, ...], RunSpans] = {}
        self._sequence = 0

    @property
    def wanted(self) -> bool:
        """Tell whether its spans go anywhere, as far as is known: a sampler may not want the trace."""
        return self._writer.wanted

    def take(self, event: Event, sequence: int, at: float) -> None:
        """Take an event of the turn; one that was taken before, or means nothing here, is passed over."""
        if sequence <= self._sequence:
            return
        handle, run = _HANDLERS.get(type(event.body)), self._runs.get(event.run_path)
        if isinstance(event.body, TurnInProgress):
            self._sequence = sequence
            self._begin(at)
        elif handle is not None and run is not None:
            self._sequence = sequence
            handle(self, run, event.body, at)

    # -- task and runs ---------------------------------------------------------------------------

    def _begin(self, at: float) -> None:
        if self._tracing.include_turn_spans:
            name = self._tracing.workflow_name or DEFAULT_WORKFLOW
            said = {"gen_ai.workflow.name": name, "baton.agent": self._start}
            self._task = self._writer.begin("task", name, at, None, said)
        self._runs[()] = RunSpans(path=(), above=self._task, since=at)

    def _end(self, _run: RunSpans, body: TurnEnded, at: float) -> None:
        turn = body.turn
        failure = turn.failure if turn.status is TurnStatus.FAILED else None
        for run in sorted(self._runs.values(), key=lambda run: -len(run.path)):
            self._calls.end_all(run, at)
            self._by_run.end(run, at, failure)
        self._runs.clear()
        if self._task is not None:
            self._task.set_attributes(facts.outcome(turn))
            self._writer.end(self._task, at, failure)

    def _change_agent(self, run: RunSpans, body: AgentChanged, at: float) -> None:
        self._by_run.change_agent(run, body.agent, at)

    def _nest(self, run: RunSpans, body: NestedRunCreated, at: float) -> None:
        call = self._calls.get(body.call_id)
        if call is not None:
            path = (*run.path, body.call_id)
            self._runs[path] = RunSpans(path=path, above=self._calls.span_of(call), since=at)

    def _close_nested(self, run: RunSpans, body: NestedRunClosed, at: float) -> None:
        nested = self._runs.pop((*run.path, body.call_id), None)
        if nested is not None:
            self._calls.end_all(nested, at)
            self._by_run.end(nested, at, body.failure)

    # -- what happens in a run -------------------------------------------------------------------

    def _item(self, run: RunSpans, body: ItemAdded | ItemDone, at: float) -> None:
        if self._writer.sensitive:
            (run.came if _comes_in(body.item) else run.made).add(body.item.json)
        self._calls.item(run, body.item, at)

    def _reply(self, run: RunSpans, body: RoundCompleted, at: float) -> None:
        self._by_run.reply(run, body, at)

    def _attempt(self, run: RunSpans, body: ModelAttemptFailed, at: float) -> None:
        run.tries.append((at, body))

    def _decided(self, _run: RunSpans, body: ApprovalDecided, at: float) -> None:
        self._calls.decided(body, at)

    def _returned(self, _run: RunSpans, body: CallReturned, at: float) -> None:
        call = self._calls.get(body.call_id)
        if call is not None:
            call.since = at

    def _hook(self, run: RunSpans, body: HookSettled, at: float) -> None:
        self._guardrails.settled(run, body, at)

    def _tripped(self, run: RunSpans, body: GuardrailTripped, at: float) -> None:
        self._guardrails.tripped(run, body, self._sequence, at)


def _comes_in(item: Item) -> bool:
    """Tell whether an item is of what the model is asked, not of what it replies."""
    return not item.agent or isinstance(item.body, FunctionCallOutput | HandoffOutput)


_HANDLERS: Mapping[type, Callable[[TurnSpans, RunSpans, Any, float], None]] = {
    TurnEnded: TurnSpans._end,
    AgentChanged: TurnSpans._change_agent,
    NestedRunCreated: TurnSpans._nest,
    NestedRunClosed: TurnSpans._close_nested,
    ItemAdded: TurnSpans._item,
    ItemDone: TurnSpans._item,
    RoundCompleted: TurnSpans._reply,
    ModelAttemptFailed: TurnSpans._attempt,
    ApprovalDecided: TurnSpans._decided,
    CallReturned: TurnSpans._returned,
    HookSettled: TurnSpans._hook,
    GuardrailTripped: TurnSpans._tripped,
}
