"""Results: what came of a call, as inputs of the Runner, recognised when they come again."""

import pytest

from baton.v1 import handler_pb2, item_pb2, session_pb2
from baton_server.core.items import ImagePart, Settlement, TextPart
from baton_server.core.texts import FUNCTION_FAILED
from baton_server.wire import frames

Result = handler_pb2.Result


def parts(*given: item_pb2.ContentPart) -> item_pb2.ContentParts:
    """Some parts where a oneof needs one."""
    return item_pb2.ContentParts(parts=given)


PICTURE = item_pb2.ContentPart(image=item_pb2.ImagePart(url="https://example.com/a.png"))


@pytest.mark.parametrize(
    ("result", "settlement", "output"),
    [
        (Result(output="18 °C"), Settlement.OUTPUT, (TextPart(text="18 °C"),)),
        (Result(output=""), Settlement.OUTPUT, (TextPart(text=""),)),
        (Result(output_json='{"t":18.0}'), Settlement.OUTPUT, (TextPart(text='{"t":18.0}', is_json=True),)),
        (Result(failure="no such city"), Settlement.FAILURE, (TextPart(text="no such city"),)),
        (
            Result(output_parts=parts(item_pb2.ContentPart(text="a"), PICTURE)),
            Settlement.OUTPUT,
            (TextPart(text="a"), ImagePart(url="https://example.com/a.png")),
        ),
    ],
)
def test_a_result_settles_its_call(
    result: Result, settlement: Settlement, output: tuple[TextPart | ImagePart, ...]
) -> None:
    """The model is told what the handler said, byte for byte."""
    result.call_id, result.attempt = "call_1", 2

    settled = frames.read_result(result, "worker_1")

    assert (settled.call_id, settled.attempt, settled.worker_id) == ("call_1", 2, "worker_1")
    assert (settled.settlement, settled.output, settled.error) == (settlement, output, None)


def test_a_crash_is_recorded_and_not_told_to_the_model() -> None:
    """Its text may be private; the model gets our own sentence."""
    crash = handler_pb2.Crash(type="KeyError", text="Traceback …\nKeyError: 'secret'")

    settled = frames.read_result(Result(call_id="call_1", attempt=1, crash=crash))

    assert settled.settlement is Settlement.CRASH
    assert settled.output == (TextPart(text=FUNCTION_FAILED),)
    assert settled.error is not None
    assert settled.error.message == crash.text
    assert settled.error.metadata == {"type": "KeyError"}


def test_a_long_crash_keeps_its_end() -> None:
    """The end of a stack says most."""
    crash = handler_pb2.Crash(type="E", text="é" * 20_000 + "the end")

    error = frames.read_result(Result(call_id="call_1", attempt=1, crash=crash)).error

    assert error is not None
    assert error.message.endswith("the end")
    assert 16_000 < len(error.message.encode()) <= 16_384


def test_a_crash_without_a_text_has_words() -> None:
    """A library that says nothing but the type is understood."""
    error = frames.read_result(Result(call_id="c", attempt=1, crash=handler_pb2.Crash(type="KeyError"))).error

    assert error is not None
    assert error.message == "The handler raised KeyError."


def test_a_result_without_an_outcome_is_not_read() -> None:
    """The checks refuse it; it never settles a call."""
    with pytest.raises(ValueError, match="call_1"):
        frames.read_result(Result(call_id="call_1", attempt=1))


def test_a_result_is_recognised_when_it_comes_again() -> None:
    """The digest is of the outcome alone: not of the attempt, not of the call."""
    one = frames.read_result(Result(call_id="call_1", attempt=1, output="18 °C"))
    again = frames.read_result(Result(call_id="call_1", attempt=2, output="18 °C"))
    other = frames.read_result(Result(call_id="call_1", attempt=1, output="19 °C"))
    as_json = frames.read_result(Result(call_id="call_1", attempt=1, output_json="18 °C"))

    assert one.digest == again.digest
    assert len({one.digest, other.digest, as_json.digest}) == 3


def test_success_said_or_not_is_the_same_result() -> None:
    """`success` only repeats what the outcome says."""
    said = session_pb2.ToolResult(turn_id="t", call_id="c", success=True, output_parts=parts(PICTURE))
    unsaid = session_pb2.ToolResult(turn_id="t", call_id="c", output_parts=parts(PICTURE))

    assert frames.outcome_digest(said) == frames.outcome_digest(unsaid)


@pytest.mark.parametrize(
    ("result", "size"),
    [
        (Result(), 0),
        (Result(output="18 °C"), 6),
        (Result(output_json='"é"'), 4),
        (Result(failure="no"), 2),
        (Result(crash=handler_pb2.Crash(text="x" * 100)), 0),
        (session_pb2.ToolResult(error="nö"), 3),
        (
            Result(
                output_parts=parts(
                    item_pb2.ContentPart(text="é"),
                    item_pb2.ContentPart(image=item_pb2.ImagePart(url="data:,abc", detail="high")),
                    item_pb2.ContentPart(file=item_pb2.FilePart(file_id="file_1", filename="a.txt")),
                    item_pb2.ContentPart(other_json='{"type":"x"}'),
                )
            ),
            2 + 9 + 0 + 12,
        ),
    ],
    ids=["none", "output", "json", "failure", "crash", "error", "parts"],
)
def test_a_payload_is_its_texts_and_urls(result: Result | session_pb2.ToolResult, size: int) -> None:
    """Names and ids do not count."""
    assert frames.payload_bytes(result) == size
