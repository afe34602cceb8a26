"""Approvals at a real server: who is asked for one, what a rejection says, and that a pause outlives everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.end_to_end import Serve, default, ended, program, serve
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import calls, say
from tests.support.server import ServerProcess

import baton
from baton import (
    Agent,
    RunConfig,
    Runner,
    RunState,
    ToolErrorFormatterArgs,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
)

__all__ = ["model_server", "serve"]

ANN, BOB = ("send", '{"to":"Ann"}'), ("send", '{"to":"Bob"}')


def sender(needs_approval: Any = True, **options: Any) -> tuple[Agent[Any], list[str]]:
    """Make an agent whose function must be allowed, and the list of what it did."""
    sent: list[str] = []

    @function_tool(needs_approval=needs_approval, **options)
    async def send(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    return Agent(name="A", tools=[send]), sent


async def test_a_function_says_which_calls_must_be_allowed(serve: Serve) -> None:
    """It gets context, arguments and the call's id; the others run while the run pauses."""
    seen: list[Any] = []

    async def only_bob(ctx: Any, arguments: dict[str, Any], call_id: str) -> bool:
        seen.append((ctx.context, arguments, bool(call_id)))
        return bool(arguments["to"] == "Bob")

    agent, sent = sender(only_bob)
    async with serve(calls(ANN, BOB), say("Done.")):
        paused = await Runner.run(agent, "Send it.", context="c")

        assert (paused.final_output, sent) == (None, ["Ann"])
        assert [(one.tool_name, one.arguments) for one in paused.interruptions] == [("send", '{"to":"Bob"}')]
        assert sorted(str(one) for one in seen) == [
            "('c', {'to': 'Ann'}, True)",
            "('c', {'to': 'Bob'}, True)",
        ]


@pytest.mark.parametrize(
    ("own", "formatter", "read"),
    [
        (None, False, "The call was not approved, so the function was not called."),
        (None, True, "send: approval_rejected"),
        ("Not to Ann.", True, "Not to Ann."),
    ],
    ids=["default", "formatter", "own words"],
)
async def test_a_rejection_is_told_in_the_words_that_are_nearest(
    serve: Serve, own: str | None, formatter: bool, read: str
) -> None:
    """The decider's, else the run's formatter's, else the server's; the call is not executed."""

    def words(args: ToolErrorFormatterArgs[Any]) -> str | None:
        assert args.tool_type == "function" and args.default_message and args.call_id
        return f"{args.tool_name}: {args.kind}"

    agent, sent = sender()
    config = RunConfig(tool_error_formatter=words) if formatter else RunConfig()
    async with serve(calls(ANN), say("All right.")) as served:
        paused = await Runner.run(agent, "Send it.", run_config=config)
        state = paused.to_state()
        state.reject(paused.interruptions[0], rejection_message=own)
        result = await Runner.run(agent, state)

        assert (result.final_output, served.outputs(), sent) == ("All right.", [read], [])


async def test_a_formatter_that_says_nothing_leaves_the_default(serve: Serve) -> None:
    """Of an unknown function, where the model is told of it."""
    config = RunConfig(tool_error_formatter=lambda args: None, tool_not_found_behavior="return_error_to_model")
    async with serve(calls(("nope", "{}")), say("Sorry.")) as served:
        await Runner.run(Agent[None](name="A"), "Hi", run_config=config)

        assert "nope" in served.outputs()[0]


async def test_an_unknown_function_ends_a_run_that_does_not_say_otherwise(serve: Serve) -> None:
    """It is the model's fault."""
    async with serve(calls(("nope", "{}"))):
        with pytest.raises(baton.ModelBehaviorError, match="nope"):
            await Runner.run(Agent[None](name="A"), "Hi")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_arguments_are_judged_before_the_pause_where_the_run_says_so(serve: Serve, before: bool) -> None:
    """And again after it, since time has passed; without that, after it alone."""
    asked: list[str] = []

    @tool_input_guardrail
    def look(data: Any) -> ToolGuardrailFunctionOutput:
        asked.append(data.context.tool_arguments)
        return ToolGuardrailFunctionOutput.allow()

    agent, sent = sender(tool_input_guardrails=[look])
    config = RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=before))
    async with serve(calls(ANN), say("Done.")):
        paused = await Runner.run(agent, "Send it.", run_config=config)
        at_the_pause = len(asked)
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        await Runner.run(agent, state)

        assert (at_the_pause, len(asked), sent) == (int(before), 1 + int(before), ["Ann"])


async def test_some_of_the_calls_may_be_decided_about_later(serve: Serve) -> None:
    """The run pauses again over those that are left, and does not repeat what was done."""
    agent, sent = sender()
    async with serve(calls(ANN, BOB), say("Done.")) as served:
        paused = await Runner.run(agent, "Send it.")
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        again = await Runner.run(agent, state)
        left = [one.arguments for one in again.interruptions]
        state = again.to_state()
        state.approve(again.interruptions[0])
        result = await Runner.run(agent, state)

        assert (left, result.final_output) == (['{"to":"Bob"}'], "Done.")
        assert (sent, served.outputs()) == (["Ann", "Bob"], ["sent to Ann", "sent to Bob"])


# --- a pause outlives everybody -------------------------------------------------------------------------------

