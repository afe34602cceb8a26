"""What every use case is handed: the ports, and the numbers that bound them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from baton_server.app.recent import Recent
from baton_server.core.agents import Agent
from baton_server.core.errors import Failure
from baton_server.core.run_config import Pinned, RunConfig
from baton_server.core.runner import Runner
from baton_server.ports.bus import Bus, Parts
from baton_server.ports.clock import Clock, Ids
from baton_server.ports.codec import Codec
from baton_server.ports.model import Model
from baton_server.ports.observer import Observer, Unobserved
from baton_server.ports.store import Store

T = TypeVar("T")

PINNED_BYTES = 64 * 1024 * 1024
"""Agents and configurations kept decoded, counted as they are encoded; turns of one deployment share a handful."""

DOCUMENT_BYTES = 1024
"""What a document of few bytes counts besides, for the objects that it is made of."""

DISCARDED = 4096
"""Results that were discarded a short while ago and are answered from memory when they come again."""

ResultKey = tuple[str, int, str]
"""A result as its sender knows it: call, attempt (0: from outside), digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Clocks and bounds of PROTOCOL.md §3 and §7, in seconds and counts. `max_stream_age_s` 0: none."""

    ack_timeout_s: float = 5.0
    lease_s: float = 30.0
    heartbeat_s: float = 10.0
    registration_grace_s: float = 10.0
    hello_timeout_s: float = 10.0
    max_stream_age_s: float = 1800.0
    watch_heartbeat_s: float = 10.0
    max_unacked: int = 5
    max_credit: int = 10_000
    run_session_life_s: float = 24 * 3600.0
    request_life_s: float = 24 * 3600.0
    delta_interval_s: float = 0.03
    delta_bytes: int = 1024


class Finishing:
    """Owns work that goes on to its end although the one who waits for it may go away."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work. A caller who is cancelled ends the waiting alone."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)


@dataclass(slots=True, kw_only=True)
class Runtime:
    """The ports and limits of one server process."""

    store: Store
    bus: Bus
    model: Model
    codec: Codec
    parts: Parts
    runner: Runner
    ids: Ids
    clock: Clock
    observer: Observer = field(default_factory=Unobserved)
    limits: Limits = field(default_factory=Limits)
    finishing: Finishing = field(default_factory=Finishing)
    contended: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Locks by session, while its writers get into each other's way."""
    discarded: Recent[ResultKey, Failure] = field(default_factory=lambda: Recent(DISCARDED))
    """Why results were discarded: the same one again gets the same answer, and no second event."""
    _pinned: Recent[str, Agent | RunConfig] = field(default_factory=lambda: Recent(PINNED_BYTES))

    async def agent(self, digest: str) -> Agent:
        """Read a pinned agent by its digest. Raises LookupError: the store has lost it."""
        kept = self._pinned.get(digest)
        if isinstance(kept, Agent):
            return kept
        data = await self._document(digest)
        agent = self.codec.read_agent(data)
        self._pinned.put(digest, agent, len(data) + DOCUMENT_BYTES)
        return agent

    async def config(self, digest: str) -> RunConfig:
        """Read a pinned configuration by its digest; empty: the defaults. Raises LookupError."""
        if not digest:
            return RunConfig()
        kept = self._pinned.get(digest)
        if isinstance(kept, RunConfig):
            return kept
        data = await self._document(digest)
        config = self.codec.read_config(data)
        self._pinned.put(digest, config, len(data) + DOCUMENT_BYTES)
        return config

    async def pinned(self, agent_digest: str, config_digest: str) -> Pinned:
        """Read what a turn runs with."""
        return Pinned(agent=await self.agent(agent_digest), config=await self.config(config_digest))

    async def _document(self, digest: str) -> bytes:
        data = await self.store.documents.document(digest)
        if data is None:
            raise LookupError(f"the store has no document of digest {digest!r}")
        return data
