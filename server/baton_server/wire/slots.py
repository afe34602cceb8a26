"""Slots: the fields whose text may be omitted, by message type, found anywhere in a message.

One table says where a text stands and what stands there in its place; omission to a peer's limit, the search
for a text by its digest and the list of what was omitted at rest all read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from google.protobuf.message import Message

from baton.v1 import item_pb2
from baton_server.wire.omit import omitted_of

_SLOTS: Mapping[str, Mapping[str, str]] = {
    "baton.v1.ContentPart": {
        "text": "omitted_text",
        "refusal": "omitted_text",
        "other_json": "omitted_text",
    },
    "baton.v1.ImagePart": {"url": "omitted_url"},
    "baton.v1.FilePart": {"url": "omitted_url"},
    "baton.v1.FunctionCall": {"arguments_json": "arguments_omitted"},
    "baton.v1.HostedItem": {"item_json": "item_omitted"},
    "baton.v1.RequiredAction": {"arguments_json": "arguments_omitted"},
    "baton.v1.Turn": {"output": "output_omitted", "output_json": "output_omitted"},
    "baton.v1.HookSettled": {"answer_json": "answer_omitted"},
    "baton.v1.RunResponse": {"next_items_json": "next_items_omitted"},
}
"""By message: the field of a text, and the `Omitted` that may stand in its place."""

WORTH_BYTES = 80
"""An `Omitted` with its tag and length takes at most so much: a smaller text is never omitted."""

_OMITTED = item_pb2.Omitted.DESCRIPTOR.full_name


@dataclass(frozen=True, slots=True)
class Slot:
    """A text that may be omitted: `data` is it in UTF-8."""

    owner: Message
    field: str
    omitted_field: str
    data: bytes

    def omit(self) -> str:
        """Put length and digest in place of the text; returns the digest."""
        omitted = omitted_of(self.data)
        self.owner.ClearField(self.field)
        getattr(self.owner, self.omitted_field).CopyFrom(omitted)
        return omitted.sha256


def slots(message: Message) -> Iterator[Slot]:
    """Find the texts in a message that may be omitted and are worth it."""
    for owner in walk(message):
        for name, omitted_name in _SLOTS.get(owner.DESCRIPTOR.full_name, {}).items():
            data = getattr(owner, name).encode()
            if len(data) > WORTH_BYTES:
                yield Slot(owner, name, omitted_name, data)


def walk(message: Message) -> Iterator[Message]:
    """Go through a message and all messages in it, outermost first."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else (value,):
            yield from walk(inner)


def omitted_digests(message: Message) -> tuple[str, ...]:
    """List the digests of what was omitted from a message, each once, in its order."""
    found = (part for part in walk(message) if part.DESCRIPTOR.full_name == _OMITTED)
    return tuple(dict.fromkeys(part.sha256 for part in found if isinstance(part, item_pb2.Omitted)))


def texts_by_digest(message: Message) -> dict[str, bytes]:
    """Read every text of a message that may be omitted, by its SHA-256 digest."""
    return {sha256(slot.data).hexdigest(): slot.data for slot in slots(message)}
