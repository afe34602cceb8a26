"""Bodies of requests, byte by byte."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.model.asking import HELLO, PLAIN, asking, function

from baton_server.core.agents import Agent, FunctionTool, ModelSettings
from baton_server.model.body import MAX_HEADS, BodyWriter

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

    body = written(Agent(name="A", functions=tools))

    assert body == (
        '{"model":"m","tools":[{"type":"function","name":"count","description":"Counts \\"all\\".",'
        f'"parameters":{SCHEMA},"strict":false}},'
        '{"type":"function","name":"plain","parameters":{},"strict":true}],'
        '"stream":true,"input":[{"content":"Hello","role":"user"}]}'
    )


def test_every_setting_goes_where_the_api_has_it() -> None:
    """Names and nesting are those of the Responses API."""
    settings = ModelSettings(
        temperature=0.0,
        top_p=0.9,
        tool_choice="required",
        parallel_tool_calls=True,
        truncation="auto",
        max_tokens=100,
        reasoning_effort="low",
        reasoning_summary="auto",
        verbosity="high",
        metadata={"k": "v"},
        store=False,
    )

    body = json.loads(written(replace(PLAIN, functions=(function("f"),)), settings))

    for key in ("model", "instructions", "tools", "stream", "input"):
        del body[key]
    assert body == {
        "temperature": 0.0,
        "top_p": 0.9,
        "tool_choice": "required",
        "parallel_tool_calls": True,
        "truncation": "auto",
        "max_output_tokens": 100,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "high"},
        "metadata": {"k": "v"},
        "store": False,
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        ("get_weather", {"type": "function", "name": "get_weather"}),
    ],
)
def test_a_function_is_chosen_by_its_name(choice: str, sent: object) -> None:
    """The three words go as they are; anything else is a function."""
    assert json.loads(written(settings=ModelSettings(tool_choice=choice)))["tool_choice"] == sent


@pytest.mark.parametrize(("allowed", "sent"), [(True, {}), (False, {"parallel_tool_calls": False}), (None, {})])
def test_parallel_calls_are_permitted_only_where_there_are_tools(allowed: bool | None, sent: dict[str, bool]) -> None:
    """The API refuses a permission without tools; a ban goes out in any case, as the Agents SDK does it."""
    body = json.loads(written(settings=ModelSettings(parallel_tool_calls=allowed)))

    assert {key: value for key, value in body.items() if key.startswith("parallel")} == sent


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
        asking("m", digest="1"),
        asking("m", digest="2", agent=other),
        asking("m", digest="1", settings=forced),
        asking("m", digest="1", settings=replace(forced, tool_choice=None)),
    ]

    bodies = [writer.write(request, model) for request in requests * 2 for model in ("m", "n")]

    assert bodies == [BodyWriter().write(request, model) for request in requests * 2 for model in ("m", "n")]
    assert len(set(bodies)) == 8


def test_a_remembered_head_takes_new_items() -> None:
    """The second round of a turn sends its own input."""
    writer = BodyWriter()
    writer.write(asking("m", digest="1"), "m")

    body = json.loads(writer.write(asking("m", digest="1", items=(HELLO, HELLO)), "m"))

    assert len(body["input"]) == 2


def test_heads_without_a_digest_are_not_confused() -> None:
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
            body = json.loads(writer.write(asking("m", agent=agent, digest=str(number)), "m"))
            assert body["instructions"] == str(number)
