"""Fragments: where a newcomer or a slow reader stands is told by a reset, and fragments go on from there."""

import asyncio
from collections.abc import Iterable

import grpc
import pytest
from tests.api.calling import events_in_parts, everything, helper, kinds, parts_in, run_request, soon, until
from tests.api.conftest import Serve
from tests.support.scripted_model import Gate, calls, say

from baton.v1 import event_pb2
from baton.v1 import session_pb2 as pb

PIECES = ("Grüße ", "aus 京都", ", ", "👋🏽 ", "e\u0301", "nde.")
"""Texts whose characters take one to four bytes, and of which some are made of several code points."""


class Reader:
    """A reader by the rules of the protocol: it keeps texts by place, and believes a reset."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, int, str, int], bytes] = {}
        self.done: dict[str, str] = {}
        self.resets: list[str] = []

    def take(self, parts: Iterable[event_pb2.StreamPart]) -> None:
        """Take parts in, and fail on a fragment that does not continue what is there."""
        for part in parts:
            match part.WhichOneof("part"):
                case "delta":
                    delta = part.delta
                    place = (delta.turn_id, delta.round, delta.item_id, delta.part_index)
                    text = self.texts.get(place, b"")
                    assert delta.offset == len(text), "a gap"
                    assert delta.item_id not in self.done, "a fragment behind its item"
                    self.texts[place] = text + delta.output_text.encode()
                case "reset":
                    self._reset(part.reset)
                case "event" if part.event.HasField("item_done"):
                    item = part.event.item_done.item
                    self.done[item.item_id] = "".join(piece.text for piece in item.message.content)

    def _reset(self, reset: event_pb2.Reset) -> None:
        self.resets.append(event_pb2.ResetReason.Name(reset.reason))
        for place in [place for place in self.texts if place[:2] == (reset.turn_id, reset.round)]:
            del self.texts[place]
        for item in reset.items:
            for index, piece in enumerate(item.message.content):
                self.texts[(reset.turn_id, reset.round, item.item_id, index)] = piece.text.encode()

    def text(self) -> str:
        """Join what is known of the messages being made."""
        return b"".join(self.texts.values()).decode()


@pytest.mark.parametrize("joined", range(len(PIECES) + 1))
async def test_who_joins_in_the_middle_gets_all_so_far_and_then_the_rest(serve: Serve, joined: int) -> None:
    """At each place of a message of many alphabets the reset and the fragments behind it are its text."""
    gate, last = Gate(), Gate()
    served = await serve(say(*PIECES[:joined], gate, *PIECES[joined:], last))
    made = await served.client.session()
    await served.client.submit(made.session_id, "hi")
    await gate.reached()
    watch, reader = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id)), Reader()
    reader.take(await until(watch, "reset"))
    assert reader.text() == "".join(PIECES[:joined])
    assert reader.resets == ["RESET_REASON_ATTACHED"]

    gate.open()
    messages = aiter(watch)
    while reader.text() != "".join(PIECES):
        reader.take((await soon(anext(messages))).parts)
    last.open()
    reader.take(parts_in(await everything(watch)))

    assert list(reader.done.values()) == ["".join(PIECES)]
    assert len(reader.resets) == 1


async def test_a_watch_of_another_turn_gets_no_fragments(serve: Serve) -> None:
    """Fragments and resets obey the turn filter too."""
    gate = Gate()
    served = await serve(say("one"), say("half ", gate, "two"))
    made = await served.client.session()
    first = await served.client.run(session_id=made.session_id)
    await served.client.submit(made.session_id, "more")
    await gate.reached()
    other = pb.WatchRequest(session_id=made.session_id, turn_id=first.turn.turn_id, follow=pb.FOLLOW_FOREVER)
    mine = pb.WatchRequest(session_id=made.session_id)
    watches = [served.client.sessions.Watch(request) for request in (other, mine)]
    await until(watches[0], "turn_completed")
    await until(watches[1], "reset")
    gate.open()
    await until(watches[1], "session_idle")
    await served.client.sessions.DeleteSession(pb.DeleteSessionRequest(request_id="d", session_id=made.session_id))

    rest: list[pb.WatchResponse] = []
    with pytest.raises(grpc.aio.AioRpcError, match="no session"):
        async for message in watches[0]:
            rest.append(message)
    assert rest == []


async def test_a_slow_reader_loses_no_event_and_gets_a_reset(serve: Serve) -> None:
    """Thousands of fragments that nobody reads are dropped, the turn never waits, and the reader is caught up."""
    start, middle, end = Gate(), Gate(), Gate()
    piece = "wörter " * 400
    served = await serve(say(start, *[piece] * 500, middle, "fast ", end, "vorbei."), say("again"))
    made = await served.client.session()
    await served.client.submit(made.session_id, "hi")
    await start.reached()
    watch, reader = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id)), Reader()
    parts = await until(watch, "reset")
    start.open()
    await middle.reached()  # all is published, and the watcher has read nothing of it
    for text in ("b", "c"):
        await served.client.submit(made.session_id, text, if_busy=pb.IF_BUSY_QUEUE)
    messages = aiter(watch)
    reader.take(parts)
    while reader.text() != piece * 500:
        more = (await soon(anext(messages))).parts
        parts.extend(more)
        reader.take(more)
    middle.open()
    await end.reached()
    end.open()
    rest = await until(watch, "turn_completed")
    reader.take(rest)
    parts.extend(rest)

    events = events_in_parts(parts)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert len(reader.resets) >= 2
    (omitted,) = [
        event.item_done.item.message.content[0].omitted_text for event in events if event.HasField("item_done")
    ]
    reading = pb.ReadContentRequest(session_id=made.session_id, sha256=omitted.sha256)
    content = b"".join(one.data for one in await everything(served.client.sessions.ReadContent(reading)))
    assert content.decode() == piece * 500 + "fast vorbei."


async def test_each_round_has_its_own_fragments(serve: Serve) -> None:
    """Round and item tell the fragments of one answer from those of the next."""
    gates = [Gate(), Gate()]
    served = await serve(
        say(gates[0], "one"),
        say(gates[1], "two"),
    )
    made = await served.client.session()
    watch = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id, follow=pb.FOLLOW_FOREVER))
    await until(watch, "session_created")
    parts: list[event_pb2.StreamPart] = []
    for gate in gates:
        await served.client.submit(made.session_id, "hi")
        await gate.reached()
        gate.open()
        parts.extend(await until(watch, "session_idle"))

    deltas = [part.delta for part in parts if part.HasField("delta")]
    assert [delta.output_text for delta in deltas] == ["one", "two"]
    assert len({delta.item_id for delta in deltas}) == 2
    done = [event.item_done.item.item_id for event in events_in_parts(parts) if event.HasField("item_done")]
    assert done == [delta.item_id for delta in deltas]


async def test_a_reset_that_is_too_large_goes_on_in_fragments(serve: Serve) -> None:
    """A newcomer with small messages gets the text so far in pieces, and then what follows."""
    gate = Gate()
    piece = "wörter " * 1000
    served = await serve(say(*[piece] * 30, gate, "Ende."))
    made = await served.client.session()
    await served.client.submit(made.session_id, "hi")
    await gate.reached()
    request = pb.WatchRequest(session_id=made.session_id, max_message_bytes=65_536)
    watch, reader = served.client.sessions.Watch(request), Reader()
    sizes = []
    messages = aiter(watch)
    while reader.text() != piece * 30:
        message = await soon(anext(messages))
        sizes.append(message.ByteSize())
        reader.take(message.parts)
    gate.open()
    rest = await everything(watch)
    reader.take(parts_in(rest))

    assert max([*sizes, *(message.ByteSize() for message in rest)]) <= 65_536
    assert reader.resets == ["RESET_REASON_ATTACHED"]
    assert len(reader.done) == 1


async def test_nobody_listening_costs_the_next_one_nothing(serve: Serve) -> None:
    """Text that was streamed while nobody listened is in the reset of the first who comes."""
    gate = Gate()
    served = await serve(calls(("get_weather", "no JSON")), say(*["word "] * 500, gate, "end"))
    made = await served.client.session(agent=helper("get_weather"))
    running = asyncio.ensure_future(soon(served.client.runner.Run(run_request(session_id=made.session_id))))
    await gate.reached()
    watch, reader = served.client.sessions.Watch(pb.WatchRequest(session_id=made.session_id)), Reader()

    parts = await until(watch, "reset")
    reader.take(parts)
    gate.open()

    assert reader.text() == "word " * 500
    assert [part.reset.round for part in parts if part.HasField("reset")] == [2]
    assert (await running).turn.output == "word " * 500 + "end"
    assert kinds(events_in_parts(parts))[-1] == "item_added"
