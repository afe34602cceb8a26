"""A worker's journal: what its process still owed is told by the next one."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.client.end_to_end import line_of, program
from tests.client.scripted import FakeClock, ScriptedServer, soon
from tests.client.test_attachment import cancelling
from tests.client.work import Work, ended, verdict

from baton import JournalError, Worker
from baton.hosting.journal import Journal, Told
from baton.v1 import handler_pb2

Begin = Callable[[], "Life"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "worker.journal"


@pytest.fixture
def begin(server: ScriptedServer, clock: FakeClock, path: Path) -> Begin:
    """Begins a life of a worker, as a process does that is started again."""

    def life() -> Life:
        journal = FullDisk.open(path)
        return Life(Work(server, clock, journal=journal), journal)

    return life


async def test_a_result_outlives_the_process(server: ScriptedServer, begin: Begin) -> None:
    """The next process has its instance id and token, names the result as finished, and sends it again."""
    first = begin()
    peer = await first.work.begin(server, resume_token="secret")
    await peer.call("quick")
    assert (await peer.receive("result")).output == "done"
    await first.died()

    second = begin()
    peer_2 = await second.work.begin(server)
    hello, before = peer_2.hello, peer.hello
    assert (hello.resume_token, hello.instance_id) == ("secret", before.instance_id)
    assert [(one.call_id, one.attempt, one.begun, one.finished) for one in hello.held] == [("call_1", 1, True, True)]
    assert (await peer_2.settle()).output == "done"
    await soon(second.work.attachment.wait_idle())
    await second.died()

    third = begin()
    assert len((await third.work.begin(server)).hello.held) == 0
    assert second.work.begun == third.work.begun == []
    await third.died()


async def test_a_call_that_had_begun_is_given_back_as_one_that_may_have_run(
    server: ScriptedServer, begin: Begin
) -> None:
    """It is named, since what is not named counts as not begun; the server decides by REDELIVER or ASK."""
    first = begin()
    peer = await first.work.begin(server)
    await peer.call("slow")
    await soon(first.work.entered.wait())
    await first.died()

    second = begin()
    peer = await second.work.begin(server)
    (held,) = peer.hello.held
    assert (held.call_id, held.begun, held.finished) == ("call_1", True, False)
    nack = await peer.receive("nack")
    assert (nack.call_id, nack.attempt, nack.not_begun) == ("call_1", 1, False)
    assert second.work.attachment.held == 0  # nothing that a drain would wait for
    peer.end(grpc.StatusCode.UNAVAILABLE)
    peer = await server.attached(attempts=[verdict("call_1", handler_pb2.HELD_VERDICT_ABANDON)])
    await peer.call("quick", call_id="call_2")
    await peer.settle()
    await soon(second.work.attachment.wait_idle())
    await second.died()

    third = begin()
    assert len((await third.work.begin(server)).hello.held) == 0
    await third.died()


async def test_a_call_is_in_the_journal_before_its_function_begins(
    server: ScriptedServer, begin: Begin, path: Path
) -> None:
    """Whatever kills the process inside the function, the mark is on disk."""
    life = begin()
    marked: list[Any] = []

    async def look(_context: Any, _arguments: str) -> str:
        marked.extend(rows(path))
        return ""

    object.__setattr__(life.work.tools["quick"], "on_invoke_tool", look)
    peer = await life.work.begin(server)
    await peer.call("quick")
    await peer.receive("result")

    assert marked == [("call_1", 1, "quick", False)]
    assert rows(path) == [("call_1", 1, "quick", True)]
    await life.died()


async def test_a_result_is_written_before_it_is_sent(server: ScriptedServer, begin: Begin) -> None:
    """However often the server asks for it meanwhile."""
    life = begin()
    life.journal.slow = asyncio.get_running_loop().create_future()
    peer = await life.work.begin(server)
    await peer.call("slow")
    await soon(life.work.entered.wait())
    life.work.let_go.set()
    await soon(life.work.over.wait())
    peer.end(grpc.StatusCode.UNAVAILABLE)
    again = await server.attached()
    assert [one.finished for one in again.hello.held] == [True]
    await again.call("quick", call_id="call_2")
    await again.receive("credit")  # what follows a Welcome has been sent before it
    assert not any(frame.HasField("result") for frame in again.passed_over)

    life.journal.slow.set_result(None)

    assert {(await again.receive("result")).call_id for _ in range(2)} == {"call_1", "call_2"}
    await life.died()


async def test_what_is_over_is_struck_out(server: ScriptedServer, begin: Begin, path: Path) -> None:
    """Acked results, calls that were cancelled before they began: nothing of them is left."""
    life = begin()
    peer = await life.work.begin(server)
    for number in range(5):
        await peer.call("quick", call_id=f"call_{number}")
        await peer.settle()
    await peer.call("slow", call_id="call_slow")
    await soon(life.work.entered.wait())
    await peer.send(cancel=cancelling("call_slow"))
    await peer.receive("cancel_ack")
    peer.end(grpc.StatusCode.UNAVAILABLE)
    peer = await server.attached(attempts=[verdict("call_slow", handler_pb2.HELD_VERDICT_ABANDON)])
    await peer.call("quick", call_id="call_last")
    await peer.settle()
    await soon(life.work.attachment.wait_idle())
    await life.died()

    assert rows(path) == []


async def test_a_journal_that_cannot_be_written_lets_nothing_begin(server: ScriptedServer, begin: Begin) -> None:
    """Without the mark the next process would say that the call had not begun: so it goes elsewhere."""
    life = begin()
    peer = await life.work.begin(server)
    life.journal.full = True
    await peer.call("quick")

    nack = await peer.receive("nack")

    assert nack.not_begun and nack.delay.ToTimedelta().total_seconds() > 0
    assert life.work.begun == []
    await life.died()


async def test_a_result_that_cannot_be_written_is_sent_all_the_same(server: ScriptedServer, begin: Begin) -> None:
    """It is worth more than its chance to outlive the process."""
    life = begin()
    peer = await life.work.begin(server)
    await peer.call("slow")
    await soon(life.work.entered.wait())
    life.journal.full = True
    life.work.let_go.set()

    assert (await peer.settle()).output == "attempt 1"
    await life.died()


# --- the file -----------------------------------------------------------------------------------------------


async def test_one_process_has_a_journal(path: Path) -> None:
    """A second one is told who has it."""
    first = Journal.open(path)

    with pytest.raises(JournalError, match=f"process {os.getpid()}"):
        Journal.open(path)

    await first.close()
    await Journal.open(path).close()


@pytest.mark.parametrize("damage", ["no database", "torn", "no tables"])
async def test_a_damaged_journal_is_refused(path: Path, damage: str) -> None:
    """To go on without it would be to lose results silently."""
    journal = Journal.open(path)
    await asyncio.gather(*(journal.finished(result(f"call_{number}", "x" * 100), "f") for number in range(200)))
    await journal.close()
    damage_it(path, damage)

    with pytest.raises(JournalError, match="is damaged") as caught:
        Journal.open(path)
    assert str(path) in str(caught.value) and "move it away" in str(caught.value)


async def test_a_result_that_cannot_be_read_is_damage_too(path: Path) -> None:
    """Found before anything is promised to the server."""
    await Journal.open(path).close()
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO attempts VALUES ('call_1', 1, 'f', x'ffff')")
    database.close()

    journal = Journal.open(path)
    with pytest.raises(JournalError, match="is damaged"):
        journal.remembered()
    await journal.close()


async def test_files_of_others_are_left_alone(path: Path) -> None:
    """A database of something else, and a journal of a later version."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(JournalError, match="no journal of a worker"):
        Journal.open(path)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal.open(path.parent / "nowhere" / "journal")
    other = path.with_name("later")
    await Journal.open(other).close()
    with sqlite3.connect(other) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(JournalError, match="version 9"):
        Journal.open(other)


