"""`baton worker`, in processes of its own at real servers: what it serves, what it says, how it ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import textwrap
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import NOBODY, PATIENCE_S
from tests.cli.terminals import Running, on_pipes
from tests.client.end_to_end import Serve, serve
from tests.client.scripted import ScriptedServer
from tests.support.scripted_model import calls, say
from tests.support.server import free_port, server

from baton import Agent, RemoteFunction, RunConfig, Runner, RunResult, ToolCallOutputItem
from baton.v1 import error_pb2, handler_pb2

__all__ = ["serve"]

pytestmark = pytest.mark.slow

FUNCTIONS = """
    from baton import FunctionError, Worker, function_tool

    worker = Worker(scopes=["shop"], max_concurrency=3)

    @worker.function
    def get_price(item: str) -> str:
        return f"3 for {item}"

    @function_tool
    def find(item: str) -> str:
        print("looking for", item)
        return f"found {item}"

    @function_tool
    def refuse(item: str) -> str:
        raise FunctionError("no")

    @function_tool
    def crash(item: str) -> str:
        return {}[item]

    @function_tool
    def hold(item: str) -> str:
        with open("gate") as gate:
            return gate.read()
"""

CALL = '{"item":"tea"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with functions.py, whose `hold` waits until somebody writes to the pipe `gate`."""
    made = tmp_path / "work"
    made.mkdir()
    (made / "functions.py").write_text(textwrap.dedent(FUNCTIONS))
    os.mkfifo(made / "gate")
    return made


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedServer]:
    """A server that shows what a worker says of itself."""
    made = ScriptedServer()
    await made.start()
    yield made
    await made.stop()


def worker(folder: Path, *arguments: str, address: str) -> AbstractAsyncContextManager[Running]:
    """Run the command in a folder."""
    return on_pipes("worker", *arguments, address=address, folder=folder)


async def asked(name: str, *scopes: str) -> RunResult:
    """Run an agent that has a function of the worker, which is looked for in these scopes."""
    agent: Agent[None] = Agent(name="Assistant", tools=[RemoteFunction(name)])
    return await Runner.run(agent, "Go.", run_config=RunConfig(scopes=scopes))


def given(result: RunResult) -> list[Any]:
    """List what the functions gave."""
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]


async def let_go(folder: Path, text: str) -> None:
    """Let the function `hold` return this."""
    await asyncio.wait_for(asyncio.to_thread((folder / "gate").write_text, text), PATIENCE_S)


# --- what it says -------------------------------------------------------------------------------------------


async def test_it_says_what_is_served_where_and_what_becomes_of_each_call(serve: Serve, folder: Path) -> None:
    """Name, id, outcome and duration; what was asked and answered is private, and not shown."""
    async with serve(calls(("find", CALL)), say("Done.")) as served:
        address = served.baton.address
        async with worker(folder, "functions.py:find", address=address) as running:
            await running.sees(f"baton: attached to {address}, serving find\n")

            assert given(await asked("find")) == ["found tea"]

            screen = await running.sees("answered")
            running.process.send_signal(signal.SIGTERM)
            screen = await running.ends(0)
    assert re.search(r"^\d\d:\d\d:\d\d find begun \(call_\w+, attempt 1\)$", screen, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d find answered after \d+ ms \(call_\w+, attempt 1\)$", screen, re.MULTILINE)
    assert "looking for tea" in screen
    assert "found tea" not in screen and CALL not in screen


async def test_a_quiet_one_says_nothing_of_calls_and_a_verbose_one_all(serve: Serve, folder: Path) -> None:
    """Who looks for a mistake may ask for arguments and results."""
    answers = [calls(("find", CALL)), say("Done.")]
    async with serve(*answers, *answers) as served:
        address = served.baton.address
        async with worker(folder, "functions.py:find", "--quiet", address=address) as running:
            await running.sees("attached")
            await asked("find")
            running.process.send_signal(signal.SIGTERM)
            assert "find begun" not in await running.ends(0)
        async with worker(folder, "functions.py:find", "--verbose", address=address) as running:
            await running.sees("attached")
            await asked("find")
            await running.sees(f": {CALL}\n", ": found tea\n")


async def test_a_function_that_fails_is_told_and_the_worker_goes_on(serve: Serve, folder: Path) -> None:
    """In its own words: one line. By an exception that it did not expect: with the traceback."""
    failing = [calls(("refuse", CALL)), say("So."), calls(("crash", CALL)), say("So.")]
    async with serve(*failing) as served, worker(folder, "functions", address=served.baton.address) as running:
        await running.sees("attached")

        await asked("refuse", "shop")
        await asked("crash", "shop")

        screen = await running.sees("refuse failed after", "crash crashed after")
        assert "KeyError: 'tea'" in screen and "no\n" not in screen


# --- what it serves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "names", "scopes", "credit"),
    [
        (["functions"], ["get_price", "find", "refuse", "crash", "hold"], ["shop"], 3),
        (["functions:worker"], ["get_price"], ["shop"], 3),
        (["functions.py:find"], ["find"], [], 64),
        (["functions:worker", "--scope", "a", "--scope", "b"], ["get_price"], ["a", "b"], 3),
        (["functions:worker", "--concurrency", "7"], ["get_price"], ["shop"], 7),
    ],
)
async def test_the_settings_of_a_worker_hold_unless_flags_differ(
    scripted: ScriptedServer, folder: Path, arguments: list[str], names: list[str], scopes: list[str], credit: int
) -> None:
    """Each by itself: to narrow the scope does not change how many calls come at a time."""
    async with worker(folder, *arguments, address=scripted.address) as running:
        peer = await asyncio.wait_for(scripted.handlers.peers.get(), PATIENCE_S)
        await peer.welcome()
        await running.sees("attached")

        assert [handler.name for handler in peer.hello.handlers] == names
        assert (list(peer.hello.scopes), peer.hello.credit.messages) == (scopes, credit)
        peer.end()


