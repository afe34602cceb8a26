"""What a function says while it runs: reports, and whether it is still wanted."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from tests.client.scripted import ScriptedServer, soon
from tests.client.test_attachment import cancelling
from tests.client.work import Work

from baton import RunContext, function_tool
from baton.context.call_context import MAX_REPORT_BYTES
from baton.hosting.link import BUSY_FRAMES, Link
from baton.hosting.reports import Reports
from baton.transport.retry import Timing
from baton.v1 import event_pb2, handler_pb2

NOTHING: Any = None
"""A call of gRPC that is not made."""


async def test_the_first_report_goes_at_once_and_the_last_before_the_result(
    server: ScriptedServer, worker: Work
) -> None:
    """What comes between may be left out; numbers tell what was."""

    @function_tool
    async def works(ctx: RunContext[None]) -> str:
        ctx.progress("begun")
        await worker.let_go.wait()
        for step in range(100):
            ctx.progress({"step": step})
        ctx.progress(output_so_far="Rain, and")
        return "Rain, and wind"

    worker.tools["works"] = works
    peer = await worker.begin(server)
    await peer.call("works")
    first = await peer.receive("progress")
    worker.let_go.set()
    result = await peer.settle()

    reports = [first, *(frame.progress for frame in peer.passed_over if frame.HasField("progress"))]
    assert (first.call_id, first.attempt, first.number, first.text) == ("call_1", 1, 1, "begun")
    assert (reports[-1].number, reports[-1].output_so_far) == (102, "Rain, and")
    assert len(reports) < 10 and result.output == "Rain, and wind"


async def test_a_thread_reports_as_well(server: ScriptedServer, worker: Work) -> None:
    """From any thread, in order, the last one before the result included."""

    @function_tool
    def works(ctx: RunContext[None]) -> str:
        for step in range(1000):
            ctx.progress({"step": step})
        return "worked"

    worker.tools["works"] = works
    peer = await worker.begin(server)
    await peer.call("works")
    await peer.settle()

    reports = [frame.progress for frame in peer.passed_over if frame.HasField("progress")]
    numbers = [report.number for report in reports]
    assert numbers == sorted(numbers) and numbers[-1] == 1000
    assert json.loads(reports[-1].progress_json) == {"step": 999}


async def test_a_report_waits_while_there_is_no_stream(server: ScriptedServer, worker: Work) -> None:
    """The newest is told on the next one."""

    @function_tool
    async def works(ctx: RunContext[None]) -> str:
        worker.entered.set()
        await worker.let_go.wait()
        ctx.progress("while away")
        await asyncio.Event().wait()
        return ""

    worker.tools["works"] = works
    peer = await worker.begin(server)
    await peer.call("works")
    await soon(worker.entered.wait())
    peer.end(grpc.StatusCode.UNAVAILABLE)
    second = await server.peer()
    hello = await second.receive("hello")
    worker.let_go.set()
    going_on = handler_pb2.AttemptVerdict(call_id="call_1", attempt=1, verdict=handler_pb2.HELD_VERDICT_CONTINUE)
    await second.send(welcome=handler_pb2.Welcome(attempts=[going_on]))

    assert len(hello.held) == 1
    assert (await second.receive("progress")).text == "while away"


async def test_a_stream_that_is_behind_is_spared_reports() -> None:
    """So that a function that reports much never has its worker's stream cut; the last one still goes."""
    full: list[bool] = [True]
    sent: list[handler_pb2.ConnectRequest] = []
    reports = Reports(
        handler_pb2.Call(call_id="call_1", attempt=1),
        sent.append,
        lambda: not full[0],
        0.001,
        asyncio.get_running_loop(),
    )
    for number in range(10):
        reports.report(event_pb2.CallProgress(text=str(number)))
        await asyncio.sleep(0)
    assert sent == []
    reports.end()

    assert [frame.progress.text for frame in sent] == ["9"]


