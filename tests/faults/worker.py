"""A worker process, made of the Python client: `python -m tests.faults.worker ADDRESS FOLDER NAME`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from baton import Worker, close_connections
from baton.server.connection import connection_for
from baton.transport.retry import Timing
from tests.faults.functions import Bodies, host
from tests.faults.journal import Claims, Fact, Journal

CONCURRENCY = 6
"""Calls that one process executes at a time."""


LOOK_EVERY_S = 0.05
LAST_WORDS_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process works, and as what. `kept`: a file in which the client keeps its results; empty: none.

    `rest_s`: how long it may take, at rest, until it has neither a call nor a result of which it was told nothing.
    """

    address: str
    folder: str
    name: str
    seed: int = 0
    kept: str = ""
    rest_s: float = 8.0

    @property
    def journal(self) -> Path:
        """The file that it writes down what it does."""
        return Path(self.folder) / "journals" / f"{self.name}.log"

    @property
    def claims(self) -> Claims:
        """Who has begun what."""
        return Claims(Path(self.folder) / "claims")


async def work(place: Place, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM, then finish what there is and write down what was left."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("asyncio", "grpc", "grpc._cython.cygrpc"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    timing = Timing(max_delay_s=0.5, connect_s=600.0, refused_s=600.0)
    connection_for(place.address, timing)  # the worker finds this one
    with Journal(place.journal) as journal:
        worker = Worker(place.address, max_concurrency=CONCURRENCY, journal=place.kept or None)
        host(worker, Bodies(place.name, journal, place.claims, random.Random(place.seed)))
        serving = asyncio.create_task(worker.run())
        ready("")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()  # it ended by itself, which it must not: raises why
            raise RuntimeError("the worker ended by itself")
        journal.write(Fact.LEFT, count=await left(lambda: worker.held, place.rest_s))
        await worker.stop(LAST_WORDS_S)
        await serving
        await close_connections()


async def left(held: Callable[[], int], within_s: float) -> int:
    """Wait until nothing is held, for a time; return what is."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while held() and loop.time() < until:  # noqa: ASYNC110 - nobody tells when the last one has gone
        await asyncio.sleep(LOOK_EVERY_S)
    return held()


def main() -> None:
    """Run one by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.worker", description=__doc__)
    parser.add_argument("address", metavar="ADDRESS", help="of the server, or of a proxy before it")
    parser.add_argument("folder", metavar="FOLDER", help="in which the folders journals and claims are")
    parser.add_argument("name", metavar="NAME", help="of its journal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", default="", help="a file for Worker(journal=…)")
    asyncio.run(work(Place(**vars(parser.parse_args())), lambda _: print("working", flush=True)))


if __name__ == "__main__":
    main()
