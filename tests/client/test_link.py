"""The worker stream itself: slices, heartbeats, ends, verdicts, and frames of later versions."""

from __future__ import annotations

import asyncio
import hashlib

import grpc
import pytest
from google.protobuf import duration_pb2
from tests.client.scripted import FakeClock, ScriptedServer, soon
from tests.client.work import Work

from baton import BatonProtocolError, HandlerRefusedError
from baton.hosting.frames import SLICE_BYTES
from baton.hosting.link import Link
from baton.v1 import error_pb2, event_pb2, handler_pb2


async def test_large_results_travel_in_slices(server: ScriptedServer, worker: Work) -> None:
    """Slices of at most 1 MiB that say length and digest; other frames may come between them."""
    worker.value = "é" * (SLICE_BYTES * 3 // 4)
    peer = await worker.begin(server)
    await peer.call("quick")

    slices = [await peer.receive("chunk")]
    while not slices[-1].last:
        slices.append(await peer.receive("chunk"))

    whole = b"".join(one.data for one in slices)
    assert [one.index for one in slices] == [0, 1]
    assert slices[0].total_bytes == len(whole) and max(len(one.data) for one in slices) == SLICE_BYTES
    assert slices[-1].sha256 == hashlib.sha256(whole).hexdigest()
    assert {(one.call_id, one.attempt) for one in slices} == {("call_1", 1)}
    assert handler_pb2.ConnectRequest.FromString(whole).result.output == worker.value


async def test_slices_fit_the_server(server: ScriptedServer, worker: Work) -> None:
    """A server that takes little gets slices of less than that; refused chunks are sent again."""
    worker.value = "x" * 200_000
    peer = await worker.begin(server, max_message_bytes=65_536)
    await peer.call("quick")

    first = [await peer.receive("chunk")]
    while not first[-1].last:
        first.append(await peer.receive("chunk"))
    # Hello, then the slices: the last one's number names the frame that was not taken.
    number = 1 + len(first) + len(peer.passed_over)
    problem = error_pb2.Error(reason=error_pb2.ERROR_REASON_CHUNK_INVALID)
    await peer.send(protocol_error=handler_pb2.ProtocolError(frame_number=number, error=problem))
    again = await peer.receive("chunk")

    assert max(one.ByteSize() for one in first) <= 65_536
    assert (again.index, again.call_id) == (0, "call_1") and again.chunk_id != first[0].chunk_id


async def test_large_calls_are_put_together(server: ScriptedServer, worker: Work) -> None:
    """Slices of two calls mixed are two calls."""
    peer = await worker.begin(server)
    frames = [
        handler_pb2.ConnectResponse(
            call=handler_pb2.Call(call_id=call_id, attempt=1, name="quick", arguments_json="{}" + " " * 5000)
        )
        for call_id in ("call_1", "call_2")
    ]
    for index in range(3):
        for chunk_id, frame in enumerate(frames):
            await peer.send(chunk=slice_of(frame, chunk_id, index, of=3))

    results = [await peer.settle(), await peer.settle()]

    assert {result.call_id for result in results} == {"call_1", "call_2"}


@pytest.mark.parametrize("spoilt", ["digest", "gap", "length"])
async def test_slices_that_do_not_add_up_end_the_stream(server: ScriptedServer, worker: Work, spoilt: str) -> None:
    """Nothing of such a frame is believed; a new stream begins, on which the server sends it again."""
    peer = await worker.begin(server)
    frame = handler_pb2.ConnectResponse(
        call=handler_pb2.Call(call_id="call_1", attempt=1, name="quick", arguments_json="{}")
    )
    first, last = slice_of(frame, 1, 0, of=2), slice_of(frame, 1, 1, of=2)
    if spoilt == "digest":
        last.sha256 = "0" * 64
    elif spoilt == "gap":
        last.index = 2
    else:
        first.total_bytes += 1

    await peer.send(chunk=first)
    await peer.send(chunk=last)
    await server.attached()

    assert worker.begun == []


async def test_frames_of_later_versions_are_passed_over(server: ScriptedServer, worker: Work) -> None:
    """An arm that this version does not know is no reason to leave."""
    peer = await worker.begin(server)

    await peer.send()
    await peer.call("quick")

    assert (await peer.settle()).output == "done"


async def test_heartbeats_go_out_and_silence_is_noticed(server: ScriptedServer, clock: FakeClock, worker: Work) -> None:
    """One per interval of Welcome; after three intervals without a frame the server is gone."""
    peer = await worker.begin(server)

    await clock.advance(10)
    beat = await peer.receive("heartbeat")
    assert beat.held == 0 and beat.HasField("now")
    await peer.send(heartbeat=handler_pb2.WorkerHeartbeat())
    await peer.call("quick")
    await peer.receive("result")  # so that the heartbeat has been read
    await clock.advance(10)
    await peer.receive("heartbeat")
    await clock.advance(10)
    await peer.receive("heartbeat")
    await clock.advance(10)

    await server.attached()


class StalledCall:
    """A call whose server reads nothing: writes and reads wait until it is cancelled, the writes hear of it first."""

    def __init__(self) -> None:
        self.writing, self.cancelled, self.writer_left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def cancel(self) -> bool:
        """Cancel it."""
        self.cancelled.set()
        return True

    async def write(self, _frame: handler_pb2.ConnectRequest) -> None:
        """Write, which ends as gRPC's own does: by CancelledError, though nobody cancelled the task."""
        self.writing.set()
        await self.cancelled.wait()
        self.writer_left.set()
        raise asyncio.CancelledError

    async def read(self) -> handler_pb2.ConnectResponse:
        """Read, which ends some turns of the loop later."""
        await self.writer_left.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        raise asyncio.CancelledError


async def test_a_stream_that_is_cut_in_the_middle_of_a_write_ends_as_any_other(clock: FakeClock) -> None:
    """A process that stood still for long comes back to that; its worker must attach anew, not end."""
    call = StalledCall()
    link = Link(call, lambda _link, _frame: None, lambda: 0, clock.timing)  # type: ignore[arg-type]  # what it uses of it

    running = asyncio.create_task(link.run(handler_pb2.Hello()))
    await soon(call.writing.wait())
    await clock.advance(30)

    assert (await soon(running)).cut == "nothing was heard for 3 intervals of 10 s"


async def test_a_server_that_never_welcomes_is_left(server: ScriptedServer, clock: FakeClock, worker: Work) -> None:
    """A stream that stays silent after Hello is not waited for without end."""
    worker.attachment.start()
    silent = await server.peer()
    await silent.receive("hello")

    await clock.advance(30)

    await server.attached()


async def test_waits_grow_until_a_welcome(server: ScriptedServer, clock: FakeClock, worker: Work) -> None:
    """The first try comes within 200 ms; a Welcome brings that back."""
    peer = await worker.begin(server)
    for _ in range(3):
        peer.end(grpc.StatusCode.UNAVAILABLE)
        peer = await server.peer()
    await peer.welcome()
    peer.end(grpc.StatusCode.UNAVAILABLE)
    await server.peer()

    assert clock.asked == [(0.05, 0.2), (0.0, 0.5), (0.0, 1.0), (0.05, 0.2)]


async def test_who_holds_something_is_back_within_the_grace(
    server: ScriptedServer, clock: FakeClock, worker: Work
) -> None:
    """However long the server was away: one that was restarted waits for no longer, and then gives the call away."""
    grace = duration_pb2.Duration(seconds=6)
    peer = await worker.begin(server, registration_grace=grace)
    await peer.call("slow")
    await soon(worker.entered.wait())

    for _ in range(8):
        peer.end(grpc.StatusCode.UNAVAILABLE)
        peer = await server.peer()

    assert [high for _low, high in clock.asked] == [0.2, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0]


async def test_who_serves_hooks_is_back_within_the_grace(
    server: ScriptedServer, clock: FakeClock, worker: Work
) -> None:
    """Holding nothing as well: turns wait for its answers, and a server that was restarted for no longer than that."""
    guardrail = handler_pb2.HandlerSpec(kind=event_pb2.HANDLER_KIND_INPUT_GUARDRAIL, name="polite")
    registering = asyncio.create_task(worker.attachment.register([guardrail]))
    worker.attachment.start()
    peer = await server.attached(registration_grace=duration_pb2.Duration(seconds=6))
    await soon(registering)

    for _ in range(8):
        peer.end(grpc.StatusCode.UNAVAILABLE)
        peer = await server.peer()

    assert [high for _low, high in clock.asked] == [0.2, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0]


async def test_a_terminal_status_ends_the_attachment(server: ScriptedServer, worker: Work) -> None:
    """Trying again would end the same: whoever waits gets the reason."""
    worker.attachment.start()
    registering = asyncio.create_task(worker.attachment.register([handler_pb2.HandlerSpec(name="quick")]))
    peer = await server.peer()
    peer.end(grpc.StatusCode.UNIMPLEMENTED, "no such method")

    with pytest.raises(BatonProtocolError, match="no such method"):
        await soon(registering)
    assert worker.attachment.closed.is_set()


async def test_a_refused_handler_raises_alone(server: ScriptedServer, worker: Work) -> None:
    """The verdict of one function does not touch the others."""
    peer = await worker.begin(server)
    specs = [handler_pb2.HandlerSpec(name=name) for name in ("good", "bad name")]

    registering = asyncio.create_task(worker.attachment.register(specs))
    await peer.receive("register")
    error = error_pb2.Error(reason=error_pb2.ERROR_REASON_HANDLER_INVALID, message="its name")
    verdicts = [
        handler_pb2.HandlerVerdict(name="good"),
        handler_pb2.HandlerVerdict(name="bad name", error=error),
    ]
    await peer.send(registered=handler_pb2.Registered(handlers=verdicts))

    with pytest.raises(HandlerRefusedError, match="its name"):
        await soon(registering)
    await soon(worker.attachment.register(specs[:1]))


async def test_a_call_of_an_unknown_name_is_given_back_for_good(server: ScriptedServer, worker: Work) -> None:
    """Without the Unregister the server would send it here again and again."""
    peer = await worker.begin(server)
    del worker.tools["quick"]

    await peer.call("quick")

    assert [spec.name for spec in (await peer.receive("unregister")).handlers] == ["quick"]
    assert (await peer.receive("nack")).call_id == "call_1"


def slice_of(frame: handler_pb2.ConnectResponse, chunk_id: int, index: int, of: int) -> handler_pb2.Chunk:
    """Cut one slice out of a frame."""
    whole = frame.SerializeToString()
    size = -(-len(whole) // of)
    last = index == of - 1
    return handler_pb2.Chunk(
        chunk_id=chunk_id,
        index=index,
        data=whole[index * size : (index + 1) * size],
        total_bytes=len(whole) if index == 0 else 0,
        sha256=hashlib.sha256(whole).hexdigest() if last else "",
        last=last,
    )
