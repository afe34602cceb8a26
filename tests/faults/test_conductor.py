"""Faults are dealt as the deck has them, by a seed, and only those that hit something count."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.faults.conductor import DECK, Conductor

QUICK_S = 0.02


@dataclass
class Way:
    """A way to the server that notes what was done to it."""

    notes: list[str]
    live: int = 1
    healed: bool = False

    def drop(self) -> int:
        """Note it."""
        return self._hit("drop")

    def reset(self) -> int:
        """Note it."""
        return self._hit("reset")

    def truncate(self) -> int:
        """Note it."""
        return self._hit("truncate")

    def half_open(self, seconds: float) -> int:
        """Note it."""
        assert seconds > 0
        return self._hit("half_open")

    def delay(self, seconds: float) -> int:
        """Note it, but for its end."""
        return self._hit("delay") if seconds else 0

    def heal(self) -> None:
        """Note it."""
        self.healed = True

    def _hit(self, kind: str) -> int:
        self.notes.append(kind)
        return self.live


@dataclass
class Aims:
    """What is hit, and what was done, in order."""

    notes: list[str] = field(default_factory=list)
    has_workers: bool = True

    def __post_init__(self) -> None:
        self.proxies: list[Any] = [Way(self.notes), Way(self.notes, live=0)]

    async def kill_worker(self) -> bool:
        """Note it."""
        self.notes.append("worker_kill")
        return self.has_workers

    async def restart_server(self, *, kill: bool) -> None:
        """Note it."""
        self.notes.append("server_kill" if kill else "server_restart")


async def dealt(aims: Aims, seed: int = 1, seconds: float = QUICK_S) -> Counter[str]:
    """Deal for so long; returns what was injected."""
    conductor = Conductor(aims, random.Random(seed), seconds)
    await conductor.run()
    return conductor.injected


async def test_a_short_run_deals_each_kind() -> None:
    """However little time there is; what was injected is what was done, and in the end all is healed."""
    aims = Aims()
    injected = await dealt(aims)
    assert Counter(aims.notes) == injected
    assert injected.keys() == DECK.keys()
    assert all(injected.values())
    assert all(proxy.healed for proxy in aims.proxies)


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_seed_deals_in_one_order(seed: int) -> None:
    """The same one every time: as far as both have come, two runs are equal."""
    first, second = Aims(), Aims()
    await dealt(first, seed)
    await dealt(second, seed)
    common = min(len(first.notes), len(second.notes))
    assert first.notes[:common] == second.notes[:common]
    assert common >= len(DECK)


async def test_what_hits_nothing_does_not_count() -> None:
    """It is tried again later, for a while."""
    aims = Aims(has_workers=False)
    aims.proxies = [Way(aims.notes, live=0)]
    injected = await dealt(aims)
    assert {kind for kind, times in injected.items() if times} == {"server_kill", "server_restart"}
    assert {"worker_kill", "server_kill", "server_restart"} == set(aims.notes)
