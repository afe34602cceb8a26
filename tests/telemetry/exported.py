"""Spans that the server under test has ended, and how they hang together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.api.calling import client_of
from tests.support.scripted_model import ScriptedModel
from tests.support.server import server

EXPORTER = InMemorySpanExporter()


def provider() -> TracerProvider:
    """Give the provider of this process, whose spans go to `EXPORTER`. OpenTelemetry takes one per process."""
    found = trace.get_tracer_provider()
    if not isinstance(found, TracerProvider):
        found = TracerProvider()
        found.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(found)
    return found


def ended() -> tuple[ReadableSpan, ...]:
    """List the spans that were ended since the last clear."""
    return EXPORTER.get_finished_spans()


def facts(span: ReadableSpan) -> Mapping[str, Any]:
    """Read the attributes of a span."""
    return span.attributes or {}


def named(name: str, spans: Iterable[ReadableSpan] | None = None) -> ReadableSpan:
    """Find the one span of a name."""
    found = [span for span in (ended() if spans is None else spans) if span.name == name]
    assert len(found) == 1, f"{name!r} is there {len(found)} times among {[span.name for span in ended()]}"
    return found[0]


def tree(spans: Iterable[ReadableSpan] | None = None) -> list[str]:
    """Draw spans as lines, two blanks for each span above, in the order in which they began."""
    chosen = list(ended() if spans is None else spans)
    known = {span.context.span_id for span in chosen if span.context}
    under: dict[int, list[ReadableSpan]] = {}
    for span in chosen:
        parent = span.parent.span_id if span.parent is not None else 0
        under.setdefault(parent if parent in known else 0, []).append(span)
    lines: list[str] = []
    _draw(under, 0, "", lines)
    return lines


def _draw(under: Mapping[int, list[ReadableSpan]], above: int, indent: str, lines: list[str]) -> None:
    for span in sorted(under.get(above, []), key=lambda span: (span.start_time or 0, span.name)):
        lines.append(indent + span.name)
        if span.context is not None:
            _draw(under, span.context.span_id, indent + "  ", lines)


async def run(folder: Path, *replies: Any, settings: dict[str, Any] | None = None, **asked: Any) -> Any:
    """Run a turn whose model replies so; `tracing` among what is asked are its options."""
    config = {"tracing": asked.pop("tracing", {}), **asked.pop("run_config", {})}
    given = {"text": "a secret", "run_config": config, **asked}
    async with server(folder, ScriptedModel(replies), **(settings or {})) as baton, client_of(baton) as client:
        return await client.run(**given)
