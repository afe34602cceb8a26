"""What running agents promises beside its samples: limits, filters, handlers, resumption; waited for or streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, default, serve
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import Reply, calls, say
from tests.support.server import server

import baton
from baton import (
    Agent,
    CallModelData,
    MaxTurnsExceeded,
    ModelInputData,
    ModelSettings,
    RunConfig,
    RunErrorHandlerResult,
    Runner,
    RunResult,
    RunResultStreaming,
    SQLiteSession,
    UserError,
    function_tool,
)

__all__ = ["model_server", "serve"]

KYOTO = ("weather", '{"city":"Kyoto"}')
EMPTY = Reply()


class Route(BaseModel):
    """An output type."""

    stops: list[str]


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


@function_tool(needs_approval=True)
def launch(balloon: str) -> str:
    """Let a balloon go."""
    return f"{balloon} is up"


def agent(**fields: Any) -> Agent[Any]:
    """Make an agent with functions."""
    return Agent(**{"name": "A", "tools": [weather, launch], **fields})


async def run(way: str, *given: Any, **options: Any) -> RunResult | RunResultStreaming:
    """Run an agent, waited for or streamed to its end."""
    if way == "run":
        return await Runner.run(*given, **options)
    streamed = Runner.run_streamed(*given, **options)
    async for _ in streamed.stream_events():
        pass
    return streamed


WAYS = pytest.mark.parametrize("way", ["run", "run_streamed"])


# --- limits and errors ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_without_a_limit_a_run_takes_as_many_rounds_as_it_needs(serve: Serve) -> None:
    """Ten is the default, None is none."""
    async with serve(*[calls(KYOTO)] * 12, say("Wet."), *[calls(KYOTO)] * 10):
        result = await Runner.run(agent(), "Hi", max_turns=None)
        with pytest.raises(MaxTurnsExceeded, match="10"):
            await Runner.run(agent(), "Hi")

        assert (result.final_output, result.usage.requests) == ("Wet.", 13)


@WAYS
async def test_every_way_of_running_takes_error_handlers(serve: Serve, way: str) -> None:
    """A result, a bare output, or a dictionary, from a function or a coroutine."""

    async def later(data: Any) -> dict[str, Any]:
        return {"final_output": "gave up", "include_in_history": False}

    handlers: list[Any] = [lambda data: RunErrorHandlerResult("gave up"), lambda data: "gave up", later]
    async with serve(*[calls(KYOTO)] * 3):
        results = [await run(way, agent(), "Hi", max_turns=1, error_handlers={"max_turns": one}) for one in handlers]

        assert [result.final_output for result in results] == ["gave up"] * 3


@WAYS
async def test_an_output_in_place_of_an_error_is_checked_against_the_type(serve: Serve, way: str) -> None:
    """One that does not fit is the program's fault, and says so."""
    async with serve(say("no json")):
        with pytest.raises(UserError):
            await run(
                way,
                agent(output_type=Route),
                "Hi",
                error_handlers={"invalid_final_output": lambda data: RunErrorHandlerResult({"stops": 7})},
            )


async def test_an_empty_reply_costs_a_round_where_a_type_is_wanted(serve: Serve) -> None:
    """The model is asked again with the same input; a text that is empty is an output."""
    async with serve(EMPTY, say('{"stops":["home"]}'), EMPTY) as served:
        typed = await Runner.run(agent(output_type=Route), "Hi")
        plain = await Runner.run(agent(), "Hi")

        assert (typed.final_output, plain.final_output) == (Route(stops=["home"]), "")
        assert served.model.input_of(0) == served.model.input_of(1)


async def test_errors_of_runs_have_one_base_and_tell_what_was_made(serve: Serve) -> None:
    """Input, items, replies, the agent that was last."""
    async with serve(calls(KYOTO)):
        with pytest.raises(baton.AgentsException) as caught:
            await Runner.run(agent(), "Hi", max_turns=1)

        data = caught.value.run_data
        assert isinstance(caught.value, MaxTurnsExceeded) and data is not None
        assert (data.input, data.last_agent.name) == ("Hi", "A")
        assert [item.type for item in data.new_items] == ["tool_call_item", "tool_call_output_item"]
        assert len(data.raw_responses) == 1


# --- what the model is sent -----------------------------------------------------------------------------------


async def test_a_filter_has_a_copy_of_the_input(serve: Serve) -> None:
    """What it does to it in place, and does not return, is of no effect; the caller's list stays as it is."""
    given: list[Any] = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]

    def spoil(data: CallModelData[Any]) -> ModelInputData:
        kept = [dict(item) for item in data.model_data.input]
        data.model_data.input.clear()
        return ModelInputData(input=kept, instructions=f"{data.model_data.instructions} For {data.context}.")

    async with serve(say("Hello.")) as served:
        result = await Runner.run(
            agent(instructions="Be brief."), given, context="Ann", run_config=RunConfig(call_model_input_filter=spoil)
        )

        assert served.model.input_of(0) == given == [{"role": "user", "content": text} for text in ("One", "Two")]
        assert served.model.requests[0].instructions == "Be brief. For Ann."
        assert len(result.to_input_list()) == 3


