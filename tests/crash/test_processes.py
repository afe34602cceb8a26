"""Real server processes: who may start, and how they stop."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.crash.house import agent, said
from tests.crash.processes import environment, model_at
from tests.crash.raw_clients import RawWatcher, RawWorker, channel_to, going
from tests.support.model_server import ModelServer
from tests.support.server import ServerProcess, free_port

from baton.v1 import handler_pb2, session_pb2, session_pb2_grpc

pytestmark = pytest.mark.slow

DRAIN_S = 1.0
"""How long servers here drain when they are told to stop."""

LEEWAY_S = 3.0
"""What may pass besides: last words of streams, closing the file, the interpreter's own end."""


async def refused(store: Path) -> list[str]:
    """Start a server that cannot; returns the lines that it wrote on standard error."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "baton_server", "serve"),
        env=environment(store=str(store), address=f"127.0.0.1:{free_port()}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, errors = await process.communicate()
    assert (process.returncode, output) == (1, b""), (process.returncode, output, errors)
    return errors.decode().splitlines()


async def test_a_second_process_is_told_who_holds_the_file(tmp_path: Path) -> None:
    """One process at a time: the other one exits with 1 and names the first; its death frees the file."""
    store = tmp_path / "baton.db"
    async with ServerProcess(store) as first:
        (line,) = await refused(store)
        assert str(store) in line
        assert f"address {first.address}" in line
        assert "held by process" in line
        await first.kill()
        await first.start()
        (line,) = await refused(store)
        assert "held by process" in line


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """One line says which file and what is wrong with it; the file stays as it is."""
    store = tmp_path / "notes.txt"
    store.write_text("My notes, which are no database.\n" * 100)
    (line,) = await refused(store)
    assert str(store) in line
    assert "not a database" in line
    assert store.read_text().startswith("My notes")


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """One line says where the file was to be."""
    store = tmp_path / "missing" / "baton.db"
    (line,) = await refused(store)
    assert str(store) in line


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """One line says so, before anyone connects."""
    folder = Path("/sys")  # the kernel lets nobody make a file there; root may write into any other folder
    if os.geteuid() != 0:
        folder = tmp_path / "closed"
        folder.mkdir(mode=0o555)
    (line,) = await refused(folder / "baton.db")
    assert str(folder) in line
    assert "ermission denied" in line


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder in the place of the file is one line, too."""
    (line,) = await refused(tmp_path)
    assert str(tmp_path) in line


async def stopped(server: ServerProcess, meanwhile: Callable[[], Awaitable[object]] | None = None) -> float:
    """Stop a server with SIGTERM, which it must obey with exit code 0; returns how long it took."""
    began = time.monotonic()
    ending = asyncio.ensure_future(server.terminate())
    if meanwhile is not None:
        await meanwhile()
    assert await ending == 0
    return time.monotonic() - began


async def test_sigterm_cuts_a_slow_model_request_which_is_made_again(tmp_path: Path, model_server: ModelServer) -> None:
    """The server is gone soon after `drain_s`; started again it asks once more, and the turn completes."""
    text = "a long answer that comes slowly"
    model = model_server.load("slow-model", {"text": text, "pause_after_events": 6}, {"text": text})
    server = ServerProcess(tmp_path / "baton.db", settings(model_server))
    async with server, channel_to(server.address) as channel:
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        session_id, turn_id = await begin(sessions, model)
        watcher = RawWatcher(channel, session_id)
        async with going(watcher):
            await watcher.until(lambda: bool(watcher.texts))
            assert await stopped(server) < DRAIN_S + LEEWAY_S
            await server.start()
            turn = await watcher.until_ended(turn_id)
        assert turn.output == text
        assert len(model_server.requests("slow-model")) == 2


async def test_sigterm_takes_the_results_of_calls_that_run(tmp_path: Path, model_server: ModelServer) -> None:
    """What a worker finishes while the server drains is taken and acked; the turn goes on after the start."""
    calls = [{"name": "echo", "arguments": {"n": 1, "text": "x"}}]
    model = model_server.load("drained", {"calls": calls}, {"text": "all done"})
    entered, leave = asyncio.Event(), asyncio.Event()

    async def body(_call: handler_pb2.Call) -> str:
        entered.set()
        await leave.wait()
        return "finished in time"

    server = ServerProcess(tmp_path / "baton.db", {**settings(model_server), "BATON_DRAIN_S": "20"})
    async with server, channel_to(server.address) as channel:
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        worker = RawWorker(channel, body)
        async with going(worker):
            await worker.attached.wait()
            session_id, turn_id = await begin(sessions, model, "echo")
            watcher = RawWatcher(channel, session_id)
            async with going(watcher):
                await entered.wait()

                async def finish() -> None:
                    await worker.drained.wait()
                    leave.set()

                assert await stopped(server, finish) < 20
                assert [entry.fact for entry in worker.journal] == ["ran", "durable"]
                await server.start()
                turn = await watcher.until_ended(turn_id)
        assert turn.output == "all done"
        assert [entry.fact for entry in worker.journal] == ["ran", "durable"]


async def test_sigterm_with_nothing_to_do_ends_at_once(tmp_path: Path) -> None:
    """A server that idles, with a watcher and a worker attached, does not use up its time to drain."""
    server = ServerProcess(tmp_path / "baton.db", {"BATON_DRAIN_S": "30"})
    async with server, channel_to(server.address) as channel:
        sessions = session_pb2_grpc.SessionServiceStub(channel)
        request = session_pb2.CreateSessionRequest(request_id="make", agent=agent("demo"))
        session = (await sessions.CreateSession(request)).session
        watcher, worker = RawWatcher(channel, session.session_id), RawWorker(channel, never)
        async with going(watcher, worker):
            await worker.attached.wait()
            await watcher.until(lambda: watcher.last == 1)
            assert await stopped(server) < LEEWAY_S


async def never(_call: handler_pb2.Call) -> str:
    """Stand for a function that nobody calls."""
    raise AssertionError("nobody calls it")


def settings(model_server: ModelServer) -> dict[str, str]:
    """Name the settings of the servers here."""
    return {**model_at(model_server.base_url), "BATON_DRAIN_S": str(DRAIN_S)}


async def begin(sessions: session_pb2_grpc.SessionServiceStub, model: str, *functions: str) -> tuple[str, str]:
    """Make a session and start a turn in it; returns their ids."""
    made = session_pb2.CreateSessionRequest(request_id="make", agent=agent(model, *functions))
    session = (await sessions.CreateSession(made)).session
    request = session_pb2.SubmitInputRequest(request_id="start", session_id=session.session_id, inputs=[said("begin")])
    return session.session_id, (await sessions.SubmitInput(request)).turn_id