BEGINS = """
    import asyncio, sys
    from baton import Agent, Runner, function_tool

    @function_tool(needs_approval=True)
    async def send(to: str) -> str:
        raise SystemExit("never here")

    async def main():
        result = await Runner.run(Agent(name="A", model={model!r}, tools=[send]), "Send it.")
        print(result.to_state().to_string())

    asyncio.run(main())
"""


@pytest.fixture
async def doomed(tmp_path: Path, model_server: ModelServer) -> AsyncIterator[ServerProcess]:
    """A server in a process of its own, asking the scripted model over HTTP."""
    environment = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "test", "BATON_DRAIN_S": "0.2"}
    async with ServerProcess(tmp_path / "baton.db", environment) as process, default(process.address):
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_pause_outlives_its_process_and_the_server(
    doomed: ServerProcess, model_server: ModelServer, verdict: str
) -> None:
    """Begun by a process that is gone, kept by a server that was killed; what is left is a text, and goes on."""
    script = f"decision_{verdict}"
    model = model_server.load(script, {"calls": [{"name": "send", "arguments": {"to": "Ann"}}]}, {"text": "Done."})
    async with program(doomed.address, BEGINS.format(model=model)) as process:
        code, written, errors = await ended(process)
    assert (code, errors) == (0, "")
    await doomed.kill()
    await doomed.start()

    agent, sent = sender()
    agent = agent.clone(model=model)
    state = await RunState.from_string(agent, written)
    (asked,) = state.get_interruptions()
    if verdict == "approve":
        state.approve(asked, decided_by="a test")
    else:
        state.reject(asked, rejection_message="Not to Ann.")
    result = await Runner.run(agent, state)

    assert (asked.tool_name, asked.arguments) == ("send", '{"to": "Ann"}')
    assert result.final_output == "Done."
    (output,) = [item for item in model_server.requests(script)[1].body["input"] if "output" in item]
    assert (output["output"], sent) == (("sent to Ann", ["Ann"]) if verdict == "approve" else ("Not to Ann.", []))


@pytest.mark.slow
async def test_a_decision_that_was_taken_outlives_the_server(doomed: ServerProcess, model_server: ModelServer) -> None:
    """Allowed for the session, the server killed: a later run of it is not asked again."""
    asks = {"calls": [{"name": "send", "arguments": {"to": "Ann"}}]}
    model = model_server.load("decision_kept", asks, {"text": "Done."}, asks, {"text": "Again."})
    agent, sent = sender()
    agent = agent.clone(model=model)
    session = baton.SQLiteSession("s")
    paused = await Runner.run(agent, "Send it.", session=session)
    state = paused.to_state()
    state.approve(paused.interruptions[0], always_in_session=True)
    await Runner.run(agent, state)
    await doomed.kill()
    await doomed.start()

    result = await Runner.run(agent, "Once more.", session=session)

    assert (result.final_output, result.interruptions, sent) == ("Again.", [], ["Ann", "Ann"])


async def test_a_decision_that_comes_too_late_is_told_though_the_run_is_over(serve: Serve) -> None:
    """The contrary one is; the same one is as good as the first. After that the state gives what became of the run."""
    agent, sent = sender()
    async with serve(calls(ANN), say("Done.")):
        paused = await Runner.run(agent, "Send it.")
        states = [await RunState.from_json(agent, paused.to_state().to_json()) for _ in range(3)]
        first, same, contrary = states
        for state in (first, same):
            state.approve(state.get_interruptions()[0])
        contrary.reject(contrary.get_interruptions()[0])
        await Runner.run(agent, first)

        assert (await Runner.run(agent, same)).final_output == "Done."
        with pytest.raises(baton.StateError, match=r"was approved before, .*that holds") as refused:
            await Runner.run(agent, contrary)
        assert refused.value.reason == "DECISION_CONFLICT"
        assert (await Runner.run(agent, contrary)).final_output == "Done."
        assert sent == ["Ann"]


async def test_a_decision_about_a_call_that_has_its_result_is_told(serve: Serve) -> None:
    """Somebody outside gave it; the run is over, and the function was not called."""
    agent, sent = sender()
    async with serve(calls(ANN), say("Done.")):
        state = (await Runner.run(agent, "Send it.")).to_state()
        (waiting,) = state.get_interruptions()
        await baton.Client().settle(waiting.required_action, "by hand")
        state.approve(waiting)

        with pytest.raises(baton.CallLostError, match="was settled") as told:
            await Runner.run(agent, state)

        assert told.value.reason == "CALL_SETTLED"
        assert (await Runner.run(agent, state)).final_output == "Done."
        assert sent == []


async def test_a_run_behind_a_paused_one_says_what_is_in_the_way(serve: Serve) -> None:
    """It is not begun later, behind the caller's back; once it is decided, the session goes on."""
    session = baton.Session("desk")
    async with serve(calls(ANN), say("Sent."), say("Hello.")) as served:
        agent, sent = sender()
        paused = await Runner.run(agent, "Send.", session=session)

        with pytest.raises(baton.StateError, match="waits for somebody's decision"):
            await Runner.run(agent, "Hi", session=session)
        with pytest.raises(baton.StateError, match="waits for somebody's decision"):
            async for _ in (streamed := Runner.run_streamed(agent, "Hi", session=session)).stream_events():
                pass
        assert streamed.final_output is None
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        first = await Runner.run(agent, state)
        second = await Runner.run(agent, "Hi", session=session)

        assert (first.final_output, second.final_output, sent) == ("Sent.", "Hello.", ["Ann"])
        assert len(served.model.requests) == 3
