"""Stream parts: what is joined by hand is what protobuf would have written, and it fits every peer."""

from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire import values

from baton.v1 import event_pb2, item_pb2, runner_pb2, session_pb2
from baton_server.core.events import (
    CallReturned,
    Event,
    GuardrailTripped,
    ItemAdded,
    ItemsWithdrawn,
    OpenCall,
    SessionRequiresAction,
)
from baton_server.core.items import (
    FunctionCallOutput,
    Item,
    ItemBody,
    Message,
    OtherPart,
    RefusalPart,
    Role,
    Settlement,
    TextPart,
)
from baton_server.ports.bus import Parts, Place, Progress
from baton_server.wire.codec import ProtoCodec, stamp
from baton_server.wire.stream import (
    ProtoParts,
    find_text,
    frame_message,
    omissions_of,
    pack,
    parts_message,
)
from baton_server.wire.varint import read_varint, varint, varint_size

PARTS: Parts = ProtoParts()
FLOOR = 65_536


def place(item: int = 0, part: int = 0, offset: int = 0) -> Place:
    """A place in round 2 of a turn."""
    return Place(
        turn_id="turn_1", round=2, model_attempt=1, item_id=f"item_{item}", output_index=item,
        part_index=part, offset=offset,
    )  # fmt: skip


def stored(event: Event) -> bytes:
    """An event at rest."""
    return stamp(ProtoCodec().event(event)[0], "sess_1", 7, 1_796_000_000.5)


def said(*texts: str) -> Event:
    """A message of some texts."""
    return added(Message(role=Role.ASSISTANT, content=tuple(TextPart(text=text) for text in texts)))


def added(body: ItemBody) -> Event:
    """An item of this body."""
    item = Item(item_id="item_1", turn_id="turn_1", body=body, json="{}")
    return Event(body=ItemAdded(item=item, in_history=True), turn_id="turn_1", round=1)


def parts_of(messages: list[list[bytes]]) -> list[event_pb2.StreamPart]:
    """Reads the parts of some messages as a watcher does."""
    read = [session_pb2.WatchResponse.FromString(parts_message(group)) for group in messages]
    return [part for message in read for part in message.parts]


@settings(deadline=None, max_examples=50)
@given(values.events_)
def test_an_event_is_sent_as_it_is_stored(event: Event) -> None:
    """What a watcher reads is the event of the log."""
    data = stored(event)

    part = event_pb2.StreamPart.FromString(PARTS.event_part(data))

    assert part.event == event_pb2.Event.FromString(data)


@settings(deadline=None, max_examples=80)
@given(values.events_)
def test_a_part_is_of_a_nested_run_if_its_event_is(event: Event) -> None:
    """Who asked for the turn's own run alone is sent nothing else, however the event looks."""
    assert PARTS.nested(PARTS.event_part(stored(event))) is bool(event.run_path)


@pytest.mark.parametrize("path", [(), ("call_1",), ("call_1", "call_2")])
def test_fragments_say_in_which_run_they_stand(path: tuple[str, ...]) -> None:
    """Texts, reports and resets alike, so that two runs of one round number are told apart."""
    inner = replace(place(), run_path=path)
    report = PARTS.progress_part("turn_1", 2, Progress(call_id="call_3", attempt=1, number=1, text="half"), path)
    parts = [PARTS.delta_part(inner, "text"), PARTS.reset_part(inner, [(inner, "so far")], "LOST"), report]

    text, reset, progress = (event_pb2.StreamPart.FromString(part) for part in parts)

    assert [tuple(one.run_path) for one in (text.delta, reset.reset, reset.reset.items[0], progress.delta)] == [
        path
    ] * 4
    assert [PARTS.nested(part) for part in parts] == [bool(path)] * 3
    assert not PARTS.nested(PARTS.heartbeat_part(300, 1_796_000_000.25))


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_parts_are_read_by_every_streaming_rpc(data: list[bytes]) -> None:
    """One encoding serves Watch, Converse and RunStreamed."""
    beats = [PARTS.heartbeat_part(len(one), 1.0) for one in data]

    message = parts_message(beats)

    for kind in (session_pb2.WatchResponse, session_pb2.ConverseResponse, runner_pb2.RunStreamedResponse):
        assert [p.SerializeToString() for p in kind.FromString(message).parts] == beats


