"""What every use case is handed: the ports, and the numbers that bound them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from baton_server.core.agents import Agent, Pinned, RunConfig
from baton_server.core.runner import Runner
from baton_server.ports.bus import Bus, Parts
from baton_server.ports.clock import Clock, Ids
from baton_server.ports.codec import Codec
from baton_server.ports.model import Model
from baton_server.ports.store import Store

T = TypeVar("T")

PINNED_CACHE = 1024
"""Agents and configurations kept decoded; turns of one deployment share a handful."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Clocks and bounds of PROTOCOL.md §3 and §7, in seconds and counts."""

    ack_timeout_s: float = 5.0
    lease_s: float = 30.0
    heartbeat_s: float = 10.0
    registration_grace_s: float = 10.0
    hello_timeout_s: float = 10.0
    watch_heartbeat_s: float = 10.0
    max_attempts: int = 5
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
    limits: Limits = field(default_factory=Limits)
    finishing: Finishing = field(default_factory=Finishing)
    contended: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Locks by session, while its writers get into each other's way."""
    _agents: OrderedDict[str, Agent] = field(default_factory=OrderedDict)
    _configs: OrderedDict[str, RunConfig] = field(default_factory=OrderedDict)

    async def agent(self, digest: str) -> Agent:
        """Read a pinned agent by its digest. Raises LookupError: the store has lost it."""
        if digest not in self._agents:
            self._agents[digest] = self.codec.read_agent(await self._document(digest))
            _bound(self._agents)
        return self._agents[digest]

    async def config(self, digest: str) -> RunConfig:
        """Read a pinned configuration by its digest; empty: the defaults. Raises LookupError."""
        if not digest:
            return RunConfig()
        if digest not in self._configs:
            self._configs[digest] = self.codec.read_config(await self._document(digest))
            _bound(self._configs)
        return self._configs[digest]

    async def pinned(self, agent_digest: str, config_digest: str) -> Pinned:
        """Read what a turn runs with."""
        return Pinned(agent=await self.agent(agent_digest), config=await self.config(config_digest))

    async def _document(self, digest: str) -> bytes:
        data = await self.store.documents.document(digest)
        if data is None:
            raise LookupError(f"the store has no document of digest {digest!r}")
        return data


def _bound(cache: OrderedDict[str, Any]) -> None:
    while len(cache) > PINNED_CACHE:
        cache.popitem(last=False)
