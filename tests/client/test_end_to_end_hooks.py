"""Hooks at a real server: guardrails, filters of what the model is asked, and news of what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import Serve, default, serve
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import Gate, Reply, ScriptedModel, calls, say
from tests.support.server import server

from baton import (
    Agent,
    CallModelData,
    Client,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailData,
    InputGuardrailTripwireTriggered,
    LifecycleData,
    LifecycleHook,
    ModelInputData,
    RemoteHook,
    RunConfig,
    Runner,
    SQLiteSession,
    Worker,
    function_tool,
)
from baton.hooks import HookData
from baton.v1 import event_pb2
from baton_server.core.inputs import ModelReplied
from baton_server.ports.model import ModelRequest, TextDelta

__all__ = ["model_server", "serve"]


def guardrail(trips: bool, seen: list[Any], parallel: bool) -> InputGuardrail:
    """Make a guardrail that notes what it is asked."""

    async def polite(data: HookData[Any], agent: Agent[Any], given: str | list[Any]) -> GuardrailFunctionOutput:
        texts = [given] if isinstance(given, str) else [item["content"] for item in given]
        seen.append((agent.name, data.context, texts))
        return GuardrailFunctionOutput({"words": ["darn"]} if trips else None, trips)

    return InputGuardrail(polite, run_in_parallel=parallel)


# --- guardrails ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True], ids=["blocking", "beside"])
async def test_a_guardrail_that_passes_lets_the_turn_go_on(serve: Serve, parallel: bool) -> None:
    """It sees the input, its agent and the run's own context, and is asked once."""
    seen: list[Any] = []
    async with serve(say("Hello.")) as served:
        agent: Agent[str] = Agent(name="Assistant", input_guardrails=[guardrail(False, seen, parallel)])

        result = await Runner.run(agent, "Hi", context="mine")

        assert (result.final_output, seen) == ("Hello.", [("Assistant", "mine", ["Hi"])])
        assert len(served.model.requests) == 1


async def test_a_blocking_guardrail_that_trips_keeps_the_model_from_being_asked(serve: Serve) -> None:
    """The error names it and carries its reasons."""
    async with serve() as served:
        agent: Agent[None] = Agent(name="Assistant", input_guardrails=[guardrail(True, [], False)])

        with pytest.raises(InputGuardrailTripwireTriggered) as caught:
            await Runner.run(agent, "Darn!")

        said = caught.value.guardrail_result
        assert said is not None
        assert (caught.value.guardrail_name, said.output.output_info) == ("polite", {"words": ["darn"]})
        assert said.guardrail is agent.input_guardrails[0]
        assert served.model.requests == []


async def test_a_guardrail_beside_the_model_ends_the_turn_while_the_model_still_writes(serve: Serve) -> None:
    """What the model would have said does not count: the history keeps the input alone."""
    gate = Gate()

    async def polite(data: object, agent: object, given: object) -> GuardrailFunctionOutput:
        await gate.reached()
        return GuardrailFunctionOutput("rude", True)

    async with serve(say("Well, ", gate, "darn.")) as served:
        agent: Agent[None] = Agent(name="Assistant", input_guardrails=[InputGuardrail(polite)])

        with pytest.raises(InputGuardrailTripwireTriggered):
            await Runner.run(agent, "Darn!", session=SQLiteSession("s"))

        assert len(served.model.requests) == 1
        assert [item["content"] for item in await SQLiteSession("s").get_items()] == ["Darn!"]


class Ending(ScriptedModel):
    """A scripted model that says when the server has taken a reply to its end."""

    def __init__(self, script: Iterable[Reply]) -> None:
        super().__init__(script)
        self.over = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelReplied]:
        """Implement `ports.model.Model`."""
        async for part in super().stream(request):
            yield part
        self.over.set()