def test_a_stream_with_much_to_write_is_behind() -> None:
    """Before its Welcome it takes nothing; then until a few frames wait."""
    link = Link(NOTHING, lambda _link, _frame: None, lambda: 0, Timing())
    assert not link.ready
    link.welcome(10, 0)
    assert link.ready
    for _ in range(BUSY_FRAMES):
        link.send(handler_pb2.ConnectRequest())

    assert not link.ready


async def test_nothing_is_reported_after_the_end() -> None:
    """A thread that was given up may go on to report: nobody is interested any more."""
    sent: list[handler_pb2.ConnectRequest] = []
    reports = Reports(
        handler_pb2.Call(call_id="call_1", attempt=1), sent.append, lambda: True, 0.05, asyncio.get_running_loop()
    )
    reports.report(event_pb2.CallProgress(text="last"))
    reports.end()
    reports.report(event_pb2.CallProgress(text="too late"))
    reports.end()
    await asyncio.sleep(0)

    assert [frame.progress.text for frame in sent] == ["last"]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        ({}, "exactly one"),
        ({"report": "a", "output_so_far": "b"}, "exactly one"),
        ({"report": {"x": "y" * MAX_REPORT_BYTES}}, str(MAX_REPORT_BYTES)),
    ],
)
def test_wrong_reports_are_refused(report: dict[str, Any], says: str) -> None:
    """Where the function makes them, with what is wrong."""
    with pytest.raises(ValueError, match=says):
        context().progress(**report)


def test_long_texts_are_cut_at_a_character() -> None:
    """A report is not worth failing a function for."""
    kept: list[event_pb2.CallProgress] = []

    class Line:
        def report(self, progress: event_pb2.CallProgress) -> None:
            kept.append(progress)

        def extend(self, seconds: float) -> None:
            raise AssertionError

    context(line=Line()).progress("é" * MAX_REPORT_BYTES)

    assert len(kept[0].text.encode()) == MAX_REPORT_BYTES


# --- what a function sees -----------------------------------------------------------------------------------


async def test_a_call_says_when_it_is_given_up(server: ScriptedServer, worker: Work) -> None:
    """Its deadline in universal time; none where it has no timeout."""
    seen: list[datetime | None] = []

    @function_tool
    async def look(ctx: RunContext[None]) -> str:
        seen.append(ctx.deadline)
        return ""

    worker.tools["look"] = look
    peer = await worker.begin(server)
    call = handler_pb2.Call(call_id="call_1", attempt=1, name="look", arguments_json="{}")
    await peer.send(call=call)
    await peer.settle()
    call.call_id = "call_2"
    call.deadline.FromSeconds(1_800_000_000)
    await peer.send(call=call)
    await peer.settle()

    assert seen == [None, datetime.fromtimestamp(1_800_000_000, UTC)]


async def test_a_cancel_says_why_and_can_be_awaited(server: ScriptedServer, worker: Work) -> None:
    """In a coroutine that cleans up as in a thread that looks at the flag."""
    seen: list[tuple[str, bool]] = []

    @function_tool
    async def works(ctx: RunContext[None]) -> str:
        worker.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.cancelled
            seen.append((ctx.cancelled.reason, ctx.cancelled.is_set()))
        return ""

    worker.tools["works"] = works
    peer = await worker.begin(server)
    await peer.call("works")
    await soon(worker.entered.wait())
    await peer.send(cancel=cancelling("call_1"))
    await peer.receive("cancel_ack")

    assert seen == [("turn_ended", True)]


def test_a_cancellation_is_seen_in_threads() -> None:
    """The first reason stays."""
    cancelled = context().cancelled
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(cancelled.wait(5)))
    thread.start()

    cancelled.set("timeout")
    cancelled.set("expired")
    thread.join(5)

    assert (waited, cancelled.reason) == ([True], "timeout")


def context(**more: Any) -> RunContext[None]:
    """Make a context that no server knows of, as a user's own test does."""
    return RunContext(
        call_id="call_1",
        attempt=1,
        tool_name="f",
        tool_arguments="{}",
        session_id="sess_1",
        turn_id="turn_1",
        agent_name="Assistant",
        idempotency_key="call_1",
        may_have_run=False,
        context=None,
        **more,
    )
