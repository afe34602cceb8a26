"""Stream parts as bytes: what watchers are sent, joined by hand from bytes at rest.

A part is the bytes of a `baton.v1.StreamPart`, made once for all watchers of a session. A message of Watch,
Converse or RunStreamed is parts behind one another, each as an element of its field 1; so nothing is parsed
between the store and the wire. `fit` makes smaller what a peer does not take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from baton.v1 import event_pb2, item_pb2
from baton_server.ports.bus import Place, Progress
from baton_server.wire.fit import fit_message
from baton_server.wire.slots import texts_by_digest
from baton_server.wire.texts import head
from baton_server.wire.times import write_time
from baton_server.wire.varint import DELIMITED, field, read_varint, tag, varint, varint_size

_EVENT_TAG = tag(event_pb2.StreamPart.EVENT_FIELD_NUMBER)
_PART_TAG = tag(1)
"""`parts` is field 1 of WatchResponse, ConverseResponse and RunStreamedResponse."""

_RUN_PATHS = {
    _EVENT_TAG: event_pb2.Event.RUN_PATH_FIELD_NUMBER,
    tag(event_pb2.StreamPart.DELTA_FIELD_NUMBER): event_pb2.Delta.RUN_PATH_FIELD_NUMBER,
    tag(event_pb2.StreamPart.RESET_FIELD_NUMBER): event_pb2.Reset.RUN_PATH_FIELD_NUMBER,
}
"""By how a part begins: the field that says in which run it is."""

_DELTA_ENVELOPE = 512
"""Bytes of a delta or a reset besides its texts: ids, tags and lengths, with room to spare."""


class ProtoParts:
    """Implements `ports.bus.Parts`."""

    def event_part(self, stored_event: bytes) -> bytes:
        """Wrap an event at rest, without parsing it."""
        return event_part(stored_event)

    def delta_part(self, place: Place, text: str) -> bytes:
        """Make a fragment of text."""
        return delta_part(place, text)

    def progress_part(
        self, turn_id: str, round_number: int, progress: Progress, run_path: tuple[str, ...] = ()
    ) -> bytes:
        """Make a fragment of what a handler reports."""
        return progress_part(turn_id, round_number, progress, run_path)

    def reset_part(self, at: Place, texts: Sequence[tuple[Place, str]], reason: str) -> bytes:
        """Make a reset."""
        return reset_part(at, texts, reason)

    def heartbeat_part(self, last_sequence: int, now: float) -> bytes:
        """Make a heartbeat."""
        return heartbeat_part(last_sequence, now)

    def nested(self, part: bytes) -> bool:
        """Tell whether a part is of a nested run."""
        return nested(part)


# -- making parts --------------------------------------------------------------------------------


def event_part(stored_event: bytes) -> bytes:
    """Wrap an event at rest, without parsing it."""
    return b"".join((_EVENT_TAG, varint(len(stored_event)), stored_event))


def delta_part(place: Place, text: str) -> bytes:
    """Make a fragment of text. `place.offset` in UTF-8 bytes."""
    return event_pb2.StreamPart(delta=_delta(place, text)).SerializeToString()


def progress_part(turn_id: str, round_number: int, progress: Progress, run_path: tuple[str, ...] = ()) -> bytes:
    """Make a fragment of what a handler reports. A peer that does not take so much at once does not get it."""
    reported = event_pb2.CallProgress(call_id=progress.call_id, attempt=progress.attempt, number=progress.number)
    for arm in ("text", "progress_json", "output_so_far"):
        said = getattr(progress, arm)
        if said is not None:
            setattr(reported, arm, said)
    delta = event_pb2.Delta(turn_id=turn_id, run_path=run_path, round=round_number, progress=reported)
    return event_pb2.StreamPart(delta=delta).SerializeToString()


def reset_part(at: Place, texts: Sequence[tuple[Place, str]], reason: str) -> bytes:
    """Make a reset: the texts so far of one round. `reason`: a name of `baton.v1.ResetReason`.

    Texts of one item stand one behind the other, in the order of their parts. Raises ValueError on an
    unknown reason.
    """
    reset = event_pb2.Reset(
        turn_id=at.turn_id,
        run_path=at.run_path,
        round=at.round,
        model_attempt=at.model_attempt,
        reason=event_pb2.ResetReason.Value(f"RESET_REASON_{reason}"),
    )
    for item_id, group in groupby(texts, key=lambda text: text[0].item_id):
        item = reset.items.add(
            item_id=item_id,
            turn_id=at.turn_id,
            run_path=at.run_path,
            status=item_pb2.ITEM_STATUS_IN_PROGRESS,
        )
        item.message.role = item_pb2.MESSAGE_ROLE_ASSISTANT
        for place, text in group:
            item.output_index = place.output_index
            item.message.content.add(text=text)
    return event_pb2.StreamPart(reset=reset).SerializeToString()


def heartbeat_part(last_sequence: int, now: float) -> bytes:
    """Make a heartbeat; `now` is seconds since the epoch by the store's clock."""
    beat = event_pb2.Heartbeat(last_sequence=last_sequence, now=write_time(now))
    return event_pb2.StreamPart(heartbeat=beat).SerializeToString()


