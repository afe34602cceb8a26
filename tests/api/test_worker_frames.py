"""Frames that are wrong, too large, cut up or out of place: each is refused alone, and the stream lives."""

import json
from typing import Any

import grpc
import pytest
from tests.support.scripted_worker import ScriptedWorker, result_of
from tests.support.stage import Stage

from baton.v1 import error_pb2, handler_pb2

MIB = 1024 * 1024


async def lives(worker: ScriptedWorker) -> bool:
    """Tell whether a stream still takes frames and answers them."""
    await worker.send(register={"handlers": [{"name": "still_there"}]})
    return not (await worker.expect("registered")).handlers[0].HasField("error")


# -- wrong frames --------------------------------------------------------------------------------


async def test_a_second_hello_is_refused(stage: Stage) -> None:
    """Hello is the first frame, and only the first; the worker stays as it said it was."""
    worker = await stage.worker("f")

    await worker.send(hello={"handlers": [{"name": "g"}]})

    refused = await worker.expect_error()
    assert refused.frame_number == 2
    assert refused.error.reason == error_pb2.ERROR_REASON_FRAME_INVALID
    assert refused.error.metadata == {"frame_number": "2", "field": "hello"}
    assert await lives(worker)


@pytest.mark.parametrize("data", [b"", b"\xf2\x06\x00"], ids=["empty", "an arm of a later version"])
async def test_an_unknown_frame_is_refused(stage: Stage, data: bytes) -> None:
    """A worker that is newer than the server may try what the server does not know."""
    worker = await stage.worker("f")

    await worker.send_bytes(data)

    refused = await worker.expect_error()
    assert (refused.frame_number, refused.error.reason) == (2, error_pb2.ERROR_REASON_FRAME_UNKNOWN)
    assert await lives(worker)


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"credit": {"messages": -1}}, "credit.messages"),
        ({"credit": {"messages": 10_001}}, "credit.messages"),
        ({"call_ack": {"call_id": "", "attempt": 1}}, "call_ack.call_id"),
        ({"call_ack": {"call_id": "c", "attempt": 0}}, "call_ack.attempt"),
        ({"result": {"call_id": "c", "attempt": -1, "output": "x"}}, "result.attempt"),
        ({"result": {"call_id": "x" * 129, "attempt": 1, "output": "x"}}, "result.call_id"),
        ({"nack": {"call_id": "c", "attempt": 1, "delay": {"seconds": 3601}}}, "nack.delay"),
        ({"nack": {"call_id": "c", "attempt": 1, "reason": "x" * 257}}, "nack.reason"),
        ({"cancel_ack": {"call_id": "c", "attempt": 1}}, "cancel_ack.outcome"),
        ({"cancel_ack": {"call_id": "c\0", "attempt": 1, "outcome": 1}}, "cancel_ack.call_id"),
        ({"heartbeat": {"held": -1}}, "heartbeat.held"),
        ({"register": {}}, "register.handlers"),
        ({"unregister": {}}, "unregister.handlers"),
    ],
)
async def test_a_frame_with_a_wrong_field_is_refused_by_its_name(
    stage: Stage, frame: dict[str, Any], field: str
) -> None:
    """Nothing of it was done; the answer names the frame and the field."""
    worker = await stage.worker("f")
    await worker.nothing()

    await worker.send(**frame)

    refused = await worker.expect_error()
    assert (refused.frame_number, refused.error.reason) == (3, error_pb2.ERROR_REASON_FRAME_INVALID)
    assert refused.error.metadata == {"frame_number": "3", "field": field}
    assert await lives(worker)


async def test_bytes_that_are_no_frame_are_refused(stage: Stage) -> None:
    """They count as a frame, so that both sides agree on the numbers."""
    worker = await stage.worker("f")

    await worker.send_bytes(b"\xff\xff\xff")
    await worker.send()

    garbage, empty = await worker.expect_error(), await worker.expect_error()
    assert (garbage.frame_number, garbage.error.reason) == (2, error_pb2.ERROR_REASON_FRAME_INVALID)
    assert empty.frame_number == 3
    assert await lives(worker)


