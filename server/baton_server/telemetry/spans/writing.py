"""One span: begun under another one with the attributes that all have, ended over an error or without."""

from __future__ import annotations

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from baton_server.core.errors import Failure
from baton_server.core.run_config import Tracing
from baton_server.telemetry.spans import facts
from baton_server.telemetry.spans.facts import Facts
from baton_server.telemetry.spans.ids import SpanMaker, span_id_of, trace_id_of


class Writer:
    """Writes the spans of a turn. `sensitive`: with what was said."""

    def __init__(self, maker: SpanMaker, session_id: str, turn_id: str, tracing: Tracing, *, sensitive: bool) -> None:
        self._maker, self._turn_id = maker, turn_id
        self._trace_id = trace_id_of(turn_id, tracing.trace_id)
        self._labels = facts.labels(session_id, turn_id, tracing)
        self.sensitive = sensitive
        self.wanted = True
        """Whether spans go anywhere, as far as is known: a sampler may not want the trace."""

    def begin(
        self, place: str, name: str, at: float, parent: Span | None, said: Facts, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        """Begin a span. `place`: its kind, and behind a slash what tells it from others of the turn."""
        ids = (self._trace_id, span_id_of(self._turn_id, place))
        span = self._maker.start(name, ids, parent, nanoseconds(at), kind)
        if parent is None:
            self.wanted = span.is_recording()
            span.set_attributes(self._labels)
        span.set_attributes({"baton.span.kind": place.partition("/")[0], **said})
        return span

    def end(self, span: Span, at: float, failure: Failure | None = None) -> None:
        """End a span, over a failure if there is one. Its words are no one's but who may see what was said."""
        if failure is not None:
            reason = failure.reason.value
            span.set_attribute("error.type", reason)
            words = f"{reason}: {failure.message}" if self.sensitive else reason
            span.set_status(Status(StatusCode.ERROR, words))
        span.end(nanoseconds(at))


def place_of(kind: str, run_path: tuple[str, ...], number: int) -> str:
    """Name the place of what a run has several of."""
    return "/".join((kind, *run_path, str(number)))


def nanoseconds(at: float) -> int:
    """Write a time as OpenTelemetry does, to the microsecond: more than that the log does not tell."""
    return round(at * 1e6) * 1000
