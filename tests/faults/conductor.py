"""Deals the faults: which comes next is chance, of a seed; each kind comes as often as the deck has it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from tests.faults.proxy import Proxy

log = logging.getLogger("faults.conductor")

DECK: Mapping[str, int] = {
    "worker_kill": 3,
    "server_kill": 1,
    "server_restart": 1,
    "drop": 2,
    "reset": 2,
    "half_open": 2,
    "truncate": 1,
    "delay": 1,
}
"""Faults that the conductor injects, and how many of each are in the deck."""

PACE_S = 0.4
"""Mean time between two faults, where a run is long enough for several decks."""

SPARE = 1.5
"""A run that is too short for that pace has time for one deck and a half of another, if faults took no time."""

PATIENCE = 3
"""So many times as long a run may take, on a machine that has much else to do, to inject each kind of fault."""

SILENT_S = (0.3, 3.0)
DELAY_S = (0.05, 0.8)
DELAYED_FOR_S = (0.3, 1.5)
"""How long a connection is silent, how late bytes come, and for how long they do."""


class Targets(Protocol):
    """What may be hit."""

    @property
    def proxies(self) -> Sequence[Proxy]:
        """Ways to the server, each of one worker or of callers."""
        ...

    async def kill_worker(self) -> bool:
        """End a worker with SIGKILL and start another in its place; False: there is none at the moment."""
        ...

    async def restart_server(self, *, kill: bool) -> None:
        """End the server, by SIGKILL or in good order, and start it again."""
        ...


class Conductor:
    """Injects faults. `injected`: how many of each kind hit something."""

    def __init__(self, targets: Targets, chance: random.Random, seconds: float) -> None:
        self._targets, self._chance = targets, chance
        self._deck: list[str] = []
        self._seconds = seconds
        self._pace_s = min(PACE_S, seconds / (SPARE * sum(DECK.values())))
        self._healing: list[asyncio.TimerHandle] = []
        self.injected: Counter[str] = Counter(dict.fromkeys(DECK, 0))
        self._faults: Mapping[str, Callable[[], Awaitable[bool]]] = {
            "worker_kill": targets.kill_worker,
            "server_kill": lambda: self._restart(kill=True),
            "server_restart": lambda: self._restart(kill=False),
            "drop": lambda: self._cut(lambda proxy: proxy.drop()),
            "reset": lambda: self._cut(lambda proxy: proxy.reset()),
            "half_open": lambda: self._cut(lambda proxy: proxy.half_open(self._chance.uniform(*SILENT_S))),
            "truncate": lambda: self._cut(lambda proxy: proxy.truncate()),
            "delay": self._delay,
        }

    async def run(self) -> None:
        """Inject one fault after the other until the time is over; what was begun is ended.

        A whole deck is dealt in any case, unless that would take several times as long.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (passed := loop.time() - began) < self._seconds or (
            not all(self.injected.values()) and passed < PATIENCE * self._seconds
        ):
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self._pace_s)
            kind = self._next()
            if await self._faults[kind]():
                self.injected[kind] += 1
                log.info("injected %s", kind)
            else:
                self._deck.insert(0, kind)  # there is nothing to hit at the moment
        self.heal()

    def heal(self) -> None:
        """End what would go on by itself."""
        for handle in self._healing:
            handle.cancel()
        for proxy in self._targets.proxies:
            proxy.heal()

    # -- inside ----------------------------------------------------------------------------------

    def _next(self) -> str:
        if not self._deck:
            self._deck = [kind for kind, count in DECK.items() for _ in range(count)]
            self._chance.shuffle(self._deck)
        return self._deck.pop()

    async def _restart(self, *, kill: bool) -> bool:
        await self._targets.restart_server(kill=kill)
        return True

    async def _cut(self, fault: Callable[[Proxy], int]) -> bool:
        live = [proxy for proxy in self._targets.proxies if proxy.live]
        return bool(live) and fault(self._chance.choice(live)) > 0

    async def _delay(self) -> bool:
        live = [proxy for proxy in self._targets.proxies if proxy.live]
        if not live:
            return False
        proxy = self._chance.choice(live)
        hit = proxy.delay(self._chance.uniform(*DELAY_S))
        loop = asyncio.get_running_loop()
        self._healing.append(loop.call_later(self._chance.uniform(*DELAYED_FOR_S), proxy.delay, 0.0))
        return hit > 0
