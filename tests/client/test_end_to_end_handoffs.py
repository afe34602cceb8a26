"""Handoffs at a real server: what the model says at one, what its receiver is shown, who may be handed over to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.client.end_to_end import Serve, Served, serve
from tests.support.scripted_model import calls, say

import baton
from baton import Agent, HandoffOutputItem, RunConfig, Runner, function_tool, handoff, handoff_filters

__all__ = ["serve"]

KYOTO = ("weather", '{"city":"Kyoto"}')
TO_BILLING = ("transfer_to_billing", "{}")
OPENS, CLOSES = "<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>"


class Reason(BaseModel):
    """What the model says at a handoff."""

    why: str
    urgent: bool = False


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


@pytest.fixture(autouse=True)
def _markers() -> Iterator[None]:
    """Leave the markers of folded conversations as they were."""
    yield
    baton.reset_conversation_history_wrappers()


def words(served: Served, request: int) -> list[str]:
    """Say what a request carried, in a word for each item."""
    return [_word(item) for item in served.model.input_of(request)]


def _word(item: dict[str, Any]) -> str:
    if item.get("type") == "function_call":
        return f"calls {item['name']}"
    said = item.get("output", item.get("content"))
    return said if isinstance(said, str) else "".join(part["text"] for part in said or ())


async def test_a_receiver_sees_everything_and_the_result_says_who_it_was(serve: Serve) -> None:
    """Unless something is said of it: the history goes along as it is, and the run ends with the receiver."""
    billing: Agent[None] = Agent(name="Billing", instructions="Be exact.")
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[billing])

    async with serve(calls(KYOTO), calls(TO_BILLING), say("It is paid.")) as served:
        result = await Runner.run(triage, "Hi")

        assert (result.final_output, result.last_agent) == ("It is paid.", billing)
        assert served.model.requests[2].instructions == "Be exact."
        assert words(served, 2) == [
            *("Hi", "calls weather", "rain in Kyoto", "calls transfer_to_billing"),
            '{"assistant":"Billing"}',
        ]
        (output,) = [item for item in result.new_items if isinstance(item, HandoffOutputItem)]
        assert (output.source_agent, output.target_agent) == (triage, billing)


async def test_what_the_model_says_at_a_handoff_is_a_value_of_its_type(serve: Serve) -> None:
    """The model is told the schema; the function gets context and value before the receiver begins."""
    heard: list[Any] = []

    async def on_handoff(ctx: Any, given: Reason) -> None:
        heard.append((ctx.context, given, len(served.model.requests)))

    billing: Agent[str] = Agent(name="Billing")
    triage: Agent[str] = Agent(name="Triage", handoffs=[handoff(billing, on_handoff=on_handoff, input_type=Reason)])
    said = calls(("transfer_to_billing", '{"why":"refund","urgent":true}'))

    async with serve(said, say("It is paid.")) as served:
        await Runner.run(triage, "Hi", context="user-7")

        assert heard == [("user-7", Reason(why="refund", urgent=True), 1)]
        (tool,) = served.model.requests[0].handoffs
        assert sorted(json.loads(tool.input_schema_json)["properties"]) == ["urgent", "why"]


async def test_what_does_not_fit_the_type_is_the_models_fault(serve: Serve) -> None:
    """The function is not called, the receiver not asked."""
    heard: list[Any] = []
    way = handoff(Agent(name="Billing"), on_handoff=lambda ctx, given: heard.append(given), input_type=Reason)

    async with serve(calls(("transfer_to_billing", '{"why":7}'))) as served:
        with pytest.raises(baton.ModelBehaviorError):
            await Runner.run(Agent(name="Triage", handoffs=[way]), "Hi")

        assert (heard, len(served.model.requests)) == ([], 1)


async def test_a_handoff_that_is_not_enabled_is_not_offered(serve: Serve) -> None:
    """It is asked each round; what is offered may be called otherwise than by default."""
    asked: list[int] = []

    def only_later(ctx: Any, agent: Agent[Any]) -> bool:
        asked.append(ctx.round)
        return bool(ctx.round > 1)

    sales = handoff(Agent(name="Sales"), tool_name_override="to_sales", tool_description_override="For buyers.")
    billing = handoff(Agent(name="Billing"), is_enabled=only_later)
    async with serve(calls(KYOTO), say("Bye.")) as served:
        await Runner.run(Agent[None](name="Triage", tools=[weather], handoffs=[sales, billing]), "Hi")

        offered = [[one.name for one in request.handoffs] for request in served.model.requests]
        assert offered == [["to_sales"], ["to_sales", "transfer_to_billing"]]
        assert asked == [1, 2]


async def test_of_two_handoffs_the_first_is_taken(serve: Serve) -> None:
    """The model is told that the other one was not."""
    agents = [Agent[None](name=name) for name in ("Billing", "Sales")]
    both = calls(TO_BILLING, ("transfer_to_sales", "{}"))

    async with serve(both, say("It is paid.")) as served:
        result = await Runner.run(Agent[None](name="Triage", handoffs=list(agents)), "Hi")

        assert result.last_agent is agents[0]
        outputs = [item["output"] for item in served.model.input_of(1) if item.get("type") == "function_call_output"]
        assert '{"assistant":"Billing"}' in outputs and len(outputs) == 2


async def test_tools_are_left_out_without_asking_anybody(serve: Serve) -> None:
    """The ready filter is data: what the receiver sees has no calls, what the run made has them."""
    way = handoff(Agent(name="Billing"), input_filter=handoff_filters.remove_all_tools)
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[way])

    async with serve(calls(KYOTO), calls(TO_BILLING), say("It is paid.")) as served:
        result = await Runner.run(triage, "Hi")

        assert words(served, 2) == ["Hi"]
        assert [item.type for item in result.new_items][:2] == ["tool_call_item", "tool_call_output_item"]


async def test_a_handoffs_own_filter_stands_in_for_the_runs(serve: Serve) -> None:
    """The run's is for those that have none."""
    billing: Agent[None] = Agent(name="Billing")
    billing.handoffs.append(Agent(name="Sales"))
    triage: Agent[None] = Agent(name="Triage", handoffs=[handoff(billing, input_filter=lambda data: data)])
    config = RunConfig(handoff_input_filter=lambda data: data.clone(input_history="Be quick.", new_items=()))

    async with serve(calls(TO_BILLING), calls(("transfer_to_sales", "{}")), say("Sold.")) as served:
        result = await Runner.run(triage, "Hi", run_config=config)

        assert result.final_output == "Sold."
        assert words(served, 1)[0] == "Hi"
        assert words(served, 2)[0] == "Be quick."