async def test_a_frame_above_the_message_limit_is_refused(stage: Stage) -> None:
    """One byte more than 16 MiB; the worker is told both figures, and its stream lives."""
    worker = await stage.worker("f")
    size = 16 * MIB + 1
    frame = handler_pb2.ConnectRequest(drain=handler_pb2.Drain(reason="x")).SerializeToString()

    await worker.send_bytes(frame.ljust(size, b"\x00"))

    refused = await worker.expect_error()
    assert refused.error.reason == error_pb2.ERROR_REASON_MESSAGE_TOO_LARGE
    assert refused.error.metadata == {"size": str(size), "limit": str(16 * MIB)}
    assert await lives(worker)


async def test_a_frame_that_the_transport_refuses_breaks_the_stream(stage: Stage) -> None:
    """Far above the limit gRPC itself gives up; the worker's registrations live on through the grace."""
    worker = await stage.worker("f")

    await worker.send_bytes(b"x" * (18 * MIB))

    assert (await worker.ended()).code == grpc.StatusCode.RESOURCE_EXHAUSTED
    turn = await stage.call("f")
    await turn.waiting()
    assert await turn.state() == "QUEUED"


# -- chunks --------------------------------------------------------------------------------------


async def test_a_frame_may_come_in_chunks(stage: Stage) -> None:
    """Any frame, in slices of any size, with other frames in between."""
    worker = await stage.worker(credit=0)

    first, *others = worker.chunks(5, register={"handlers": [{"name": "in_slices"}]})
    await worker.send(chunk=first)
    await worker.nothing()
    for chunk in others:
        await worker.send(chunk=chunk)

    assert (await worker.expect("registered")).handlers[0].name == "in_slices"


async def test_a_result_of_4_mib_comes_in_chunks(stage: Stage) -> None:
    """The largest result that is allowed reaches the model whole."""
    worker = await stage.worker("f")
    turn = await stage.call("f")
    call = await worker.expect("call")
    output = "é" * (2 * MIB)

    await worker.send_in_chunks(MIB, result=result_of(call, output=output))

    assert (await worker.expect("result_ack")).verdict == handler_pb2.RESULT_VERDICT_DURABLE
    await turn.completed()
    told_to_model = json.loads(stage.model.requests[-1].items[-1])
    assert told_to_model["output"] == output


@pytest.mark.parametrize("problem", ["gap", "length", "sha256", "total_bytes"])
async def test_chunks_that_do_not_add_up_are_refused(stage: Stage, problem: str) -> None:
    """The frame may be sent again from its first slice, under the same number."""
    worker = await stage.worker("f")
    chunks = worker.chunks(5, register={"handlers": [{"name": "in_slices"}]})
    spoilt = [dict(chunk) for chunk in chunks]
    match problem:
        case "gap":
            del spoilt[1]
        case "length":
            spoilt[-1]["data"] += b"x"
        case "sha256":
            spoilt[-1]["sha256"] = "0" * 64
        case _:
            spoilt[0]["total_bytes"] = 0

    for chunk in spoilt:
        await worker.send(chunk=chunk)

    refused = await worker.expect_error()
    assert refused.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID
    assert refused.error.metadata == {"chunk_id": str(chunks[0]["chunk_id"]), "problem": problem}
    for chunk in chunks:
        await worker.send(chunk=chunk)
    assert (await worker.expect("registered")).handlers[0].name == "in_slices"


