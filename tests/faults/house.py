"""The processes of a run, each worker behind a proxy of its own: what is hit by faults, and ended in order."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.faults.functions import AT_MOST_ONCE
from tests.faults.journal import Claims, Fact, read_lines
from tests.faults.processes import Child, Nursery
from tests.faults.proxy import Proxy
from tests.faults.worker import Place
from tests.support.server import free_port

SETTINGS: Mapping[str, Any] = {
    "synchronous": "NORMAL",
    "ack_timeout_s": 1.5,
    "lease_s": 2.0,
    "heartbeat_s": 0.5,
    "registration_grace_s": 1.0,
    "hello_timeout_s": 3.0,
    "max_stream_age_s": 3.0,
    "drain_s": 0.5,
    "log_level": "INFO",
}
"""Clocks so short that each runs out many times a minute, and so long that a busy machine does not make them."""

CALLER_PROXIES = 2
AWAY_S = 0.3
"""The longest time between the end of a process and the start of the next one in its place."""

BUSIER = 4
"""How much more likely a worker is killed for each body that it is in and that must not run twice."""

REST_S, SABOTAGED_REST_S = 8.0, 2.0
"""How long workers may take, at rest, to have nothing left; of a broken server, where nothing depends on it."""

FOLDERS = ("journals", "claims", "kept", "errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run. `workers`: processes of the Python client, beside the raw one. `sabotage` empty: none."""

    seconds: float = 60.0
    seed: int = 1
    workers: int = 3
    sessions: int = 12
    sabotage: str = ""


@dataclass(slots=True, eq=False)
class Slot:
    """Where one worker after the other stands. `child` None: between two."""

    role: str
    place: Place
    proxy: Proxy
    generation: int = 0
    child: Child | None = None


