"""The span of a turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.server import channel, server

from baton.v1 import agent_pb2, run_config_pb2, runner_pb2, runner_pb2_grpc

EXPORTER = InMemorySpanExporter()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Spans that were ended since the test began. OpenTelemetry takes one provider per process."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    return EXPORTER


async def _run(folder: Path, tracing: run_config_pb2.Tracing) -> runner_pb2.RunResponse:
    async with server(folder) as baton, channel(baton) as opened:
        stub = runner_pb2_grpc.RunnerServiceStub(opened)
        return await stub.Run(
            runner_pb2.RunRequest(
                request_id="r",
                agent=agent_pb2.Agent(name="Helper"),
                text="a secret",
                run_config=run_config_pb2.RunConfig(tracing=tracing),
            )
        )


async def test_a_turn_is_a_span_with_its_workflow_and_group(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """Name, group, labels, outcome and tokens are there, and nothing that was said."""
    tracing = run_config_pb2.Tracing(workflow_name="Support", group_id="thread_1", metadata={"team": "a"})

    response = await _run(tmp_path, tracing)

    (span,) = spans.get_finished_spans()
    assert span.name == "Support"
    assert span.attributes is not None
    assert span.attributes["baton.group_id"] == "thread_1"
    assert span.attributes["baton.metadata.team"] == "a"
    assert span.attributes["baton.turn_id"] == response.turn.turn_id
    assert span.attributes["baton.status"] == "COMPLETED"
    assert "secret" not in str(span.to_json())


async def test_a_run_that_wants_no_trace_gets_no_span(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """`disabled` is obeyed."""
    await _run(tmp_path, run_config_pb2.Tracing(disabled=True))

    assert not spans.get_finished_spans()