def test_a_frame_stands_in_its_arm() -> None:
    """An answer beside the parts needs no second encoding."""
    started = runner_pb2.RunStarted(session_id="sess_1", turn_id="turn_1", created=True)
    number = runner_pb2.RunStreamedResponse.STARTED_FIELD_NUMBER

    message = runner_pb2.RunStreamedResponse.FromString(frame_message(number, started.SerializeToString()))

    assert message.started == started
    assert message.WhichOneof("frame") == "started"


def test_a_fragment_says_where_it_stands() -> None:
    """A reader can tell a gap by the offset alone."""
    part = event_pb2.StreamPart.FromString(PARTS.delta_part(place(1, 2, 40), "lo wörld"))

    assert part.delta == event_pb2.Delta(
        turn_id="turn_1", round=2, model_attempt=1, item_id="item_1", output_index=1, part_index=2,
        offset=40, output_text="lo wörld",
    )  # fmt: skip


def test_a_reset_holds_the_texts_so_far() -> None:
    """Who comes in the middle sees each message as far as it is."""
    texts = [(place(0), "first"), (place(0, 1), "second part"), (place(3), "")]

    part = event_pb2.StreamPart.FromString(PARTS.reset_part(place(), texts, "ATTACHED"))

    reset = part.reset
    assert (reset.turn_id, reset.round, reset.model_attempt) == ("turn_1", 2, 1)
    assert reset.reason == event_pb2.RESET_REASON_ATTACHED
    assert [(i.item_id, i.output_index, [c.text for c in i.message.content]) for i in reset.items] == [
        ("item_0", 0, ["first", "second part"]),
        ("item_3", 3, [""]),
    ]
    assert {i.status for i in reset.items} == {item_pb2.ITEM_STATUS_IN_PROGRESS}


def test_a_reset_needs_a_reason_of_the_contract() -> None:
    """A misspelt reason is our mistake and is seen at once."""
    with pytest.raises(ValueError, match="RESET_REASON_FORGOTTEN"):
        PARTS.reset_part(place(), [], "FORGOTTEN")


def test_a_heartbeat_says_where_the_stream_stands() -> None:
    """Resume with its sequence."""
    part = event_pb2.StreamPart.FromString(PARTS.heartbeat_part(41, 1_796_000_000.25))

    assert part.heartbeat.last_sequence == 41
    assert part.heartbeat.now.ToMilliseconds() == 1_796_000_000_250


@given(st.lists(st.text(max_size=400), max_size=20), st.integers(1000, 2000))
def test_parts_are_packed_in_order_and_under_the_limit(texts: list[str], limit: int) -> None:
    """Nothing is lost, reordered or too large; and no message is empty."""
    parts = [PARTS.delta_part(place(), text) for text in texts if len(text.encode()) < 400]

    groups = list(pack(parts, limit))

    assert [part for group in groups for part in group] == parts
    assert all(group and len(parts_message(group)) <= limit for group in groups)
    for one, two in pairwise(groups):
        assert len(parts_message([*one, two[0]])) > limit


def fitted(part: bytes, limit: int) -> bytes:
    """Make a part fit into a message: the first piece of it, where it is sent in several."""
    return next(pack([part], limit))[0]


def test_a_part_that_fits_is_not_touched() -> None:
    """The usual case costs nothing."""
    part = PARTS.event_part(stored(said("hello")))

    assert fitted(part, FLOOR) is part


def test_the_largest_texts_are_omitted_one_by_one() -> None:
    """A watcher of small messages sees as much as it takes, and can read the rest by digest."""
    texts = ("a" * 30_000, "b" * 50_000, "c" * 40_000, "short")
    data = stored(said(*texts))

    part = fitted(PARTS.event_part(data), 80_000)

    event = event_pb2.StreamPart.FromString(part).event
    content = event.item_added.item.message.content
    assert [c.WhichOneof("part") for c in content] == ["text", "omitted_text", "text", "text"]
    omitted = content[1].omitted_text
    assert omitted.omitted_bytes == 50_000
    assert find_text(data, omitted.sha256) == texts[1].encode()
    assert (event.session_id, event.sequence) == ("sess_1", 7)
    assert len(parts_message([part])) <= 80_000


