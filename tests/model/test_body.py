"""Bodies of requests, byte by byte."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from tests.model.asking import HELLO, PLAIN, asking, function

from baton_server.core.agents import Agent, Handoff, OutputSchema
from baton_server.core.settings import ModelSettings, RetryKind, RetryRule, RetrySettings
from baton_server.core.tools import FunctionTool
from baton_server.model.body import MAX_HEADS, BodyWriter
from baton_server.model.extras import RequestError

SCHEMA = '{ "type" : "object",\n"properties":{"n":{"maximum":1e3,"const":123456789012345678901234567890}}}'


def written(agent: Agent = PLAIN, settings: ModelSettings | None = None, items: tuple[str, ...] = (HELLO,)) -> str:
    """Write the body of a request to "m"."""
    return BodyWriter().write(asking("m", agent=agent, settings=settings, items=items), "m").decode()


def test_a_plain_request_is_exactly_its_parts() -> None:
    """What is not said is not sent."""
    assert written() == (
        '{"model":"m","instructions":"Be concise.","stream":true,"input":[{"content":"Hello","role":"user"}]}'
    )


def test_no_instructions_and_no_items_are_valid() -> None:
    """An agent may have no instructions, and a turn no input."""
    assert written(Agent(name="A"), items=()) == '{"model":"m","stream":true,"input":[]}'


def test_empty_instructions_are_sent() -> None:
    """Only an agent without instructions has none."""
    assert json.loads(written(Agent(name="A", instructions="")))["instructions"] == ""


def test_tools_carry_their_parameters_byte_for_byte() -> None:
    """The schema's white space, numbers and order of keys reach the model."""
    tools = (
        FunctionTool(name="count", description='Counts "all".', parameters_json=SCHEMA, strict=False),
        FunctionTool(name="plain", parameters_json="{}", strict=True),
    )

    body = written(Agent(name="A", tools=tools))

    assert body == (
        '{"model":"m","tools":[{"type":"function","name":"count","description":"Counts \\"all\\".",'
        f'"parameters":{SCHEMA},"strict":false}},'
        '{"type":"function","name":"plain","parameters":{},"strict":true}],'
        '"stream":true,"input":[{"content":"Hello","role":"user"}]}'
    )


EVERYTHING = ModelSettings(
    temperature=0.0,
    top_p=0.9,
    frequency_penalty=1.0,
    presence_penalty=1.0,
    tool_choice="required",
    parallel_tool_calls=True,
    truncation="auto",
    max_tokens=100,
    reasoning_effort="low",
    reasoning_summary="auto",
    verbosity="high",
    metadata={"k": "v"},
    store=False,
    prompt_cache_retention="24h",
    include_usage=True,
    response_include=("reasoning.encrypted_content", "message.output_text.logprobs"),
    top_logprobs=0,
    extra_query={"q": "1"},
    extra_body_json='{"service_tier":"flex","temperature":1.50}',
    extra_headers={"X-A": "1"},
    extra_args_json='{"safety_identifier":"u1", "n" : 1e3 }',
    retry=RetrySettings(max_retries=2, rule=RetryRule(kind=RetryKind.NETWORK_ERROR)),
    context_management_json='[ {"type":"compaction","compact_threshold":1e5} ]',
    prompt_cache_options_json='{"ttl":60}',
    preserve_raw_usage=True,
    timeout_s=3.0,
)


def test_every_setting_goes_where_the_api_has_it() -> None:
    """Names and nesting are those of the Responses API, which has no penalties; the rest goes beside the body."""
    text = written(replace(PLAIN, tools=(function("f"),)), EVERYTHING)

    body = json.loads(text)
    for key in ("model", "instructions", "tools", "stream", "input"):
        del body[key]
    assert body == {
        "temperature": 1.5,
        "top_p": 0.9,
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "truncation": "auto",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "high"},
        "metadata": {"k": "v"},
        "store": False,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "top_logprobs": 0,
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "safety_identifier": "u1",
        "n": 1000,
        "context_management": [{"type": "compaction", "compact_threshold": 100000}],
        "prompt_cache_options": {"ttl": 60},
    }
    for as_it_came in ('"temperature":1.50', '"n":1e3', '[ {"type":"compaction","compact_threshold":1e5} ]'):
        assert as_it_came in text


