"""Final outputs of a type at a real server: what the model is told, what a caller gets, what does not fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import Reply, calls, message, say

import baton
from baton import (
    Agent,
    AgentOutputSchema,
    ModelBehaviorError,
    ModelRefusalError,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    Runner,
    SQLiteSession,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
)

__all__ = ["serve"]

KYOTO = ("weather", '{"city":"Kyoto"}')


class Stop(BaseModel):
    """A part of an output type."""

    name: str
    minutes: int


class Route(BaseModel):
    """An output type."""

    stops: list[Stop]


@dataclass
class Point:
    """An output type that is no pydantic model."""

    x: int
    y: int


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def refusal(words: str) -> Reply:
    """Answer with a refusal."""
    return Reply(items=({**message(""), "content": [{"type": "refusal", "refusal": words}]},))


@pytest.mark.parametrize(
    ("output_type", "said", "value"),
    [
        (Route, '{"stops":[{"name":"lake","minutes":9}]}', Route(stops=[Stop(name="lake", minutes=9)])),
        (Point, '{"x":1,"y":2}', Point(1, 2)),
        (list[str], '{"response":["a","b"]}', ["a", "b"]),
        (dict[str, Any], '{"a":1}', {"a": 1}),
        (int, '{"response":7}', 7),
        (str, '{"no":"json is read"}', '{"no":"json is read"}'),
    ],
    ids=["model", "dataclass", "list", "dict", "int", "text"],
)
async def test_a_final_output_is_a_value_of_its_type(serve: Serve, output_type: Any, said: str, value: Any) -> None:
    """Waited for or streamed; what is no object is wrapped for the model alone."""
    given = AgentOutputSchema(output_type, strict_json_schema=False) if output_type == dict[str, Any] else output_type
    async with serve(say(said), say(said)) as served:
        agent: Agent[None] = Agent(name="A", output_type=given)
        waited = await Runner.run(agent, "Hi")
        streamed = Runner.run_streamed(agent, "Hi")
        async for _ in streamed.stream_events():
            pass

        assert waited.final_output == streamed.final_output == value
        assert (served.model.requests[0].output_schema is None) == (output_type is str)


async def test_an_output_of_another_shape_is_the_models_fault(serve: Serve) -> None:
    """The exception carries what the run had made; `final_output_as` is a promise that may be checked."""
    async with serve(say('{"stops":[{"name":"lake"}]}'), say("Hello.")):
        with pytest.raises(ModelBehaviorError) as caught:
            await Runner.run(Agent[None](name="A", output_type=Route), "Hi")
        plain = await Runner.run(Agent[None](name="A"), "Hi")

        assert caught.value.run_data is not None and caught.value.run_data.usage.requests == 1
        assert plain.final_output_as(str) == "Hello."
        with pytest.raises(TypeError, match="Route"):
            plain.final_output_as(Route, raise_if_incorrect_type=True)


async def test_the_last_of_several_messages_is_the_output(serve: Serve) -> None:
    """All of them are items of the run."""
    async with serve(Reply(items=(message("Let me see."), message("Here.")))):
        result = await Runner.run(Agent[None](name="A"), "Hi")

        assert result.final_output == "Here."
        assert [item.type for item in result.new_items] == ["message_output_item"] * 2


@pytest.mark.parametrize("kept", [True, False])
async def test_a_handlers_output_is_in_the_history_where_it_says_so(serve: Serve, kept: bool) -> None:
    """The session's next turn sees it as the assistant's own words, or not at all."""

    def give_up(data: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
        assert isinstance(data.error, baton.MaxTurnsExceeded)
        return RunErrorHandlerResult("Too long.", include_in_history=kept)

    async with serve(calls(KYOTO), say("Hello.")) as served:
        session = SQLiteSession("s")
        agent: Agent[None] = Agent(name="A", tools=[weather])
        first = await Runner.run(agent, "Hi", session=session, max_turns=1, error_handlers={"max_turns": give_up})
        await Runner.run(agent, "Well?", session=session)

        assert first.final_output == "Too long."
        assert ("Too long." in json.dumps(served.model.input_of(1))) == kept


async def test_a_handler_that_gives_nothing_leaves_the_error(serve: Serve) -> None:
    """It was asked, and has declined; handlers for other errors are not asked."""
    asked: list[str] = []

    def decline(data: RunErrorHandlerInput[Any]) -> None:
        asked.append(type(data.error).__name__)

    async with serve(say("no json")):
        agent: Agent[None] = Agent(name="A", output_type=Route)
        handlers = {"invalid_final_output": decline, "max_turns": decline, "model_refusal": decline}
        with pytest.raises(ModelBehaviorError):
            await Runner.run(agent, "Hi", error_handlers=handlers)

        assert asked == ["ModelBehaviorError"]


async def test_a_refusal_is_an_error_that_names_its_words(serve: Serve) -> None:
    """Or what a handler gives for it: a value of the output type."""
    async with serve(refusal("I would rather not."), refusal("Nor this.")):
        agent: Agent[None] = Agent(name="A", output_type=Route)
        with pytest.raises(ModelRefusalError) as caught:
            await Runner.run(agent, "Hi")
        mended = await Runner.run(agent, "Hi", error_handlers={"model_refusal": lambda data: Route(stops=[])})

        assert caught.value.refusal == "I would rather not."
        assert mended.final_output == Route(stops=[])


@pytest.mark.parametrize(
    ("behavior", "output"),
    [
        ("stop_on_first_tool", "rain in Kyoto"),
        (StopAtTools(stop_at_tool_names=["weather"]), "rain in Kyoto"),
        ({"stop_at_tool_names": ["other"]}, "Take a coat."),
        (lambda ctx, results: ToolsToFinalOutputResult(True, [one.output for one in results]), ["rain in Kyoto"]),
        (lambda ctx, results: ToolsToFinalOutputResult(False), "Take a coat."),
    ],
    ids=["first", "named", "another", "function", "function-goes-on"],
)
async def test_outputs_of_functions_may_be_final(serve: Serve, behavior: Any, output: Any) -> None:
    """By a word, by name, or as a function says; else the model is asked again."""
    async with serve(calls(KYOTO), say("Take a coat.")) as served:
        agent: Agent[None] = Agent(name="A", tools=[weather], tool_use_behavior=behavior)

        result = await Runner.run(agent, "Hi")

        assert result.final_output == (str(output) if isinstance(output, list) else output)
        assert len(served.model.requests) == (2 if output == "Take a coat." else 1)
