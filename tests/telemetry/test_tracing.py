"""The span of a turn."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.api.calling import client_of, kinds
from tests.support.scripted_model import Gate, ScriptedModel, say
from tests.support.server import channel, server

from baton.v1 import agent_pb2, run_config_pb2, runner_pb2, runner_pb2_grpc, session_pb2

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


async def test_a_span_lasts_as_long_as_its_turn(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """From the commit that began it to the one that ended it, also where the model took its time."""
    gate = Gate()
    async with server(tmp_path, ScriptedModel([say("Done.", gate)])) as baton, client_of(baton) as client:
        running = asyncio.ensure_future(client.run())
        await gate.reached()
        reached_at = time.time_ns()
        gate.open()
        await running

    (span,) = spans.get_finished_spans()
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time <= reached_at <= span.end_time


class Failing(SpanProcessor):
    """A processor that fails, as one does whose collector is misconfigured."""

    fails = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Fail, if it is told to."""
        if self.fails:
            raise RuntimeError("no collector")


async def test_a_failing_exporter_holds_up_no_turn(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    """The turn is over all the same, and the next one of its session begins."""
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    failing, gate = Failing(), Gate()
    provider.add_span_processor(failing)
    async with server(tmp_path, ScriptedModel([say("one", gate), say("two")])) as baton, client_of(baton) as client:
        session = await client.session()
        await client.submit(session.session_id, "first")
        await gate.reached()
        await client.submit(session.session_id, "second", if_busy=session_pb2.IF_BUSY_QUEUE)
        failing.fails = True
        gate.open()
        try:
            assert kinds(await client.rest(session.session_id)).count("turn_completed") == 2
        finally:
            failing.fails = False
