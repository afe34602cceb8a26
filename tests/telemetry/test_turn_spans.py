"""The spans of a turn, made of events by hand: what a server would take long to show."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Tracer

from baton_server.core import ids
from baton_server.core.agents import Agent
from baton_server.core.events import (
    AgentChanged,
    Event,
    EventBody,
    ItemAdded,
    ItemDone,
    RoundCompleted,
    TurnEnded,
    TurnInProgress,
    TurnSnapshot,
    TurnStatus,
)
from baton_server.core.items import FunctionCall, FunctionCallOutput, Item, ItemStatus, Settlement, TextPart, Usage
from baton_server.core.run_config import Pinned, RunConfig, Tracing
from baton_server.core.tools import FunctionTool
from baton_server.telemetry.spans.ids import SpanMaker, trace_id_of
from baton_server.telemetry.spans.turn import TurnSpans

TURN = "turn_1"
TEXT = "x" * 10_000
TRACE_ID = "trace_0123456789abcdef0123456789abcdef"


class Kept(SpanProcessor):
    """Keeps the spans that were ended, or only counts them."""

    def __init__(self, *, counts: bool = False) -> None:
        self.spans: list[ReadableSpan] = []
        self.count, self._counts = 0, counts

    def on_end(self, span: ReadableSpan) -> None:
        """Take one."""
        self.count += 1
        if not self._counts:
            self.spans.append(span)


def tracer_of(kept: SpanProcessor, **options: Any) -> Tracer:
    """Make a tracer of the SDK's whose spans are kept."""
    provider = TracerProvider(**options)
    provider.add_span_processor(kept)
    return provider.get_tracer("test")


def spans_of(tracer: Tracer, tracing: Tracing | None = None) -> TurnSpans:
    """Begin the spans of a turn of an agent with a function."""
    agent = Agent(name="Helper", tools=(FunctionTool(name="f"),))
    pinned = Pinned(agent=agent, config=RunConfig(tracing=tracing))
    return TurnSpans(SpanMaker(tracer), "sess_1", TURN, pinned, sensitive=True)


def turn(rounds: int) -> Iterator[EventBody]:
    """Make the events of a turn whose rounds each have a call with a long output."""
    yield TurnInProgress()
    yield AgentChanged(agent="Helper")
    for number in range(rounds):
        call_id = ids.call_id(TURN, number)
        call = FunctionCall(call_id=call_id, name="f", arguments="{}", model_call_id="m")
        item = Item(item_id="item_1", turn_id=TURN, body=call, json="{}", agent="Helper", output_index=0)
        yield ItemAdded(item=replace(item, status=ItemStatus.IN_PROGRESS), in_history=True)
        yield RoundCompleted(model="m", response_id="r", usage=Usage())
        output = FunctionCallOutput(
            call_id=call_id, name="f", output=(TextPart(text=TEXT),), settlement=Settlement.OUTPUT
        )
        text = f'"{number}{TEXT}"'
        yield ItemDone(
            item=Item(item_id="item_2", turn_id=TURN, body=output, json=text, agent="Helper"), in_history=True
        )


def end() -> TurnEnded:
    """End the turn well."""
    snapshot = TurnSnapshot(
        turn_id=TURN,
        session_id="sess_1",
        status=TurnStatus.COMPLETED,
        agent="Helper",
        last_agent="Helper",
        agent_digest="",
        run_config_digest="",
        request_id="r",
    )
    return TurnEnded(turn=snapshot)


def feed(spans: TurnSpans, bodies: Iterator[EventBody], first: int = 1) -> int:
    """Feed events, one second after another; returns the sequence of the last one."""
    sequence = first - 1
    for sequence, body in enumerate(bodies, first):
        spans.take(Event(body=body, turn_id=TURN), sequence, float(sequence))
    return sequence


@pytest.mark.slow
def test_a_long_turn_takes_no_more_room_than_a_short_one() -> None:
    """A thousand rounds with 10 kB each are with the exporter, and not in the server."""
    kept = Kept(counts=True)
    spans, events = spans_of(tracer_of(kept)), turn(1001)
    for sequence in range(1, 9):
        spans.take(Event(body=next(events), turn_id=TURN), sequence, float(sequence))
    tracemalloc.start()
    try:
        feed(spans, events, 9)
        room, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept.count >= 3 * 999
    assert room < 200_000


def test_events_that_come_again_make_no_spans() -> None:
    """A log that is read anew begins where it is known already."""
    kept = Kept()
    spans = spans_of(tracer_of(kept))
    feed(spans, turn(2))
    before = len(kept.spans)

    last = feed(spans, turn(2))
    assert len(kept.spans) == before

    spans.take(Event(body=end(), turn_id=TURN), last + 1, 100.0)
    assert {span.name for span in kept.spans[before:]} == {"round 2", "invoke_agent Helper", "Agent workflow"}


def test_a_trace_that_no_sampler_wants_is_given_up() -> None:
    """Its first span tells that."""
    spans = spans_of(tracer_of(Kept(), sampler=ALWAYS_OFF))
    assert spans.wanted

    feed(spans, turn(0))
    assert not spans.wanted


class Hidden(Tracer):
    """A tracer of another make: it lets nobody choose ids."""

    def __init__(self, inner: Tracer) -> None:
        self._inner = inner

    def start_span(self, *args: Any, **options: Any) -> Any:
        """Start a span."""
        return self._inner.start_span(*args, **options)

    start_as_current_span = start_span  # not used


@pytest.mark.parametrize("given", ["", TRACE_ID])
def test_a_tracer_that_chooses_ids_itself_is_given_the_trace_all_the_same(given: str) -> None:
    """By a parent that is never sent; all spans hang together."""
    kept = Kept()
    spans = spans_of(Hidden(tracer_of(kept)), Tracing(trace_id=given))
    last = feed(spans, turn(1))
    spans.take(Event(body=end(), turn_id=TURN), last + 1, 100.0)

    contexts = [span.context for span in kept.spans if span.context]
    assert {context.trace_id for context in contexts} == {trace_id_of(TURN, given)}
    made = {context.span_id for context in contexts}
    outside = [span for span in kept.spans if span.parent is None or span.parent.span_id not in made]
    assert [span.name for span in outside] == ["Agent workflow"]


def test_spans_lie_within_those_above_them() -> None:
    """Nothing ends after what it is under, nor begins before it."""
    kept = Kept()
    spans = spans_of(tracer_of(kept))
    last = feed(spans, turn(3))
    spans.take(Event(body=end(), turn_id=TURN), last + 1, 100.0)

    by_id = {span.context.span_id: span for span in kept.spans if span.context}
    for span in kept.spans:
        above = by_id.get(span.parent.span_id) if span.parent else None
        if above is not None:
            assert (above.start_time or 0) <= (span.start_time or 0) <= (span.end_time or 0) <= (above.end_time or 0)
