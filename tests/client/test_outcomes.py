"""What a run gives beside its final text: typed outputs, agents, replies, guardrails; and what it fails with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from tests.client.scripted import ScriptedServer, soon
from tests.client.turns import answer, call, failed, handed, handoff, message, output

import baton
from baton import (
    Agent,
    CallModelData,
    GuardrailFunctionOutput,
    MessageOutputItem,
    ModelInputData,
    RunConfig,
    Runner,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from baton.items.responses import RawItem
from baton.v1 import error_pb2, event_pb2, item_pb2, runner_pb2

FILTER = event_pb2.HANDLER_KIND_MODEL_INPUT_FILTER
AGENT: Agent[Any] = Agent(name="Assistant")


@dataclass
class Recipe:
    """A final output."""

    title: str
    minutes: int


def structured(text: str) -> runner_pb2.RunResponse:
    """A run that ended with a JSON value."""
    made = answer(message(text))
    made.turn.output_json = text
    return made


def answering(response: runner_pb2.RunResponse) -> Any:
    """Make a Run that gives this answer."""

    async def run(_request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        return response

    return run


# --- what it gives ------------------------------------------------------------------------------


async def test_a_final_output_is_of_the_agents_type(server: ScriptedServer) -> None:
    """Of the agent that ended the run, which need not be the one that began it."""
    cook: Agent[Any] = Agent(name="Cook", output_type=Recipe)
    made = structured('{"title": "Soup", "minutes": 20}')
    made.turn.last_agent = "Cook"
    server.runner.on_run = answering(made)

    result = await Runner.run(Agent(name="Assistant", handoffs=[cook]), "Hungry!")

    assert result.final_output == Recipe("Soup", 20)
    assert result.final_output_as(Recipe, raise_if_incorrect_type=True).minutes == 20
    assert result.last_agent is cook
    with pytest.raises(TypeError, match="Recipe, not str"):
        result.final_output_as(str, raise_if_incorrect_type=True)


async def test_a_list_is_a_final_output_too(server: ScriptedServer) -> None:
    """Whatever the model's API wants around it, it comes as it is."""
    server.runner.on_run = answering(structured('["a", "b"]'))

    result = await Runner.run(Agent(name="Assistant", output_type=list[str]), "Which?")

    assert result.final_output == ["a", "b"]


async def test_an_output_that_does_not_fit_the_type_is_the_models_fault(server: ScriptedServer) -> None:
    """Where the schema allows what the type does not; one of a function is taken as it is."""
    server.runner.on_run = answering(structured('{"title": "Soup", "minutes": "long"}'))
    agent: Agent[Any] = Agent(name="Assistant", output_type=Recipe)

    with pytest.raises(baton.ModelBehaviorError, match="minutes") as caught:
        await Runner.run(agent, "Hungry!")
    taken = await Runner.run(agent.clone(tool_use_behavior="stop_on_first_tool"), "Hungry!")

    assert caught.value.run_data is not None and caught.value.run_data.turn_id == "turn_1"
    assert taken.final_output == {"title": "Soup", "minutes": "long"}


async def test_items_name_the_agents_of_the_graph(server: ScriptedServer) -> None:
    """Agents that lead to one another are found by their names."""
    billing: Agent[Any] = Agent(name="Billing")
    assistant: Agent[Any] = Agent(name="Assistant", handoffs=[billing])
    billing.handoffs.append(assistant)
    said = message("Fixed.", 2, output_index=0)
    said.agent = "Billing"
    made = answer(handoff(output_index=0), handed(), said)
    made.turn.last_agent = "Billing"
    server.runner.on_run = answering(made)

    result = await Runner.run(assistant, "My bill!")

    assert [(item.type, item.agent) for item in result.new_items] == [
        ("handoff_call_item", assistant),
        ("handoff_output_item", assistant),
        ("message_output_item", billing),
    ]
    assert result.new_items[0].raw_item["name"] == "transfer_to_billing"
    assert result.new_items[1].to_input_item() == {
        "type": "function_call_output",
        "call_id": "fh_1",
        "output": "Billing",
    }
    assert result.last_agent is billing


