"""Guardrails of all four kinds at a real server: what they see, what they say, and what a caller learns of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, serve
from tests.support.scripted_model import calls, say

import baton
from baton import (
    Agent,
    GuardrailFunctionOutput,
    RunConfig,
    Runner,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)

__all__ = ["serve"]

SAID = GuardrailFunctionOutput
CALLED = ("book", '{"seat":"1A"}')


class Answer(BaseModel):
    """An output type."""

    text: str


def booking(ran: list[str], inputs: Any = (), outputs: Any = ()) -> Any:
    """Make a function that books seats, with guardrails."""

    @function_tool(name_override="book", tool_input_guardrails=list(inputs), tool_output_guardrails=list(outputs))
    def book(seat: str) -> str:
        ran.append(seat)
        return f"booked {seat}"

    return book


async def test_guardrails_of_input_and_output_tell_their_reasons(serve: Serve) -> None:
    """Of the agent and of the run, with what they were given: context, agent, input, and a value of the output type."""
    seen: list[Any] = []

    @input_guardrail(run_in_parallel=False)
    async def before(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent.name, given))
        return SAID({"words": 1}, False)

    @output_guardrail
    def after(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent.name, output))
        return SAID("fine", False)

    @output_guardrail(name="of the run")
    def last(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return SAID(None, False)

    agent: Agent[str] = Agent(name="A", output_type=Answer, input_guardrails=[before], output_guardrails=[after])
    async with serve(say('{"text":"Hello."}')):
        result = await Runner.run(agent, "Hi", context="c", run_config=RunConfig(output_guardrails=[last]))

        assert seen == [("c", "A", "Hi"), ("c", "A", Answer(text="Hello."))]
        (asked,) = result.input_guardrail_results
        assert (asked.guardrail, asked.output.output_info) == (before, {"words": 1})
        assert [(one.guardrail.get_name(), one.output.output_info) for one in result.output_guardrail_results] == [
            ("after", "fine"),
            ("of the run", None),
        ]


async def test_an_input_that_trips_is_kept_and_its_reply_is_not(serve: Serve) -> None:
    """The session knows what was asked; nothing that the model said goes into it."""

    @input_guardrail
    def nothing_secret(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        return SAID("secret", "secret" in str(given))

    async with serve(say("Hush."), say("Hello.")):
        session = SQLiteSession("s")
        agent: Agent[None] = Agent(name="A", input_guardrails=[nothing_secret])
        with pytest.raises(baton.InputGuardrailTripwireTriggered) as caught:
            await Runner.run(agent, "A secret", session=session)

        result = caught.value.guardrail_result
        assert result is not None and (result.guardrail, result.output.output_info) == (nothing_secret, "secret")
        assert await session.get_items() == [{"role": "user", "content": "A secret"}]


async def test_an_output_that_trips_leaves_the_session(serve: Serve) -> None:
    """Nobody who reads the session later finds what was held back."""

    @output_guardrail
    def polite(ctx: Any, agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return SAID({"said": output}, "darn" in output)

    async with serve(say("Well, darn.")):
        session = SQLiteSession("s")
        with pytest.raises(baton.OutputGuardrailTripwireTriggered) as caught:
            await Runner.run(Agent(name="A", output_guardrails=[polite]), "Hi", session=session)

        result, data = caught.value.guardrail_result, caught.value.run_data
        assert result is not None and result.output.output_info == {"said": "Well, darn."}
        assert data is not None and (data.usage.requests, data.last_agent.name) == (1, "A")
        assert await session.get_items() == [{"role": "user", "content": "Hi"}]


async def test_a_rejected_call_is_not_executed(serve: Serve) -> None:
    """The model reads the guardrail's words; it gets the arguments of the call."""
    ran: list[str] = []

    @tool_input_guardrail
    async def no_first_row(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        assert data.agent is not None and data.agent.name == "A"
        if "1A" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content(f"{data.context.tool_name}: not in row 1", {"row": 1})
        return ToolGuardrailFunctionOutput.allow()

    async with serve(calls(CALLED, ("book", '{"seat":"9C"}')), say("9C it is.")) as served:
        result = await Runner.run(Agent[None](name="A", tools=[booking(ran, inputs=[no_first_row])]), "Hi")

        assert (ran, served.outputs()) == (["9C"], ["book: not in row 1", "booked 9C"])
        assert [one.output.output_info for one in result.tool_input_guardrail_results] == [{"row": 1}, None]


async def test_an_output_is_replaced_by_the_first_that_rejects_it(serve: Serve) -> None:
    """Each sees what the function gave; after a rejection nobody is asked any more."""
    seen: list[str] = []

    def guardrail(name: str, verdict: ToolGuardrailFunctionOutput) -> Any:
        @tool_output_guardrail(name=name)
        def judge(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
            seen.append(f"{name}: {data.output}")
            return verdict

        return judge

    chain = [
        guardrail("first", ToolGuardrailFunctionOutput.allow("ok")),
        guardrail("second", ToolGuardrailFunctionOutput.reject_content("kept back")),
        guardrail("third", ToolGuardrailFunctionOutput.allow()),
    ]
    async with serve(calls(CALLED), say("Done.")) as served:
        result = await Runner.run(Agent[None](name="A", tools=[booking([], outputs=chain)]), "Hi")

        assert seen == ["first: booked 1A", "second: booked 1A"]
        assert served.outputs() == ["kept back"]
        assert result.tool_output_guardrail_results[0].guardrail is chain[0]


@pytest.mark.parametrize("side", ["input", "output"])
async def test_a_guardrail_of_a_function_may_end_the_run(serve: Serve, side: str) -> None:
    """With an exception of its own that names function and guardrail; before the call it is not executed."""
    ran: list[str] = []
    make: Any = tool_input_guardrail if side == "input" else tool_output_guardrail
    guardrail = make(lambda data: ToolGuardrailFunctionOutput.raise_exception({"why": "full"}), name="room")
    ends = baton.ToolInputGuardrailTripwireTriggered if side == "input" else baton.ToolOutputGuardrailTripwireTriggered
    tool = booking(ran, **{f"{side}s": [guardrail]})

    async with serve(calls(CALLED)) as served:
        with pytest.raises(ends) as caught:
            await Runner.run(Agent[None](name="A", tools=[tool]), "Hi")

        error: Any = caught.value
        assert (error.tool_name, error.guardrail_name, error.guardrail) == ("book", "room", guardrail)
        assert error.output.output_info == {"why": "full"}
        assert (ran, len(served.model.requests)) == ([] if side == "input" else ["1A"], 1)


async def test_only_the_agent_that_begins_has_its_input_judged(serve: Serve) -> None:
    """A receiver's input guardrails are not asked; its output guardrails are, and the first agent's are not."""
    asked: list[str] = []

    def both(name: str) -> dict[str, Any]:
        def judge(ctx: Any, agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
            asked.append(f"{name} {'input' if given == 'Hi' else 'output'}")
            return SAID(None, False)

        return {
            "input_guardrails": [input_guardrail(run_in_parallel=False)(judge)],
            "output_guardrails": [output_guardrail(judge)],
        }

    receiver: Agent[None] = Agent(name="Billing", **both("Billing"))
    triage: Agent[None] = Agent(name="Triage", handoffs=[receiver], **both("Triage"))
    async with serve(calls(("transfer_to_billing", "{}")), say("Paid.")):
        await Runner.run(triage, "Hi")

    assert asked == ["Triage input", "Billing output"]


@pytest.mark.parametrize("kind", ["input", "output", "tool_input", "tool_output"])
async def test_a_guardrail_that_raises_fails_the_run_with_its_exception(serve: Serve, kind: str) -> None:
    """The program gets the very exception; it is not taken for a verdict."""

    def broken(*_: Any) -> Any:
        raise LookupError("no list of terms")

    fields: dict[str, Any] = {
        "input": {"input_guardrails": [input_guardrail(broken)]},
        "output": {"output_guardrails": [output_guardrail(broken)]},
        "tool_input": {"tools": [booking([], inputs=[tool_input_guardrail(broken)])]},
        "tool_output": {"tools": [booking([], outputs=[tool_output_guardrail(broken)])]},
    }[kind]
    script = [calls(CALLED), say("Done.")] if "tools" in fields else [say("Done.")]
    async with serve(*script):
        with pytest.raises(LookupError, match="no list of terms"):
            await Runner.run(Agent[None](name="A", **fields), "Hi")