async def test_a_worker_that_names_its_server_is_hosted_there(scripted: ScriptedServer, folder: Path) -> None:
    """As when it runs by itself, the environment is for those that name none; a flag wins over both."""
    (folder / "there.py").write_text(
        f"from baton import Worker\nworker = Worker({scripted.address!r})\n@worker.function\ndef f(): ...\n"
    )
    async with worker(folder, "there.py", address=NOBODY) as running:
        peer = await asyncio.wait_for(scripted.handlers.peers.get(), PATIENCE_S)
        await peer.welcome()
        await running.sees(f"attached to {scripted.address}, serving f")
        peer.end()
    async with worker(folder, "there.py", "--address", NOBODY, address=scripted.address) as running:
        await running.sees(f"no answer from {NOBODY} yet")


async def test_a_server_that_comes_later_is_waited_for(folder: Path, tmp_path: Path) -> None:
    """The order in which things are started does not matter."""
    address = f"127.0.0.1:{free_port()}"
    async with worker(folder, "functions:find", address=address) as running:
        await running.sees(f"baton: no answer from {address} yet (UNAVAILABLE: ", "; waiting for it")

        async with server(tmp_path, address=address):
            await running.sees(f"baton: attached to {address}, serving find\n")


async def test_a_server_that_is_restarted_is_lost_and_found(folder: Path, tmp_path: Path) -> None:
    """Nobody has to restart the worker, and it tells of both."""
    address = f"127.0.0.1:{free_port()}"
    async with worker(folder, "functions:find", address=address) as running:
        async with server(tmp_path, address=address):
            await running.sees("attached to")
        await running.sees(f"baton: lost {address} (", "; reconnecting")

        async with server(tmp_path, address=address):
            await running.sees(f"baton: attached to {address} again, serving find\n")


# --- how it ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_what_runs_be_finished(serve: Serve, folder: Path, number: int) -> None:
    """It says how many calls it waits for, the run gets the result, and the exit code is that of success."""
    async with serve(calls(("hold", CALL)), say("Done.")) as served:
        async with worker(folder, "functions:hold", address=served.baton.address) as running:
            await running.sees("attached")
            run = asyncio.create_task(asked("hold"))
            await running.sees("hold begun")

            running.process.send_signal(number)
            await running.sees("baton: stopping; 1 call is finished first")
            await let_go(folder, "held")

            await running.ends(0)
        assert given(await run) == ["held"]


async def test_a_second_interrupt_leaves_at_once(serve: Serve, folder: Path) -> None:
    """Though a function in a thread would go on for ever."""
    async with serve(calls(("hold", CALL)), say("Done.")) as served:
        async with worker(folder, "functions:hold", address=served.baton.address) as running:
            await running.sees("attached")
            run = asyncio.create_task(asked("hold"))
            await running.sees("hold begun")

            running.process.send_signal(signal.SIGINT)
            await running.sees("baton: stopping")
            running.process.send_signal(signal.SIGINT)

            assert "baton: left at once" in await running.ends(130)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_an_interrupt_while_no_server_is_there_ends_it(folder: Path) -> None:
    """There is nothing to finish."""
    async with worker(folder, "functions", address=NOBODY) as running:
        await running.sees("no answer from")

        running.process.send_signal(signal.SIGINT)

        await running.ends(0)


async def test_a_function_that_the_server_refuses_ends_it(folder: Path, tmp_path: Path) -> None:
    """One line with its name and the reason: two workers must not disagree about what a function takes."""
    (folder / "other.py").write_text("def find(count: int) -> str: ...\n")
    async with server(tmp_path) as baton, worker(folder, "functions:find", address=baton.address) as first:
        await first.sees("attached")

        async with worker(folder, "other.py:find", address=baton.address) as second:
            screen = await second.ends(1)

    (line,) = screen.splitlines()
    assert line.startswith("baton: the server refuses the function find: ")
    assert "other parameters" in line


