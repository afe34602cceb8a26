"""The codec: the core's values as bytes and back. Declared here so that app needs no protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from baton_server.core.agents import Agent
from baton_server.core.events import Event, TurnSnapshot
from baton_server.core.inputs import Input
from baton_server.core.items import Item
from baton_server.core.run_config import RunConfig


class Codec(Protocol):
    """Writes and reads what the store keeps. Bytes of equal values are equal (deterministic)."""

    def event(self, event: Event) -> tuple[bytes, Mapping[str, bytes]]:
        """Write an event without session, sequence and time.

        Texts above `inline_bytes` are omitted from it and returned beside it, by their SHA-256 digest.
        """
        ...

    def read_event(self, data: bytes, texts: Mapping[str, str], contents: Mapping[str, bytes]) -> Event:
        """Read an event at rest. `texts`: JSON texts of items, by item_id; `contents`: what was omitted."""
        ...

    def omitted(self, data: bytes) -> tuple[str, ...]:
        """List the digests of what was omitted from an event at rest."""
        ...

    def committed_at(self, data: bytes) -> float:
        """Read when an event at rest was committed, in seconds since the epoch."""
        ...

    def item(self, item: Item) -> bytes:
        """Write an item, large texts omitted as in its event."""
        ...

    def turn(self, turn: TurnSnapshot) -> bytes:
        """Write how a turn stands."""
        ...

    def read_turn(self, data: bytes) -> TurnSnapshot:
        """Read it back. An output that was omitted reads as empty."""
        ...

    def agent(self, agent: Agent) -> tuple[str, bytes]:
        """Write an agent; returns digest and bytes."""
        ...

    def read_agent(self, data: bytes) -> Agent:
        """Read it back."""
        ...

    def config(self, config: RunConfig) -> tuple[str, bytes]:
        """Write a run configuration; returns digest and bytes."""
        ...

    def read_config(self, data: bytes) -> RunConfig:
        """Read it back."""
        ...

    def input(self, given: Input) -> bytes:
        """Write an input of the Runner, for the inbox."""
        ...

    def read_input(self, data: bytes) -> Input:
        """Read it back."""
        ...
