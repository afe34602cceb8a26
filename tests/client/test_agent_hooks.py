"""What an agent asks of this process: its functions are called as the Agents SDK calls them, and answer as there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.own_hooks import ask

import baton
from baton import (
    Agent,
    AgentToolResult,
    FunctionToolCustomDataContext,
    FunctionToolResult,
    GuardrailFunctionOutput,
    HandoffInputData,
    OutputGuardrail,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    handoff_filters,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from baton.agents.agent import agent_to_pb
from baton.items.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from baton.v1 import agent_pb2

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
TRANSFER = {"type": "function_call", "call_id": "c2", "name": "transfer_to_billing", "arguments": "{}"}
TRANSFERRED = {"type": "function_call_output", "call_id": "c2", "output": '{"assistant": "Billing"}'}


class Recipe(BaseModel):
    """An output type."""

    ingredients: list[str]


def tool(**options: Any) -> Any:
    """Make the function `f` with some options."""
    return function_tool(name_override="f", **options)(lambda: "")


# --- instructions and conditions ----------------------------------------------------------------------------


@pytest.mark.parametrize("coroutine", [False, True])
async def test_instructions_may_be_a_function_of_context_and_agent(coroutine: bool) -> None:
    """Sync or async; None is nothing."""

    def write(ctx: Any, agent: Agent[Any]) -> str | None:
        return f"{agent.name} has the {ctx.context}"

    async def write_later(ctx: Any, agent: Agent[Any]) -> str | None:
        return write(ctx, agent)

    agent: Agent[Any] = Agent(name="A", instructions=write_later if coroutine else write)

    assert await ask("instructions", {}, agent) == {"instructions": "A has the basket"}
    assert await ask("instructions", {}, agent.clone(instructions=lambda c, a: None)) == {"instructions": None}


async def test_whether_an_agent_has_a_function_or_a_handoff_may_depend() -> None:
    """A function of context and agent; an object that is called like one will do."""

    class Switch:
        async def __call__(self, ctx: Any, agent: Any) -> bool:
            return bool(ctx.context == "basket" and agent.name == "A")

    agent: Agent[Any] = Agent(
        name="A",
        tools=[tool(is_enabled=Switch())],
        handoffs=[handoff(Agent(name="B"), is_enabled=lambda ctx, agent: False)],
    )

    assert await ask("tool_enabled", {"tool": "f"}, agent) == {"enabled": True}
    assert await ask("handoff_enabled", {"tool": "transfer_to_b", "to_agent": "B"}, agent) == {"enabled": False}


async def test_whether_a_call_needs_an_approval_may_depend_on_its_arguments() -> None:
    """They come read, with the call's id."""
    seen: list[Any] = []

    async def over_100(ctx: Any, arguments: dict[str, Any], call_id: str) -> bool:
        seen.append((ctx.context, ctx.tool_name, arguments, call_id))
        return bool(arguments["amount"] > 100)

    agent: Agent[Any] = Agent(name="A", tools=[tool(needs_approval=over_100)])
    payload = {"call_id": "call_1", "tool": "f", "arguments_json": '{"amount": 101}'}

    assert await ask("needs_approval", payload, agent) == {"needs_approval": True}
    assert seen == [("basket", "f", {"amount": 101}, "call_1")]


# --- guardrails ---------------------------------------------------------------------------------------------


