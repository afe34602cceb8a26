"""The codec of the store: what is kept at rest, as bytes, and back.

Bytes of equal values are equal, so that digests name values. An event is serialised without session, sequence
and time; `stamp` appends them, and protobuf reads the whole as one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from baton.v1 import agent_pb2, event_pb2, run_config_pb2
from baton_server.core.agents import Agent
from baton_server.core.events import Event, TurnSnapshot
from baton_server.core.inputs import Input
from baton_server.core.items import Item
from baton_server.core.run_config import RunConfig
from baton_server.wire.agents import read_agent, write_agent
from baton_server.wire.events import Beside, read_event, write_event
from baton_server.wire.inbox import read_input, write_input
from baton_server.wire.items import write_item
from baton_server.wire.omit import Omit
from baton_server.wire.run_config import read_config, write_config
from baton_server.wire.slots import omitted_digests
from baton_server.wire.times import split_time
from baton_server.wire.turns import read_turn, write_turn
from baton_server.wire.varint import tag, varint

_SESSION_TAG = tag(event_pb2.Event.SESSION_ID_FIELD_NUMBER)
_CREATED_TAG = tag(event_pb2.Event.CREATED_AT_FIELD_NUMBER)
_SEQUENCE_TAG = tag(event_pb2.Event.SEQUENCE_FIELD_NUMBER, 0)
_SECONDS_TAG = tag(1, 0)
_NANOS_TAG = tag(2, 0)
_OMITTED_DIGEST = tag(2) + varint(64)
"""How the digest of an Omitted begins: an event without these bytes has none."""


class ProtoCodec:
    """Implements `ports.codec.Codec` with `baton.v1` messages, and JSON for inputs."""

    def event(self, event: Event) -> tuple[bytes, Mapping[str, bytes]]:
        """Write an event without session, sequence and time; returns also what was omitted, by digest."""
        omit = Omit()
        return write_event(event, omit).SerializeToString(deterministic=True), omit.contents

    def read_event(self, data: bytes, texts: Mapping[str, str], contents: Mapping[str, bytes]) -> Event:
        """Read an event at rest. Raises LookupError: a content is missing; ValueError: its arm is unknown."""
        return read_event(event_pb2.Event.FromString(data), Beside(texts=texts, contents=contents))

    def omitted(self, data: bytes) -> tuple[str, ...]:
        """List the digests of what was omitted from an event at rest, without parsing where there is none."""
        if _OMITTED_DIGEST not in data:
            return ()
        return omitted_digests(event_pb2.Event.FromString(data))

    def committed_at(self, data: bytes) -> float:
        """Read when an event at rest was committed, in seconds since the epoch."""
        at = event_pb2.Event.FromString(data).created_at
        return at.seconds + at.nanos / 1e9

    def item(self, item: Item) -> bytes:
        """Write an item, large texts omitted as in its event."""
        return write_item(item, Omit()).SerializeToString(deterministic=True)

    def turn(self, turn: TurnSnapshot) -> bytes:
        """Write how a turn stands."""
        return write_turn(turn, Omit()).SerializeToString(deterministic=True)

    def read_turn(self, data: bytes) -> TurnSnapshot:
        """Read it back. An output that was omitted reads as empty."""
        return read_turn(event_pb2.Turn.FromString(data), None)

    def agent(self, agent: Agent) -> tuple[str, bytes]:
        """Write an agent; returns digest and bytes."""
        return _digested(write_agent(agent).SerializeToString(deterministic=True))

    def read_agent(self, data: bytes) -> Agent:
        """Read it back."""
        return read_agent(agent_pb2.Agent.FromString(data))

    def config(self, config: RunConfig) -> tuple[str, bytes]:
        """Write a run configuration; returns digest and bytes."""
        return _digested(write_config(config).SerializeToString(deterministic=True))

    def read_config(self, data: bytes) -> RunConfig:
        """Read it back."""
        return read_config(run_config_pb2.RunConfig.FromString(data))

    def input(self, given: Input) -> bytes:
        """Write an input of the Runner, for the inbox."""
        return write_input(given)

    def read_input(self, data: bytes) -> Input:
        """Read it back. Raises ValueError on a kind that is not known here."""
        return read_input(data)


def stamp(event: bytes, session_id: str, sequence: int, at: float) -> bytes:
    """Complete an event at rest: `ports.store.Stamp`. Appended fields count as if they had been written."""
    seconds, nanos = split_time(at)
    created = _SECONDS_TAG + varint(seconds)
    if nanos:
        created += _NANOS_TAG + varint(nanos)
    session = session_id.encode()
    return b"".join(
        (
            event,
            *(_SESSION_TAG, varint(len(session)), session),
            *(_SEQUENCE_TAG, varint(sequence)),
            *(_CREATED_TAG, varint(len(created)), created),
        )
    )


def _digested(data: bytes) -> tuple[str, bytes]:
    return sha256(data).hexdigest(), data
