"""What the model is told about a function, and how its arguments become the function's own."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from baton import FunctionError, FunctionTool, RunContext, RunContextWrapper, UserError, function_tool
from baton.agents.schema import function_schema
from baton.agents.strict import strict_schema


class Color(Enum):
    RED = "red"


class Place(BaseModel):
    """A place."""

    city: str
    zip: str | None = None


@dataclass
class Range:
    low: int = Field(ge=0)


def schema_of(function: Any, **options: Any) -> dict[str, Any]:
    """Read a function's properties."""
    found: dict[str, Any] = function_schema(function, **options).parameters["properties"]
    return found


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (str, ..., {"title": "A", "type": "string"}),
        (int, 3, {"title": "A", "type": "integer", "default": 3}),
        (float, ..., {"title": "A", "type": "number"}),
        (str | None, None, {"title": "A", "anyOf": [{"type": "string"}, {"type": "null"}]}),
        (list[int], ..., {"title": "A", "type": "array", "items": {"type": "integer"}}),
        (Literal["x", "y"], ..., {"title": "A", "type": "string", "enum": ["x", "y"]}),
        (Annotated[int, Field(ge=1, le=7)], ..., {"title": "A", "type": "integer", "minimum": 1, "maximum": 7}),
        (Annotated[str, "Where."], ..., {"title": "A", "type": "string", "description": "Where."}),
        (int, Field(default=2, le=9), {"title": "A", "type": "integer", "maximum": 9, "default": 2}),
        (Place, ..., {"$ref": "#/$defs/Place"}),
        (Color, ..., {"$ref": "#/$defs/Color"}),
        (Range, ..., {"$ref": "#/$defs/Range"}),
    ],
)
def test_annotations_become_json_schema(annotation: Any, default: Any, expected: dict[str, Any]) -> None:
    """Constraints and defaults are kept; defaults of null are not."""

    def f(a: Any) -> None: ...

    f.__annotations__ = {"a": annotation}
    if default is not ...:
        f.__defaults__ = (default,)

    assert schema_of(f)["a"] == expected


def test_strict_schemas_are_closed_and_require_all() -> None:
    """Every object, those in definitions included; the loose form stays as pydantic writes it."""

    def f(place: Place, days: int = 3) -> None: ...

    strict = function_schema(f).parameters
    loose = function_schema(f, strict=False).parameters

    assert strict["required"] == ["place", "days"] and strict["additionalProperties"] is False
    assert strict["title"] == "f_args"
    place = strict["$defs"]["Place"]
    assert place["required"] == ["city", "zip"] and place["additionalProperties"] is False
    assert "default" not in place["properties"]["zip"]
    assert loose["required"] == ["place"] and "additionalProperties" not in loose


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, {"type": "object", "properties": {}, "required": [], "additionalProperties": False}),
        (
            {"type": "object", "properties": {"a": {"oneOf": [{"type": "object"}]}}},
            {
                "type": "object",
                "properties": {
                    "a": {
                        "anyOf": [
                            {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {},
                                "required": [],
                            }
                        ]
                    }
                },
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}], "description": "d"}}},
            {
                "type": "object",
                "properties": {"a": {"type": "string", "description": "d"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A", "description": "d"}},
                "$defs": {"A": {"type": "string"}},
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string", "description": "d"}},
                "$defs": {"A": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
    ],
)
def test_strict_forms(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    """Alternatives, single parts and references with something beside them are put as strict mode knows them."""
    given = dict(schema)

    assert strict_schema(schema) == expected
    assert schema == given


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "additionalProperties": {}}, "properties of any name"),
        ({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}}, "schema.a"),
        ({"type": "string"}, "root"),
        ({"type": "object", "anyOf": [{"type": "object"}]}, "root"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/No", "title": "t"}}}, "#/\\$defs/No"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x", "title": "t"}}}, "http://x"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A", "t": 1}},
                "$defs": {"A": {"$ref": "#/$defs/A", "t": 1}},
            },
            "nested deeper",
        ),
    ],
)
def test_schemas_without_a_strict_form_are_refused(schema: dict[str, Any], problem: str) -> None:
    """The error says where and what to do, before any model is asked."""
    with pytest.raises(UserError, match=problem):
        strict_schema(schema)


def google(city: str, days: int = 3) -> None:
    """Tell the weather.

    Of some days.

    Args:
        city: Where
            it is.
        days: How many.

    Returns:
        Nothing.
    """


def numpy(city: str, days: int = 3) -> None:
    """Tell the weather.

    Of some days.

    Parameters
    ----------
    city : str
        Where
        it is.
    days : int
        How many.
    """