def _delta(place: Place, text: str) -> event_pb2.Delta:
    return event_pb2.Delta(
        turn_id=place.turn_id,
        run_path=place.run_path,
        round=place.round,
        model_attempt=place.model_attempt,
        item_id=place.item_id,
        output_index=place.output_index,
        part_index=place.part_index,
        offset=place.offset,
        output_text=text,
    )


# -- looking into parts --------------------------------------------------------------------------


def nested(part: bytes) -> bool:
    """Tell whether a part is of a nested run, without parsing it."""
    run_path = _RUN_PATHS.get(part[:1])
    if run_path is None:
        return False
    _, at = read_varint(part, 1)
    # Fields are written in the order of their numbers, but for what `stamp` appends: the path is near the beginning.
    while at < len(part):
        key, at = read_varint(part, at)
        number, kind = key >> 3, key & 7
        if number >= run_path:
            return number == run_path
        value, at = read_varint(part, at)
        at += value if kind == DELIMITED else 0
    return False


# -- making messages -----------------------------------------------------------------------------


def parts_message(parts: Iterable[bytes]) -> bytes:
    """Join parts into a WatchResponse, ConverseResponse or RunStreamedResponse."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += (_PART_TAG, varint(len(part)), part)
    return b"".join(pieces)


def frame_message(field_number: int, message: bytes) -> bytes:
    """Make a response that holds a serialised message as one of its other arms."""
    return field(field_number, message)


def pack(parts: Iterable[bytes], limit: int) -> Iterator[list[bytes]]:
    """Group parts, in order, so that `parts_message` of a group has at most `limit` bytes.

    A part that is too large alone is made to fit: an event by omission, a fragment or a reset by going on in
    further fragments.
    """
    group: list[bytes] = []
    size = 0
    for part in parts:
        whole = _in_message(part)
        pieces = [(part, whole)] if whole <= limit else [(piece, _in_message(piece)) for piece in _cut(part, limit)]
        for piece, added in pieces:
            if group and size + added > limit:
                yield group
                group, size = [], 0
            group.append(piece)
            size += added
    if group:
        yield group


def _in_message(part: bytes) -> int:
    return len(_PART_TAG) + varint_size(len(part)) + len(part)


def _cut(part: bytes, limit: int) -> list[bytes]:
    message = event_pb2.StreamPart.FromString(part)
    room = limit - _in_message(b"") - varint_size(limit)
    if message.HasField("delta"):
        return [_delta_piece(delta) for delta in _split(message.delta, room)]
    if message.HasField("reset"):
        return _split_reset(message.reset, room)
    fit_message(message, room)
    return [message.SerializeToString()]


def _delta_piece(delta: event_pb2.Delta) -> bytes:
    return event_pb2.StreamPart(delta=delta).SerializeToString()


def _split(delta: event_pb2.Delta, room: int) -> Iterator[event_pb2.Delta]:
    """Split a fragment into some that follow one another, at characters."""
    text, offset = delta.output_text, delta.offset
    while text:
        piece = head(text, room - _DELTA_ENVELOPE)
        split = event_pb2.Delta()
        split.CopyFrom(delta)
        split.offset, split.output_text = offset, piece
        yield split
        offset += len(piece.encode())
        text = text[len(piece) :]


def _split_reset(reset: event_pb2.Reset, room: int) -> list[bytes]:
    """Keep of a reset's texts what fits, from the first on; what does not follows as fragments."""
    left = room - len(reset.items) * _DELTA_ENVELOPE - _DELTA_ENVELOPE
    rest: list[event_pb2.Delta] = []
    for item in reset.items:
        for index, part in enumerate(item.message.content):
            kept = head(part.text, left)
            size = len(kept.encode())
            left -= size + _DELTA_ENVELOPE // 16
            if len(kept) < len(part.text):
                rest.append(_rest_of(reset, item, index, (size, part.text[len(kept) :])))
                part.text = kept
    first = event_pb2.StreamPart(reset=reset).SerializeToString()
    return [first, *(_delta_piece(delta) for one in rest for delta in _split(one, room))]


def _rest_of(reset: event_pb2.Reset, item: item_pb2.Item, part_index: int, rest: tuple[int, str]) -> event_pb2.Delta:
    offset, text = rest
    return event_pb2.Delta(
        turn_id=reset.turn_id,
        run_path=reset.run_path,
        round=reset.round,
        model_attempt=reset.model_attempt,
        item_id=item.item_id,
        output_index=item.output_index,
        part_index=part_index,
        offset=offset,
        output_text=text,
    )


# -- reading what was omitted --------------------------------------------------------------------


def omissions_of(event: bytes) -> dict[str, bytes]:
    """Read every text that `pack` may omit from an event at rest, in UTF-8 by its SHA-256 digest."""
    return texts_by_digest(event_pb2.Event.FromString(event))


def find_text(event: bytes, sha256: str) -> bytes | None:
    """Find the text of a digest in an event at rest; None: it is not there.

    For ReadContent: what `pack` omitted is kept in no other place than the event itself.
    """
    return omissions_of(event).get(sha256)
