"""`baton workers`: who is attached, what it serves, and how it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.api.calling import client_of
from tests.cli.commands import House
from tests.support.scripted_model import calls
from tests.support.scripted_watcher import Watcher
from tests.support.scripted_worker import ScriptedWorker, close_all

from baton.v1 import event_pb2, handler_pb2


@asynccontextmanager
async def attached(house: House, *hellos: dict[str, Any]) -> AsyncIterator[list[ScriptedWorker]]:
    """Attach workers, one after the other."""
    workers = [await ScriptedWorker.attached(house.server.address, **hello) for hello in hellos]
    try:
        yield workers
    finally:
        await close_all(workers)


async def test_a_worker_is_described(tmp_path: Path) -> None:
    """What it says of itself, what it serves and holds, and what it has room for."""
    hello = {
        "instance_id": "pod-7",
        "sdk": {"name": "by hand", "version": "1", "language": "none"},
        "scopes": ["svc-7"],
        "handlers": [
            {"name": "get_weather", "version": "2"},
            {"name": "no_pii", "kind": event_pb2.HANDLER_KIND_INPUT_GUARDRAIL},
        ],
        "metadata": {"zone": "a"},
        "credit": 3,
    }
    async with House.opened(tmp_path, calls(("get_weather", "{}"))) as house, attached(house, hello) as (worker,):
        waiting = await house.waiting("get_weather", scopes=["svc-7"])
        await worker.ack(await worker.expect("call"))
        await worker.nothing()

        ran = await house.baton("workers")

        assert ran.lines == [
            "pod-7, attached now",
            f"  worker   {worker.welcome.worker_id}",
            "  sdk      by hand 1, none",
            "  scopes   svc-7",
            "  serves   get_weather (version 2), no_pii (INPUT_GUARDRAIL)",
            "  labels   zone=a",
            f"  holds    {waiting.call} (attempt 1)",
            "  ATTACHED: it takes 2 more calls; heard of now",
        ]


async def test_what_a_worker_does_not_say_is_left_out(tmp_path: Path) -> None:
    """And what it has none of is said in words."""
    async with House.opened(tmp_path) as house, attached(house, {"instance_id": "bare", "credit": 0}) as (worker,):
        ran = await house.baton("workers")

        assert ran.lines == [
            "bare, attached now",
            f"  worker   {worker.welcome.worker_id}",
            "  serves   nothing",
            "  ATTACHED: it takes no more calls at the moment; heard of now",
        ]


async def test_workers_that_leave_say_so(tmp_path: Path) -> None:
    """And those that are lost."""
    hellos = [{"handlers": [{"name": name}]} for name in "fg"]
    async with House.opened(tmp_path, calls(("f", "{}"), ("g", "{}"))) as house, attached(house, *hellos) as workers:
        await house.waiting("f", "g")
        for worker in workers:
            await worker.ack(await worker.expect("call"))
            await worker.nothing()
        leaving, lost = workers
        await leaving.send(drain={})
        await leaving.nothing()
        await lost.break_connection()
        while "LOST" not in (ran := await house.baton("workers")).out:
            pass

        assert "DRAINING: it takes nothing new, and goes when it holds nothing; heard of" in ran.out
        assert "LOST: its stream broke; it is missed unless it comes back soon; heard of" in ran.out


async def test_workers_that_watch_say_so(tmp_path: Path) -> None:
    """They settle what they take by other rpcs."""
    async with House.opened(tmp_path) as house, client_of(house.server) as raw:
        watcher = await Watcher.watching(raw, "f", credit=1)

        ran = await house.baton("workers")

        assert "ATTACHED: it takes 1 more call, and watches for them; heard of" in ran.out
        watcher.leave()


async def test_filters_choose_by_name_and_scope(tmp_path: Path) -> None:
    """The empty scope is one; JSON has a worker a line, as the contract writes it."""
    hellos = [{"handlers": [{"name": "f"}], "scopes": ["svc-7"]}, {"handlers": [{"name": "g"}]}]
    async with House.opened(tmp_path) as house, attached(house, *hellos) as (f, g):

        async def found(*options: str) -> list[str]:
            ran = await house.baton("workers", "--json", *options)
            return [json.loads(line)["worker_id"] for line in ran.lines]

        assert await found() == [g.welcome.worker_id, f.welcome.worker_id]
        assert await found("--name", "f") == [f.welcome.worker_id]
        assert await found("--scope", "svc-7") == [f.welcome.worker_id]
        assert await found("--scope", "") == [g.welcome.worker_id]
        none = await house.baton("workers", "--name", "f", "--scope", "")
        assert (none.out, none.err) == ("", "baton: no such worker is attached\n")


async def test_no_worker_is_no_failure(tmp_path: Path) -> None:
    """It is said on standard error."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("workers")

        assert (ran.out, ran.err) == ("", "baton: no worker is attached\n")


async def test_what_a_worker_says_cannot_drive_a_terminal(tmp_path: Path) -> None:
    """Its instance and its labels may hold anything."""
    hello = {"instance_id": "a\x1b[2Jb", "metadata": {"k": "\x9b2J"}, "sdk": {"name": "\u202e"}}
    async with House.opened(tmp_path) as house, attached(house, hello):
        shown, as_json = await house.baton("workers"), await house.baton("workers", "--json")

        assert not {"\x1b", "\x9b", "\u202e"} & set(shown.out + as_json.out)
        assert "a\\x1b[2Jb" in shown.out


async def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    """With what names look like."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("workers", "--name", "get weather", code=1)

        assert "baton: name is 'get weather', must be 1 to 64 of" in ran.err


def test_states_are_all_known() -> None:
    """A state that the contract gains is put into words here."""
    assert set(handler_pb2.WorkerState.keys()) == {
        "WORKER_STATE_UNSPECIFIED",
        "WORKER_STATE_ATTACHED",
        "WORKER_STATE_DRAINING",
        "WORKER_STATE_LOST",
    }
