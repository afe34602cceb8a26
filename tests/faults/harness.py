"""The whole of it: a house of processes, faults for so many seconds, rest, and what is counted then."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baton import close_connections
from baton.server.connection import connection_for
from baton.transport.retry import Timing
from tests.crash.raw_clients import channel_to
from tests.faults.callers import Caller, Progress, faults_of
from tests.faults.conductor import Conductor
from tests.faults.counting import Counted, Seen, count
from tests.faults.house import House, Plan
from tests.faults.journal import Journal, read_journals
from tests.faults.party import Approver, Party
from tests.faults.processes import Nursery
from tests.faults.stored import read_store

REST_S = 40.0
"""How long everything may take to come to rest once no faults come any more."""

STALL_S = 12.0
"""How long nothing may happen meanwhile before what has not ended is called stuck: longer than all clocks."""

SABOTAGED_REST_S = (6.0, 4.0)
"""The same two of a server that was broken on purpose, where nothing depends on it."""

TELL_EVERY_S = 5.0
LAST_WORDS_S = 5.0

FULL_LENGTH_S = 60.0
LEAST_CALLS, LEAST_FAULTS = 500, 3
"""What a run of full length must have made and injected of each kind, so that its zeros mean something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it. `died`: processes that ended by themselves."""

    plan: Plan
    counted: Counted
    injected: Mapping[str, int]
    died: Sequence[str] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        """Tell whether every promise was kept, and enough happened to say so."""
        return not (any(self.counted.broken.values()) or self.died or self.shortfalls())

    def shortfalls(self) -> list[str]:
        """Say what a run of full length lacks."""
        if self.plan.seconds < FULL_LENGTH_S:
            return []
        counted = self.counted
        few = [f"{times} of {kind}" for kind, times in self.injected.items() if times < LEAST_FAULTS]
        if counted.calls_made < LEAST_CALLS:
            few.append(f"{counted.calls_made} calls")
        few += [f"no {name}" for name in ("redelivered", "late_discarded") if not getattr(counted, name)]
        return few

    def as_json(self) -> dict[str, Any]:
        """Write what a run prints."""
        counted = self.counted
        made = {
            "calls_made": counted.calls_made,
            "calls_settled": counted.calls_settled,
            "turns_started": counted.turns_started,
            "turns_finished": counted.turns_finished,
            "redelivered": counted.redelivered,
            "late_discarded": counted.late_discarded,
            "injected": dict(self.injected),
            **{name: len(findings) for name, findings in counted.broken.items()},
            "processes_died": len(self.died),
            "seconds": self.plan.seconds,
            "seed": self.plan.seed,
        }
        return {**made, "sabotage": self.plan.sabotage} if self.plan.sabotage else made


class Run:
    """One run, in a folder that it may fill. `tell`: takes a line about how it goes."""

    def __init__(self, plan: Plan, nursery: Nursery, folder: Path, tell: Callable[[str], None]) -> None:
        self._plan, self._nursery, self._folder, self._tell = plan, nursery, folder, tell
        self.progress = Progress()
        self._callers: list[Caller] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._conductor: Conductor | None = None

    async def run(self) -> Report:
        """Do all of it. Raises HarnessFailed where a process cannot be started."""
        async with House(self._nursery, self._folder, self._plan) as house:
            async with AsyncExitStack() as stack:
                stack.push_async_callback(close_connections)
                await self._storm(house, stack)
            await house.finish()
        return await self._report(house)

    async def _storm(self, house: House, stack: AsyncExitStack) -> None:
        seed = self._plan.seed
        addresses = [proxy.address for proxy in house.callers]
        channels = [await stack.enter_async_context(channel_to(address)) for address in addresses]
        for address in addresses:
            timing = Timing(max_delay_s=0.5, connect_s=FULL_LENGTH_S, refused_s=FULL_LENGTH_S)
            connection_for(address, timing)  # the clients find these
        for number in range(self._plan.sessions):
            which = number // 2 % len(addresses)
            self._callers.append(Caller(number, addresses[which], channels[which], seed, self.progress))
        party = Party(addresses[0], house.claims, stack.enter_context(Journal(self._journals / "party.log")), seed)
        approver = Approver(addresses[-1], seed)
        conductor = self._conductor = Conductor(house, random.Random(f"{seed} faults"), self._plan.seconds)
        self._tasks = [asyncio.create_task(caller.run()) for caller in self._callers]
        beside = [asyncio.create_task(work) for work in (party.run(), approver.run(), self._telling())]
        try:
            await conductor.run()
            self.progress.over.set()
            self._tell("no more faults; waiting for rest")
            await self._rest()
        finally:
            for task in (*self._tasks, *beside):
                task.cancel()
            results = await asyncio.gather(*self._tasks, *beside, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _rest(self) -> None:
        """Wait until all callers have come to their end, or nothing moves any more."""
        loop = asyncio.get_running_loop()
        rest_s, stall_s = SABOTAGED_REST_S if self._plan.sabotage else (REST_S, STALL_S)
        deadline, mark, since = loop.time() + rest_s, self._mark(), loop.time()
        waiting = set(self._tasks)
        while waiting and loop.time() < deadline and loop.time() - since < stall_s:
            _, waiting = await asyncio.wait(waiting, timeout=0.25)
            if (now := self._mark()) != mark:
                mark, since = now, loop.time()
        if waiting:
            self.progress.given_up.set()
            await asyncio.wait(waiting, timeout=LAST_WORDS_S)

    def _mark(self) -> tuple[int, int]:
        return self.progress.events, sum(file.stat().st_size for file in self._journals.iterdir())

    async def _telling(self) -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            progress = self.progress
            faults = self._conductor.injected.total() if self._conductor is not None else 0
            self._tell(
                f"{asyncio.get_running_loop().time() - began:.0f} s: {len(progress.ended)} turns ended, "
                f"{progress.events} events, {faults} faults"
            )

    async def _report(self, house: House) -> Report:
        journal = read_journals(self._journals)
        seen = Seen(
            stored=await read_store(house.store),
            journal=journal,
            turn_ids=frozenset(self.progress.started),
            faults=faults_of(self._callers),
        )
        counted = count(seen)
        injected = Counter(self._conductor.injected if self._conductor is not None else ())
        injected.update(duplicate_result=counted.sent_again, late_result=counted.sent_late)
        return Report(plan=self._plan, counted=counted, injected=injected, died=tuple(house.died))

    @property
    def _journals(self) -> Path:
        return self._folder / "journals"
