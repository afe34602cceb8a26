"""A recorded stream, framed and read: the same reply wherever it is cut."""

from __future__ import annotations

import pytest
from tests.modelserver.replies import output_items, response_object, stream_events
from tests.modelserver.scripts import Json, compact

from baton_server.core.inputs import ModelReplied
from baton_server.model.failures import Provider
from baton_server.model.reply import ReplyReader
from baton_server.model.sse import EventCutter
from baton_server.ports.model import TextDelta

STEP: Json = {"text": "Grüße 世界 🌍", "calls": [{"name": "f", "arguments": '{ "n" : 1.0 }'}]}


def recorded(end: str) -> bytes:
    """Write the stream of a message and a call."""
    output = output_items("t", STEP)
    response = response_object("t", STEP, {"model": "m"}, output)
    texts = (f"event: {e['type']}{end}data: {compact(e)}{end}{end}" for e in stream_events(response, STEP, output))
    return "".join(texts).encode()


def read(chunks: list[bytes]) -> tuple[list[TextDelta], ModelReplied]:
    """Read a stream that arrives in chunks."""
    cutter, reader = EventCutter(), ReplyReader(Provider(name="openai", base_url=""), "m", 1)
    events = [data for chunk in chunks for data in cutter.feed(chunk)] + cutter.finish()
    deltas = [delta for data in events if (delta := reader.feed(data))]
    assert reader.reply is not None
    return deltas, reader.reply


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_stream_says_the_same_wherever_it_is_cut(end: str) -> None:
    """Every position of a whole recorded stream."""
    data = recorded(end)
    whole = read([data])

    assert "".join(delta.text for delta in whole[0]) == STEP["text"]
    for position in range(len(data)):
        assert read([data[:position], data[position:]]) == whole, position


def test_a_stream_says_the_same_byte_by_byte() -> None:
    """The smallest pieces that there are."""
    data = recorded("\n")

    assert read([data[i : i + 1] for i in range(len(data))]) == read([data])
