"""Chunks: a frame of any size arrives whole, and a peer that errs is told what did not add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.v1 import handler_pb2
from baton_server.core.errors import Reason, Refused
from baton_server.ports.frames import Deliver
from baton_server.ports.store import CallRow
from baton_server.wire.chunks import UNFINISHED_BYTES, UNFINISHED_FRAMES, Assembler, chunks
from baton_server.wire.frames import call_frame

MIB = 1024 * 1024


def slices(frame: bytes, limit: int = 2048, chunk_id: int = 1) -> list[handler_pb2.Chunk]:
    """Cuts a frame as a peer of small messages wants it."""
    made = chunks(frame, limit, chunk_id, "call_1", 2)
    return [handler_pb2.ConnectResponse.FromString(data).chunk for data in made]


def refusal(assembler: Assembler, chunk: handler_pb2.Chunk) -> str:
    """Has a slice refused; returns what the problem is."""
    with pytest.raises(Refused) as refused:
        assembler.take(chunk)
    assert refused.value.failure.reason is Reason.CHUNK_INVALID
    assert refused.value.failure.metadata["chunk_id"] == str(chunk.chunk_id)
    return refused.value.failure.metadata["problem"]


@given(st.binary(min_size=1, max_size=10_000), st.integers(1100, 4000))
def test_a_frame_arrives_as_it_was(frame: bytes, limit: int) -> None:
    """Whatever its size and the peer's limit; no slice is above it."""
    assert all(len(data) <= limit for data in chunks(frame, limit, 1, "call_1", 2))
    assembler = Assembler()

    *before, last = [assembler.take(chunk) for chunk in slices(frame, limit)]

    assert before == [None] * len(before)
    assert last == frame
    assert assembler.unfinished == 0


def test_a_call_with_large_arguments_arrives_whole() -> None:
    """Arguments are never omitted on the worker stream."""
    row = CallRow(
        call_id="call_1", session_id="sess_1", turn_id="turn_1", name="f", agent="A",
        arguments="x" * 3 * MIB, scopes=(), attempt=2,
    )  # fmt: skip
    assembler = Assembler()

    *_, whole = [assembler.take(chunk) for chunk in slices(call_frame(Deliver(call=row, scope="")), 65_536)]

    assert whole is not None
    assert handler_pb2.ConnectResponse.FromString(whole).call.arguments_json == row.arguments


def test_every_slice_says_whose_call_it_is() -> None:
    """A frame can be refused before it is whole."""
    assert {(chunk.call_id, chunk.attempt) for chunk in slices(b"f" * 5000)} == {("call_1", 2)}


def test_slices_of_several_frames_may_mix() -> None:
    """A large result does not hold up another one."""
    assembler = Assembler()
    one, two = slices(b"a" * 3000, chunk_id=1), slices(b"b" * 3000, chunk_id=2)

    taken = [assembler.take(chunk) for pair in zip(one, two, strict=True) for chunk in pair]

    assert [frame for frame in taken if frame] == [b"a" * 3000, b"b" * 3000]


def test_a_gap_is_refused_once() -> None:
    """The further slices of a refused frame are passed over, and the frame can come again."""
    assembler = Assembler()
    first, second, third, fourth = slices(b"f" * 4000)
    assembler.take(first)

    assert refusal(assembler, third) == "gap"
    assert assembler.take(second) is None
    assert assembler.take(fourth) is None
    assert [assembler.take(chunk) for chunk in (first, second, third, fourth)][-1] == b"f" * 4000


def test_a_frame_without_a_beginning_is_refused() -> None:
    """A slice of a frame that was never begun."""
    assert refusal(Assembler(), slices(b"f" * 4000)[1]) == "gap"


@pytest.mark.parametrize("total", [3999, 4001])
def test_a_wrong_length_is_refused(total: int) -> None:
    """The slices have to have the length that the first one said."""
    assembler = Assembler()
    first, second, third, fourth = slices(b"f" * 4000)
    first.total_bytes = total
    for chunk in (first, second, third):
        assembler.take(chunk)

    assert refusal(assembler, fourth) == "length"
    assert assembler.unfinished == 0


def test_refused_frames_are_not_remembered_for_ever() -> None:
    """A peer that errs without end costs no memory without end: the oldest is told of again."""
    assembler = Assembler()
    stray = [handler_pb2.Chunk(chunk_id=n, index=1, data=b"f") for n in range(100)]

    assert [refusal(assembler, chunk) for chunk in stray] == ["gap"] * 100
    assert assembler.take(stray[-1]) is None
    assert refusal(assembler, stray[0]) == "gap"


def test_a_frame_without_a_length_is_refused() -> None:
    """How much is to come must be known at the first slice."""
    first = slices(b"f" * 4000)[0]
    first.total_bytes = 0

    assert refusal(Assembler(), first) == "total_bytes"


def test_an_empty_slice_in_the_middle_is_refused() -> None:
    """A peer cannot keep a frame unfinished with slices that hold nothing."""
    assembler = Assembler()
    first, second, *_ = slices(b"f" * 4000)
    assembler.take(first)
    second.data = b""

    assert refusal(assembler, second) == "length"


def test_a_wrong_digest_is_refused() -> None:
    """What was damaged on the way is not taken for what was sent."""
    assembler = Assembler()
    *before, last = slices(b"f" * 4000)
    last.sha256 = "0" * 64
    for chunk in before:
        assembler.take(chunk)

    assert refusal(assembler, last) == "sha256"
    assert [assembler.take(chunk) for chunk in slices(b"f" * 4000)][-1] == b"f" * 4000


def test_only_so_many_frames_may_be_unfinished() -> None:
    """The fifth is refused, and is welcome when one is finished."""
    assembler = Assembler()
    frames = [slices(b"f" * 2000, chunk_id=n) for n in range(UNFINISHED_FRAMES + 1)]
    for frame in frames[:-1]:
        assembler.take(frame[0])

    assert refusal(assembler, frames[-1][0]) == "frames"

    assembler.take(frames[0][1])
    assert [assembler.take(chunk) for chunk in frames[-1]][-1] == b"f" * 2000


def test_unfinished_frames_hold_only_so_much() -> None:
    """What was announced counts, before any of it has come."""
    assembler = Assembler()
    first = handler_pb2.Chunk(chunk_id=1, data=b"f", total_bytes=UNFINISHED_BYTES - MIB)
    assembler.take(first)

    assert refusal(assembler, handler_pb2.Chunk(chunk_id=2, data=b"f", total_bytes=MIB + 1)) == "size"
    assert assembler.take(handler_pb2.Chunk(chunk_id=3, data=b"f", total_bytes=MIB)) is None
