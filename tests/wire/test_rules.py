"""JSON Schema rules: words for the model, schemas that can be used, and what strict needs."""

import json
from dataclasses import replace

import pytest

from baton_server.core.tools import AgentTool, FunctionTool
from baton_server.ports.rules import SchemaRules
from baton_server.wire.rules import JsonRules, output_schema_problem, schema_problem, strict_allows

RULES: SchemaRules = JsonRules()
DIGESTS = JsonRules()

CLOSED = {"type": "object", "additionalProperties": False}
CITY = json.dumps(
    {**CLOSED, "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
     "required": ["city", "days"]}
)  # fmt: skip


def test_a_value_that_fits_breaks_nothing() -> None:
    """The handler is called."""
    assert RULES.violation(CITY, '{"city": "Kyoto", "days": [1, 2]}') is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ('{"city": 3, "days": []}', ["$.city", '"string"', "properties/city/type"]),
        ('{"city": "Kyoto"}', ["$:", '"days"', "required"]),
        ('{"city": "Kyoto", "days": [1, "two"]}', ["$.days[1]", '"integer"']),
        ('{"city": "Kyoto", "days": [], "unit": "C"}', ["'unit'", "additionalProperties"]),
        ("{", ["cannot be checked", "no JSON"]),
        ("NaN", ["cannot be checked"]),
        ("[" * 500 + "]" * 500, ["nested too deeply"]),
        ('{"city": "Kyoto", "days": [' + "9" * 5000 + "]}", ["cannot be checked"]),
    ],
)
def test_a_violation_names_path_and_constraint(value: str, words: list[str]) -> None:
    """The model can correct what it is told."""
    said = RULES.violation(CITY, value)

    assert said is not None
    assert all(word in said for word in words)
    assert said == RULES.violation(CITY, value)


def test_a_violation_is_short_however_long_the_value() -> None:
    """What the model wrote is not sent back to it whole."""
    said = RULES.violation(CITY, json.dumps({"city": ["x" * 100_000], "days": []}))

    assert said is not None
    assert len(said) < 1000


def test_numbers_keep_their_value() -> None:
    """A big integer is one, and is not rounded into a bound."""
    schema = '{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740992}}}'

    assert RULES.violation(schema, '{"n": 9007199254740992}') is None
    assert RULES.violation(schema, '{"n": 9007199254740993}') is not None
    assert RULES.violation(schema, '{"n": 1e400}') is not None


def test_a_pattern_that_backtracks_ends() -> None:
    """A schema of a stranger cannot stop the server."""
    schema = '{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}'

    assert RULES.violation(schema, json.dumps({"a": "a" * 5000 + "b"})) is not None


def test_a_schema_that_cannot_be_used_is_named() -> None:
    """It was pinned by a release that took it."""
    assert "own schema" in (RULES.violation('{"type":"strng"}', "{}") or "")


