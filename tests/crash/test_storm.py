"""Many runs at once, and a server that dies again and again at moments that nobody chose."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tests.crash.house import House, agent, check_journal, echo, house, said, stored
from tests.crash.raw_clients import PATIENCE_S, Entry, RawWatcher, RawWorker, going
from tests.support.model_server import ModelServer

from baton.v1 import handler_pb2

LOADERS, KILLS, SLEEPERS = 8, 8, 3
MODEL = "rule:calls=2,parallel=2,words=4,checked=1"

FIRST, LAST = 5, 120
"""A death comes after so many events, chosen by chance, since the last one."""


@dataclass(slots=True)
class Storm:
    """How far it has come. `over`: the last death was survived; loaders finish what they have begun."""

    events: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    over: bool = False
    deaths: int = 0
    asleep: int = 0
    ended: dict[str, str] = field(default_factory=dict)

    def reached(self, goal: int) -> bool:
        """Tell whether so many events were seen."""
        return self.events >= goal

    async def died(self) -> None:
        """Count a death; the last one ends the storm."""
        async with self.changed:
            self.deaths += 1
            self.over = self.deaths == KILLS
            self.changed.notify_all()

    async def body(self, call: handler_pb2.Call) -> str:
        """Answer like echo; up to `SLEEPERS` calls at a time only when the server has died meanwhile."""
        if self.asleep < SLEEPERS:
            self.asleep += 1
            async with self.changed:
                deaths = self.deaths
                await self.changed.wait_for(lambda: self.over or self.deaths > deaths)
            self.asleep -= 1
        return await echo(call)

    async def saw(self, events: int) -> None:
        """Count events that a loader has seen."""
        async with self.changed:
            self.events += events
            self.changed.notify_all()


async def load(home: House, storm: Storm) -> None:
    """Run one turn after another in a session, until the storm is over."""
    session_id = await home.new_session(agent(MODEL, "echo"))
    watcher = RawWatcher(home.channel, session_id)
    async with going(watcher):
        seen = 0
        while not storm.over:
            answer = await home.submit(session_id, said("again"))
            turn = await watcher.until_ended(answer.turn_id)
            storm.ended[turn.turn_id] = turn.output
            await storm.saw(watcher.last - seen)
            seen = watcher.last
        await home.check_takes_input(watcher, session_id)


async def thunder(home: House, storm: Storm, chance: random.Random) -> None:
    """Kill the server, and wait until it is back, so many times."""
    for number in range(KILLS):
        async with storm.changed:
            goal = storm.events + chance.randint(FIRST, LAST)
            await storm.changed.wait_for(partial(storm.reached, goal))
        home.process.kill()
        await home.process.started(number + 2)
        await storm.died()


@pytest.mark.slow
async def test_every_turn_of_a_storm_completes(tmp_path: Path, model_server: ModelServer) -> None:
    """Two workers, eight loaders, eight deaths: all turns complete, each call is executed and settled once."""
    store, storm = tmp_path / "baton.db", Storm()
    async with house(store, model_server.base_url, attach=False) as home:
        journal: list[Entry] = []
        workers = [RawWorker(home.channel, storm.body, journal=journal) for _ in range(2)]
        async with going(*workers), asyncio.timeout(PATIENCE_S * 2):
            tasks = [load(home, storm) for _ in range(LOADERS)]
            await asyncio.gather(thunder(home, storm, random.Random(20)), *tasks)
    kept = stored(store)
    check_journal(journal)
    assert len(kept.turns) == len(storm.ended) + LOADERS
    assert set(kept.turns.values()) == {"COMPLETED"}
    assert set(storm.ended.values()) == {"word word word word"}
    assert len(kept.calls) == 2 * len(kept.turns)
    assert {state for state, _ in kept.calls.values()} == {"settled"}
    assert {entry.call_id for entry in journal} == set(kept.calls) == set(kept.outputs)
    assert set(kept.outputs.values()) == {1}
    assert all(seen == list(range(1, len(seen) + 1)) for seen in kept.sequences.values())
    assert len(kept.sequences) == LOADERS
    assert kept.inbox == 0
    print(f"{len(kept.turns)} turns, {len(kept.calls)} calls, {KILLS} deaths")
