"""The built-in model among agents: whom it hands over to, whom it asks, what shape its answers have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
from tests.model.asking import asking, failure
from tests.model.clock import InstantClock
from tests.model.demo_replies import AGENT, FUNCTIONS, INTEGER, TEXT, answered, calls_of, reply_to, text_in

from baton_server.core.agents import Agent, Handoff, OutputSchema
from baton_server.core.errors import Reason
from baton_server.core.responses import user_message
from baton_server.core.structured import unwrap, wrapped
from baton_server.core.tools import AgentTool, HostedTool, ToolSearch
from baton_server.model.demo import DemoModel

BILLING = Handoff(name="transfer_to_billing_agent", agent="Billing Agent")
TRIAGE = Agent(name="Triage", tools=FUNCTIONS[:2], handoffs=(Handoff(name="up", agent="Second Level"), BILLING))


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Ask billing about the weather in Oslo", ["transfer_to_billing_agent"]),
        ("Give me the second level please", ["up"]),
        ("The second one, on any level but agent", ["up"]),
        ("Is there an agent?", []),
        ("Weather in Oslo?", ["get_weather"]),
    ],
)
async def test_it_hands_over_to_an_agent_that_the_message_names(message: str, names: list[str]) -> None:
    """By all the words that tell it from others, and before anything else."""
    assert [name for name, _ in calls_of(await reply_to([user_message(message).json], TRIAGE))] == names


async def test_it_hands_over_once() -> None:
    """The agent that takes over does the rest, and two that know each other do not hand over for ever."""
    items = [user_message("Ask billing about the weather in Oslo").json]
    items += answered((await reply_to(items, TRIAGE)).items[0], '{"assistant": "Billing Agent"}')

    assert calls_of(await reply_to(items, TRIAGE)) == [("get_weather", {"city": "Oslo"})]
    text = text_in(await reply_to(items, Agent(name="Billing Agent", handoffs=(BILLING,))))
    assert text.startswith("[demo] You said “Ask billing")
    assert "Billing Agent" in text


async def test_it_asks_an_agent_what_follows_its_name() -> None:
    """Without its name, so that agents that know each other do not ask in a circle."""
    agent = Agent(name="Front", tools=(AgentTool(name="ask_billing", agent="Billing"), *FUNCTIONS[:1]))

    assert calls_of(await reply_to([user_message("Ask billing how much Anna owes us.").json], agent)) == [
        ("ask_billing", {"input": "how much Anna owes us"})
    ]
    assert calls_of(await reply_to([user_message("Billing?").json], agent)) == [("ask_billing", {"input": "unknown"})]


SHAPES = [
    {"type": "object", "properties": {"title": TEXT, "minutes": INTEGER}, "required": ["title", "minutes"]},
    {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}, "required": ["name"]}, "minItems": 2},
    {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"next": {"anyOf": [
        {"$ref": "#/$defs/Node"}, {"type": "null"}]}}, "required": ["next"], "additionalProperties": False}}},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    {"enum": ["red", "green"]},
    {"type": "boolean"},
]  # fmt: skip


@pytest.mark.parametrize("schema", SHAPES)
async def test_a_structured_answer_fits_its_schema(schema: dict[str, Any]) -> None:
    """The simplest one; a root that is no object travels wrapped, as from any model."""
    text = json.dumps(schema)
    agent = replace(AGENT, output_schema=OutputSchema(name="final_output", schema_json=text))

    answer_json = text_in(await reply_to([user_message("Hello!").json], agent))

    jsonschema_rs.validate(schema, json.loads(unwrap(answer_json) if wrapped(text) else answer_json))


async def test_a_structured_answer_is_labelled_too() -> None:
    """Where the schema has room for words; and functions are called before it."""
    agent = replace(AGENT, output_schema=OutputSchema(name="final_output", schema_json=json.dumps(SHAPES[0])))
    items = [user_message("Weather in Oslo?").json]
    first = await reply_to(items, agent)

    last = await reply_to([*items, *answered(first.items[0], "sunny")], agent)

    assert calls_of(first) == [("get_weather", {"city": "Oslo"})]
    assert json.loads(text_in(last)) == {"title": "[demo]", "minutes": 1}


@pytest.mark.parametrize("kept", [{"conversation_id": "conv_1"}, {"previous_response_id": "resp_1"}])
async def test_it_says_that_it_keeps_no_history(kept: dict[str, str]) -> None:
    """Rather than to answer as if the user had said nothing."""
    failed = await failure(DemoModel(InstantClock()), asking("demo", **kept))

    assert failed.reason is Reason.MODEL_REQUEST_INVALID
    assert "run_config.history" in failed.message


async def test_hosted_tools_and_searches_are_nothing_to_it() -> None:
    """It runs nothing; a deferred function needs no search to be found."""
    weather = replace(FUNCTIONS[0], defer_loading=True)
    agent = Agent(name="A", tools=(HostedTool(tool_json='{"type":"web_search"}'), ToolSearch(), weather))

    assert calls_of(await reply_to([user_message("On the web, what is the weather in Oslo?").json], agent)) == [
        ("get_weather", {"city": "Oslo"})
    ]