def test_every_setting_is_in_the_example() -> None:
    """So that a new one is not forgotten here."""
    assert [
        f.name for f in fields(ModelSettings) if getattr(EVERYTHING, f.name) == getattr(ModelSettings(), f.name)
    ] == []


def test_log_probabilities_are_asked_for_by_their_number() -> None:
    """The API wants them named among what it includes, too."""
    body = json.loads(written(settings=ModelSettings(top_logprobs=2, response_include=("x",))))

    assert (body["top_logprobs"], body["include"]) == (2, ["x", "message.output_text.logprobs"])


@pytest.mark.parametrize("settings", [{"extra_body_json": '{"top_p":0.5}', "top_p": 0.9}, {"top_p": 0.5}])
def test_the_extra_body_replaces_what_it_names(settings: dict[str, Any]) -> None:
    """Once, not twice: two members of one name mean nothing certain."""
    assert written(settings=ModelSettings(**settings)).count('"top_p":0.5') == 1
    assert '"top_p":0.9' not in written(settings=ModelSettings(**settings))


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"top_p": 0.9, "extra_args_json": '{"top_p":0.5}'}, "extra_args_json.top_p"),
        ({"extra_body_json": '{"a":1}', "extra_args_json": '{"a":2}'}, "extra_args_json.a"),
        ({"extra_args_json": '{"instructions":"Other."}'}, "extra_args_json.instructions"),
        ({"extra_args_json": '{"stream":false}'}, "extra_args_json.stream"),
        ({"extra_body_json": '{"input":[]}'}, "extra_body_json.input"),
        ({"extra_body_json": '{"previous_response_id":"resp_1"}'}, "extra_body_json.previous_response_id"),
        ({"extra_body_json": "[1]"}, "extra_body_json"),
        ({"extra_args_json": '{"a":'}, "extra_args_json"),
    ],
)
def test_what_cannot_be_added_is_named(settings: dict[str, Any], param: str) -> None:
    """A setting said twice, or the server's own, is no matter of chance."""
    with pytest.raises(RequestError) as caught:
        written(settings=ModelSettings(**settings))

    assert caught.value.param == param


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        ({}, {}),
        ({"conversation_id": "conv_1"}, {"conversation": "conv_1"}),
        ({"previous_response_id": "resp_1"}, {"previous_response_id": "resp_1"}),
    ],
)
def test_what_the_api_keeps_is_named(kept: dict[str, str], sent: dict[str, str]) -> None:
    """The items are then what is new, and the head is the same for all rounds."""
    writer = BodyWriter()
    writer.write(asking("m", head="1"), "m")

    body = json.loads(writer.write(asking("m", head="1", **kept), "m"))

    assert {key: value for key, value in body.items() if key in ("conversation", "previous_response_id")} == sent
    assert body["input"] == [json.loads(HELLO)]


def test_a_schema_is_asked_for_as_it_is() -> None:
    """With its name, and the verbosity beside it."""
    agent = replace(PLAIN, output_schema=OutputSchema(name="final_output", schema_json=SCHEMA))

    text = written(agent, ModelSettings(verbosity="low"))

    assert (
        f'"text":{{"format":{{"type":"json_schema","name":"final_output","schema":{SCHEMA},"strict":true}},'
        '"verbosity":"low"}'
    ) in text


def test_a_schema_whose_root_is_no_object_is_asked_for_inside_one() -> None:
    """Loosely, where the agent says so."""
    schema = OutputSchema(name="names", schema_json='{"type":"array","items":{"type":"string"}}', strict=False)

    asked = json.loads(written(replace(PLAIN, output_schema=schema)))["text"]["format"]

    assert (asked["name"], asked["strict"]) == ("names", False)
    assert asked["schema"]["properties"]["response"] == {"type": "array", "items": {"type": "string"}}