async def test_a_reply_that_is_there_first_waits_for_the_guardrail(tmp_path: Path) -> None:
    """A function that the model wants is not called before the guardrail has said that it may."""
    model = Ending([calls(("work", "{}")), say("Done.")])
    order: list[str] = []

    @function_tool
    async def work() -> str:
        order.append("work")
        return "worked"

    async def polite(data: object, agent: object, given: object) -> GuardrailFunctionOutput:
        await model.over.wait()
        order.append("guardrail")
        return GuardrailFunctionOutput(None, False)

    async with server(tmp_path, model) as baton, default(baton.address):
        agent: Agent[None] = Agent(name="Assistant", tools=[work], input_guardrails=[InputGuardrail(polite)])

        assert (await Runner.run(agent, "Hi")).final_output == "Done."
        assert order == ["guardrail", "work"]


async def test_a_guardrail_of_a_worker_is_asked_for_its_name(serve: Serve) -> None:
    """The server that runs the agent knows a name alone; the worker's word ends the turn."""
    worker = Worker()

    @worker.hook("input_guardrail")
    def polite(data: InputGuardrailData[None]) -> bool:
        return "Darn" in data.input[-1]["content"]

    async with serve(say("Hello."), say("Void.")), worker:
        agent: Agent[None] = Agent(name="Assistant", input_guardrails=[RemoteHook("polite")])

        assert (await Runner.run(agent, "Hi")).final_output == "Hello."
        with pytest.raises(InputGuardrailTripwireTriggered, match="polite"):
            await Runner.run(agent, "Darn!")


# --- filters ------------------------------------------------------------------------------------------------