async def test_replies_are_listed_with_their_tokens(server: ScriptedServer) -> None:
    """One that said nothing is there too; what an error handler put in its place is none of the model's."""
    made = answer(call("a"), output("x"), message("Fallback.", 2))
    for number in (1, 2):
        usage = item_pb2.Usage(requests=1, input_tokens=10 * number)
        made.round_usage.add(round=number, model="gpt", response_id=f"resp_{number}", usage=usage)
    server.runner.on_run = answering(made)

    result = await Runner.run(AGENT, "Hi")

    first, second = result.raw_responses
    assert (first.response_id, [item["type"] for item in first.output]) == ("resp_1", ["function_call"])
    assert first.to_input_items()[0]["call_id"] == "fc_1"
    assert (second.response_id, second.usage.input_tokens) == ("resp_2", 20)
    assert [one.input_tokens for one in result.usage.request_usage_entries] == [10, 20]


async def test_what_guardrails_said_is_told_by_their_definitions(server: ScriptedServer) -> None:
    """Each where it stands, with its reasons; what a rejected call was told in its place."""

    @input_guardrail
    def polite(_context: Any, _agent: Any, _input: Any) -> bool:
        return False

    @output_guardrail
    def short(_context: Any, _agent: Any, _output: Any) -> bool:
        return False

    @tool_input_guardrail
    def harmless(_data: Any) -> Any:
        return baton.ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail(name="No secrets")
    def no_secrets(_data: Any) -> Any:
        return baton.ToolGuardrailFunctionOutput.allow()

    @function_tool(tool_input_guardrails=[harmless], tool_output_guardrails=[no_secrets])
    def read(path: str) -> str:
        return path

    agent: Agent[Any] = Agent(name="Assistant", tools=[read], input_guardrails=[polite], output_guardrails=[short])
    made = answer(call("read"), output("withheld"), message("Done.", 2), text="Done.")
    passed, rejected = event_pb2.GUARDRAIL_VERDICT_PASSED, event_pb2.GUARDRAIL_VERDICT_CONTENT_REJECTED
    for name, stage, verdict, call_id, info in (
        ("polite", event_pb2.GUARDRAIL_STAGE_INPUT, passed, "", '{"score": 1}'),
        ("harmless", event_pb2.GUARDRAIL_STAGE_TOOL_INPUT, passed, "call_1", ""),
        ("No secrets", event_pb2.GUARDRAIL_STAGE_TOOL_OUTPUT, rejected, "call_1", '"found one"'),
        ("short", event_pb2.GUARDRAIL_STAGE_OUTPUT, passed, "", ""),
        ("a worker's", event_pb2.GUARDRAIL_STAGE_OUTPUT, passed, "", ""),
    ):
        made.guardrail_results.add(
            name=name, stage=stage, verdict=verdict, agent="Assistant", call_id=call_id, info_json=info
        )
    running = asyncio.create_task(Runner.run(agent, "Read it."))
    server.runner.on_run = answering(made)
    await server.attached()

    result = await soon(running)

    (before,), (after,) = result.tool_input_guardrail_results, result.tool_output_guardrail_results
    assert [(one.guardrail, one.output.output_info) for one in result.input_guardrail_results] == [
        (polite, {"score": 1})
    ]
    assert (before.guardrail, before.output.behavior) == (harmless, {"type": "allow"})
    assert (after.guardrail, after.output.output_info) == (no_secrets, "found one")
    assert after.output.behavior == {"type": "reject_content", "message": "withheld"}
    (final,) = result.output_guardrail_results
    assert (final.guardrail, final.agent, final.agent_output) == (short, agent, "Done.")