async def test_too_many_unfinished_frames_are_refused(stage: Stage) -> None:
    """Four may be under way; the fifth is refused, and the four can be finished."""
    worker = await stage.worker(credit=0)
    sliced = [worker.chunks(4, register={"handlers": [{"name": f"f{n}"}]}) for n in range(5)]

    for chunks in sliced:
        await worker.send(chunk=chunks[0])

    refused = await worker.expect_error()
    assert refused.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID
    assert refused.error.metadata["problem"] == "frames"
    for chunks in sliced[:4]:
        for chunk in chunks[1:]:
            await worker.send(chunk=chunk)
    names = [answer.handlers[0].name for answer in await worker.expect_all("registered", 4)]
    assert names == ["f0", "f1", "f2", "f3"]


async def test_too_many_unfinished_bytes_are_refused(stage: Stage) -> None:
    """A worker cannot make the server keep more than 32 MiB of what it never finishes."""
    worker = await stage.worker(credit=0)
    await worker.send(chunk={"chunk_id": 1, "index": 0, "data": b"x", "total_bytes": 20 * MIB})

    await worker.send(chunk={"chunk_id": 2, "index": 0, "data": b"x", "total_bytes": 13 * MIB})

    refused = await worker.expect_error()
    assert refused.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID
    assert refused.error.metadata == {"chunk_id": "2", "problem": "size"}
    assert await lives(worker)


async def test_chunks_that_hold_no_frame_are_refused(stage: Stage) -> None:
    """The slices fit together, but what they make is no frame."""
    worker = await stage.worker(credit=0)

    for chunk in worker.chunks_of(b"\xff" * 20, 10):
        await worker.send(chunk=chunk)

    assert (await worker.expect_error()).error.reason == error_pb2.ERROR_REASON_FRAME_INVALID
    assert await lives(worker)


async def test_a_chunk_within_chunks_is_refused(stage: Stage) -> None:
    """Slices hold a frame, never slices again."""
    worker = await stage.worker(credit=0)
    (inner,) = worker.chunks(1000, register={"handlers": [{"name": "f"}]})

    await worker.send_in_chunks(1000, chunk=inner)

    refused = await worker.expect_error()
    assert refused.error.reason == error_pb2.ERROR_REASON_CHUNK_INVALID
    assert refused.error.metadata["problem"] == "nested"


# -- large and exact arguments -------------------------------------------------------------------


@pytest.mark.parametrize("size", [300 * 1024, 4 * MIB])
async def test_large_arguments_come_in_chunks_byte_for_byte(stage: Stage, size: int) -> None:
    """A worker that takes 64 KiB at once gets what a model wrote, however large, in messages that it takes."""
    arguments = '{"text":"' + "ü" * (size // 2) + '"}'
    worker = await stage.worker("f", max_message_bytes=65_536)

    turn = await stage.call("f", arguments)

    call = await worker.expect("call")
    assert call.arguments_json == arguments
    assert worker.counts["chunk"] >= size // 65_536
    assert max(worker.sizes) <= 65_536
    await worker.finish(call)
    await turn.completed()


async def test_a_worker_that_names_no_limit_gets_at_most_3_mib_at_once(stage: Stage) -> None:
    """What a gRPC client takes without being configured is 4 MiB; nobody has to raise it."""
    worker = await stage.worker("f")

    await stage.call("f", '{"text":"' + "x" * (4 * MIB) + '"}')

    await worker.expect("call")
    assert 2 * MIB < max(worker.sizes) <= 3 * MIB


@pytest.mark.parametrize(
    "arguments",
    ['{"n":9007199254740993}', '{"x":1.0}', '{"a":1,"a":2}', '{ "s" : "\\u00e9\\/" }', ""],
    ids=["beyond 2^53", "a float that is whole", "a key twice", "spaces and escapes", "nothing"],
)
async def test_arguments_arrive_as_the_model_wrote_them(stage: Stage, arguments: str) -> None:
    """Byte for byte: what JSON libraries would change on the way is not changed."""
    worker = await stage.worker("f")

    await stage.call("f", arguments)

    assert (await worker.expect("call")).arguments_json == arguments