def sphinx(city: str, days: int = 3) -> None:
    """Tell the weather.

    Of some days.

    :param city: Where
        it is.
    :param days: How many.
    :returns: Nothing.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_three_styles_are_read(function: Any) -> None:
    """The text without its sections describes the function, the sections its arguments."""
    schema = function_schema(function)

    assert schema.description == "Tell the weather.\n\nOf some days."
    described = {name: field["description"] for name, field in schema.parameters["properties"].items()}
    assert described["days"] == "How many."
    assert described["city"].split() == ["Where", "it", "is."]


def test_names_and_descriptions_can_be_overridden() -> None:
    """The decorator's words win over the function's own."""

    @function_tool(name_override="weather", description_override="Say it.", strict_mode=False)
    def get_weather(city: str, unit: str = "C") -> str:
        """Tell the weather."""
        return city + unit

    assert (get_weather.name, get_weather.description) == ("weather", "Say it.")
    assert get_weather.params_json_schema["required"] == ["city"]


def test_options_that_are_not_there_are_refused_by_name() -> None:
    """Nothing is accepted and ignored."""
    with pytest.raises(TypeError, match="docstring_style, use_docstring_info"):
        function_tool(docstring_style="google", use_docstring_info=True)  # type: ignore[call-overload]


async def test_arguments_become_the_functions_own() -> None:
    """Models, enums, defaults, positional-only, *args and keyword-only parameters arrive as declared."""

    @function_tool
    async def f(
        ctx: RunContextWrapper[str], a: int, /, place: Place, *more: int, color: Color, model_dump: str = "m"
    ) -> Any:
        return ctx.context, a, place.city, more, color, model_dump

    text = '{"a": 1, "place": {"city": "Kyoto", "zip": null}, "more": [2, 3], "color": "red", "model_dump": "x"}'
    value = await f.on_invoke_tool(context("c"), text)

    assert value == ("c", 1, "Kyoto", (2, 3), Color.RED, "x")
    assert set(f.params_json_schema["properties"]) == {"a", "place", "more", "color", "model_dump"}


async def test_keyword_rest_needs_a_loose_schema() -> None:
    """A function that takes any name has no strict form; without strict mode it gets them all."""

    def f(**rest: int) -> Any:
        return rest

    with pytest.raises(UserError, match=r"f: .*rest"):
        function_tool(f)
    tool = function_tool(strict_mode=False)(f)
    assert await tool.on_invoke_tool(context(), '{"rest": {"x": 1}}') == {"x": 1}


async def test_invalid_arguments_tell_path_and_constraint() -> None:
    """In words for the model; empty arguments are none at all."""

    @function_tool
    async def f(days: Annotated[int, Field(le=7)], place: Place) -> None: ...

    @function_tool
    async def nothing() -> str:
        return "called"

    with pytest.raises(FunctionError, match=r"days: .*less than or equal to 7; place\.city: .*string"):
        await f.on_invoke_tool(context(), '{"days": 9, "place": {"city": 1}}')
    with pytest.raises(FunctionError, match="JSON"):
        await f.on_invoke_tool(context(), "{")
    assert await nothing.on_invoke_tool(context(), "") == "called"


def test_what_has_no_schema_is_refused_where_it_is_defined() -> None:
    """Unknown names, types without a schema, and a context that is not first."""

    def unknown(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def opaque(a: asyncio.Event) -> None: ...

    def misplaced(a: int, ctx: RunContext[Any]) -> None: ...

    for function, problem in ((unknown, "Nowhere"), (opaque, "opaque"), (misplaced, "first parameter")):
        with pytest.raises(UserError, match=problem):
            function_tool(function)


def test_what_can_be_no_function_of_a_model_is_refused_where_it_is_written() -> None:
    """Not when the run begins."""

    def work(count: int) -> int:
        return count

    for given in ("work", functools.partial(work, 7), BaseModel):
        with pytest.raises(TypeError, match=r"a function becomes a tool, not .*; write a function that calls it"):
            function_tool(given)  # type: ignore[call-overload]
    for name in ("<lambda>", "my tool", "x" * 65):
        with pytest.raises(UserError, match=f"'{name}' is no name of a function: give it one of 1 to 64 of A-Z"):
            function_tool(name_override=name)(lambda: 1)
    assert function_tool(functools.cache(work)).name == "work"


async def test_functions_that_are_no_coroutines_see_the_callers_variables() -> None:
    """They run in a thread, with a copy of the context variables."""
    word = contextvars.ContextVar("word", default="none")

    @function_tool
    def f() -> str:
        return word.get()

    word.set("mine")

    assert await f.on_invoke_tool(context(), "{}") == "mine"


def test_a_tool_made_by_hand_is_made_strict() -> None:
    """As the decorator's; the loose form on request."""

    async def invoke(_ctx: RunContext[Any], _arguments: str) -> None: ...

    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    strict = FunctionTool("t", "d", schema, invoke)
    loose = FunctionTool("t", "d", schema, invoke, strict_json_schema=False)

    assert strict.params_json_schema["required"] == ["a"]
    assert loose.params_json_schema == schema


def context(value: Any = None) -> RunContext[Any]:
    """Make the context of a call."""
    return RunContext(
        call_id="call_1",
        attempt=1,
        tool_name="f",
        tool_arguments="{}",
        session_id="sess_1",
        turn_id="turn_1",
        agent_name="Assistant",
        idempotency_key="key",
        may_have_run=False,
        context=value,
    )
