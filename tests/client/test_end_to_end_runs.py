"""Runs and sessions against a real server: how they end, what they remember."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import Gate, calls, say

from baton import (
    Agent,
    Client,
    FunctionError,
    InvalidRequestError,
    MaxTurnsExceeded,
    ModelSettings,
    RawResponsesStreamEvent,
    RemoteFunction,
    ResponseTextDeltaEvent,
    RunConfig,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    SQLiteSession,
    TooLargeError,
    UnservedError,
    function_tool,
)
from baton.server.loop_thread import background_loop
from baton.v1 import event_pb2

__all__ = ["serve"]

WEATHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED = {"role": "user", "content": "Hi"}


def helper(*tools: Any) -> Agent[None]:
    """Make an agent."""
    return Agent(name="Assistant", instructions="Be brief.", tools=list(tools))


@function_tool
async def get_weather(city: str) -> str:
    """Get the weather."""
    return f"rain in {city}"


async def test_run_sync_runs_in_a_thread_of_its_own_again_and_again(serve: Serve) -> None:
    """The caller needs no event loop, and its functions run; the connection is kept between calls."""
    kyoto = calls(("get_weather", '{"city":"Kyoto"}'))
    threads: set[str] = set()

    @function_tool
    async def whose() -> str:
        threads.add(threading.current_thread().name)
        return "mine"

    def twice() -> list[Any]:
        return [Runner.run_sync(helper(get_weather, whose), "Hi").final_output for _ in range(2)]

    async with serve(kyoto, calls(("whose", "{}")), say("Rain."), say("Still rain.")) as served:
        try:
            answers = await asyncio.to_thread(twice)
        finally:
            background_loop.close()

        assert answers == ["Rain.", "Still rain."]
        assert served.outputs(1) == ["rain in Kyoto"]
        assert threads == {"baton"}


async def test_a_streamed_run_tells_text_and_items_as_they_come(serve: Serve) -> None:
    """Text comes in pieces before its message is whole; the run goes on only when the model does."""
    gate = Gate()
    async with serve(calls(("get_weather", '{"city":"Kyoto"}')), say("It ", gate, "rains.")):
        result = Runner.run_streamed(helper(get_weather), "Hi")
        told: list[str] = []
        async for event in result.stream_events():
            match event:
                case RawResponsesStreamEvent(data=ResponseTextDeltaEvent(delta=delta)):
                    told.append(delta)
                    gate.open()
                case RunItemStreamEvent(name=name):
                    told.append(name)
                case _:
                    told.append(event.type)

        assert told == [
            *("agent_updated_stream_event", "tool_called", "tool_output"),
            *("It ", "rains.", "message_output_created"),
        ]
        assert (result.final_output, result.is_complete, result.usage.requests) == ("It rains.", True, 2)


async def test_the_limit_of_turns_ends_a_run_with_what_it_had_made(serve: Serve) -> None:
    """The exception is the one that users know, and carries the items and the usage so far."""
    kyoto = calls(("get_weather", '{"city":"Kyoto"}'))
    async with serve(kyoto, kyoto) as served:
        with pytest.raises(MaxTurnsExceeded, match="2") as caught:
            await Runner.run(helper(get_weather), "Hi", max_turns=2)

        data = caught.value.run_data
        assert data is not None
        assert [item.type for item in data.new_items] == ["tool_call_item", "tool_call_output_item"] * 2
        assert (data.usage.requests, len(served.model.requests)) == (2, 2)


async def test_the_input_list_of_a_run_goes_on_in_the_next(serve: Serve) -> None:
    """A run without a session leaves nothing but what its caller carries on, calls and outputs included."""
    async with serve(calls(("get_weather", '{"city":"Kyoto"}')), say("Rain."), say("Yes."), say("Who?")) as served:
        first = await Runner.run(helper(get_weather), "Hi")
        going_on = [*first.to_input_list(), {"role": "user", "content": "Sure?"}]
        second = await Runner.run(helper(get_weather), going_on)
        await Runner.run(helper(get_weather), "Hi")

        kinds = [item.get("type", item.get("role")) for item in served.model.input_of(2)]
        assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
        assert served.outputs(2) == ["rain in Kyoto"]
        assert second.to_input_list()[-2]["content"] == "Sure?"
        assert served.model.input_of(3) == [ASKED]


async def test_a_session_remembers_and_can_be_changed(serve: Serve) -> None:
    """Items are added, listed, popped and cleared; the next run sees what is there then."""
    async with serve(say("Hello."), say("Twice."), say("Anew.")) as served:
        session = SQLiteSession("user-7")
        assert await session.get_items() == []
        await session.add_items([{"role": "user", "content": "Earlier"}])
        await Runner.run(helper(), "Hi", session=session)

        items = await session.get_items()
        assert [(item["role"], item["content"]) for item in items[:2]] == [("user", "Earlier"), ("user", "Hi")]
        assert items[2]["content"][0]["text"] == "Hello."
        assert await session.get_items(limit=1) == items[-1:]

        assert await session.pop_item() == items[2]
        await Runner.run(helper(), "Again", session=SQLiteSession("user-7"))
        assert [item["content"] for item in served.model.input_of(1)] == ["Earlier", "Hi", "Again"]

        await session.clear_session()
        assert (await session.get_items(), await session.pop_item()) == ([], None)
        await Runner.run(helper(), "Hi", session=session)
        assert served.model.input_of(2) == [ASKED]


async def test_popping_a_call_takes_its_output_along(serve: Serve) -> None:
    """Neither is left alone, which a model would refuse."""
    async with serve(calls(("get_weather", '{"city":"Kyoto"}')), say("Rain.")):
        session = SQLiteSession("user-7")
        await Runner.run(helper(get_weather), "Hi", session=session)

        await session.pop_item()
        assert await session.pop_item() is not None

        assert await session.get_items() == [ASKED]


async def test_cancel_at_once_ends_the_events_and_the_turn(serve: Serve) -> None:
    """In the middle of a reply: the events end without an exception, and the model's stream is left."""
    gate = Gate()
    async with serve(say("It ", gate, "rains.")) as served:
        result = Runner.run_streamed(helper(), "Hi")
        async for event in result.stream_events():
            if isinstance(event, RawResponsesStreamEvent):
                result.cancel()

        assert (result.is_complete, result.final_output) == (True, None)
        await _until_cancelled(result)
        assert served.model.closed == 1


