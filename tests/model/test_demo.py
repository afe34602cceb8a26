"""The built-in model: what it calls, what it says, and that nothing upsets it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.asking import answer, asking
from tests.model.clock import InstantClock
from tests.model.demo_replies import AGENT, FUNCTIONS, INTEGER, TEXT, answered, calls_of, reply_to, text_in

from baton_server.core.agents import Agent
from baton_server.core.items import FunctionCall
from baton_server.core.responses import user_message
from baton_server.core.tools import FunctionTool
from baton_server.model.demo import DemoModel


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("What's the weather in Oslo?", [("get_weather", {"city": "Oslo"})]),
        ("weather in oslo please", [("get_weather", {"city": "oslo"})]),
        ('Weather of "my home town"?', [("get_weather", {"city": "my home town"})]),
        (
            "Compare the weather in Oslo and New York",
            [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "New York"})],
        ),
        (
            "Weather and time in Oslo?",
            [("get_weather", {"city": "Oslo"}), ("get_time", {"city": "Oslo"})],
        ),
        ("Add 2 and 40", [("add", {"a": 2, "b": 40})]),
        ("convert 99.5 USD to NOK", [("convert_currency", {"amount": 99.5, "source": "USD", "target": "NOK"})]),
        ("Where is my order ORD-1234?", [("lookupOrder", {"order_id": "ORD-1234"})]),
        ("What has Anna bought?", [("lookupOrder", {"order_id": "Anna"})]),
        ("Email bob@example.com “see you”", [("send_email", {"to": "bob@example.com", "body": "see you"})]),
        ("echo hello to the world", [("echo", {"text": "hello to the world"})]),
        ("roll the dice", [("roll_dice", {"sides": 6})]),
        ("roll a 20 sided dice", [("roll_dice", {"sides": 20})]),
        ("Hello!", []),
        ("", []),
    ],
)
async def test_it_calls_what_the_message_names(message: str, calls: list[tuple[str, Any]]) -> None:
    """Functions by their words, arguments by what the message offers."""
    assert calls_of(await reply_to([user_message(message).json])) == calls


async def test_it_talks_about_the_results() -> None:
    """One sentence for each, with the call and its output; it calls nothing twice."""
    items = [user_message("Weather in Oslo and Rome?").json]
    first = await reply_to(items)
    for call, output in zip(first.items, ("sunny, 21°", "rain"), strict=True):
        items += answered(call, output)

    text = text_in(await reply_to(items))

    assert text == "[demo] get_weather(city: Oslo) says “sunny, 21°”. get_weather(city: Rome) says “rain”."


async def test_it_says_what_it_is_when_it_has_nothing_to_do() -> None:
    """Nobody takes it for a model, and everybody sees what it can do."""
    text = text_in(await reply_to([user_message("Hello!").json]))

    assert text.startswith("[demo] You said “Hello!”.")
    assert "get_weather" in text
    assert "OPENAI_API_KEY" in text


async def test_a_new_turn_calls_again() -> None:
    """What was called before the last answer does not count."""
    items = [user_message("Weather in Oslo?").json]
    items += answered((await reply_to(items)).items[0], "sunny")
    items += [(await reply_to(items)).items[0].json, user_message("And the weather in Oslo now?").json]

    assert calls_of(await reply_to(items)) == [("get_weather", {"city": "Oslo"})]


async def test_without_parallel_calls_it_makes_them_one_by_one() -> None:
    """Each reply holds one call until all are made."""
    items = [user_message("Weather in Oslo and Rome?").json]
    made = []
    for _ in range(2):
        reply = await reply_to(items, parallel_tool_calls=False)
        made += calls_of(reply)
        items += answered(reply.items[0], "sunny")

    assert made == [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
    assert "Rome" in text_in(await reply_to(items, parallel_tool_calls=False))


@pytest.mark.parametrize(
    ("choice", "message", "names"),
    [
        ("none", "Weather in Oslo?", []),
        ("auto", "Hello!", []),
        ("required", "Hello!", ["get_weather"]),
        ("required", "Time in Oslo?", ["get_time"]),
        ("echo", "Weather in Oslo?", ["echo"]),
        ("no_such_function", "Weather in Oslo?", []),
        ("web_search", "Weather in Oslo?", []),
    ],
)
async def test_it_obeys_the_tool_choice(choice: str, message: str, names: list[str]) -> None:
    """As a model does."""
    reply = await reply_to([user_message(message).json], tool_choice=choice)

    assert [name for name, _ in calls_of(reply)] == names


async def test_a_required_call_is_not_made_twice() -> None:
    """A choice that is not dropped cannot keep a turn going for ever."""
    agent = Agent(name="A", tools=FUNCTIONS[:1])
    items = [user_message("Weather in Oslo?").json]
    items += answered((await reply_to(items, agent, tool_choice="required")).items[0], "sunny")

    assert "sunny" in text_in(await reply_to(items, agent, tool_choice="required"))


async def test_it_streams_word_by_word_with_a_pause_between() -> None:
    """The words are the text; a reply counts as one request and takes its time."""
    clock = InstantClock()

    deltas, reply = await answer(DemoModel(clock, word_delay_s=0.5), asking("demo", agent=AGENT))

    assert len(deltas) > 10
    assert "".join(delta.text for delta in deltas) == text_in(reply)
    assert clock.slept == [0.5] * (len(deltas) - 1)
    assert (reply.model, reply.usage.requests) == ("demo", 1)
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 10
    assert reply.duration_ms == 500 * (len(deltas) - 1)


async def test_the_same_request_has_the_same_reply() -> None:
    """Also after a crash, down to the ids; another round has others."""
    request = asking("demo", items=(user_message("Weather in Oslo and Rome?").json,), agent=AGENT)
    _, first = await answer(DemoModel(InstantClock()), request)
    _, again = await answer(DemoModel(InstantClock()), request)
    _, later = await answer(DemoModel(InstantClock()), asking("demo", items=request.items, agent=AGENT, round=2))

    ids = [item.body.model_call_id for r in (first, later) for item in r.items if isinstance(item.body, FunctionCall)]
    assert first == again
    assert len(ids) == len(set(ids)) == 4


@pytest.mark.parametrize(
    "items",
    [
        [],
        ["no JSON"],
        ["7", "null", "[" * 100_000],
        ['{"type":"function_call"}', '{"type":"function_call_output","output":7}'],
        ['{"type":"function_call","call_id":["x"],"name":3,"arguments":[1]}'],
        ['{"type":"function_call_output","call_id":{"a":1},"output":null}'],
        ['{"role":"user","content":[{"type":"input_image"},{"text":5},"x"]}', '{"type":"reasoning","summary":[]}'],
        ['{"role":"user","content":"half \\ud83d"}'],
        ['{"role":"user","content":"' + "«'“" * 30_000 + '"}'],
        ['{"role":"user","content":"' + "x" * 200_000 + '"}'],
    ],
)
async def test_odd_items_are_answered_too(items: list[str]) -> None:
    """They come from callers and from other models."""
    reply = await reply_to(items)

    assert text_in(reply).startswith("[demo]")
    assert all(item.json.encode() for item in reply.items)


FITTING = [
    {"type": "object", "properties": {"when": {"type": ["string", "null"]}}, "required": ["when"]},
    {"type": "object", "properties": {"note": TEXT}},
    {"type": "object", "properties": {"tags": {"type": "array", "items": TEXT, "minItems": 2}}, "required": ["tags"]},
    {"type": "object", "properties": {"ns": {"type": "array", "items": INTEGER, "maxItems": 1}}, "required": ["ns"]},
    {
        "type": "object",
        "properties": {"at": {"type": "object", "properties": {"city": TEXT, "n": INTEGER}, "required": ["city", "n"]}},
        "required": ["at"],
    },
    {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}},
        "required": ["at"],
        "$defs": {"Place": {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}},
    },
    {"type": "object", "properties": {"u": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}]}}, "required": ["u"]},
    {"type": "object", "properties": {"x": {"allOf": [{"type": "integer"}, {"minimum": 50}]}}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"const": 5}, "y": {"type": "boolean"}}, "required": ["x", "y"]},
    {"type": "object", "properties": {"x": {"type": "string", "minLength": 30}}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"type": "string", "maxLength": 2}}, "required": ["x"]},
    {"type": "object", "properties": {"x": {"type": "number", "maximum": 0.5}}, "required": ["x"]},
    {"type": "object", "properties": {"n": {"default": 3, "type": "integer"}}, "required": ["n"]},
    {"type": "object", "additionalProperties": False},
    {},
]


@pytest.mark.parametrize("schema", FITTING)
@pytest.mark.parametrize("message", ["use tool", "use tool for Oslo and Rome with 7 and 1.5 and c, note it"])
async def test_arguments_fit_their_schema(schema: dict[str, Any], message: str) -> None:
    """Whether the message says much or nothing."""
    agent = Agent(name="A", tools=(FunctionTool(name="tool", parameters_json=json.dumps(schema)),))

    calls = calls_of(await reply_to([user_message(message).json], agent))

    assert calls
    for _, arguments in calls:
        jsonschema_rs.validate(schema, arguments)


@pytest.mark.parametrize(
    "parameters",
    [
        "",
        "no JSON",
        "true",
        "[]",
        "[" * 100_000,
        '{"properties":7,"required":"x"}',
        '{"properties":{"x":true,"y":{"type":7,"enum":[]},"z":{"anyOf":[]}},"required":["x","y","z","w"]}',
        '{"properties":{"x":{"$ref":"#/properties/x"}},"required":["x"]}',
        '{"properties":{"x":{"$ref":"elsewhere.json"}},"required":["x"]}',
        '{"properties":{"x":{"type":"array","items":{"type":"string"},"minItems":1e9}},"required":["x"]}',
        '{"properties":{"x":{"type":"integer","minimum":"a lot"}},"required":["x"]}',
    ],
)
async def test_odd_schemas_are_answered_too(parameters: str) -> None:
    """What is not understood gives an object all the same."""
    agent = Agent(name="A", tools=(FunctionTool(name="tool", parameters_json=parameters),))

    (call,) = calls_of(await reply_to([user_message("use tool").json], agent))

    assert isinstance(call[1], dict)


async def test_a_schema_that_holds_itself_many_times_ends() -> None:
    """Arguments have a bound, whatever a schema unfolds to."""
    names = [f"p{number}" for number in range(20)]
    node = {"type": "object", "properties": {name: {"$ref": "#"} for name in names}, "required": names}
    agent = Agent(name="A", tools=(FunctionTool(name="tool", parameters_json=json.dumps(node)),))

    reply = await reply_to([user_message("use tool").json], agent)

    assert len(reply.items[0].json) < 100_000


KEYWORDS = ["type", "properties", "required", "items", "enum", "const", "default", "anyOf", "allOf", "$ref", "minItems"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(parameters=st.dictionaries(st.sampled_from(KEYWORDS), JSON, max_size=5), message=st.text(max_size=40))
async def test_no_schema_and_no_message_upsets_it(parameters: dict[str, Any], message: str) -> None:
    """Every request is answered validly."""
    agent = Agent(name="A", tools=(FunctionTool(name="tool", parameters_json=json.dumps(parameters)),))

    reply = await reply_to([user_message(f"tool {message}").json], agent)

    assert all(isinstance(arguments, dict) for _, arguments in calls_of(reply))
