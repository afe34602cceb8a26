"""Ids of spans, which follow from the turn: whoever traces a turn, before or after a crash, makes the same ones.

So spans that reached the collector before a crash find the parents that are made after it, and a span that is made
once more is the same one. OpenTelemetry has its SDK ask a generator for ids; ours is set on Baton's own tracer alone.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer

TRACE_PREFIX = "trace_"
"""How a run's trace id begins (run_config.proto, `Tracing.trace_id`); 32 hex digits follow."""


def trace_id_of(turn_id: str, given: str = "") -> int:
    """Give the trace id of a turn: the run's own, else one made of the turn's."""
    return int(given.removeprefix(TRACE_PREFIX), 16) if given else _digest(16, "trace", turn_id)


def span_id_of(turn_id: str, place: str) -> int:
    """Give the id of a span by its place in the turn."""
    return _digest(8, "span", turn_id, place)


@runtime_checkable
class Choosing(Protocol):
    """A tracer that asks a generator for ids: the SDK's."""

    id_generator: Any


class ChosenIds:
    """A generator for the SDK that gives the ids that were chosen for the next span."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        """Give the trace's; asked for a span without parent."""
        return self.trace_id

    def generate_span_id(self) -> int:
        """Give the span's."""
        return self.span_id

    def is_trace_id_random(self) -> bool:
        """Promise no randomness: a caller may have chosen the trace id."""
        return False


class SpanMaker:
    """Makes spans with ids that are given."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer, self._ids = tracer, ChosenIds()
        self._chooses = isinstance(tracer, Choosing)
        if isinstance(tracer, Choosing):
            tracer.id_generator = self._ids

    def start(
        self, name: str, ids: tuple[int, int], parent: trace.Span | None, start_ns: int, kind: trace.SpanKind
    ) -> trace.Span:
        """Start a span. `ids`: trace and span. `parent` None: it has none."""
        self._ids.trace_id, self._ids.span_id = ids
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        if parent is None and not self._chooses:
            context = _inside(ids)
        return self._tracer.start_span(name, context, kind, start_time=start_ns)


def _inside(ids: tuple[int, int]) -> Context:
    """Make a context that is in the trace already.

    A tracer of another make chooses ids itself, and takes a trace id from nothing but a parent. This one is never
    sent; its span id is fixed, so that all of a turn's outermost spans have the same missing parent.
    """
    trace_id, span_id = ids
    parent = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _digest(size: int, *words: str) -> int:
    """Make a number of so many bytes, other than 0, which means none."""
    return int.from_bytes(sha256("/".join(words).encode()).digest()[:size]) or 1