LARGE_EVENTS = {
    "texts": said("x" * 262_144, "é" * 131_072),
    "many parts": said(*["z" * 300] * 3000),
    "open calls": Event(
        body=SessionRequiresAction(
            calls=tuple(
                OpenCall(call_id=f"c{n}", name="f", agent="A", arguments="y" * 5000, key=f"c{n}") for n in range(64)
            )
        )
    ),
    "other parts": added(
        FunctionCallOutput(
            call_id="call_1",
            name="f",
            output=(OtherPart(json="9" * 99_999), RefusalPart(refusal="r" * 99_999)),
        )
    ),
    "a returned call": Event(
        body=CallReturned(
            call_id="call_1", settlement=Settlement.OUTPUT, output=(TextPart(text="x" * 262_144),) * 3, attempt=1
        )
    ),
    "custom data": added(
        FunctionCallOutput(
            call_id="call_1", name="f", output=(TextPart(text="a"),), custom_data_json='{"a":"' + "9" * 99_999 + '"}'
        )
    ),
    "reasons": Event(body=GuardrailTripped(name="g", info_json='"' + "r" * 99_999 + '"')),
    "ids alone": Event(body=ItemsWithdrawn(item_ids=tuple(f"item_{n:040}" for n in range(5000)))),
}


@pytest.mark.parametrize("event", LARGE_EVENTS.values(), ids=LARGE_EVENTS)
def test_any_event_fits_the_smallest_peer(event: Event) -> None:
    """No event stops a watcher: at worst it is one that has sequence and turn, and is passed over."""
    data = stored(event)

    part = fitted(PARTS.event_part(data), FLOOR)

    read = event_pb2.StreamPart.FromString(part).event
    assert len(parts_message([part])) <= FLOOR
    assert (read.session_id, read.sequence, read.created_at.nanos) == ("sess_1", 7, 500_000_000)
    found = omissions_of(data)
    for digest in ProtoCodec().omitted(read.SerializeToString()):
        assert sha256(found[digest]).hexdigest() == digest


def test_a_text_that_an_event_does_not_have_is_not_found() -> None:
    """ReadContent goes on with the next event."""
    text = "hello " * 20

    assert find_text(stored(said(text)), "0" * 64) is None
    assert find_text(stored(said(text)), sha256(text.encode()).hexdigest()) == text.encode()


@pytest.mark.parametrize("text", ["x" * 200_000, "é" * 100_000, "🙂" * 50_000])
def test_a_large_fragment_goes_on_in_others(text: str) -> None:
    """Put together they are the text, each begins where the one before ended."""
    groups = list(pack([PARTS.delta_part(place(offset=10), text)], FLOOR))

    deltas = [part.delta for part in parts_of(groups)]
    assert all(len(parts_message(group)) <= FLOOR for group in groups)
    assert "".join(delta.output_text for delta in deltas) == text
    assert grown(deltas, {("item_0", 0): 10}) == {("item_0", 0): 10 + len(text.encode())}


def test_a_large_reset_goes_on_in_fragments() -> None:
    """What does not fit into the reset follows it, place by place."""
    texts = [(place(0), "a" * 50_000), (place(0, 1), "ü" * 40_000), (place(1), "c" * 70_000)]
    nested = replace(place(), run_path=("call_1",))

    groups = list(pack([PARTS.reset_part(nested, texts, "LOST")], FLOOR))

    first, *rest = parts_of(groups)
    kept = {
        (item.item_id, index): len(part.text.encode())
        for item in first.reset.items
        for index, part in enumerate(item.message.content)
    }
    assert all(len(parts_message(group)) <= FLOOR for group in groups)
    assert {tuple(part.delta.run_path) for part in rest} == {("call_1",)}
    assert grown([part.delta for part in rest], kept) == {
        ("item_0", 0): 50_000,
        ("item_0", 1): 80_000,
        ("item_1", 0): 70_000,
    }


def grown(deltas: list[event_pb2.Delta], lengths: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """Follows fragments as a reader does, insisting that none leaves a gap; returns the lengths in bytes."""
    for delta in deltas:
        key = (delta.item_id, delta.part_index)
        assert delta.offset == lengths[key]
        lengths[key] += len(delta.output_text.encode())
    return lengths


@given(st.integers(0, 2**64 - 1))
def test_a_varint_is_what_protobuf_reads(value: int) -> None:
    """Any number, of any size."""
    data = varint(value)

    assert session_pb2.WatchResponse.FromString(b"\x78" + data) is not None
    assert len(data) == varint_size(value)
    assert read_varint(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))
    if value < 2**63:
        assert event_pb2.Event.FromString(b"\x10" + data).sequence == value


def test_a_negative_number_has_no_varint() -> None:
    """A sequence below 0 is our mistake and is seen at once."""
    with pytest.raises(ValueError, match="-1"):
        varint(-1)
