"""Which trace the spans of a turn are in, when they begin and end, and what a restart leaves of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor
from tests.api.calling import AT_ONCE, client_of, kinds
from tests.support.scripted_model import Gate, ScriptedModel, say
from tests.support.server import server
from tests.support.stage import ANY_OBJECT, Stage
from tests.telemetry.exported import EXPORTER, ended, facts, named, provider, run, tree

from baton.v1 import event_pb2, runner_pb2, session_pb2
from baton_server.telemetry.spans.ids import span_id_of, trace_id_of

TRACE_ID = "trace_0123456789abcdef0123456789abcdef"


async def test_a_run_chooses_its_trace(tmp_path: Path) -> None:
    """The id becomes OpenTelemetry's, and the outermost span has no parent."""
    await run(tmp_path, say("Hello."), tracing={"trace_id": TRACE_ID})

    assert {f"trace_{span.context.trace_id:032x}" for span in ended() if span.context} == {TRACE_ID}
    assert named("Agent workflow").parent is None


async def test_turns_have_traces_of_their_own(tmp_path: Path) -> None:
    """Where nobody chooses, each turn is one, and its ids follow from it."""
    async with server(tmp_path, ScriptedModel([say("one"), say("two")])) as baton, client_of(baton) as client:
        turns = [(await client.run(text="hi")).turn.turn_id for _ in range(2)]

    tasks = [span.context for span in ended() if span.name == "Agent workflow" and span.context]
    assert [context.trace_id for context in tasks] == [trace_id_of(turn) for turn in turns]
    assert [context.span_id for context in tasks] == [span_id_of(turn, "task") for turn in turns]


async def test_a_run_that_wants_no_trace_gets_no_span(tmp_path: Path) -> None:
    """`disabled` is obeyed."""
    await run(tmp_path, say("Hello."), tracing={"disabled": True})

    assert not ended()


async def test_a_span_lasts_as_long_as_its_turn(tmp_path: Path) -> None:
    """From the commit that began it to the one that ended it, also where the model took its time."""
    gate = Gate()
    async with server(tmp_path, ScriptedModel([say("Done.", gate)])) as baton, client_of(baton) as client:
        running = asyncio.ensure_future(client.run())
        await gate.reached()
        reached_at = time.time_ns()
        gate.open()
        await running

    for span in map(named, ("Agent workflow", "invoke_agent Helper", "round 1")):
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= reached_at <= span.end_time


async def test_what_waits_for_a_decision_has_not_begun(stage: Stage) -> None:
    """A function's span is the time that it took, not the time that people took."""
    function = {"name": "f", "parameters_json": ANY_OBJECT, "needs_approval": {"always": True}}
    turn = await stage.turn([("f", "{}")], tools=[{"function": function}])
    await turn.waiting()
    decided_after = time.time_ns()
    (action,) = await turn.actions()
    decision = {"turn_id": turn.turn_id, "call_id": action.call_id, "verdict": event_pb2.VERDICT_APPROVE}
    await stage.client.submit(turn.session_id, {"decision": decision})
    worker = await stage.worker("f")
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    span = named("execute_tool f")
    assert facts(span)["baton.approval"] == "approved"
    assert (named("round 1").start_time or 0) < decided_after <= (span.start_time or 0) + 1000


async def test_a_turn_goes_on_in_its_trace_after_a_restart(stage: Stage) -> None:
    """Every span is there in the end, under those that it had been under, and none is there twice but as itself."""
    worker = await stage.worker("f")
    turn = await stage.turn([("f", "{}")], [("g", "{}")])
    await worker.finish(await worker.expect("call"))
    await turn.until("round_completed", times=2)
    before = {span.context.span_id: span.to_json() for span in ended() if span.context}
    await stage.restart()

    worker, turn = await stage.worker("g"), stage.again(turn)
    await worker.finish(await worker.expect("call"))
    await turn.completed()

    after = {span.context.span_id: span for span in ended() if span.context}
    assert {span_id: after[span_id].to_json() for span_id in before} == before
    assert len({span.context.trace_id for span in after.values() if span.context}) == 1
    assert tree(after.values()) == [
        "Agent workflow",
        "  invoke_agent Helper",
        "    round 1",
        "      chat scripted",
        "      execute_tool f",
        "    round 2",
        "      chat scripted",
        "      execute_tool g",
        "    round 3",
        "      chat scripted",
    ]


@pytest.mark.slow
async def test_a_turn_that_ended_before_a_restart_is_traced_once(tmp_path: Path) -> None:
    """Who asks for it later makes no spans of it."""
    response: runner_pb2.RunResponse = await run(tmp_path, say("Hello."))
    EXPORTER.clear()
    async with server(tmp_path, ScriptedModel([])) as baton, client_of(baton) as client:
        await client.turn(response.turn.session_id, response.turn.turn_id)

    assert not ended()


async def test_a_turn_that_rests_keeps_its_spans_open(stage: Stage) -> None:
    """What it has done is exported; what it is in is not over, and ends with its cancel."""
    text, agent = stage.script([("f", "{}")])
    session = await stage.client.session(agent=agent, run_config={"unserved_grace": AT_ONCE})
    turn_id = (await stage.client.submit(session.session_id, text)).turn_id
    await stage.client.rest(session.session_id)
    assert [span.name for span in ended()] == ["chat scripted"]

    await stage.client.cancel(session.session_id, turn_id)
    await stage.client.rest(session.session_id)

    assert facts(named("execute_tool f"))["baton.settlement"] == "cancelled"
    assert facts(named("Agent workflow"))["baton.status"] == "CANCELLED"


class Failing(SpanProcessor):
    """A processor that fails, as one does whose collector is misconfigured."""

    fails = False

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Fail, if it is told to."""
        if self.fails:
            raise RuntimeError("no collector")


async def test_a_failing_exporter_holds_up_no_turn(tmp_path: Path) -> None:
    """The turn is over all the same, and the next one of its session begins."""
    failing, gate = Failing(), Gate()
    provider().add_span_processor(failing)
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
