"""The comparison sees what matters and passes over what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.compare import Json, differences, plain


def one_run(**run: Any) -> Json:
    """Make a scenario's outcome of one run, with no requests."""
    return {
        "runs": [{"outcome": "completed", **run}],
        "requests": [],
        "functions_called": [],
        "streamed_alike": True,
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"role": "user", "content": "Hi"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ),
        (
            {"type": "function_call", "call_id": "c"},
            {"type": "function_call", "call_id": "c", "id": "fc", "status": "completed"},
        ),
        ({"output": '{"a": 1}'}, {"output": '{"a":1}'}),
        ({"a": None, "b": 1}, {"b": 1}),
        ({"tools": [{"name": "b"}, {"name": "a"}]}, {"tools": [{"name": "a"}, {"name": "b"}]}),
        ({"type": "output_text", "text": "a", "annotations": []}, {"type": "output_text", "text": "a"}),
    ],
)
def test_forms_that_mean_the_same_are_one(one: Json, other: Json) -> None:
    """The API takes them as the same thing."""
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    ("want", "got", "said"),
    [
        ({"final_output": 1}, {"final_output": True}, "runs[0].final_output: want 1, got True"),
        ({"final_output": 1}, {"final_output": 1.0}, "runs[0].final_output: want 1, got 1.0"),
        ({"final_output": "a"}, {}, "runs[0].final_output: missing (want 'a')"),
        ({}, {"error": "X"}, "runs[0].error: not expected (got 'X')"),
        ({"new_items": [1, 2]}, {"new_items": [1]}, "runs[0].new_items: want 2 entries, got 1: [1, 2] / [1]"),
        (
            {"final_output": {"$text": ["Oslo"], "$not": ["Traceback"]}},
            {"final_output": "Bergen"},
            "runs[0].final_output: want a text with ['Oslo'] and without ['Traceback'], got 'Bergen'",
        ),
        (
            {"final_output": {"$text": [], "$not": ["Traceback"]}},
            {"final_output": ""},
            "runs[0].final_output: want a text with [] and without ['Traceback'], got ''",
        ),
    ],
)
def test_a_departure_is_told_with_its_place(want: Json, got: Json, said: str) -> None:
    """One line says where, what was wanted, and what was got."""
    assert differences(one_run(**want), one_run(**got)) == [said]


def test_wording_is_free_where_the_reference_composed_a_sentence() -> None:
    """A text agrees that carries the parts and none of what it must not show."""
    want = one_run(final_output={"$text": ["Oslo"], "$not": ["Traceback"]})

    assert differences(want, one_run(final_output="No such city as Oslo.")) == []


def test_the_message_and_a_plain_runs_stream_are_not_compared() -> None:
    """A message is wording, and the unary rpc streams nothing."""
    want = one_run(message="theirs", stream=["tool_called"])

    assert differences(want, one_run(message="ours"), "run") == []
    assert differences(want, one_run(message="ours"), "run_streamed") == [
        "runs[0].stream: missing (want ['tool_called'])"
    ]


def test_requests_functions_and_overlap_are_compared() -> None:
    """What reached the model and the functions counts as much as how the run ended."""
    want = {**one_run(), "requests": [{"model": "m"}], "functions_called": ["a", "b"], "most_at_once": 2}
    got = {**one_run(), "requests": [{"model": "n"}], "functions_called": ["b"], "most_at_once": 1}

    assert differences({**want, "functions_called": ["b", "a"]}, want) == []
    assert differences(want, got) == [
        "requests[0].model: want 'm', got 'n'",
        "functions_called: want ['a', 'b'], got ['b']",
        "most_at_once: want 2, got 1",
    ]


def test_what_the_reference_does_otherwise_when_it_streams_is_compared_there() -> None:
    """`streamed` holds it, beside the unary outcome."""
    want = {**one_run(final_output="plain"), "streamed_alike": False, "streamed": one_run(final_output="streamed")}

    assert differences(want, one_run(final_output="streamed"), "run_streamed") == []
    assert differences(want, one_run(final_output="plain"), "run") == []