async def test_cancel_at_once_stops_a_function_that_runs(serve: Serve) -> None:
    """A coroutine is cancelled where it waits."""
    stopped = asyncio.Event()

    @function_tool
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async with serve(calls(("wait", "{}"))):
        result = Runner.run_streamed(helper(wait), "Hi")
        async for event in result.stream_events():
            if isinstance(event, RunItemStreamEvent):
                result.cancel()

        await asyncio.wait_for(stopped.wait(), 10)
        await _until_cancelled(result)


async def test_cancel_after_the_turn_lets_the_round_finish(serve: Serve) -> None:
    """The functions of the round run and their outputs are told; the model is not asked again."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        begun.set()
        await go_on.wait()
        return "waited"

    async with serve(calls(("wait", "{}"))) as served:
        result = Runner.run_streamed(helper(wait), "Hi")
        told: list[str] = []
        async for event in result.stream_events():
            if isinstance(event, RunItemStreamEvent):
                told.append(event.name)
            if told == ["tool_called"]:
                await begun.wait()
                result.cancel(mode="after_turn")
                await _cancel_is_asked(result)
                go_on.set()

        assert told == ["tool_called", "tool_output"]
        assert (result.final_output, len(served.model.requests)) == (None, 1)
        assert result.to_input_list()[-1]["output"] == "waited"


async def test_a_caller_that_is_cancelled_cancels_its_turn(serve: Serve) -> None:
    """Nobody is left to read the answer, so it is not made."""
    gate = Gate()
    async with serve(say("It ", gate, "rains.")) as served:
        run = asyncio.create_task(Runner.run(helper(), "Hi", session=SQLiteSession("s")))
        await gate.reached()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

        client = Client()
        session = await client.get_session(key="s")
        async for part in client.watch(session.session_id):
            if part.event.HasField("turn_cancelled"):
                break
        assert served.model.closed == 1


@pytest.mark.slow
async def test_a_run_that_nobody_serves_says_so_and_goes_on_when_it_is_settled(serve: Serve) -> None:
    """The turn rests, named with all that somebody needs to give the result by hand."""
    async with serve(calls(("get_weather", '{"city":"Kyoto"}')), say("Rain."), registration_grace_s=0.01) as served:
        agent = helper(RemoteFunction("get_weather", params_json_schema=WEATHER))
        with pytest.raises(UnservedError, match="get_weather") as caught:
            await Runner.run(agent, "Hi")

        (action,) = caught.value.required_actions
        assert (action.name, action.arguments_json) == ("get_weather", '{"city":"Kyoto"}')
        client = Client()
        with pytest.raises(TooLargeError, match="the call stays open"):
            await client.settle(action, "a" * 4_194_305)
        with pytest.raises(ValueError, match="comes out of an event"):
            await client.settle(event_pb2.RequiredAction(call_id=action.call_id), "rain")
        await client.settle(action, FunctionError("no thermometer"))
        kinds = [part.event.WhichOneof("event") async for part in client.watch(action.session_id)]
        assert "turn_completed" in kinds
        assert served.outputs() == ["no thermometer"]


async def test_a_wrong_request_names_every_wrong_field(serve: Serve) -> None:
    """All at once, as the program calls it, with the reason, and nothing is begun."""
    async with serve() as served:
        settings = ModelSettings(extra_headers={"Authorization": "Bearer x"})
        agent = Agent[None](name="A", model_settings=settings, tools=[RemoteFunction("no such")])
        with pytest.raises(InvalidRequestError) as caught:
            await Runner.run(agent, "Hi", max_turns=-1, run_config=RunConfig(scopes=[""]))

        fields = {violation.field for violation in caught.value.violations}
        assert {"Agent 'A': tools[0].name", "run_config.scopes[0]", "max_turns"} <= fields
        assert any(field.startswith("Agent 'A': model_settings.extra_headers") for field in fields)
        assert all(violation.description for violation in caught.value.violations)
        assert served.model.requests == []


async def _until_cancelled(result: RunResultStreaming) -> None:
    """Wait until the server says that the turn was cancelled."""
    async for part in Client().watch(result.session_id):
        if part.event.HasField("turn_cancelled"):
            return
    raise AssertionError("the turn was not cancelled")


async def _cancel_is_asked(result: RunResultStreaming) -> None:
    """Wait until the server has taken the request to cancel."""
    async for part in Client().watch(result.session_id):
        if part.event.HasField("cancel_requested"):
            return
    raise AssertionError("nobody asked for a cancel")
