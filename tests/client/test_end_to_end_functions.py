"""Functions of this process, called by a turn of a real server."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field

from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

from baton import (
    Agent,
    FunctionError,
    RunContext,
    Runner,
    ToolCallOutputItem,
    ToolOutputImage,
    ToolOutputText,
    function_tool,
)

__all__ = ["serve"]

BIG = "0123456789abcdef" * (3 * 1024 * 1024 // 16)
"""3 MiB: above what one message carries, below what a result may have."""

TOO_BIG_BYTES = 4_194_304 + 1


async def test_two_functions_of_one_reply_run_at_once_and_come_back_in_call_order(serve: Serve) -> None:
    """Each waits for the other to have begun, so one after the other would never end."""
    weather_begun, time_begun = asyncio.Event(), asyncio.Event()

    @function_tool
    async def get_weather(city: str) -> str:
        weather_begun.set()
        await time_begun.wait()
        return f"rain in {city}"

    @function_tool
    async def get_time(city: str) -> str:
        time_begun.set()
        await weather_begun.wait()
        return f"noon in {city}"

    asked = calls(("get_weather", '{"city":"Kyoto"}'), ("get_time", '{"city":"Oslo"}'))
    async with serve(asked, say("Rain, and noon.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[get_weather, get_time])
        result = await Runner.run(agent, "Well?")

        assert result.final_output == "Rain, and noon."
        assert served.outputs() == ["rain in Kyoto", "noon in Oslo"]
        assert [item.type for item in result.new_items] == [
            *("tool_call_item", "tool_call_item"),
            *("tool_call_output_item", "tool_call_output_item"),
            "message_output_item",
        ]
        given = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert given == ["rain in Kyoto", "noon in Oslo"]


async def test_functions_that_are_no_coroutines_run_beside_each_other_in_threads(serve: Serve) -> None:
    """Two that block until both are there come to an end, and the event loop goes on meanwhile."""
    together = threading.Barrier(2)

    @function_tool
    def meet(name: str) -> int:
        together.wait(timeout=20)
        return len(name)

    async with serve(calls(("meet", '{"name":"Ann"}'), ("meet", '{"name":"Bo"}')), say("Met.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[meet])
        result = await Runner.run(agent, "Meet!")

        assert (result.final_output, served.outputs()) == ("Met.", ["3", "2"])


@dataclass(slots=True)
class Basket:
    """An application's object, of which no server can know."""

    things: list[str] = field(default_factory=list)


async def test_a_function_gets_the_context_of_its_run(serve: Serve) -> None:
    """The very object that the run was given, and the ids of the call; the model sees nothing of it."""
    seen: list[RunContext[Basket]] = []

    @function_tool
    def put(context: RunContext[Basket], thing: str) -> str:
        """Put a thing into the basket.

        Args:
            thing: What to put.
        """
        seen.append(context)
        context.context.things.append(thing)
        return "done"

    async with serve(calls(("put", '{"thing":"pear"}')), say("It is in.")) as served:
        basket = Basket()
        agent: Agent[Basket] = Agent(name="Assistant", tools=[put])
        result = await Runner.run(agent, "A pear, please.", context=basket)

        assert basket.things == ["pear"]
        assert result.context_wrapper.context is basket
        (context,) = seen
        assert (context.context, context.tool_name, context.attempt) == (basket, "put", 1)
        assert (context.session_id, context.turn_id) == (result.session_id, result.turn_id)
        assert (context.agent_name, context.tool_arguments) == ("Assistant", '{"thing":"pear"}')
        (tool,) = served.model.requests[0].tools
        assert json.loads(tool.parameters_json)["properties"] == {
            "thing": {"description": "What to put.", "title": "Thing", "type": "string"}
        }


