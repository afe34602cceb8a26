"""Schemas of final outputs as a model is asked for them, and values as it answers them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from baton_server.core.jsontext import JsonError
from baton_server.core.structured import asked_schema, unwrap, wrap, wrapped

OBJECT = '{ "type" : "object", "properties": {"n": {"maximum": 1e3}} }'
POINT = {
    "type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "is_wrapped"),
    [
        (OBJECT, False),
        ('{"$ref":"#/$defs/P","$defs":{"P":{"type":"object"}}}', False),
        ('{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"$ref":"#/$defs/P"},"P":{"type":"object"}}}', False),
        ('{"$ref":"#/$defs/P","$defs":{"P":{"enum":["a","b"]}}}', True),
        ('{"$ref":"#/$defs/Q","$defs":{}}', True),
        ('{"$ref":"#"}', True),
        ('{"$ref":"https://elsewhere.example/schema"}', True),
        ('{"type":"array","items":{"type":"string"}}', True),
        ('{"type":["object","null"]}', True),
        ('{"anyOf":[{"type":"object"}]}', True),
        ('{"type":"integer"}', True),
        ("{}", True),
        ("true", True),
    ],
)
def test_a_root_that_is_no_object_travels_wrapped(schema: str, is_wrapped: bool) -> None:
    """A model's API takes nothing else at the root."""
    assert wrapped(schema) is is_wrapped


def test_an_object_is_asked_for_as_it_is() -> None:
    """To the last space."""
    assert asked_schema(OBJECT) is OBJECT


def test_a_wrapped_schema_keeps_its_own_text() -> None:
    """White space, numbers and order of keys stay; the wrapper is closed, so that it can be adhered to."""
    schema = '{"type":"array", "items":{ "type":"number","maximum":1e3 },"maxItems":12345678901234567890}'

    assert asked_schema(schema) == (
        '{"type":"object","properties":{"response":{"type":"array","items":{ "type":"number","maximum":1e3 },'
        '"maxItems":12345678901234567890}},"required":["response"],"additionalProperties":false}'
    )


def test_definitions_move_to_the_root() -> None:
    """References to them go on to fit."""
    schema = {"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": POINT}}

    asked = json.loads(asked_schema(json.dumps(schema)))

    assert asked["$defs"] == {"P": POINT}
    assert asked["properties"] == {"response": {"type": "array", "items": {"$ref": "#/$defs/P"}}}


TREES: list[tuple[dict[str, Any], Any, Any]] = [
    ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}, [[], None], [[1]]),
    ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}, [1, [2, []]], [1, ["x"]]),
    (
        {"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]},
        [1, 2],
        [1, "x"],
    ),
    ({"type": "array", "items": {"$ref": "#/$defs/P"}, "$defs": {"P": POINT}}, [{"x": 1}], [{"y": 1}]),
    ({"$ref": "#/definitions/C", "definitions": {"C": {"enum": ["a", "b"]}}}, "a", "c"),
    (
        {"type": "array", "items": {"$ref": "#/$defs/T"}, "$defs": {"T": {"anyOf": [POINT, {"$ref": "#"}]}}},
        [{"x": 1}, [{"x": 2}]],
        [{"x": 1}, [{"x": "y"}]],
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), TREES)
def test_a_wrapped_schema_says_of_the_value_what_it_said_before(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """References to itself and to its parts follow it inside."""
    asked = validator_for(asked_schema(json.dumps(schema)))

    for value, fits in ((good, True), (bad, False)):
        assert validator_for(schema).is_valid(value) is fits
        assert asked.is_valid(json.loads(wrap(json.dumps(value)))) is fits


def test_a_text_that_looks_like_a_reference_is_left_alone() -> None:
    """Only what the schema means as one is moved."""
    schema = json.dumps({"type": "string", "examples": ['{"$ref":"#"}'], "description": 'see "$ref":"#"'})

    asked = json.loads(asked_schema(schema))

    assert asked["properties"]["response"] == json.loads(schema)


@pytest.mark.parametrize("schema", ["no JSON", "", '{"type":"array"', '{"a":NaN}'])
def test_what_is_no_json_is_no_schema(schema: str) -> None:
    """Whoever accepts a schema hears of it at once."""
    with pytest.raises(JsonError):
        asked_schema(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["", " ", "\n\t"]))
def test_a_value_comes_out_as_it_went_in(value: Any, space: str) -> None:
    """Byte for byte, whatever space a model puts around it."""
    text = json.dumps(value)

    assert unwrap(wrap(text)) == text
    assert unwrap(f'{space}{{{space}"response"{space}:{space}{text}{space}}}{space}') == text


@pytest.mark.parametrize("text", ["1.0", "1e400", "123456789012345678901234567890", '{ "a" : [1.10] }', '"\\ud83d"'])
def test_numbers_and_escapes_stay_as_the_model_wrote_them(text: str) -> None:
    """Nothing is parsed to be written again."""
    assert unwrap(f'{{"response":{text}}}') == text


@pytest.mark.parametrize("text", ["", "[1]", "5", "{}", '{"value":1}', '{"response":1', '{"response":NaN}'])
def test_an_answer_without_the_member_is_refused(text: str) -> None:
    """The model did not do what it was asked for."""
    with pytest.raises(JsonError):
        unwrap(text)