@pytest.mark.parametrize("answer", ["text", None, ModelInputData(input="text")], ids=str)  # type: ignore[arg-type]
async def test_a_filter_that_gives_something_else_fails_the_run(serve: Serve, answer: Any) -> None:
    """The program is told what it must return; the model is not asked."""
    async with serve(say("Hello.")) as served:
        with pytest.raises(UserError):
            await Runner.run(agent(), "Hi", run_config=RunConfig(call_model_input_filter=lambda data: answer))

        assert served.model.requests == []


async def test_options_of_a_run_win_over_those_of_its_agents(serve: Serve) -> None:
    """The model by its name, settings field by field, for every agent of the run."""
    config = RunConfig(model="the-run's", model_settings=ModelSettings(temperature=0.5))
    billing = Agent[Any](name="Billing", model="its own", model_settings=ModelSettings(temperature=1.0, top_p=0.1))
    async with serve(calls(("transfer_to_billing", "{}")), say("Paid.")) as served:
        await Runner.run(agent(model="the agent's", handoffs=[billing]), "Hi", run_config=config)

        assert [request.model for request in served.model.requests] == ["the-run's"] * 2
        settings = [request.settings for request in served.model.requests]
        assert [(one.temperature, one.top_p) for one in settings] == [(0.5, None), (0.5, 0.1)]


async def test_a_runs_options_may_be_a_dictionary(serve: Serve) -> None:
    """With the names of the fields; others are refused before anything begins."""
    async with serve(say("Hello.")) as served:
        result = await Runner.run(agent(), "Hi", run_config={"model": "m", "tool_execution": {}})
        with pytest.raises(TypeError, match="modle"):
            await Runner.run(agent(), "Hi", run_config={"modle": "m"})

        assert (result.final_output, len(served.model.requests)) == ("Hello.", 1)


# --- going on -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def provided(folder: Path, model: ModelServer) -> AsyncIterator[None]:
    """Run a server that asks the model's API over HTTP; it is the client's default."""
    settings = {"openai_base_url": model.base_url, "openai_api_key": "test"}
    async with server(folder, **settings) as served, default(served.address):
        yield


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("conversation", {"conversation_id": "conv_7"}),
        ("chain", {"auto_previous_response_id": True}),
    ],
)
async def test_a_run_that_paused_goes_on_in_the_same_memory(
    tmp_path: Path, model_server: ModelServer, name: str, memory: Any
) -> None:
    """The state keeps where the model keeps the history; what is sent after the pause is the output alone."""
    script = f"promise_{name}"
    asks = {"calls": [{"name": "launch", "arguments": {"balloon": "B"}, "call_id": "c1"}]}
    asked = agent(model=model_server.load(script, asks, {"text": "Up it is."}))
    async with provided(tmp_path, model_server):
        paused = await Runner.run(asked, "Hi", **memory)
        state = await baton.RunState.from_string(asked, paused.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(asked, state)

        first, second = (request.body for request in model_server.requests(script))
        assert result.final_output == "Up it is."
        assert [(item["type"], item["output"]) for item in second["input"]] == [("function_call_output", "B is up")]
        if name == "conversation":
            assert first["conversation"] == second["conversation"] == "conv_7"
        else:
            assert "previous_response_id" not in first
            assert second["previous_response_id"] == paused.last_response_id


async def test_a_filter_of_a_conversation_sees_what_is_new(tmp_path: Path, model_server: ModelServer) -> None:
    """Not the history, which the model keeps; what it gives is what is sent."""
    asks = {"calls": [{"name": "weather", "arguments": {"city": "Kyoto"}, "call_id": "c1"}]}
    asked = agent(model=model_server.load("promise_filter", asks, {"text": "Wet."}))
    seen: list[int] = []

    def note(data: CallModelData[Any]) -> ModelInputData:
        seen.append(len(data.model_data.input))
        return ModelInputData(input=[*data.model_data.input, {"role": "user", "content": "Briefly."}])

    async with provided(tmp_path, model_server):
        config = RunConfig(call_model_input_filter=note)
        await Runner.run(asked, "Hi", conversation_id="conv_7", run_config=config)

        bodies = [request.body for request in model_server.requests("promise_filter")]
        assert seen == [1, 1]
        assert [len(body["input"]) for body in bodies] == [2, 2]


@WAYS
async def test_two_sessions_do_not_know_one_another(serve: Serve, way: str) -> None:
    """And two objects of one name are the same session."""
    async with serve(say("Hello Ann."), say("Hello Bob."), say("Ann.")) as served:
        await run(way, agent(), "I am Ann.", session=SQLiteSession("ann"))
        await run(way, agent(), "I am Bob.", session=SQLiteSession("bob"))
        await run(way, agent(), "Who am I?", session=SQLiteSession("ann"))

        users = [item["content"] for item in served.model.input_of(2) if item.get("role") == "user"]
        assert users == ["I am Ann.", "Who am I?"]
        assert len(served.model.input_of(1)) == 1


async def test_run_sync_needs_a_thread_without_a_loop() -> None:
    """Within one it says what to do instead."""
    with pytest.raises(RuntimeError, match="await"):
        Runner.run_sync(agent(), "Hi")