@pytest.mark.parametrize(
    "schema",
    [
        CITY,
        '{"type":"object"}',
        '{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}',
        '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}',
        '{"type":"object","description":"' + "x" * 50_000 + '"}',
    ],
)
def test_a_schema_of_an_object_can_be_used(schema: str) -> None:
    """Drafts and local references included, and a long one too."""
    assert schema_problem(schema) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("", "no JSON"),
        ("{'type': 'object'}", "no JSON"),
        ("true", '"type": "object"'),
        ("{}", '"type": "object"'),
        ('{"type":"string"}', '"type": "object"'),
        ('{"type":["object","null"]}', '"type": "object"'),
        ('{"type":"object","properties":[]}', "$.properties"),
        ('{"type":"object","properties":{"a":{"type":"strng"}}}', "$.properties.a.type"),
        ('{"type":"object","properties":{"a":{"pattern":"("}}}', "$.properties.a.pattern"),
        ('{"type":"object","properties":{"a":{"$ref":"#/$defs/B"}}}', "/$defs/B"),
        ('{"type":"object","properties":{"a":{"$ref":"https://example.com/s"}}}', "https://example.com/s"),
        ('{"type":"object","$ref":"file:///etc/hosts"}', "file:///etc/hosts"),
        ('{"type":"object","x":' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
        ('{"type":"object","x":' + "9" * 5000 + "}", "cannot be used"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: str, words: str) -> None:
    """Nothing is fetched, and the place of the fault is named."""
    assert words in (schema_problem(schema) or "")


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (json.loads(CITY), True),
        (CLOSED, True),
        ({**CLOSED, "properties": {}}, True),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, False),
        ({**CLOSED, "properties": {"a": {"type": "string"}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "object"}}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {**CLOSED}}, "required": ["a"]}, True),
        ({**CLOSED, "properties": {"a": {}}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": True}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {"type": ["object", "null"]}}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "null"}, CLOSED]}}, "required": ["a"]}, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "object"}]}}, "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "$defs": {"A": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"],
          "$defs": {"A": {"type": "object"}}}, False),
        ({**CLOSED, "properties": {"properties": {"enum": ["a"]}}, "required": ["properties"]}, True),
        ({**CLOSED, "properties": {"a": {"const": 1}}, "required": "a"}, False),
        ({**CLOSED, "properties": 3}, False),
    ],
)  # fmt: skip
def test_strict_needs_closed_objects_and_required_properties(schema: dict[str, object], strict: bool) -> None:
    """Recursively, through lists, choices and definitions."""
    assert strict_allows(json.dumps(schema)) is strict
    assert RULES.strict_allows(json.dumps(schema)) is strict


@pytest.mark.parametrize("text", ["", "{", "[" * 500 + "]" * 500])
def test_what_is_no_schema_is_not_strict(text: str) -> None:
    """A question that makes no sense is answered with no."""
    assert not strict_allows(text)


@pytest.mark.parametrize("schema", ['{"type":"string"}', '{"type":"array","items":{"type":"integer"}}', "{}", CITY])
def test_a_final_output_may_be_of_any_type(schema: str) -> None:
    """It travels wrapped where the model's API wants an object."""
    assert output_schema_problem(schema) is None


@pytest.mark.parametrize("schema", ["", "true", "[]", '{"type":"strng"}', '{"$ref":"https://example.com/s"}'])
def test_a_schema_of_an_output_that_cannot_be_used_says_why(schema: str) -> None:
    """As one of arguments does."""
    assert output_schema_problem(schema)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1,"b":[true,null]}', ' { "b" : [ true , null ], "a" : 1.0 } '),
        ('{"a":"é"}', '{"a":"\\u00e9"}'),
        ("1e2", "100"),
        ("", ""),
    ],
)
def test_arguments_that_are_equal_have_one_digest(one: str, other: str) -> None:
    """A decision holds however the same arguments are written."""
    assert DIGESTS.digest(one) == DIGESTS.digest(other)
    assert len(DIGESTS.digest(one)) == 64


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":1}', '{"a":"1"}'),
        ('{"a":1}', '{"a":["number","1"]}'),
        ('{"a":1}', '{"a":true}'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":{"b":1}}', '{"a":{},"b":1}'),
        ('{"a":"x"}', '{"a":"X"}'),
        ("{", "{ "),
        ("half \ud83d", "half ?"),
    ],
)
def test_other_arguments_have_another_digest(one: str, other: str) -> None:
    """What was decided about is what runs."""
    assert DIGESTS.digest(one) != DIGESTS.digest(other)


def test_a_definition_is_known_by_all_that_it_says() -> None:
    """Functions and agent tools of one name are two things, and a changed field is seen."""
    tool = FunctionTool(name="f", description="d", parameters_json="{}", strict=True)
    changed = (replace(tool, description="D"), replace(tool, strict=False), AgentTool(name="f", agent="A"))

    digests = {DIGESTS.definition_digest(one) for one in (tool, replace(tool), *changed)}

    assert len(digests) == 4
    assert all(len(digest) == 64 for digest in digests)
