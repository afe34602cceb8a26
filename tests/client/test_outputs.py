"""What a function returns or raises, as the server and the model get it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from baton import FunctionError, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from baton.items.outputs import (
    MAX_CRASH_BYTES,
    MAX_RESULT_BYTES,
    payload_bytes,
    result_of,
    result_of_error,
    within_limit,
)
from baton.v1 import handler_pb2, item_pb2


class Weather(BaseModel):
    city: str
    on: date


@dataclass
class Pair:
    a: int
    b: tuple[int, ...]


class Unit(StrEnum):
    CELSIUS = "C"


@pytest.mark.parametrize(
    ("value", "arm", "expected"),
    [
        ("plain", "output", "plain"),
        ("", "output", ""),
        (None, "output", ""),
        (Unit.CELSIUS, "output", "C"),
        ("\ud800", "output", "?"),
        ({"a": 1, "é": [None, True]}, "output_json", '{"a":1,"é":[null,true]}'),
        ([], "output_json", "[]"),
        ((1, 2), "output_json", "[1,2]"),
        (True, "output_json", "true"),
        (2**70, "output_json", str(2**70)),
        (1.5, "output_json", "1.5"),
        (math.nan, "output_json", '"NaN"'),
        (Weather(city="Kyoto", on=date(2026, 11, 30)), "output_json", '{"city":"Kyoto","on":"2026-11-30"}'),
        ([Pair(1, (2,))], "output_json", '[{"a":1,"b":[2]}]'),
        (Decimal("1.10"), "output_json", '"1.10"'),
        ({"type": "text", "text": "x", "extra": 1}, "output_json", '{"type":"text","text":"x","extra":1}'),
        ({"type": ["text"]}, "output_json", '{"type":["text"]}'),
        ([ToolOutputText(text="x"), 1], "output_json", '[{"text":"x"},1]'),
    ],
)
def test_values_become_text_or_json(value: Any, arm: str, expected: str) -> None:
    """Texts as they are, nothing as an empty text, everything else as JSON, never as Python writes it."""
    result = result_of(value)

    assert result.WhichOneof("outcome") == arm
    assert getattr(result, arm) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ToolOutputText(text="x"), [item_pb2.ContentPart(text="x")]),
        ({"type": "text", "text": "x"}, [item_pb2.ContentPart(text="x")]),
        (
            [ToolOutputImage(image_url="https://x/y.png", detail="low"), {"type": "image", "file_id": "f"}],
            [
                item_pb2.ContentPart(image=item_pb2.ImagePart(url="https://x/y.png", detail="low")),
                item_pb2.ContentPart(image=item_pb2.ImagePart(file_id="f")),
            ],
        ),
        (
            ToolOutputFileContent(file_data="AAAA", filename="a.pdf"),
            [item_pb2.ContentPart(file=item_pb2.FilePart(url="data:application/pdf;base64,AAAA", filename="a.pdf"))],
        ),
        (
            ToolOutputFileContent(file_data="data:text/plain;base64,AAAA"),
            [item_pb2.ContentPart(file=item_pb2.FilePart(url="data:text/plain;base64,AAAA"))],
        ),
        (
            ToolOutputFileContent(file_url="https://x/y"),
            [item_pb2.ContentPart(file=item_pb2.FilePart(url="https://x/y"))],
        ),
    ],
)
def test_content_parts_travel_as_such(value: Any, expected: list[item_pb2.ContentPart]) -> None:
    """One part, or a list of nothing but parts; also as the Agents SDK's dictionaries."""
    assert list(result_of(value).output_parts.parts) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [(object(), TypeError), ({"a": {1: object()}}, TypeError), (ToolOutputImage(), ValueError)],
)
def test_what_has_no_form_is_the_functions_fault(value: Any, kind: type[Exception]) -> None:
    """It becomes a crash, since only the function's author can do anything about it."""
    with pytest.raises(kind):
        result_of(value)


def test_a_function_error_is_for_the_model() -> None:
    """Its words and nothing else."""
    assert result_of_error(FunctionError("no such city")).failure == "no such city"
    assert result_of_error(FunctionError()).failure


def test_any_other_exception_is_a_crash() -> None:
    """Type and stack are recorded, cut at the front, since the end says most."""
    try:
        raise KeyError("x" * (2 * MAX_CRASH_BYTES))
    except KeyError as error:
        crash = result_of_error(error).crash

    assert crash.type == "KeyError"
    assert len(crash.text.encode()) <= MAX_CRASH_BYTES and crash.text.rstrip().endswith("x'")


def test_the_payload_is_measured_as_the_server_does() -> None:
    """UTF-8 bytes of the text, or the sum of the parts; exactly the limit still passes."""
    fits = handler_pb2.Result(output="é" * (MAX_RESULT_BYTES // 2))
    over = handler_pb2.Result(call_id="c", attempt=2, output_json="x" * (MAX_RESULT_BYTES + 1))
    parts = result_of([ToolOutputText(text="ab"), ToolOutputImage(image_url="https://é")])

    assert within_limit(fits) is fits
    told = within_limit(over)
    assert (told.call_id, told.attempt) == ("c", 2)
    assert str(MAX_RESULT_BYTES + 1) in told.failure and str(MAX_RESULT_BYTES) in told.failure
    assert payload_bytes(parts) == 2 + len("https://é".encode())