async def test_guardrails_get_context_agent_and_what_they_check() -> None:
    """The output as the agent's type has it; a text as it is."""
    seen: list[Any] = []

    @input_guardrail
    async def before(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent.name, given))
        return GuardrailFunctionOutput({"checked": 1}, False)

    @output_guardrail(name="After!")
    def after(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        seen.append((ctx.context, agent.name, output))
        return GuardrailFunctionOutput(None, True)

    agent: Agent[Any] = Agent(name="A", input_guardrails=[before], output_guardrails=[after], output_type=Recipe)

    said = await ask("input_guardrail", {"input": [{"role": "user", "content": "Hi"}]}, agent)
    assert said == {"tripped": False, "info": {"checked": 1}}
    assert await ask("output_guardrail", {"output": {"ingredients": ["egg"]}}, agent) == {"tripped": True, "info": None}
    await ask("output_guardrail", {"output": "Bye"}, agent.clone(output_type=None))
    assert seen == [
        ("basket", "A", "Hi"),
        ("basket", "A", Recipe(ingredients=["egg"])),
        ("basket", "A", "Bye"),
    ]


async def test_guardrails_of_functions_see_the_call_and_decide() -> None:
    """They allow, put words in place of the output, or end the run."""

    @tool_input_guardrail
    def no_drop(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        if "DROP" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.raise_exception({"in": data.context.tool_name})
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail(name="quiet")
    async def no_secret(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        assert data.agent is not None
        return ToolGuardrailFunctionOutput.reject_content(f"{data.agent.name} hides {len(data.output)} letters")

    agent: Agent[Any] = Agent(
        name="A", tools=[tool(tool_input_guardrails=[no_drop], tool_output_guardrails=[no_secret])]
    )
    call = {"call_id": "call_1", "tool": "f"}

    said = await ask("tool_input_guardrail", {**call, "arguments_json": "DROP TABLE"}, agent)
    assert said == {"verdict": "trip", "info": {"in": "f"}}
    assert (await ask("tool_input_guardrail", {**call, "arguments_json": "{}"}, agent))["verdict"] == "allow"
    said = await ask("tool_output_guardrail", {**call, "arguments_json": "{}", "output": "secret"}, agent)
    assert said == {"verdict": "reject", "message": "A hides 6 letters", "info": None}


def test_a_guardrail_has_a_name_in_each_list() -> None:
    """Two of one name are told apart; so the contract wants it."""
    check = OutputGuardrail(lambda c, a, o: GuardrailFunctionOutput(None, False), "same")
    made = agent_to_pb(
        Agent(name="A", output_guardrails=[check, OutputGuardrail(check.guardrail_function, "same"), check]),
        lambda use: agent_pb2.HookRef(name=use.name),
    )

    assert [one.name for one in made.output_guardrails] == ["same", "same (2)", "same (3)"]


# --- functions ----------------------------------------------------------------------------------------------


async def test_outputs_of_functions_may_end_a_run() -> None:
    """As a function of context and results says; a text for an agent without an output type."""
    seen: list[FunctionToolResult] = []

    def judge(ctx: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        seen.extend(results)
        return ToolsToFinalOutputResult(is_final_output=True, final_output=len(results))

    f = tool()
    agent: Agent[Any] = Agent(name="A", tools=[f], tool_use_behavior=judge)
    payload = {"results": [{"call_id": "call_1", "tool": "f", "output": "sun"}]}

    assert await ask("tool_use", payload, agent) == {"final": True, "output": "1"}
    assert await ask("tool_use", payload, agent.clone(output_type=int)) == {"final": True, "output": 1}
    assert (seen[0].tool, seen[0].output, seen[0].call_id) == (f, "sun", "call_1")
    undecided = agent.clone(tool_use_behavior=lambda c, r: ToolsToFinalOutputResult(False))
    assert await ask("tool_use", payload, undecided) == {"final": False}


async def test_what_is_told_of_a_timeout_may_be_ones_own_words() -> None:
    """With the error by its class."""

    def words(ctx: Any, error: BaseException) -> str:
        assert isinstance(error, baton.ToolTimeoutError)
        return f"{error.tool_name} is slow today after {error.timeout_seconds:g}: {error}"

    agent: Agent[Any] = Agent(name="A", tools=[tool(timeout=1, timeout_error_function=words)])
    payload = {"kind": "timeout", "tool": "f", "call_id": "call_1", "default_message": "x"}

    said = await ask("tool_error", {**payload, "error": {"type": "TimeoutError", "text": "1s are over"}}, agent)
    assert said == {"message": "f is slow today after 1: 1s are over"}


async def test_an_application_may_keep_data_beside_an_output() -> None:
    """Made of the call, the function and the output."""

    def extract(data: FunctionToolCustomDataContext) -> dict[str, Any]:
        return {"of": data.tool.name, "call": data.tool_context.tool_call_id, "length": len(data.output)}

    agent: Agent[Any] = Agent(name="A", tools=[tool(custom_data_extractor=extract)])
    payload = {"call_id": "call_1", "tool": "f", "arguments_json": "{}", "output": "sunny"}

    assert await ask("custom_data", payload, agent) == {"custom_data": {"of": "f", "call": "call_1", "length": 5}}


# --- handoffs -----------------------------------------------------------------------------------------------


async def test_a_handoff_is_heard_of_with_what_the_model_said() -> None:
    """A value of the input type; without one, the context alone."""
    heard: list[Any] = []
    billing: Agent[Any] = Agent(name="Billing")
    agent: Agent[Any] = Agent(
        name="A",
        handoffs=[
            handoff(billing, on_handoff=lambda ctx, given: heard.append((ctx.context, given)), input_type=Recipe),
            handoff(Agent(name="Other"), on_handoff=lambda ctx: heard.append(ctx.to_agent)),
        ],
    )

    told = {"from_agent": "A", "to_agent": "Billing", "input_json": '{"ingredients":["egg"]}'}
    assert await ask("on_handoff", told, agent) == {}
    await ask("on_handoff", {"from_agent": "A", "to_agent": "Other", "input_json": None}, agent, index=1)
    assert heard == [("basket", Recipe(ingredients=["egg"])), "Other"]


async def test_a_handoff_filter_gets_the_runs_items_and_gives_others() -> None:
    """By the Agents SDK's classes: a handoff is told from a function by its tool's name."""
    seen: list[HandoffInputData] = []

    async def quiet(data: HandoffInputData) -> HandoffInputData:
        seen.append(data)
        kept = tuple(item for item in data.new_items if not isinstance(item, ToolCallItem | ToolCallOutputItem))
        return data.clone(input_history=data.input_history[-1:], new_items=kept, input_items=kept[:1])

    billing: Agent[Any] = Agent(name="Billing")
    agent: Agent[Any] = Agent(name="A", handoffs=[handoff(billing, input_filter=quiet)])
    history = [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}]
    payload = {
        "input_history": history,
        "pre_handoff_items": [MESSAGE],
        "new_items": [CALL, TRANSFER, OUTPUT, TRANSFERRED],
    }

    said = await ask("handoff_input_filter", payload, agent)

    assert said == {
        "input_history": history[-1:],
        "pre_handoff_items": [MESSAGE],
        "new_items": [TRANSFER, TRANSFERRED],
        "input_items": [TRANSFER],
    }
    (data,) = seen
    classes = [MessageOutputItem, ToolCallItem, HandoffCallItem, ToolCallOutputItem, HandoffOutputItem]
    assert [type(item) for item in (*data.pre_handoff_items, *data.new_items)] == classes
    arrived = data.new_items[-1]
    assert isinstance(arrived, HandoffOutputItem)
    assert (arrived.source_agent, arrived.target_agent) == (agent, billing)
    assert data.run_context is not None and data.run_context.context == "basket"


async def test_the_filter_without_tools_is_data_and_a_function_too() -> None:
    """Named itself nobody is asked; called by another filter it does what the server does."""
    billing: Agent[Any] = Agent(name="Billing")
    plain: Agent[Any] = Agent(name="A", handoffs=[handoff(billing, input_filter=handoff_filters.remove_all_tools)])
    assert agent_to_pb(plain).handoffs[0].input_filters[0].HasField("remove_all_tools")

    calling = handoff(billing, input_filter=lambda data: handoff_filters.remove_all_tools(data))
    agent: Agent[Any] = Agent(name="A", handoffs=[calling])
    payload = {
        "input_history": [{"role": "user", "content": "One"}, CALL, OUTPUT, {"type": "reasoning", "summary": []}],
        "pre_handoff_items": [MESSAGE, CALL],
        "new_items": [TRANSFER, TRANSFERRED],
    }
    assert await ask("handoff_input_filter", payload, agent) == {
        "input_history": [{"role": "user", "content": "One"}],
        "pre_handoff_items": [MESSAGE],
        "new_items": [],
        "input_items": None,
    }


# --- agents as tools ----------------------------------------------------------------------------------------


async def test_a_nested_runs_output_may_be_made_of_all_that_it_did() -> None:
    """Of an AgentToolResult; what comes of it is told as a function's output."""

    async def extract(result: AgentToolResult) -> str:
        return f"{result.last_agent.name} after {len(result.new_items)}: {result.final_output.ingredients[0]}"

    cook: Agent[Any] = Agent(name="Cook", output_type=Recipe)
    agent: Agent[Any] = Agent(name="A", tools=[cook.as_tool("cook", "Cooks.", custom_output_extractor=extract)])
    payload = {"output": {"ingredients": ["egg"]}, "new_items": [CALL, OUTPUT]}

    assert await ask("agent_output", payload, agent) == {"output": "Cook after 2: egg"}


async def test_a_nested_runs_input_may_be_built_of_arguments() -> None:
    """Of parameters of ones own, as they are after reading; with their schema where that is wanted."""
    cook: Agent[Any] = Agent(name="Cook")
    as_tool = cook.as_tool(
        "cook", "Cooks.", parameters=Recipe, input_builder=lambda given: [given["params"], bool(given["json_schema"])]
    )
    agent: Agent[Any] = Agent(name="A", tools=[as_tool])

    assert await ask("agent_input", {"arguments_json": '{"ingredients":["egg"]}'}, agent) == {
        "input": [{"ingredients": ["egg"]}, False]
    }
    written = agent_to_pb(agent, lambda use: agent_pb2.HookRef(name=use.name)).tools[0].agent
    assert '"required":["ingredients"]' in written.parameters_json

    shown = agent.clone(tools=[cook.as_tool("cook", "Cooks.", parameters=Recipe, include_input_schema=True)])
    said = await ask("agent_input", {"arguments_json": '{"ingredients":["egg"]}'}, shown)
    assert '"egg"' in said["input"] and '"required": [' in said["input"]


async def test_a_function_that_gives_an_awaitable_is_waited_for() -> None:
    """Such as a lambda around a coroutine, which cannot be seen to be one."""

    async def later() -> str:
        return "later"

    agent: Agent[Any] = Agent(name="A", instructions=lambda c, a: asyncio.ensure_future(later()))

    assert await ask("instructions", {}, agent) == {"instructions": "later"}
