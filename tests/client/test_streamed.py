"""A streamed run: its events, in the Agents SDK's order, once each, whatever breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from tests.client.scripted import Failing, ScriptedServer, soon
from tests.client.turns import Log, answer, call, delta, message, output, parts, result, started, user

import baton
from baton import Agent, Runner, RunResultStreaming
from baton.v1 import error_pb2, event_pb2, item_pb2, runner_pb2, session_pb2

AGENT = Agent(name="Assistant")
Stream = AsyncIterator[runner_pb2.RunStreamedResponse]


async def names(streaming: RunResultStreaming) -> list[str]:
    """Read all events; a word for each."""
    found = []
    async for event in streaming.stream_events():
        match event:
            case baton.AgentUpdatedStreamEvent():
                found.append(f"agent:{event.new_agent.name}")
            case baton.RawResponsesStreamEvent(data=baton.ResponseTextDeltaEvent(delta=text)):
                found.append(f"+{text}")
            case baton.RawResponsesStreamEvent():
                found.append("reset")
            case baton.RunItemStreamEvent(name=name, item=item):
                told = item.raw_item.get("output")
                found.append(f"{name}:{told}" if told else name)
    return found


async def test_events_come_in_the_order_that_users_know(server: ScriptedServer) -> None:
    """Outputs of a round come when all its calls are settled, in call order; input and rejected items never."""
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(log.agent(), log.item(user("Hi")))
        yield parts(delta("Let ", 0), delta("me.", 4))
        thought = item_pb2.Item(item_id="item_0", agent="Assistant", reasoning=item_pb2.Reasoning(summary=["hm"]))
        yield parts(log.item(thought), log.item(message("Let me.")), log.item(call("a", 1)), log.item(call("b", 2)))
        yield parts(log.item(output("late", 2)))
        yield parts(log.item(output("early", 1)))
        rejected = message("no", status=item_pb2.ITEM_STATUS_REJECTED)
        yield parts(log.item(rejected), log.item(message("Done.", 3)))
        yield result(answer(text="Done.", next_items_json='[{"role":"user","content":"Hi"}]'))

    server.runner.on_stream = stream

    streaming = Runner.run_streamed(AGENT, "Hi")
    assert not streaming.is_complete
    seen = await soon(names(streaming))

    assert seen == [
        "agent:Assistant",
        "+Let ",
        "+me.",
        "reasoning_item_created",
        "message_output_created",
        "tool_called",
        "tool_called",
        "tool_output:early",
        "tool_output:late",
        "+Done.",
        "message_output_created",
    ]
    assert (streaming.final_output, streaming.is_complete, streaming.current_turn) == ("Done.", True, 1)
    assert [item.type for item in streaming.new_items][-1] == "message_output_item"
    assert streaming.usage.total_tokens == 24 and streaming.last_response_id == "resp_2"
    assert streaming.to_input_list() == [{"role": "user", "content": "Hi"}]
    assert streaming.last_agent is AGENT


async def test_a_broken_stream_goes_on_where_it_was(server: ScriptedServer) -> None:
    """The same request above the last sequence; what the server repeats is told once, fragments included."""
    log = Log()
    calls = 0

    async def stream(request: runner_pb2.RunStreamedRequest) -> Stream:
        nonlocal calls
        calls += 1
        yield started(created=calls == 1)
        if calls == 1:
            yield parts(log.agent(), log.item(call("a")))
            yield parts(delta("Rain", 0), event_pb2.StreamPart(heartbeat=event_pb2.Heartbeat(last_sequence=2)))
            raise Failing(grpc.StatusCode.UNAVAILABLE)
        assert request.after_sequence == 2
        log.sequence = 1
        yield parts(log.item(call("a")))  # once more
        yield parts(resetting(event_pb2.RESET_REASON_ATTACHED, message("Rain today", 1)))
        yield parts(delta("today.", 5), log.item(output("x")), log.item(message("Rain today.")))
        yield result(answer())

    server.runner.on_stream = stream

    seen = await soon(names(Runner.run_streamed(AGENT, "Hi")))

    assert seen == [
        "agent:Assistant",
        "tool_called",
        "+Rain",
        "+ today",
        "+.",
        "tool_output:x",
        "message_output_created",
    ]
    first, second = server.runner.requests
    assert isinstance(second, runner_pb2.RunStreamedRequest)
    second.after_sequence = 0
    assert first == second


async def test_a_reply_that_is_made_again_voids_its_text(server: ScriptedServer) -> None:
    """Text that was told cannot be taken back: the reader hears that it is void, then the new one."""
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(delta("Wrong", 0))
        yield parts(delta("gap", 99), delta("old", 0, attempt=0))
        yield parts(resetting(event_pb2.RESET_REASON_RETRIED, attempt=2))
        yield parts(delta("late", 5, attempt=1), delta("Right", 0, attempt=2), log.item(message("Right")))
        yield result(answer())

    server.runner.on_stream = stream

    seen = await soon(names(Runner.run_streamed(AGENT, "Hi")))

    assert seen == ["+Wrong", "reset", "+Right", "message_output_created"]


async def test_text_that_was_written_while_the_reader_was_away_is_told_with_its_item(server: ScriptedServer) -> None:
    """Who prints fragments alone prints the whole answer: the rest of it, or all of it after what is void."""
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(delta("Half of ", 0), log.item(message("Half of it.", 1)))
        yield parts(delta("Void", 0, item_id="item_2"), log.item(message("Anew.", 2)))
        yield parts(log.item(message("Unheard.", 3)))
        yield result(answer())

    server.runner.on_stream = stream

    seen = await soon(names(Runner.run_streamed(AGENT, "Hi")))

    told = "message_output_created"
    assert seen == ["+Half of ", "+it.", told, "+Void", "reset", "+Anew.", told, "+Unheard.", told]


async def test_an_error_comes_after_the_events(server: ScriptedServer) -> None:
    """What the run had made is seen, then the exception is raised, as often as the events are asked for."""
    log = Log()
    failed = answer()
    failed.turn.status = event_pb2.TURN_STATUS_FAILED
    failed.turn.error.CopyFrom(
        error_pb2.Error(reason=error_pb2.ERROR_REASON_MODEL_REFUSAL, metadata={"refusal": "I won't."})
    )

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(log.item(message("I won't.")))
        yield result(failed)

    server.runner.on_stream = stream
    streaming = Runner.run_streamed(AGENT, "Hi")

    events = streaming.stream_events()
    assert [(await soon(anext(events))).type for _ in range(2)] == ["raw_response_event", "run_item_stream_event"]
    with pytest.raises(baton.ModelRefusalError) as caught:
        await soon(anext(events))
    assert caught.value.refusal == "I won't."
    with pytest.raises(baton.ModelRefusalError):
        await soon(names(streaming))


async def test_a_refused_run_raises_its_reason(server: ScriptedServer) -> None:
    """An rpc that fails for good is not tried again."""

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        raise Failing(grpc.StatusCode.FAILED_PRECONDITION, "SESSION_BUSY", turn_id="turn_0")
        yield started()

    server.runner.on_stream = stream

    with pytest.raises(baton.SessionBusyError) as caught:
        await soon(names(Runner.run_streamed(AGENT, "Hi")))

    assert (caught.value.metadata, caught.value.retryable) == ({"turn_id": "turn_0"}, True)
    assert len(server.runner.requests) == 1


async def test_cancel_at_once_ends_the_events_and_the_turn(server: ScriptedServer) -> None:
    """No exception, no final output; the server is told which turn to cancel."""
    cancelled = asyncio.Event()
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(log.agent())
        await asyncio.Event().wait()

    server.runner.on_stream = stream
    server.sessions.answers = {"SubmitInput": lambda _request: cancelled.set() or session_pb2.SubmitInputResponse()}
    streaming = Runner.run_streamed(AGENT, "Hi")

    async for _event in streaming.stream_events():
        streaming.cancel()

    assert streaming.is_complete and streaming.final_output is None
    await soon(cancelled.wait())
    cancel = server.sessions.requests[0].inputs[0].cancel
    assert (cancel.turn_id, cancel.mode) == ("turn_1", event_pb2.CANCEL_MODE_NOW)


async def test_cancel_after_the_round_lets_it_finish(server: ScriptedServer) -> None:
    """The rest of the round is seen, then the events end without an exception."""
    asked = asyncio.Event()
    log = Log()
    ended = answer()
    ended.turn.status = event_pb2.TURN_STATUS_CANCELLED

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield started()
        yield parts(log.item(call("a")))
        await asked.wait()
        yield parts(log.item(output("x")))
        yield result(ended)

    server.runner.on_stream = stream
    server.sessions.answers = {"SubmitInput": lambda _request: asked.set() or session_pb2.SubmitInputResponse()}
    streaming = Runner.run_streamed(AGENT, "Hi")
    streaming.cancel("after_turn")

    assert await soon(names(streaming)) == ["tool_called", "tool_output:x"]
    assert streaming.final_output is None and streaming.is_complete
    assert server.sessions.requests[0].inputs[0].cancel.mode == event_pb2.CANCEL_MODE_AFTER_ROUND


async def test_a_turn_that_another_cancelled_is_an_error(server: ScriptedServer) -> None:
    """Who did not ask for it hears of it."""
    ended = answer()
    ended.turn.status = event_pb2.TURN_STATUS_CANCELLED

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield result(ended)

    server.runner.on_stream = stream

    with pytest.raises(baton.TurnCancelledError):
        await soon(names(Runner.run_streamed(AGENT, "Hi")))


async def test_a_run_goes_on_without_a_reader(server: ScriptedServer) -> None:
    """Its events are kept for whoever reads them later."""
    log = Log()

    async def stream(_request: runner_pb2.RunStreamedRequest) -> Stream:
        yield parts(log.item(message("Done.")))
        yield result(answer())

    server.runner.on_stream = stream
    streaming = Runner.run_streamed(AGENT, "Hi")

    while not streaming.is_complete:  # noqa: ASYNC110 - there is no event to wait for without reading
        await asyncio.sleep(0)

    assert streaming.final_output == "Done."
    assert await names(streaming) == ["+Done.", "message_output_created"]


def resetting(reason: Any, *items: item_pb2.Item, attempt: int = 1) -> event_pb2.StreamPart:
    """Make a reset of the first round."""
    made = event_pb2.Reset(turn_id="turn_1", round=1, model_attempt=attempt, reason=reason, items=items)
    return event_pb2.StreamPart(reset=made)