# --- what it fails with -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("OUTPUT_GUARDRAIL_TRIPPED", baton.OutputGuardrailTripwireTriggered),
        ("TOOL_FAILED", baton.UserError),
        ("USER_ERROR", baton.UserError),
        ("AGENT_GRAPH_INVALID", baton.UserError),
        ("CONVERSATION_LOCKED", baton.ConversationLockedError),
    ],
)
async def test_reasons_have_the_names_that_users_know(
    server: ScriptedServer, reason: str, kind: type[baton.AgentsException]
) -> None:
    """Those of the Agents SDK, where it has one."""
    server.runner.on_run = answering(failed(error_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}")))

    with pytest.raises(kind):
        await Runner.run(AGENT, "Hi")


async def test_a_timeout_says_how_long_it_was(server: ScriptedServer) -> None:
    """In seconds, and which function it was."""
    told = {"tool": "slow", "timeout": "0.5s", "call_id": "call_1"}
    server.runner.on_run = answering(failed(error_pb2.ERROR_REASON_TOOL_TIMEOUT, **told))

    with pytest.raises(baton.ToolTimeoutError) as caught:
        await Runner.run(AGENT, "Hi")

    assert (caught.value.tool_name, caught.value.timeout_seconds) == ("slow", 0.5)


async def test_a_tripped_output_guardrail_is_told_with_its_reasons(server: ScriptedServer) -> None:
    """The message that it struck stays among what the run made."""

    @output_guardrail
    def short(_context: Any, _agent: Any, _output: Any) -> bool:
        return True

    made = failed(error_pb2.ERROR_REASON_OUTPUT_GUARDRAIL_TRIPPED, message("Too long."), guardrail="short")
    made.guardrail_results.add(
        name="short",
        stage=event_pb2.GUARDRAIL_STAGE_OUTPUT,
        verdict=event_pb2.GUARDRAIL_VERDICT_TRIPPED,
        agent="Assistant",
        info_json='"too long"',
    )
    running = asyncio.create_task(Runner.run(Agent(name="Assistant", output_guardrails=[short]), "Hi"))
    server.runner.on_run = answering(made)
    await server.attached()

    with pytest.raises(baton.OutputGuardrailTripwireTriggered) as caught:
        await soon(running)

    struck = caught.value.guardrail_result
    assert struck is not None and (struck.guardrail, struck.agent.name) == (short, "Assistant")
    assert struck.output == GuardrailFunctionOutput("too long", True)
    assert caught.value.run_data is not None
    assert [item.type for item in caught.value.run_data.new_items] == ["message_output_item"]
    assert len(caught.value.run_data.raw_responses) == 1
    assert caught.value.run_data.output_guardrail_results == [struck]


async def test_the_reply_over_which_a_run_failed_is_not_among_what_it_made(server: ScriptedServer) -> None:
    """A refusal: the rounds before it stay."""
    refused = failed(
        error_pb2.ERROR_REASON_MODEL_REFUSAL,
        call("a", 1),
        output("x", 1),
        message("I won't.", 2, output_index=0),
        rounds=2,
        refusal="I won't.",
    )
    server.runner.on_run = answering(refused)

    with pytest.raises(baton.ModelRefusalError) as caught:
        await Runner.run(AGENT, "Hi")

    assert caught.value.refusal == "I won't."
    assert caught.value.run_data is not None
    assert [item.type for item in caught.value.run_data.new_items] == ["tool_call_item", "tool_call_output_item"]
    assert [one.response_id for one in caught.value.run_data.raw_responses] == ["resp_1"]


async def test_siblings_of_a_function_that_failed_a_run_stay(server: ScriptedServer) -> None:
    """With their outputs; the failed call, and calls that have none, do not count."""
    made = failed(
        error_pb2.ERROR_REASON_TOOL_FAILED,
        message("Let me.", 1, output_index=0),
        call("good", 1),
        call("bad", 2),
        call("open", 3),
        output("x", 1),
        output("crashed", 2),
        tool="bad",
        call_id="call_2",
    )
    server.runner.on_run = answering(made)

    with pytest.raises(baton.UserError) as caught:
        await Runner.run(AGENT, "Hi")

    assert caught.value.run_data is not None
    assert [f"{item.type}:{item.call_id}" for item in caught.value.run_data.new_items] == [
        "tool_call_item:fc_1",
        "tool_call_output_item:fc_1",
    ]
    assert len(caught.value.run_data.raw_responses) == 1


async def test_a_hook_of_this_process_raises_its_own_exception(server: ScriptedServer) -> None:
    """The very object, as the reference lets it through; a wrong answer is the program's own fault."""

    class Broken(Exception):
        """What a filter of this test raises."""

    broken = Broken("no")

    async def raising(_data: CallModelData[Any]) -> ModelInputData:
        raise broken

    def wrong(_data: CallModelData[Any]) -> Any:
        return "no input"

    async def run(request: runner_pb2.RunRequest) -> runner_pb2.RunResponse:
        name = request.run_config.model_input_filters[0].hook.name
        await peer.ask(FILTER, name, {"instructions": None, "input": []})
        told = (await peer.answer()).crash
        return failed(error_pb2.ERROR_REASON_HOOK_RAISED, kind="MODEL_INPUT_FILTER", name=name, type=told.type)

    server.runner.on_run = run
    first = asyncio.create_task(Runner.run(AGENT, "Hi", run_config=RunConfig(call_model_input_filter=raising)))
    peer = await server.attached()

    with pytest.raises(Broken) as caught:
        await soon(first)
    second = asyncio.create_task(Runner.run(AGENT, "Hi", run_config=RunConfig(call_model_input_filter=wrong)))
    await peer.receive("register")
    await peer.send(registered={"handlers": [{"kind": FILTER, "name": "wrong"}]})
    with pytest.raises(baton.UserError, match="must return a ModelInputData, not str") as faulty:
        await soon(second)

    assert caught.value is broken
    assert faulty.value.run_data is not None and faulty.value.run_data.last_agent is AGENT


async def test_a_hook_elsewhere_is_a_hook_error(server: ScriptedServer) -> None:
    """This process knows nothing of what it raised."""
    made = failed(error_pb2.ERROR_REASON_HOOK_RAISED, kind="MODEL_INPUT_FILTER", name="trim", type="KeyError")
    server.runner.on_run = answering(made)

    with pytest.raises(baton.HookError):
        await Runner.run(AGENT, "Hi", run_config=RunConfig(call_model_input_filter=baton.RemoteHook("trim")))


def test_helpers_read_and_write_items() -> None:
    """By the names of the Agents SDK."""
    raw = baton.ItemHelpers.tool_call_output_item({"call_id": "fc_1"}, {"a": 1})
    said = {
        "type": "message",
        "content": [{"type": "output_text", "text": "I "}, {"type": "refusal", "refusal": "won't."}],
    }

    assert raw == {"type": "function_call_output", "call_id": "fc_1", "output": '{"a":1}'}
    assert baton.ItemHelpers.input_to_new_input_list("Hi") == [{"role": "user", "content": "Hi"}]
    given = [{"role": "user", "content": ["x"]}]
    assert baton.ItemHelpers.input_to_new_input_list(given) == given
    assert baton.ItemHelpers.input_to_new_input_list(given)[0] is not given[0]
    assert baton.ItemHelpers.extract_text(said) == "I "
    assert baton.ItemHelpers.extract_last_text(said) is None
    assert baton.ItemHelpers.extract_last_content(said) == "won't."
    assert baton.ItemHelpers.extract_last_content({"type": "reasoning"}) == ""
    item = MessageOutputItem(agent=AGENT, raw_item=RawItem(said))
    assert baton.ItemHelpers.text_message_outputs([item, item]) == "I I "
