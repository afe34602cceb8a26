"""Functions that the client library hosts, at a real server: they raise, they do not stop, they give too much."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.api.calling import kinds, told
from tests.client.end_to_end import Serve
from tests.peers.hosting import Course, Stuck, hosting
from tests.support.scripted_model import calls, say
from tests.support.stage import Stage, eventually

from baton import Agent, RunContext, Runner, ToolOutputImage, function_tool
from baton.v1 import error_pb2, item_pb2, session_pb2

MIB = 1024 * 1024
LIMIT = 4 * MIB

# -- what functions raise ------------------------------------------------------------------------


class Unprintable(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED: list[BaseException] = [
    ValueError("secret"),
    asyncio.CancelledError("secret"),
    TimeoutError(),
    StopIteration(),
    SystemExit(3),
    Unprintable(),
]


@pytest.mark.parametrize("threaded", [False, True], ids=["coroutine", "thread"])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
async def test_whatever_a_function_raises_is_told(
    stage: Stage, caplog: pytest.LogCaptureFixture, error: BaseException, threaded: bool
) -> None:
    """The session's log and the worker's have its type, the model has a sentence; the next call is served."""

    @function_tool(name_override="f", strict_mode=False)
    async def in_coroutine() -> str:
        raise error

    @function_tool(name_override="f", strict_mode=False)
    def in_thread() -> str:
        raise error

    async with hosting(stage.baton.address, in_thread if threaded else in_coroutine, max_concurrency=1):
        for _ in range(2):
            turn = await stage.call("f")
            await turn.completed()
            (output,) = await turn.outputs()
            assert output.error.reason == error_pb2.ERROR_REASON_HANDLER_CRASHED
            assert type(error).__name__ in output.error.message
            assert "secret" not in output.output[0].text
    assert [record for record in caplog.records if record.levelno == logging.ERROR]


async def test_one_of_three_that_fails_costs_the_others_nothing(stage: Stage) -> None:
    """Their outputs are kept and stand in their places; the model gets all three."""
    going, kept = Course("going"), Course("kept")

    @function_tool(name_override="failing", strict_mode=False)
    async def failing() -> str:
        raise ValueError("no")

    async with hosting(stage.baton.address, going.tool, failing, kept.tool):
        turn = await stage.turn([("going", "{}"), ("failing", "{}"), ("kept", "{}")])
        await turn.until("item_added", times=5)  # the message, three calls, the failure
        going.go.set()
        kept.go.set()
        await turn.completed()

    model = stage.model.input_of(-1)
    texts = [item["output"] for item in model if item.get("type") == "function_call_output"]
    assert (texts[0], texts[2]) == ("done", "done") and texts[1] not in ("", "done")


# -- functions that do not stop ------------------------------------------------------------------


async def test_a_cancel_is_taken_at_once_though_the_function_ignores_it(stage: Stage) -> None:
    """The turn ends with its grace; what the function gives afterwards is no error, and seen in the log."""
    stuck, quick = Stuck(), Course("quick")
    quick.go.set()
    async with hosting(stage.baton.address, stuck.tool, quick.tool):
        turn = await stage.call("f")
        await stuck.runs(stage)

        outcome = await turn.cancel(grace={"seconds": 5})
        assert outcome.status == session_pb2.INPUT_STATUS_CANCELLING
        await eventually(stuck.told.is_set)
        stage.pass_time(6)
        assert kinds(await turn.ended())[-1] == "turn_cancelled"
        other = await stage.call("quick")
        await other.completed()
        stuck.leave.set()

        (late,) = told(await turn.until("result_discarded"), "result_discarded")
        assert late.error.reason == error_pb2.ERROR_REASON_CALL_SETTLED
        await (await stage.call("quick")).completed()


async def test_a_function_that_never_ends_holds_no_session(stage: Stage) -> None:
    """Somebody gives its result in its place; the session goes on, and so does its worker."""
    stuck = Stuck()
    quick = Course("quick")
    quick.go.set()
    async with hosting(stage.baton.address, stuck.tool, quick.tool):
        turn = await stage.call("f")
        call_id = await stuck.runs(stage)

        await turn.settle(call_id, output="by hand")

        await turn.completed()
        (output,) = await turn.outputs()
        assert (output.output[0].text, output.settlement) == ("by hand", item_pb2.SETTLEMENT_OUTSIDE_OUTPUT)
        await (await stage.call("quick")).completed()
        stuck.leave.set()


# -- sizes ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_result_that_is_too_large_costs_its_call_alone(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, with size and limit, and not tried again; the stream and the next call are as before."""
    sizes = [LIMIT + 1, LIMIT]
    attempts: list[int] = []

    @function_tool(name_override="f", strict_mode=False)
    async def dump(context: RunContext[None]) -> str:
        attempts.append(context.attempt)
        return "x" * sizes[len(attempts) - 1]

    caplog.set_level(logging.INFO, "baton.worker")
    async with hosting(stage.baton.address, dump):
        await (await stage.call("f")).completed()
        told = stage.model.input_of(-1)[-1]["output"]
        assert str(LIMIT + 1) in told and str(LIMIT) in told
        await (await stage.call("f")).completed()
    assert attempts == [1, 1]
    assert len(stage.model.input_of(-1)[-1]["output"]) == LIMIT
    assert not [line for line in caplog.messages if line.startswith("lost")]


@pytest.mark.slow
async def test_a_large_picture_reaches_the_model_whole(serve: Serve) -> None:
    """As what a function gives, and above 4 MiB as what a user sends, both read back as they were."""
    shown = "data:image/png;base64," + "A" * (3 * MIB)
    sent = "data:image/png;base64," + "B" * (6 * MIB)

    @function_tool
    async def look() -> ToolOutputImage:
        return ToolOutputImage(image_url=shown)

    asked = [{"role": "user", "content": [{"type": "input_text", "text": "See:"}, picture(sent)]}]
    async with serve(calls(("look", "{}")), say("Nice.")) as served:
        result = await Runner.run(Agent[None](name="Assistant", tools=[look]), asked)

        message, _, output = served.model.input_of(-1)
        assert message["content"][1]["image_url"] == sent
        assert output["output"][0]["image_url"] == shown
        assert result.to_input_list()[:3:2] == [*asked, output]


def picture(url: str) -> dict[str, str]:
    """Write a picture as a user sends it."""
    return {"type": "input_image", "image_url": url}