class House:
    """A server on one file and port, its model, and workers. All end with the block.

    Every other worker of the client keeps a journal, by which a new process goes on where a killed one was; but for
    those of a sabotage, since then what a dead one had is left to the server alone.

    `died`: processes that ended though nobody had ended them, each in a sentence.
    """

    def __init__(self, nursery: Nursery, folder: Path, plan: Plan) -> None:
        self._nursery, self._folder, self._plan = nursery, folder, plan
        self._chance = random.Random(f"{plan.seed} house")
        self._stack = AsyncExitStack()
        self._settings: dict[str, Any] = {}
        self._model: Child | None = None
        self._server: Child | None = None
        self._starts = 0
        self._slots: list[Slot] = []
        self._wards: set[asyncio.Task[None]] = set()
        self._ending = False
        self.callers: list[Proxy] = []
        self.died: list[str] = []

    async def __aenter__(self) -> House:
        self._stack.push_async_callback(self._end_all)
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        for name in FOLDERS:
            (self._folder / name).mkdir()
        self._model = await self._nursery.fork("model", self._errors("model"), {})
        address = f"127.0.0.1:{free_port()}"
        self._settings = {
            **SETTINGS,
            "address": address,
            "store": str(self.store),
            "openai_api_key": "test",
            "openai_base_url": self._model.word,
        }
        await self._start_server()
        for _ in range(CALLER_PROXIES):
            self.callers.append(await self._stack.enter_async_context(Proxy(address)))
        for number, role in enumerate((*["worker"] * self._plan.workers, "rogue")):
            proxy = await self._stack.enter_async_context(Proxy(address))
            keeps = role == "worker" and number % 2 and not self._plan.sabotage
            place = Place(
                address=proxy.address,
                folder=str(self._folder),
                name=f"{role}-{number}",
                kept=str(self._folder / "kept" / f"{number}.db") if keeps else "",
                rest_s=SABOTAGED_REST_S if self._plan.sabotage else REST_S,
            )
            self._slots.append(Slot(role, place, proxy))
        await asyncio.gather(*map(self._start_worker, self._slots))

    async def _end_all(self) -> None:
        """Leave nobody behind, whatever has happened."""
        self._ending = True
        for ward in self._wards:
            ward.cancel()
        for child in (self._model, self._server, *(slot.child for slot in self._slots)):
            if child is not None:
                child.signal(signal.SIGKILL)

    # -- what it is made of ----------------------------------------------------------------------

    @property
    def store(self) -> Path:
        """The server's file."""
        return self._folder / "baton.db"

    @property
    def claims(self) -> Claims:
        """Who has begun what."""
        return Claims(self._folder / "claims")

    @property
    def proxies(self) -> Sequence[Proxy]:
        """Ways to the server, each of one worker or of callers."""
        return [*(slot.proxy for slot in self._slots), *self.callers]

    # -- faults ----------------------------------------------------------------------------------

    async def kill_worker(self) -> bool:
        """End a worker with SIGKILL and start another in its place; False: there is none at the moment."""
        live = [slot for slot in self._slots if slot.child is not None]
        if not live:
            return False
        (slot,) = self._chance.choices(live, [1 + BUSIER * self._delicate(slot) for slot in live])
        child, slot.child = slot.child, None
        assert child is not None
        await child.kill()
        await asyncio.sleep(self._chance.uniform(0.0, AWAY_S))
        await self._start_worker(slot)
        return True

    async def restart_server(self, *, kill: bool) -> None:
        """End the server, by SIGKILL or in good order, and start it again."""
        server, self._server = self._server, None
        assert server is not None
        if kill:
            await server.kill()
        elif not await server.terminate():
            self._mourn(server)
        await asyncio.sleep(self._chance.uniform(0.0, AWAY_S))
        await self._start_server()

    # -- the end ---------------------------------------------------------------------------------

    async def finish(self) -> None:
        """End the workers in good order, then the server, so that its file can be read."""
        self._ending = True
        workers = [slot.child for slot in self._slots if slot.child is not None]
        await asyncio.gather(*map(self._terminate, workers))
        if self._server is not None:
            await self._terminate(self._server)

    # -- inside ----------------------------------------------------------------------------------

    async def _start_server(self) -> None:
        self._starts += 1
        options = {"settings": self._settings, "sabotage": self._plan.sabotage}
        self._server = await self._nursery.fork("server", self._errors(f"server-{self._starts}"), options)
        self._watch_over(self._server, lambda child: self._server is child)

    async def _start_worker(self, slot: Slot) -> None:
        slot.generation += 1
        name = f"{slot.place.name}-{slot.generation}"
        place = replace(slot.place, name=name, seed=self._chance.getrandbits(32))
        slot.child = await self._nursery.fork(slot.role, self._errors(name), asdict(place))
        self._watch_over(slot.child, lambda child: slot.child is child)

    def _delicate(self, slot: Slot) -> int:
        """Count the bodies that a worker is in and that must not run twice."""
        name = slot.child.name if slot.child is not None else ""
        file = self._folder / "journals" / f"{name}.log"
        entries = read_lines(name, file.read_text()) if file.exists() else ()
        inside = {(entry.call_id, entry.attempt): entry for entry in entries if entry.name in AT_MOST_ONCE}
        return sum(entry.fact is Fact.BEGUN for entry in inside.values())

    async def _terminate(self, child: Child) -> None:
        if not await child.terminate():
            self._mourn(child)

    def _mourn(self, child: Child) -> None:
        self.died.append(f"{child.name} ended with {child.code}: {child.errors()}")

    def _watch_over(self, child: Child, wanted: Callable[[Child], bool]) -> None:
        async def watch() -> None:
            await child.ended.wait()
            if wanted(child) and not self._ending:
                self._mourn(child)

        ward = asyncio.ensure_future(watch())
        self._wards.add(ward)
        ward.add_done_callback(self._wards.discard)

    def _errors(self, name: str) -> Path:
        return self._folder / "errors" / f"{name}.err"