async def test_writes_that_gather_are_one_transaction(path: Path) -> None:
    """Calls that come together cost one write to disk together."""
    journal = Journal.open(path)
    commits: list[str] = []
    database: sqlite3.Connection = journal._database
    database.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)

    told = [journal.begun(handler_pb2.Call(call_id=f"call_{number}", attempt=1)) for number in range(100)]
    assert await asyncio.gather(*told) == [None] * 100

    assert len(commits) < 10
    await journal.close()


async def test_a_worker_with_a_damaged_journal_does_not_start(server: ScriptedServer, path: Path) -> None:
    """It says so at once, and nothing was said to the server."""
    damage_it(path, "no database")
    worker = Worker(journal=path)

    @worker.function
    def add(a: int) -> int:
        return a

    with pytest.raises(JournalError, match="is damaged"):
        await worker.start()
    assert server.handlers.peers.empty()


# --- processes ----------------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    from baton import RunContext, Worker

    worker = Worker(journal={path!r})

    @worker.function
    async def quick() -> str:
        return "done"

    @worker.function
    async def slow(ctx: RunContext[None]) -> str:
        print("begun", flush=True)
        import asyncio
        await asyncio.Event().wait()
        return ""

    worker.run_sync()
"""


@pytest.mark.slow
async def test_a_killed_process_is_followed_by_one_that_knows(server: ScriptedServer, path: Path) -> None:
    """SIGKILL with one result unacked and one function midway: the next process tells both."""
    async with program(server.address, PROGRAM.format(path=str(path))) as process:
        peer = await server.attached(resume_token="secret")
        await peer.call("quick", call_id="call_1")
        await peer.receive("result")
        await peer.call("slow", call_id="call_2")
        assert await line_of(process) == "begun"
        process.send_signal(signal.SIGKILL)
        await process.wait()

    async with program(server.address, PROGRAM.format(path=str(path))):
        peer = await server.attached()
        assert peer.hello.resume_token == "secret"
        assert {one.call_id: one.finished for one in peer.hello.held} == {"call_1": True, "call_2": False}
        frames = [await peer.next_frame(), await peer.next_frame()]

    told = {frame.WhichOneof("frame"): frame for frame in frames}
    assert told["result"].result.output == "done"
    assert (told["nack"].nack.call_id, told["nack"].nack.not_begun) == ("call_2", False)


# --- small makers -------------------------------------------------------------------------------------------


class FullDisk(Journal):
    """A journal whose writes fail from when the disk is `full`, and whose results wait while it is `slow`."""

    full = False
    slow: Told | None = None

    def begun(self, call: handler_pb2.Call) -> Told:
        return failed() if self.full else super().begun(call)

    def finished(self, result: handler_pb2.Result, name: str) -> Told:
        return self.slow or (failed() if self.full else super().finished(result, name))


def failed() -> Told:
    """Tell of a write that failed."""
    told: Told = asyncio.get_running_loop().create_future()
    told.set_result(JournalError("the disk is full"))
    return told


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a worker, which is what one process has."""

    work: Work
    journal: FullDisk

    async def died(self) -> None:
        """End it as a kill does: nothing more is said, the file is let go of."""
        await ended(self.work)
        await self.journal.close()


def damage_it(path: Path, damage: str) -> None:
    """Spoil a journal that nobody has."""
    if damage == "no database":
        path.write_bytes(b"not a database, but longer than its header would be" * 20)
    elif damage == "torn":
        data = bytearray(path.read_bytes())
        data[4096 : 4096 * 3] = b"\xff" * 8192
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE life")
        database.close()


def rows(path: Path) -> list[tuple[str, int, str, bool]]:
    """Read a journal that somebody has, as a look at the bytes on disk would."""
    copy = path.with_name("copy")
    for ending in ("", "-wal"):
        source = path.with_name(f"{path.name}{ending}")
        if source.exists():
            copy.with_name(f"copy{ending}").write_bytes(source.read_bytes())
    with sqlite3.connect(copy) as database:
        found = database.execute("SELECT call_id, attempt, name, result IS NOT NULL FROM attempts").fetchall()
    database.close()
    return [(call_id, attempt, name, bool(finished)) for call_id, attempt, name, finished in found]


def result(call_id: str, output: str) -> handler_pb2.Result:
    """Make a result."""
    return handler_pb2.Result(call_id=call_id, attempt=1, output=output)
