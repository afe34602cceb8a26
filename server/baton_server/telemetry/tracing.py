"""Traces: a span per turn, through the OpenTelemetry API. Where it goes is the process's own configuration."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from baton_server.core.agents import Pinned
from baton_server.core.events import Event, TurnSnapshot, TurnStatus
from baton_server.ports.observer import Attendance

DEFAULT_WORKFLOW = "Agent workflow"
"""Name of a workflow where the run says none: the Agents SDK's."""


class TurnSpans:
    """Implements `ports.observer.Observer`. Without a configured exporter it costs next to nothing."""

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("baton")

    def recorded(self, events: Sequence[Event]) -> None:
        """Trace nothing: a turn is one span."""

    def delivered(self, name: str, attempt: int, waited_s: float) -> None:
        """Trace nothing: a turn is one span."""

    def attended(self, attendance: Attendance) -> None:
        """Trace nothing: a turn is one span."""

    def turn_ended(self, turn: TurnSnapshot, pinned: Pinned, started_at: float, ended_at: float) -> None:
        """Make the span of a turn, with the times of its first and last commit."""
        tracing = pinned.config.tracing
        if tracing is not None and tracing.disabled:
            return
        span = self._tracer.start_span(
            (tracing and tracing.workflow_name) or DEFAULT_WORKFLOW,
            start_time=int(started_at * 1e9),
            attributes={
                "baton.session_id": turn.session_id,
                "baton.turn_id": turn.turn_id,
                "baton.group_id": (tracing and tracing.group_id) or turn.session_id,
                "baton.agent": turn.agent,
                "baton.status": turn.status.value,
                "baton.rounds": turn.rounds,
                "gen_ai.usage.input_tokens": turn.usage.input_tokens,
                "gen_ai.usage.output_tokens": turn.usage.output_tokens,
                **{f"baton.metadata.{k}": v for k, v in (tracing.metadata if tracing else {}).items()},
            },
        )
        if turn.status is TurnStatus.FAILED and turn.failure is not None:
            span.set_status(Status(StatusCode.ERROR, turn.failure.reason.value))
        span.end(end_time=int(ended_at * 1e9))
