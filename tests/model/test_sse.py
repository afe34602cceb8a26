"""Server-sent events, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton_server.model.sse import EventCutter

STREAM = (
    'event: response.created\ndata: {"type":"a"}\n\n'
    ": a comment\n\n"
    'data:{"text":"Grüße 世界 🌍"}\n\n'
    "\n\n"
    "id: 7\nretry: 10\ndata: one\ndata:  two\ndata:\ndata: four\n\n"
    "database: no field of ours\ndata\n\n"
    "data: [DONE]\n\n"
)
EVENTS = ['{"type":"a"}', '{"text":"Grüße 世界 🌍"}', "one\n two\n\nfour", "[DONE]"]


def cut(chunks: list[bytes]) -> list[str]:
    """Cut a stream that arrives in chunks."""
    cutter = EventCutter()
    found = [data for chunk in chunks for data in cutter.feed(chunk)] + cutter.finish()
    return [data.decode() for data in found]


def pieces(data: bytes, size: int) -> list[bytes]:
    """Part bytes into pieces of a size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_events_are_the_same_wherever_the_stream_is_split_in_two(end: str, mark: str) -> None:
    """Every position: inside characters, line ends and names."""
    data = (mark + STREAM.replace("\n", end)).encode()

    for position in range(len(data) + 1):
        assert cut([data[:position], data[position:]]) == EVENTS, position


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_events_are_the_same_in_pieces_of_any_size(end: str, size: int) -> None:
    """Down to one byte at a time."""
    assert cut(pieces(STREAM.replace("\n", end).encode(), size)) == EVENTS


@given(st.lists(st.text("ab:\r\n ", max_size=6), max_size=8), st.data())
def test_any_text_is_cut_as_it_is_when_whole(texts: list[str], data: st.DataObject) -> None:
    """However strange a stream, its chunks do not matter."""
    stream = "data:x".join(texts).encode()
    positions = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    chunks = [stream[a:b] for a, b in zip([0, *positions], [*positions, len(stream)], strict=True)]

    assert cut(chunks) == cut([stream])


def test_an_event_comes_with_the_chunk_that_completes_it() -> None:
    """Text is not held back until the next event."""
    cutter = EventCutter()

    assert cutter.feed(b"data: 1\n") == []
    assert cutter.feed(b"\n") == [b"1"]
    assert cutter.feed(b"data: 2\r\n\r") == [b"2"]
    assert cutter.feed(b"\ndata: 3\n\n") == [b"3"]


def test_a_last_event_without_its_blank_line_counts() -> None:
    """Some servers leave it out."""
    assert cut([b"data: 1\n\ndata: 2"]) == ["1", "2"]
    assert cut([b"data: 1\n\nevent: x\n"]) == ["1"]