def test_handoffs_are_tools_too() -> None:
    """A permission of parallel calls concerns them."""
    agent = replace(PLAIN, handoffs=(Handoff(name="transfer_to_b", agent="B"),))

    body = json.loads(written(agent, ModelSettings(parallel_tool_calls=True)))

    assert [tool["name"] for tool in body["tools"]] == ["transfer_to_b"]
    assert body["parallel_tool_calls"] is True


@pytest.mark.parametrize("allowed", [True, False, None])
def test_nothing_is_said_of_parallel_calls_where_there_are_no_tools(allowed: bool | None) -> None:
    """The API refuses a permission that concerns nothing, and a ban says nothing; so does the Agents SDK."""
    body = json.loads(written(settings=ModelSettings(parallel_tool_calls=allowed)))

    assert "parallel_tool_calls" not in body


@pytest.mark.parametrize(
    "item",
    [
        '{"role":"user","content":"Grüße, 世界 🌍"}',
        '{"role":"user","content":"half a pair: \\ud83d"}',
        '{"type":"x","n":123456789012345678901234567890,"f":1.0,"e":1e400,"z":-0.0}',
        '{"b":1,"a":2,"b":3}',
        '{ "role" : "user" }',
    ],
)
def test_an_item_is_sent_as_the_text_that_it_is(item: str) -> None:
    """Nothing is parsed to be written again: numbers, escapes, order and white space stay."""
    body = BodyWriter().write(asking("m", items=(HELLO, item)), "m")

    assert body.endswith(b'"input":[' + HELLO.encode() + b"," + item.encode() + b"]}")


def test_a_lone_surrogate_in_a_text_is_escaped() -> None:
    """UTF-8 cannot carry it raw, JSON can say it."""
    body = BodyWriter().write(asking("m", items=('{"content":"\ud83d"}',)), "m")

    assert body.endswith(b'[{"content":"\\ud83d"}]}')
    assert json.loads(body)["input"] == [{"content": "\ud83d"}]


def test_the_head_follows_what_it_is_made_of() -> None:
    """A remembered head is used for the same agent, model and settings, and for nothing else."""
    writer = BodyWriter()
    other = replace(PLAIN, instructions="Be verbose.")
    forced = ModelSettings(tool_choice="required", metadata={"k": "v"})
    requests = [
        asking("m", head="1"),
        asking("m", head="2", agent=other),
        asking("m", head="1", settings=forced),
        asking("m", head="1", settings=replace(forced, tool_choice=None)),
        asking("m", head="1", settings=replace(forced, metadata={"k": "w"})),
        asking("m", head="1", settings=replace(forced, extra_body_json='{"a":1}')),
    ]

    bodies = [writer.write(request, model) for request in requests * 2 for model in ("m", "n")]

    assert bodies == [BodyWriter().write(request, model) for request in requests * 2 for model in ("m", "n")]
    assert len(set(bodies)) == 12


def test_a_remembered_head_takes_new_items() -> None:
    """The second round of a turn sends its own input."""
    writer = BodyWriter()
    writer.write(asking("m", head="1"), "m")

    body = json.loads(writer.write(asking("m", head="1", items=(HELLO, HELLO)), "m"))

    assert len(body["input"]) == 2


def test_heads_without_a_name_are_not_confused() -> None:
    """Two agents that nothing tells apart get a head each."""
    writer = BodyWriter()
    writer.write(asking("m"), "m")

    body = json.loads(writer.write(asking("m", agent=Agent(name="B", instructions="Other.")), "m"))

    assert body["instructions"] == "Other."


def test_old_heads_are_forgotten_and_written_again() -> None:
    """More agents than heads are kept: each still gets its own."""
    writer = BodyWriter()
    agents = [Agent(name="A", instructions=str(number)) for number in range(MAX_HEADS + 2)]

    for _ in range(2):
        for number, agent in enumerate(agents):
            body = json.loads(writer.write(asking("m", agent=agent, head=str(number)), "m"))
            assert body["instructions"] == str(number)
