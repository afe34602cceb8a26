"""Traces: the spans of each turn, through the OpenTelemetry API. Where they go is the process's own configuration.

Spans are made as their events are committed, not when the turn ends: what is kept stays small however long the turn
is, and a turn that waits for days can be looked at meanwhile. After a restart a turn's log is read again from its
first event, and all of its spans are made once more with the ids that they had (`spans.ids`). So none is missing
that was on its way to the collector, and the others are the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import trace

from baton_server.core.events import Event, TurnEnded, TurnInProgress
from baton_server.core.run_config import Pinned, Tracing
from baton_server.ports.observer import Attendance, Recorded
from baton_server.telemetry.spans.ids import SpanMaker
from baton_server.telemetry.spans.turn import TurnSpans


class Traces:
    """Implements `ports.observer.Observer`. Without a configured exporter it costs next to nothing.

    `include_sensitive_data`: where a run does not say whether spans tell what was said.
    """

    def __init__(self, *, include_sensitive_data: bool = True) -> None:
        self._include_sensitive_data = include_sensitive_data
        self._provider: trace.TracerProvider | None = None
        self._maker: SpanMaker | None = None
        self._turns: dict[str, TurnSpans | None] = {}
        """Turns that go on; None: nobody wants the spans of that one."""

    def recorded(self, told: Recorded) -> None:
        """Make the spans that events begin and end."""
        if self._ready():
            self._take(told)

    def loaded(self, turn_id: str, read: Callable[[], Recorded]) -> None:
        """Make up for the events that were not seen here."""
        unwanted = turn_id in self._turns and self._turns[turn_id] is None
        if self._ready() and not unwanted:
            told = read()
            if turn_id in self._turns or not any(isinstance(event.body, TurnEnded) for event in told.events):
                self._take(told)

    def left(self, turn_id: str) -> None:
        """Forget a turn whose end is not known."""
        self._turns.pop(turn_id, None)

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Trace nothing: the span of a call lasts until its output."""

    def attended(self, attendance: Attendance) -> None:
        """Trace nothing."""

    def _ready(self) -> bool:
        """Tell whether anybody has configured where spans go."""
        provider = trace.get_tracer_provider()
        if provider is not self._provider:
            self._provider = provider
            nowhere = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
            self._maker = None if nowhere else SpanMaker(provider.get_tracer("baton"))
        return self._maker is not None

    def _take(self, told: Recorded) -> None:
        for event, sequence, at in zip(told.events, told.sequences, told.times, strict=True):
            turn_id = event.turn_id
            if isinstance(event.body, TurnInProgress) and turn_id not in self._turns and told.pinned is not None:
                self._turns[turn_id] = self._begin(told.session_id, event, told.pinned)
            spans = self._turns.get(turn_id)
            if spans is not None:
                spans.take(event, sequence, at)
                if not spans.wanted:
                    self._turns[turn_id] = None
            if isinstance(event.body, TurnEnded):
                self._turns.pop(turn_id, None)

    def _begin(self, session_id: str, event: Event, pinned: Pinned) -> TurnSpans | None:
        tracing = pinned.config.tracing or Tracing()
        if tracing.disabled or self._maker is None:
            return None
        said = tracing.include_sensitive_data
        sensitive = self._include_sensitive_data if said is None else said
        return TurnSpans(self._maker, session_id, event.turn_id, pinned, sensitive=sensitive)
