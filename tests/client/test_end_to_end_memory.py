"""What runs remember, at a real server: sessions of the server's and of the program's, the model's own, and lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import Serve, default, serve
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import Reply, calls, message, say
from tests.support.server import server
from tests.support.stepped_clock import SteppedClock

import baton
from baton import Agent, ModelSettings, RunConfig, Runner, SessionSettings, SQLiteSession, function_tool

__all__ = ["model_server", "serve"]

LOCKED = {"error": {"status": 400, "code": "conversation_locked", "message": "Another process works on it."}}
REASONS = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def agent(**fields: Any) -> Agent[Any]:
    """Make an agent with a function."""
    return Agent(name="A", tools=[weather], **fields)


@asynccontextmanager
async def provided(folder: Path, model: ModelServer, clock: SteppedClock | None = None) -> AsyncIterator[None]:
    """Run a server that asks the model's API over HTTP; it is the client's default."""
    settings = {"openai_base_url": model.base_url, "openai_api_key": "test"}
    async with server(folder, clock=clock, **settings) as served, default(served.address):
        yield


class Notebook:
    """A session of the program's own."""

    def __init__(self, *items: Any) -> None:
        self.items: list[Any] = list(items)
        self.read: list[int | None] = []
        self.added = 0

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Give the newest items."""
        self.read.append(limit)
        return self.items[-limit:] if limit else list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        """Keep some."""
        self.added += 1
        self.items += items


# --- sessions of the program's own ----------------------------------------------------------------------------


async def test_a_session_object_is_read_before_and_told_after_a_run(serve: Serve) -> None:
    """Two runs with it are one conversation, calls and outputs included; a limit reaches it."""
    notes = Notebook(message("Before."))
    kyoto = calls(("weather", '{"city":"Kyoto"}'))
    async with serve(kyoto, say("Wet."), say("Yes.")) as served:
        await Runner.run(agent(), "Hi", session=notes)
        settings = RunConfig(session_settings=SessionSettings(limit=2))
        await Runner.run(agent(), "Sure?", session=notes, run_config=settings)

        kinds = [item.get("type", item.get("role")) for item in notes.items]
        assert kinds == ["message", "user", "function_call", "function_call_output", "message", "user", "message"]
        assert notes.read == [None, 2]
        assert [item.get("role") for item in served.model.input_of(2)][-2:] == ["assistant", "user"]


@pytest.mark.parametrize("method", ["get_items", "add_items"])
async def test_a_session_object_that_raises_fails_the_run_with_its_exception(serve: Serve, method: str) -> None:
    """Nothing is kept for which the program could not answer, and the program sees what it raised."""

    class Broken(Notebook):
        async def get_items(self, limit: int | None = None) -> list[Any]:
            if method == "get_items":
                raise ConnectionError("no notebook")
            return await super().get_items(limit)

        async def add_items(self, items: list[Any]) -> None:
            raise ConnectionError("no notebook")

    async with serve(say("Hello.")):
        with pytest.raises(ConnectionError, match="no notebook"):
            await Runner.run(agent(), "Hi", session=Broken())


async def test_what_a_run_begins_with_is_made_of_the_session_by_the_program(serve: Serve) -> None:
    """The callback gets history and new input; what it adds is new too, and the session keeps it."""
    given: list[Any] = []

    def merge(history: list[Any], new: list[Any]) -> list[Any]:
        given.append(([item["content"] for item in history if item.get("role") == "user"], new))
        return [{"role": "user", "content": "In short:"}, *new]

    async with serve(say("Hello."), say("Yes.")) as served:
        session = SQLiteSession("s")
        await Runner.run(agent(), "Hi", session=session)
        await Runner.run(agent(), "Sure?", session=session, run_config=RunConfig(session_input_callback=merge))

        asked = [{"role": "user", "content": "Sure?"}]
        assert given[-1] == (["Hi"], asked)
        assert [item["content"] for item in served.model.input_of(1)] == ["In short:", "Sure?"]
        users = [item["content"] for item in await session.get_items() if item.get("role") == "user"]
        assert users == ["Hi", "In short:", "Sure?"]


async def test_only_the_newest_items_of_a_session_are_sent(serve: Serve) -> None:
    """The session keeps all of them."""
    async with serve(say("One."), say("Two."), say("Three.")) as served:
        session = SQLiteSession("s")
        for text in ("A", "B"):
            await Runner.run(agent(), text, session=session)
        config = RunConfig(session_settings=SessionSettings(limit=1))
        await Runner.run(agent(), "C", session=session, run_config=config)

        assert len(served.model.input_of(2)) == 2
        assert len(await session.get_items()) == 6


# --- what the model's API keeps -------------------------------------------------------------------------------


async def test_each_round_sends_a_conversation_what_is_new(tmp_path: Path, model_server: ModelServer) -> None:
    """The outputs of functions go alone in the second request."""
    asks = {"calls": [{"name": "weather", "arguments": {"city": "Kyoto"}, "call_id": "c1"}]}
    model = model_server.load("memory_rounds", asks, {"text": "Wet."})
    async with provided(tmp_path, model_server):
        result = await Runner.run(agent(model=model), "Hi", conversation_id="conv_7")

        first, second = (request.body for request in model_server.requests("memory_rounds"))
        assert result.final_output == "Wet."
        assert first["input"] == [{"role": "user", "content": "Hi"}]
        assert [item["type"] for item in second["input"]] == ["function_call_output"]
        assert first["conversation"] == second["conversation"] == "conv_7"


async def test_rounds_of_a_chain_go_on_from_each_others_replies(tmp_path: Path, model_server: ModelServer) -> None:
    """From the given reply at first; with `auto` from the one before; the result names the last."""
    asks = {"calls": [{"name": "weather", "arguments": {"city": "Kyoto"}, "call_id": "c1"}]}
    model = model_server.load("memory_chain", asks, {"text": "Wet."})
    async with provided(tmp_path, model_server):
        options: Any = {"previous_response_id": "resp_0", "auto_previous_response_id": True}
        result = await Runner.run(agent(model=model), "Hi", **options)

        first, second = (request.body for request in model_server.requests("memory_chain"))
        assert first["previous_response_id"] == "resp_0"
        assert second["previous_response_id"] == result.raw_responses[0].response_id
        assert result.last_response_id == result.raw_responses[1].response_id


async def locked_run(model: ModelServer, clock: SteppedClock, name: str, pauses_s: tuple[float, ...]) -> Any:
    """Run against a conversation that is locked so often, and let each pause between the tries pass."""
    running = asyncio.create_task(Runner.run(agent(model=f"script:{name}"), "Hi", conversation_id="conv_7"))
    for tries, pause_s in enumerate(pauses_s, 1):
        assert await model.wait_for(name, lambda asked, tries=tries: len(asked) == tries)
        began = clock.monotonic()
        while len(model.requests(name)) == tries:
            clock.advance(pause_s / 100)
            await asyncio.sleep(0)
        assert clock.monotonic() - began >= pause_s
    return await running


async def test_a_locked_conversation_is_tried_again_with_the_same_input(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """After one second, then two, without any settings for it; each try counts as a request, the input goes once."""
    model_server.load("memory_locked", LOCKED, LOCKED, {"text": "Hello."})
    clock = SteppedClock()
    async with provided(tmp_path, model_server, clock):
        result = await locked_run(model_server, clock, "memory_locked", (1.0, 2.0))

        bodies = [request.body for request in model_server.requests("memory_locked")]
        assert (result.final_output, result.usage.requests) == ("Hello.", 3)
        assert [body["input"] for body in bodies] == [[{"role": "user", "content": "Hi"}]] * 3


async def test_a_conversation_that_stays_locked_fails_the_run(tmp_path: Path, model_server: ModelServer) -> None:
    """After three more tries, by an error that says that it may succeed later."""
    model_server.load("memory_stays", *[LOCKED] * 4)
    clock = SteppedClock()
    async with provided(tmp_path, model_server, clock):
        with pytest.raises(baton.ConversationLockedError) as caught:
            await locked_run(model_server, clock, "memory_stays", (1.0, 2.0, 4.0))

        assert caught.value.retryable
        assert len(model_server.requests("memory_stays")) == 4


async def test_a_session_and_a_conversation_of_the_models_exclude_each_other(serve: Serve) -> None:
    """Before anything is asked: two histories would be kept, and neither would be whole."""
    async with serve() as served:
        with pytest.raises(baton.UserError, match="session"):
            await Runner.run(agent(), "Hi", session=SQLiteSession("s"), conversation_id="conv_7")

        assert served.model.requests == []


# --- lists ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["preserve", "omit"])
async def test_reasoning_goes_on_with_its_id_or_without(serve: Serve, policy: Any) -> None:
    """In the next round and in the list for the next run; the reasoning itself stays."""
    kyoto = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Kyoto"}'}
    async with serve(Reply(items=(REASONS, kyoto)), say("Wet."), say("Yes.")) as served:
        config = RunConfig(reasoning_item_id_policy=policy)
        result = await Runner.run(agent(), "Hi", run_config=config)
        await Runner.run(agent(), [*result.to_input_list(), {"role": "user", "content": "Sure?"}])

        ids = ["rs_1"] if policy == "preserve" else [None]
        for request in (1, 2):
            reasoning = [item for item in served.model.input_of(request) if item.get("type") == "reasoning"]
            assert [item.get("id") for item in reasoning] == ids
            assert reasoning[0]["summary"] == REASONS["summary"]


async def test_the_list_of_a_run_with_a_session_begins_with_what_it_remembered(serve: Serve) -> None:
    """So it is all that the model saw, and its answer."""
    async with serve(say("Hello."), say("Yes.")) as served:
        session = SQLiteSession("s")
        await Runner.run(agent(), "Hi", session=session)
        result = await Runner.run(agent(), "Sure?", session=session)

        listed = result.to_input_list()
        assert [item.get("role") for item in listed] == ["user", "assistant", "user", "assistant"]
        assert listed[:3] == served.model.input_of(1)
        assert json.loads(json.dumps(listed)) == listed


async def test_a_forced_function_is_forced_once(serve: Serve) -> None:
    """Unless the agent says that it stays."""
    kyoto = calls(("weather", '{"city":"Kyoto"}'))
    async with serve(kyoto, say("Wet."), kyoto, say("Wet.")) as served:
        forced = ModelSettings(tool_choice="required")
        await Runner.run(agent(model_settings=forced), "Hi")
        await Runner.run(agent(model_settings=forced, reset_tool_choice=False), "Hi")

        choices = [request.settings.tool_choice for request in served.model.requests]
        assert [bool(choice) for choice in choices] == [True, False, True, True]