async def test_a_failure_in_the_functions_own_words_reaches_the_model(serve: Serve) -> None:
    """FunctionError is said for the model; the run goes on."""

    @function_tool
    def get_weather(city: str) -> str:
        raise FunctionError(f"There is no city named {city}; ask for another one.")

    async with serve(calls(("get_weather", '{"city":"Oz"}')), say("Sorry.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[get_weather])
        result = await Runner.run(agent, "Weather in Oz?")

        assert result.final_output == "Sorry."
        assert served.outputs() == ["There is no city named Oz; ask for another one."]


async def test_a_crash_is_told_to_the_model_without_its_text(serve: Serve) -> None:
    """What an unexpected exception says may be secret: the model learns that the function failed, no more."""

    @function_tool
    def get_weather(city: str) -> str:
        raise RuntimeError(f"password of the database of {city}")

    async with serve(calls(("get_weather", '{"city":"Oz"}')), say("Sorry.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[get_weather])
        result = await Runner.run(agent, "Weather in Oz?")

        (told,) = served.outputs()
        assert result.final_output == "Sorry."
        assert told
        assert "password" not in json.dumps(result.to_input_list()) + told
        assert "Traceback" not in told


async def test_arguments_that_break_the_types_go_back_to_the_model(serve: Serve) -> None:
    """A value that the schema allows and the function's type does not is told with its path."""
    entered: list[object] = []

    @function_tool(strict_mode=False)
    def book(day: int) -> str:
        entered.append(day)
        return "booked"

    asked = (calls(("book", '{"day":"soon"}')), calls(("book", '{"day":5}')), say("Booked."))
    async with serve(*asked) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[book])
        result = await Runner.run(agent, "Book it.")

        told, booked = served.outputs()
        assert (result.final_output, booked, entered) == ("Booked.", "booked", [5])
        assert "day" in told


async def test_a_large_result_arrives_whole(serve: Serve) -> None:
    """3 MiB travel to the server in slices, to the model whole, and back to this process whole."""

    @function_tool
    async def dump() -> str:
        return BIG

    async with serve(calls(("dump", "{}")), say("Much.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[dump])
        result = await Runner.run(agent, "Everything!")

        assert result.final_output == "Much."
        assert served.outputs() == [BIG]
        (output,) = [item for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        assert output.output == BIG
        assert result.to_input_list()[2]["output"] == BIG


async def test_a_result_that_is_too_large_is_told_to_the_model_in_its_place(serve: Serve) -> None:
    """The turn goes on: the model learns the size and the limit."""

    @function_tool
    async def dump() -> str:
        return "x" * TOO_BIG_BYTES

    async with serve(calls(("dump", "{}")), say("Too much.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[dump])
        result = await Runner.run(agent, "Everything!")

        (told,) = served.outputs()
        assert result.final_output == "Too much."
        assert "too large" in told
        assert str(TOO_BIG_BYTES) in told


async def test_content_parts_reach_the_model_as_such(serve: Serve) -> None:
    """A text and a picture stay a text and a picture."""

    @function_tool
    async def look() -> list[ToolOutputText | ToolOutputImage]:
        return [ToolOutputText(text="This:"), ToolOutputImage(image_url="https://example.com/a.png", detail="low")]

    async with serve(calls(("look", "{}")), say("Nice.")) as served:
        agent: Agent[None] = Agent(name="Assistant", tools=[look])
        await Runner.run(agent, "Look!")

        assert served.outputs() == [
            [
                {"type": "input_text", "text": "This:"},
                {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
            ]
        ]


async def test_runs_at_once_with_functions_of_one_name_keep_to_their_own(serve: Serve) -> None:
    """Two requests of a web server, each with a function made for it: neither gets the other's call."""
    both = asyncio.Barrier(2)

    async def answer(who: str) -> tuple[str, list[str]]:
        @function_tool
        async def whoami() -> str:
            await both.wait()
            return who

        agent: Agent[None] = Agent(name=who, instructions=who, tools=[whoami])
        result = await Runner.run(agent, "Who am I?")
        given = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
        return result.last_agent.name, given

    asked = calls(("whoami", "{}"))
    async with serve(asked, asked, say("Known."), say("Known.")):
        found = list(await asyncio.gather(answer("Ann"), answer("Bo")))

        assert found == [("Ann", ["Ann"]), ("Bo", ["Bo"])]
