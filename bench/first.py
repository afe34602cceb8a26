"""The two first figures, each beside its floor.

(a) CPU of the server process per durable run of 4 streamed model calls and 3 function calls that an attached
    worker in another process answers at once, with 1 run and with 32 at a time.
(b) Round trip of a function call, with 1 and with 32 in flight in one turn. Ours: from the moment at which the
    caller of RunStreamed has the event item_added of the call, to that of item_added of its output; both events
    are on disk then, and no model is asked in between. The floor: from the queueing of the raw frame for the
    worker to the end of the one commit that follows its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from bench.floor import ROUND_TRIPS
from bench.house import House, Side, house, model_server
from bench.load import FUNCTION, Caller, Message, UnaryUnary, round_trips
from bench.record import record
from bench.report import Pair, Report, percentile
from bench.tape import Recorded, tape

CALLS = 3
"""Function calls of a run; its model calls are one more."""

AT_ONCE = (1, 32)

ROUNDS_OF_TURN = 8
"""Function calls, one after the other, in each turn by which one call in flight is measured."""

MAX_WARM_UP = 16
"""Runs before a load is measured: as many as go at a time, but no more than so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured in a round. `runs`: by how many go at a time; `turns`: by calls in flight."""

    runs: Mapping[int, int]
    turns: Mapping[int, int]


FULL = Size(runs={1: 40, 32: 192}, turns={1: 12, 32: 8})
PACED = Size(runs={1: 8, 32: 96}, turns={1: 12, 32: 8})
QUICK = Size(runs={1: 10, 32: 64}, turns={1: 4, 32: 3})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure. `delta_delay_ms`: pause of the model before each word."""

    size: Size
    rounds: int
    words: tuple[int, ...]
    delta_delay_ms: int = 0

    def model(self, words: int) -> str:
        """Name the model that calls the function three times and then says so many words."""
        return f"rule:calls={CALLS},words={words},name={FUNCTION},delta_delay_ms={self.delta_delay_ms}"


@dataclass(slots=True, kw_only=True)
class _Samples:
    """Samples of one figure, a pair per round."""

    ours: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    def add(self, ours: float, floor: float) -> None:
        self.ours.append(ours)
        self.floor.append(floor)

    def pair(self, name: str, unit: str) -> Pair:
        return Pair(name=name, unit=unit, ours=tuple(self.ours), floor=tuple(self.floor))


async def first(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    """Measure. `folder`: for the stores; `tell`: takes progress. Raises BenchFailed."""
    async with model_server() as address:
        tell("recording one run of each kind")
        recorded = [
            await record(_made(folder / str(words)), f"{address}/v1", plan.model(words)) for words in plan.words
        ]
        async with house(folder, address, [tape(one) for one in recorded]) as running:
            cpu, speed = await _cpu(plan, running, tell)
            trips = await _trips(plan, running, tell)
    return Report(pairs=[*cpu, *trips], counted=_counted(recorded[0]), also=speed)


# -- (a) -----------------------------------------------------------------------------------------


async def _cpu(plan: Plan, running: House, tell: Callable[[str], None]) -> tuple[list[Pair], dict[str, float]]:
    samples = {(words, at_once): _Samples() for words in plan.words for at_once in AT_ONCE}
    speeds: dict[tuple[int, int], list[float]] = {key: [] for key in samples}
    for number in range(1, plan.rounds + 1):
        for words, at_once in samples:
            tell(f"round {number} of {plan.rounds}: {words} words, {at_once} at a time")
            runs, model = plan.size.runs[at_once], plan.model(words)
            ours, took_s = await _cpu_ms(running.server, model, runs, at_once)
            floor, _ = await _cpu_ms(running.floor, model, runs, at_once)
            samples[words, at_once].add(ours, floor)
            speeds[words, at_once].append(runs / took_s)
    suffix = f", a word per {plan.delta_delay_ms} ms" if plan.delta_delay_ms else ""
    named = {key: f"{key[0]} words{suffix}, {key[1]} at a time" for key in samples}
    pairs = [samples[key].pair(f"CPU per run, {name}", "ms") for key, name in named.items()]
    return pairs, {f"runs per second, {name}": median(speeds[key]) for key, name in named.items()}


async def _cpu_ms(side: Side, model: str, runs: int, at_once: int) -> tuple[float, float]:
    """Put a load on one side; returns CPU of its process per run in milliseconds, and the seconds it took."""
    caller = Caller(side.channel, model)
    await caller.load(min(at_once, MAX_WARM_UP), at_once)
    before = side.process.cpu_s()
    took_s = await caller.load(runs, at_once)
    return (side.process.cpu_s() - before) * 1000 / runs, took_s


# -- (b) -----------------------------------------------------------------------------------------


async def _trips(plan: Plan, running: House, tell: Callable[[str], None]) -> list[Pair]:
    medians = {at_once: _Samples() for at_once in AT_ONCE}
    tails = {at_once: _Samples() for at_once in AT_ONCE}
    for number in range(1, plan.rounds + 1):
        for at_once in AT_ONCE:
            tell(f"round {number} of {plan.rounds}: round trips, {at_once} in flight")
            turns = plan.size.turns[at_once]
            ours = await _our_trips(running, at_once, turns)
            floor = await _raw_trips(running.floor, at_once, turns * ROUNDS_OF_TURN if at_once == 1 else turns)
            medians[at_once].add(median(ours) * 1000, median(floor) * 1000)
            tails[at_once].add(percentile(ours, 0.99) * 1000, percentile(floor, 0.99) * 1000)
    return [
        *(medians[n].pair(f"round trip of a call, {n} in flight", "ms") for n in AT_ONCE),
        *(tails[n].pair(f"its 99th percentile, {n} in flight", "ms") for n in AT_ONCE),
    ]


async def _our_trips(running: House, at_once: int, turns: int) -> list[float]:
    """Make turns, and see in their streams how long each call was open, in seconds."""
    rounds = ROUNDS_OF_TURN if at_once == 1 else 1
    calls = [{"name": FUNCTION, "arguments": {"n": n, "text": "x" * 16}} for n in range(at_once)]
    steps: list[dict[str, Any]] = [*({"calls": calls} for _ in range(rounds)), {"text": "Done."}]
    await _load_script(running.model_address, "trips", steps * (turns + 1))
    caller = Caller(running.server.channel, "script:trips")
    await caller.run()
    streams: list[list[Message]] = [await caller.run() for _ in range(turns)]
    return [took for stream in streams for took in round_trips(stream)]


async def _raw_trips(floor: Side, at_once: int, times: int) -> list[float]:
    call: UnaryUnary = floor.channel.unary_unary(ROUND_TRIPS)
    await call(json.dumps({"at_once": at_once, "times": 2}).encode())
    took: list[float] = json.loads(await call(json.dumps({"at_once": at_once, "times": times}).encode()))
    return took


async def _load_script(address: str, name: str, steps: list[dict[str, Any]]) -> None:
    url = f"{address}/_scripts/{name}"
    async with aiohttp.ClientSession() as session, session.put(url, json={"responses": steps}) as answer:
        answer.raise_for_status()


# -- counts --------------------------------------------------------------------------------------


def _counted(recorded: Recorded) -> dict[str, Any]:
    return {
        "commits of a run": len(recorded.commits),
        "reads of a run": recorded.reads,
        "messages to the caller": len(recorded.messages),
        "Call and ResultAck frames": f"{len(recorded.calls)} and {len(recorded.acks)}",
        "bytes committed": sum(map(len, recorded.commits)),
    }


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


__all__ = ["FULL", "PACED", "QUICK", "Plan", "Size", "first"]
