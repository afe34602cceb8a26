"""The server is stopped or killed while the program is asked something: it is asked again, and the run goes on.

One run asks hooks of many kinds; at one of them the server goes away, for many of them in turn.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import default
from tests.support.model_server import ModelServer, model_server
from tests.support.server import ServerProcess, free_port, server

from baton import (
    Agent,
    CallModelData,
    GuardrailFunctionOutput,
    ModelInputData,
    RunConfig,
    RunHooks,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)

__all__ = ["model_server"]

PLACES = (
    *("session get", "session add", "input guardrail", "agent start", "instructions", "filter", "enabled"),
    *("approval", "tool input", "function", "tool output", "on handoff", "handoff filter", "output guardrail"),
)
"""Where the program is asked, or its function runs."""

TRIED = (*PLACES[:3], "filter", "approval", "tool output", "on handoff", "output guardrail")
"""Places at which the server goes away; those left out are like others."""


class Reason(BaseModel):
    """What the model says at a handoff."""

    why: str


class Places:
    """Counts where the program is asked. At one place, the first time, everything stops until the test goes on."""

    def __init__(self, stops_at: str) -> None:
        self.stops_at = stops_at
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.asked: Counter[str] = Counter()

    async def at(self, place: str) -> None:
        """Be asked."""
        assert place in PLACES
        self.asked[place] += 1
        if place == self.stops_at and self.asked[place] == 1:
            self.reached.set()
            await self.go_on.wait()


class Notebook:
    """A session of the program's own."""

    def __init__(self, places: Places) -> None:
        self.places, self.items = places, list[Any]()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Give all items."""
        await self.places.at("session get")
        return list(self.items)

    async def add_items(self, items: list[Any]) -> None:
        """Keep some, each once: where a process is lost in between they may come twice."""
        await self.places.at("session add")
        if self.items[-len(items) :] != items:
            self.items += items


def agent_of(places: Places, model: str) -> Agent[Any]:
    """Make an agent that asks the program wherever it can."""

    async def instructions(ctx: Any, agent: Agent[Any]) -> str:
        await places.at("instructions")
        return f"Serve {ctx.context}."

    @input_guardrail(run_in_parallel=False)
    async def before(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        await places.at("input guardrail")
        return GuardrailFunctionOutput(None, False)

    @output_guardrail
    async def after(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        await places.at("output guardrail")
        return GuardrailFunctionOutput(None, False)

    @tool_input_guardrail
    async def arguments(data: Any) -> ToolGuardrailFunctionOutput:
        await places.at("tool input")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    async def result(data: Any) -> ToolGuardrailFunctionOutput:
        await places.at("tool output")
        return ToolGuardrailFunctionOutput.allow()

    async def enabled(ctx: Any, agent: Agent[Any]) -> bool:
        await places.at("enabled")
        return True

    async def approval(ctx: Any, given: Any, call_id: str) -> bool:
        await places.at("approval")
        return False

    @function_tool(
        is_enabled=enabled, needs_approval=approval, tool_input_guardrails=[arguments], tool_output_guardrails=[result]
    )
    async def work() -> str:
        await places.at("function")
        return "worked"

    async def on_handoff(ctx: Any, said: Reason) -> None:
        await places.at("on handoff")

    async def receives(data: Any) -> Any:
        await places.at("handoff filter")
        return data

    billing: Agent[Any] = Agent(name="Billing", model=model, output_guardrails=[after])
    way = handoff(billing, on_handoff=on_handoff, input_type=Reason, input_filter=receives)
    return Agent(
        name="Triage", model=model, instructions=instructions, tools=[work], handoffs=[way], input_guardrails=[before]
    )


class InThisProcess:
    """A server that is stopped and started again on the same port and file: a `ServerProcess`, but quick."""

    def __init__(self, folder: Path, model: ModelServer) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._folder, self._stack = folder, AsyncExitStack()
        self._settings: dict[str, Any] = {"openai_base_url": model.base_url, "openai_api_key": "test", "drain_s": 0.0}

    async def start(self) -> None:
        """Start it."""
        await self._stack.enter_async_context(server(self._folder, address=self.address, **self._settings))

    async def kill(self) -> None:
        """Stop it, in the middle of whatever it does."""
        await self._stack.aclose()

    async def __aenter__(self) -> InThisProcess:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()


@pytest.mark.slow
@pytest.mark.parametrize("place", TRIED)
async def test_a_program_that_is_asked_while_the_server_stops_is_asked_again(
    tmp_path: Path, model_server: ModelServer, place: str
) -> None:
    """Its function runs once, whatever it is asked besides; the run has its output, and the notebook its items."""
    async with InThisProcess(tmp_path, model_server) as doomed, default(doomed.address):
        await run_over_a_restart(doomed, model_server, f"stopped_{place}", place)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["filter", "on handoff"])
async def test_a_program_that_is_asked_while_the_server_is_killed_is_asked_again(
    tmp_path: Path, model_server: ModelServer, place: str
) -> None:
    """The same, where nothing could be put in order."""
    environment = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "test"}
    async with ServerProcess(tmp_path / "baton.db", environment) as doomed, default(doomed.address):
        await run_over_a_restart(doomed, model_server, f"killed_{place}", place)


async def run_over_a_restart(
    doomed: ServerProcess | InThisProcess, model_server: ModelServer, script: str, place: str
) -> None:
    """Run an agent, restart the server while the program is asked at a place, and look at what came of it."""
    asks = {"calls": [{"name": "work", "arguments": {}, "call_id": "c1"}]}
    hands = {"calls": [{"name": "transfer_to_billing", "arguments": {"why": "x"}, "call_id": "c2"}]}
    model = model_server.load(script, asks, hands, {"text": "Paid."})
    places = Places(place)
    notes = Notebook(places)

    class Hooks(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            await places.at("agent start")

    async def filtered(data: CallModelData[Any]) -> ModelInputData:
        await places.at("filter")
        return data.model_data

    running = asyncio.create_task(
        Runner.run(
            agent_of(places, model),
            "Hi",
            context="Ann",
            session=notes,
            hooks=Hooks(),
            run_config=RunConfig(call_model_input_filter=filtered),
        )
    )
    await places.reached.wait()
    await doomed.kill()
    places.go_on.set()
    await doomed.start()
    result = await running

    assert (result.final_output, result.last_agent.name) == ("Paid.", "Billing")
    assert places.asked["function"] == 1
    assert set(places.asked) == set(PLACES)
    bodies = [request.body for request in model_server.requests(script)]
    assert [body.get("instructions") for body in bodies] == ["Serve Ann.", "Serve Ann.", None]
    kinds = [item.get("type", item.get("role")) for item in notes.items]
    assert kinds == [
        *("user", "function_call", "function_call_output", "function_call", "function_call_output", "message"),
    ]