async def test_a_folded_conversation_is_one_message_between_markers(serve: Serve) -> None:
    """The receiver is given a transcript in place of the items."""
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[Agent(name="Billing")])

    async with serve(calls(KYOTO), calls(TO_BILLING), say("It is paid.")) as served:
        result = await Runner.run(triage, "Hi", run_config=RunConfig(nest_handoff_history=True))

        assert result.final_output == "It is paid."
        told = "\n".join(words(served, 2))
        assert OPENS in told and CLOSES in told and "Kyoto" in told
        assert not [item for item in served.model.input_of(2) if item.get("type") == "function_call_output"]


async def test_the_markers_of_folded_conversations_are_the_programs(serve: Serve) -> None:
    """They hold for the runs that begin afterwards, until they are reset."""
    config = RunConfig(nest_handoff_history=True)
    triage: Agent[None] = Agent(name="Triage", handoffs=[Agent(name="Billing")])
    script = [calls(TO_BILLING), say("It is paid.")]

    async with serve(*script, *script) as served:
        baton.set_conversation_history_wrappers(start="<<so far", end="so far>>")
        await Runner.run(triage, "Hi", run_config=config)
        baton.reset_conversation_history_wrappers()
        await Runner.run(triage, "Hi", run_config=config)

        own, default = "\n".join(words(served, 1)), "\n".join(words(served, 3))
        assert "<<so far" in own and "so far>>" in own and OPENS not in own
        assert OPENS in default and "<<so far" not in default


async def test_a_mapper_says_all_that_a_receiver_is_given(serve: Serve) -> None:
    """It gets the transcript, and what it gives is the input, item for item; a handoff may ask for it by itself."""
    seen: list[Any] = []

    async def shorten(transcript: list[Any]) -> list[Any]:
        seen.extend(transcript)
        return [{"role": "user", "content": f"{len(transcript)} items before"}]

    way = handoff(Agent(name="Billing"), nest_handoff_history=True)
    triage: Agent[None] = Agent(name="Triage", tools=[weather], handoffs=[way])
    async with serve(calls(KYOTO), calls(TO_BILLING), say("It is paid.")) as served:
        await Runner.run(triage, "Hi", run_config=RunConfig(handoff_history_mapper=shorten))

        assert words(served, 2) == [f"{len(seen)} items before"]
        assert "Hi" in json.dumps(seen)


async def test_a_receiver_that_hands_back_has_the_first_agent_go_on(serve: Serve) -> None:
    """Handoffs may lead round; each costs a round, and the limit holds over all of them."""
    billing: Agent[None] = Agent(name="Billing")
    triage: Agent[None] = Agent(name="Triage", handoffs=[billing])
    billing.handoffs.append(triage)
    back = ("transfer_to_triage", "{}")

    async with serve(calls(TO_BILLING), calls(back), calls(TO_BILLING), calls(back)) as served:
        with pytest.raises(baton.MaxTurnsExceeded):
            await Runner.run(triage, "Hi", max_turns=3)

        assert len(served.model.requests) == 3


async def test_a_function_that_raises_at_a_handoff_fails_the_run_with_its_exception(serve: Serve) -> None:
    """The receiver is not asked, and the program gets what it raised itself."""

    def refuse(ctx: Any) -> None:
        raise PermissionError("not on Sundays")

    async with serve(calls(TO_BILLING)) as served:
        with pytest.raises(PermissionError, match="Sundays"):
            way = handoff(Agent(name="Billing"), on_handoff=refuse)
            await Runner.run(Agent(name="Triage", handoffs=[way]), "Hi")

        assert len(served.model.requests) == 1