async def test_a_function_that_is_refused_after_a_restart_ends_it(scripted: ScriptedServer, folder: Path) -> None:
    """A worker that serves nothing any more must not look as if it did."""
    async with worker(folder, "functions:find", address=scripted.address) as running:
        peer = await asyncio.wait_for(scripted.handlers.peers.get(), PATIENCE_S)
        await peer.welcome()
        await running.sees("attached")
        peer.end()

        error = error_pb2.Error(reason=error_pb2.ERROR_REASON_HANDLER_CONFLICT, message="other parameters")
        peer = await scripted.peer()
        await peer.welcome(handlers=[handler_pb2.HandlerVerdict(name="find", error=error)])
        ending = asyncio.create_task(running.ends(1))
        with pytest.raises(EOFError):
            while True:
                await peer.next_frame()
        peer.end()

        assert "baton: the server refuses the function find: other parameters" in await ending


async def test_a_target_that_fails_shows_the_traceback_from_the_users_file_on(folder: Path) -> None:
    """Nothing of ours stands in it, and the exit code says that nothing was tried."""
    (folder / "failing.py").write_text("def get():\n    return {}['key']\n\nget()\n")
    async with worker(folder, "failing.py", address=NOBODY) as running:
        screen = await running.sees("KeyError: 'key'")
        assert await running.process.wait() == 2

    assert screen.splitlines()[:2] == [
        "baton: failing.py fails when it is imported:",
        "Traceback (most recent call last):",
    ]
    assert re.findall(r'File "(.*)", line (\d+)', screen) == [
        (str(folder / "failing.py"), "4"),
        (str(folder / "failing.py"), "2"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["functionz"], "there is no module 'functionz'; did you mean functions?"),
        (["functions:fund"], "functions has no 'fund'; did you mean find?"),
        (["functions", "-q", "-v"], "--quiet and --verbose contradict one another"),
        (["functions", *["--scope=a"] * 9], "9 scopes are too many; a worker has at most 8"),
    ],
)
async def test_what_cannot_be_tried_is_told_in_a_line(folder: Path, arguments: list[str], said: str) -> None:
    """What was wrong, and what to write instead."""
    async with worker(folder, *arguments, address=NOBODY) as running:
        (line,) = (await running.ends(2)).splitlines()

    assert line.startswith(f"baton: {said}")


async def test_its_help_fits_a_terminal_and_has_examples(folder: Path) -> None:
    """All that it takes, on 80 columns."""
    async with worker(folder, "--help", address=NOBODY) as running:
        screen = await running.ends(0)

    assert max(len(line) for line in screen.splitlines()) <= 80
    assert "baton worker functions.py:get_weather --reload" in screen
    assert all(option in screen for option in ("--scope", "--concurrency", "--reload", "--quiet", "--address"))


# --- --reload -----------------------------------------------------------------------------------------------


async def test_a_change_is_served_and_a_mistake_waits_for_the_next_one(folder: Path, tmp_path: Path) -> None:
    """Who writes functions need not look after the worker."""
    functions = folder / "functions.py"
    async with server(tmp_path) as baton, worker(folder, "functions", "--reload", address=baton.address) as running:
        await running.sees("serving get_price, find,")

        functions.write_text("def broken(:\n")
        await running.sees(
            "baton: functions.py changed; starting again",
            "baton: functions fails when it is imported:",
            "SyntaxError",
            "baton: waiting for a .py file to change",
        )
        functions.write_text(textwrap.dedent(FUNCTIONS).replace("def find", "def seek"))

        await running.sees("serving get_price, seek,")


async def test_a_change_lets_what_runs_be_finished(serve: Serve, folder: Path) -> None:
    """A call that is under way when a file is saved is not lost."""
    async with (
        serve(calls(("hold", CALL)), say("Done.")) as served,
        worker(folder, "functions:hold", "--reload", address=served.baton.address) as running,
    ):
        await running.sees("attached")
        run = asyncio.create_task(asked("hold"))
        await running.sees("hold begun")

        (folder / "unrelated.py").write_text("")
        await running.sees("baton: unrelated.py changed", "baton: stopping; 1 call is finished first")
        await let_go(folder, "held")

        assert given(await run) == ["held"]
        await running.sees("detached")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_no_child_outlives_its_parent(folder: Path, tmp_path: Path, number: int) -> None:
    """However the parent goes: its pipe is closed only when the child is gone as well."""
    async with server(tmp_path) as baton, worker(folder, "functions", "--reload", address=baton.address) as running:
        await running.sees("attached")

        running.process.send_signal(number)

        screen = await running.ends(-number if number == signal.SIGKILL else 0)
    assert "baton: detached" in screen


async def test_an_interrupt_between_two_changes_ends_it(folder: Path) -> None:
    """When there is no child, there is nothing to wait for."""
    async with worker(folder, "nothing", "--reload", address=NOBODY) as running:
        await running.sees("there is no module 'nothing'", "baton: waiting for a .py file to change")

        running.process.send_signal(signal.SIGINT)

        await running.ends(0)
