"""Texts of items: what came is kept, what is written anew says the same, what JSON cannot say is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton_server.core.responses import (
    ItemError,
    read_item,
    read_items,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def nested(levels: int) -> Any:
    """Makes a list of lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"future_call","z":1,"a":2}',
        '{"type":"future_call","n":9007199254740993}',
        '{"type":"future_call","n":123456789012345678901234567890}',
        '{"type":"future_call","n":1.0}',
        '{"type":"future_call","n":-0.0}',
        '{"type":"future_call","s":"Tromsø 🌦"}',
        '{"type":"future_call","s":"a\\u2028b\\\\n\\"c\\""}'.replace("\\u2028", "\u2028"),
        '{"type":"future_call","s":"\\ud800"}',
        '{"type":"future_call","e":null,"l":[],"o":{}}',
    ],
)
def test_an_item_that_is_written_anew_says_the_same(text: str) -> None:
    """Key order, big integers, floats that look like integers, any Unicode, nothing."""
    assert read_item(json.loads(text)).json == text


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_nothing_is_lost_by_writing_an_item_anew(fields: dict[str, Any]) -> None:
    """Whatever a type of tomorrow holds."""
    raw = {**fields, "type": "future_call", "id": "x", "status": "completed"}

    item = read_item(raw)

    assert json.loads(item.json) == raw
    assert list(json.loads(item.json)) == list(raw)
    assert item.json.encode().decode() == item.json


@pytest.mark.parametrize(
    "own",
    [
        '{ "type" : "future_call",\n  "n" : 1e400 }',
        '{"type":"future_call","n":1.10,"n":2,"m":-0,"e":1E+2}',
        '{"type":"future_call","s":"\\u0041\\ud800\\/"}',
        '{"type":"message","role":"user","content":"a, [b] {c}"}',
    ],
)
def test_items_of_a_list_are_kept_byte_for_byte(own: str) -> None:
    """Also numbers that no float can hold, other ways to write one, a key said twice, and spaces."""
    plain = '{"role":"user","content":"Hi"}'

    items = read_items(f" [{own} ,\n{plain},{own}]\t")

    assert [item.json for item in items] == [own, plain, own]


def test_an_empty_list_has_no_items() -> None:
    """Whether that is enough is not for the reader to say."""
    assert read_items("[]") == read_items(" [ ] ") == ()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "null", "[", "[{}", '[{"type":"x"},]', '[{"type":"x"}] x', '[{"type":"x"} {"type":"x"}]', "[}"],
)
def test_what_is_no_list_of_items_is_refused(text: str) -> None:
    """Nothing is taken of a text that is wrong at its end."""
    with pytest.raises(ItemError, match=r"^items_json: is no JSON|^items_json\[0\]"):
        read_items(text, "items_json")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have_are_refused(number: str) -> None:
    """Python would read and write them; no other parser does."""
    with pytest.raises(ItemError, match=number):
        read_items(f'[{{"type":"x","n":{number}}}]')


def test_a_number_beyond_all_floats_is_never_written_as_infinity() -> None:
    """Without the text it came as, 1e400 is lost already: refused rather than sent as something else."""
    with pytest.raises(ItemError, match="nothing that JSON can say"):
        read_item(json.loads('{"type":"future_call","n":1e400}'), "[3]")


def test_items_nested_too_deeply_are_refused_at_any_depth() -> None:
    """By a limit of our own, not where the stack happens to end; up to it they are taken."""
    assert read_item({"type": "x", "deep": nested(99)}).json
    assert read_items(f'[{{"type":"x","deep":{nested(99)}}}]')
    for levels in (100, 200, 50_000):
        text = "[" * levels + "]" * levels
        with pytest.raises(ItemError, match="nested too deeply"):
            read_item({"type": "x", "deep": nested(levels)}, "[0]")
        with pytest.raises(ItemError, match="nested too deeply"):
            read_items(f'[{{"type":"x","deep":{text}}}]')


def test_a_wide_item_is_not_a_deep_one() -> None:
    """Many small lists beside one another are fine."""
    raw = {"type": "x", "wide": [[{}] for _ in range(500)], "text": "[" * 500}

    assert json.loads(read_item(raw).json) == raw