async def test_a_filter_changes_what_the_model_is_sent_and_not_the_history(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """It drops the first message, adds one, and says other instructions: so the model's API is asked."""

    def trim(data: CallModelData[None]) -> ModelInputData:
        kept = [item for item in data.model_data.input if item.get("content") != "secret"]
        added = {"role": "user", "content": f"round {data.round}"}
        return ModelInputData(input=[*kept, added], instructions=f"{data.model_data.instructions} Be kind.")

    @function_tool
    def work() -> str:
        return "worked"

    steps = ({"calls": [{"name": "work", "arguments": {}, "call_id": "c1"}]}, {"text": "Done."})
    model = model_server.load("filtered", *steps)
    settings = {"openai_base_url": model_server.base_url, "openai_api_key": "test"}
    async with server(tmp_path, **settings) as baton, default(baton.address):
        session = SQLiteSession("s")
        await session.add_items([{"role": "user", "content": "secret"}])
        agent: Agent[None] = Agent(name="A", model=model, instructions="Be brief.", tools=[work])

        result = await Runner.run(agent, "Hi", session=session, run_config=RunConfig(call_model_input_filter=trim))

        first, second = (request.body for request in model_server.requests("filtered"))
        assert result.final_output == "Done."
        assert first["instructions"] == second["instructions"] == "Be brief. Be kind."
        assert _short(first["input"]) == ["Hi", "round 1"]
        assert _short(second["input"]) == ["Hi", "function_call c1", "worked", "round 2"]
        texts = _short(await session.get_items())
        assert texts == ["secret", "Hi", "function_call c1", "worked", "Done."]


async def test_filters_are_asked_in_order_those_of_workers_among_them(serve: Serve) -> None:
    """Each gets what the one before it made."""
    worker = Worker()

    @worker.hook("model_input_filter")
    def second(data: CallModelData[None]) -> ModelInputData:
        return ModelInputData(input=[*data.model_data.input, {"role": "user", "content": "second"}])

    def named(name: str) -> Any:
        def add(data: CallModelData[None]) -> ModelInputData:
            return ModelInputData(input=[*data.model_data.input, {"role": "user", "content": name}])

        return add

    async with serve(say("Done.")) as served, worker:
        filters = [named("first"), RemoteHook("second"), named("third")]

        await Runner.run(Agent[None](name="A"), "Hi", run_config=RunConfig(call_model_input_filter=filters))

        assert _short(served.model.input_of(0)) == ["Hi", "first", "second", "third"]


def _short(items: list[dict[str, Any]]) -> list[str]:
    """Say items in a word each."""
    return [_word(item) for item in items]


def _word(item: dict[str, Any]) -> str:
    if item.get("type") == "function_call":
        return f"function_call {item['call_id']}"
    said = item.get("output", item.get("content"))
    return said if isinstance(said, str) else "".join(part["text"] for part in said or ())


# --- lifecycle ----------------------------------------------------------------------------------------------


async def test_what_happens_is_told_in_order(serve: Serve) -> None:
    """A round with a call, a round without one; each moment says what it is about."""
    told: list[LifecycleData[str]] = []
    over = asyncio.Event()

    @function_tool
    def work(n: int) -> str:
        return f"worked {n}"

    def tell(data: LifecycleData[str]) -> None:
        told.append(data)
        if data.moment == "agent_end":
            over.set()

    async with serve(calls(("work", '{"n":7}')), say("Done.")):
        agent: Agent[str] = Agent(name="Assistant", tools=[work])

        result = await Runner.run(agent, "Hi", context="mine", run_config=RunConfig(lifecycle_hooks=[tell]))
        await over.wait()

    assert [(one.moment, one.round) for one in told if one.moment.startswith(("model", "function"))] == [
        *(("model_start", 1), ("model_end", 1), ("function_start", 1), ("function_end", 1)),
        *(("model_start", 2), ("model_end", 2)),
    ]
    assert (told[0].moment, told[-1].moment, len(told)) == ("agent_start", "agent_end", 8)
    assert all((one.context, one.agent_name, one.turn_id) == ("mine", "Assistant", result.turn_id) for one in told)
    facts = {one.moment: one.facts for one in told}
    assert (facts["function_start"]["tool"], facts["function_start"]["arguments_json"]) == ("work", '{"n":7}')
    assert (facts["function_end"]["tool"], facts["function_end"]["output"]) == ("work", "worked 7")
    assert facts["agent_end"]["output"] == "Done."


async def test_a_hook_that_wants_some_moments_gets_no_others(serve: Serve) -> None:
    """A worker's as well as one of this process."""
    worker = Worker()
    ends: list[str] = []
    outputs: list[str] = []
    both = asyncio.Barrier(3)

    @worker.hook("lifecycle")
    async def audit(data: LifecycleData[None]) -> None:
        ends.append(data.moment)
        await both.wait()

    async def own(data: LifecycleData[None]) -> None:
        outputs.append(data.facts["output"])
        await both.wait()

    async with serve(say("Done.")), worker:
        hooks = [LifecycleHook(RemoteHook("audit"), ["agent_end"]), LifecycleHook(own, ["agent_end"])]

        await Runner.run(Agent[None](name="A"), "Hi", run_config=RunConfig(lifecycle_hooks=hooks))
        await both.wait()

    assert (ends, outputs) == (["agent_end"], ["Done."])


async def test_what_a_guardrail_said_stands_in_the_log(serve: Serve) -> None:
    """Who looks at a session later sees that it was asked, and what it said."""
    async with serve(say("Hello.")):
        agent: Agent[None] = Agent(name="Assistant", input_guardrails=[guardrail(False, [], False)])
        await Runner.run(agent, "Hi", session=SQLiteSession("s"))
        session = await Client().get_session(key="s")

        events = [part.event async for part in Client().watch(session.session_id)]

        (settled,) = [event.hook_settled for event in events if event.HasField("hook_settled")]
        assert settled.kind == event_pb2.HANDLER_KIND_INPUT_GUARDRAIL
        assert settled.name.startswith("polite")


@pytest.mark.parametrize("ends", [True, False], ids=["the run ends", "the run goes on"])
async def test_what_a_hook_raised_is_told_once_in_full(
    serve: Serve, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    """By the run, which raises it; else by the log, since nobody else would."""

    def broken(_context: Any, *_others: Any) -> Any:
        raise LookupError("no such city")

    work = function_tool(name_override="work", needs_approval=broken)(lambda: "worked")
    agent: Agent[None] = Agent(name="Assistant", instructions=broken if ends else "Work.", tools=[work])
    async with serve(calls(("work", "{}"))):
        if ends:
            with pytest.raises(LookupError, match="no such city"):
                await Runner.run(agent, "Hi")
        else:
            assert len((await Runner.run(agent, "Hi")).interruptions) == 1

    (told,) = [record for record in caplog.records if "the hook broken failed" in record.getMessage()]
    assert told.getMessage() == "the hook broken failed" + (": LookupError: no such city" if ends else "")
    assert (told.exc_info is None) == ends
