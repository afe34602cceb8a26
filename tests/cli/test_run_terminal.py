"""`baton run` as a person sees it: at a terminal, with Ctrl-C, through the death of the server."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import House
from tests.cli.run_files import agent_file, function_file
from tests.cli.terminals import on_pipes, on_terminal
from tests.support.model_server import ModelServer, model_server
from tests.support.scripted_model import Gate, calls, say
from tests.support.server import ServerProcess

from baton.v1 import event_pb2
from baton_server.cli.talk.connection_notes import BACK, LOST
from baton_server.cli.talk.transcript import VOID

__all__ = ["model_server"]

WEATHER = ("get_weather", '{"city": "Kyoto"}')


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """The file of an agent without functions."""
    return agent_file(tmp_path)


# -- Ctrl-C --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_ctrl_c_cancels_the_turn(tmp_path: Path, agent: str) -> None:
    """It says so, waits for the turn's end, and exits with 130."""
    gate = Gate()
    async with House.opened(tmp_path, say("Hel", gate, "lo")) as house:
        async with on_pipes("run", agent, "Hi", "--session", "trip", address=house.server.address) as command:
            await command.sees("session trip sess_")
            await gate.reached()
            command.process.send_signal(signal.SIGINT)
            seen = await command.ends(130)
        session = await house.client.get_session(key="trip")
        (turn,) = [turn async for turn in house.client.list_turns(session.session_id)]

    assert "cancelling the turn" in seen and "the turn was cancelled" in seen
    assert turn.status == event_pb2.TURN_STATUS_CANCELLED


@pytest.mark.slow
async def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path, agent: str) -> None:
    """A function of this process that never ends holds nobody up."""
    functions = function_file(tmp_path)
    async with House.opened(tmp_path, calls(("sleep", "{}"))) as house:
        arguments = ["run", agent, "Hi", "--session", "trip", "--host", functions, "--json", "--events"]
        async with on_pipes(*arguments, address=house.server.address) as command:
            await command.sees("session_requires_action")
            command.process.send_signal(signal.SIGINT)
            await command.sees("cancelling the turn; Ctrl-C again leaves at once")
            command.process.send_signal(signal.SIGINT)
            await command.ends(130)


# -- what a person sees --------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_terminal_shows_the_turn_as_it_goes(tmp_path: Path) -> None:
    """Text before the reply is whole, calls with arguments, results; nothing twice."""
    agent, functions = agent_file(tmp_path, "get_weather"), function_file(tmp_path)
    gate = Gate()
    async with House.opened(tmp_path, calls(WEATHER), say("It ", gate, "rains.")) as house:
        address = house.server.address
        async with on_terminal("run", agent, "Weather?", "--host", functions, address=address) as command:
            await command.sees("baton: session sess_", '→ get_weather({"city": "Kyoto"})', "18 °C in Kyoto", "It ")
            gate.open()
            seen = await command.ends()

    assert "It rains." in seen
    assert seen.count("rains") == 1


@pytest.mark.slow
@pytest.mark.parametrize("words", [["run", "AGENT", "Weather?"], ["chat", "AGENT"]], ids=["run", "chat"])
async def test_a_file_gets_the_output_though_a_terminal_looks_on(tmp_path: Path, words: list[str]) -> None:
    """Progress and prompt are on the terminal, and nothing of them in the file; nor what functions print."""
    agent, functions = agent_file(tmp_path, "get_weather"), function_file(tmp_path)
    given = [agent if word == "AGENT" else word for word in words]
    output, gate = tmp_path / "output", Gate()
    async with (
        House.opened(tmp_path, calls(WEATHER), say("It ", gate, "rains.")) as house,
        on_terminal(*given, "--host", functions, address=house.server.address, output=output) as command,
    ):
        if words[0] == "chat":
            await command.sees("> ")
            command.types("Weather?\r")
        await command.sees("baton: session sess_", "thinking", "asked for Kyoto")
        gate.open()
        if words[0] == "chat":
            command.types("\x04")
        seen = await command.ends()

    assert output.read_text() == "It rains.\n"
    assert "rains" not in seen


@pytest.mark.slow
async def test_a_long_wait_says_what_is_waited_for(tmp_path: Path, agent: str) -> None:
    """The model, then a function."""
    gate = Gate()
    functions = function_file(tmp_path)
    async with (
        House.opened(tmp_path, calls(("sleep", "{}"), before=gate)) as house,
        on_terminal("run", agent, "Go.", "--host", functions, address=house.server.address) as command,
    ):
        await command.sees("thinking")
        gate.open()
        await command.sees("→ sleep({})", "waiting for sleep")
        command.types("\x03")
        await command.ends(130)


@pytest.mark.slow
async def test_what_the_model_writes_does_not_drive_the_terminal(tmp_path: Path, agent: str) -> None:
    """It is shown as what it is."""
    evil = "\x1b]0;owned\x07 \x9b2J"
    async with (
        House.opened(tmp_path, say(f"a{evil}b")) as house,
        on_terminal("run", agent, "Hi", address=house.server.address) as command,
    ):
        seen = await command.ends()

    assert "a\\x1b]0;owned\\x07 \\x9b2Jb" in seen
    assert "\x1b]0" not in seen and "\x9b" not in seen


CUT_OFF = {"text": "This reply is never finished", "pause_after_events": 7}
CALLS_WEATHER = {"calls": [{"name": "get_weather", "arguments": {"city": "Kyoto"}}]}


def asking(model_server: ModelServer, folder: Path) -> ServerProcess:
    """Make a server that asks the scripted model API, to be killed."""
    environment = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "test", "BATON_DRAIN_S": "0.2"}
    return ServerProcess(folder / "baton.db", environment)


@pytest.mark.slow
@pytest.mark.parametrize("replies", [[CALLS_WEATHER, {"text": "Done."}], [{"text": "Done."}]], ids=["calls", "text"])
async def test_the_turn_outlives_the_server(tmp_path: Path, model_server: ModelServer, replies: list[Any]) -> None:
    """Lost and back are said; text that is void is said to be so, and the answer is written anew."""
    name = f"run_restart_{len(replies)}"
    agent = agent_file(tmp_path, model=model_server.load(name, CUT_OFF, *replies))
    functions = function_file(tmp_path)
    async with (
        asking(model_server, tmp_path) as process,
        on_terminal("run", agent, "Hi", "--host", functions, address=process.address) as command,
    ):
        await command.sees("This reply ")
        await process.kill()
        await command.sees(LOST)
        await process.start()
        seen = await command.ends()

    steps = ["This reply ", LOST, BACK, VOID, *(["→ get_weather", "18 °C in Kyoto"] * (len(replies) - 1)), "Done."]
    assert [seen.index(step) for step in steps] == sorted(seen.index(step) for step in steps)
    assert seen.count("Done.") == 1


@pytest.mark.slow
async def test_a_pipe_gets_one_answer_though_the_server_died(tmp_path: Path, model_server: ModelServer) -> None:
    """Nothing of what was streamed before is in it."""
    agent = agent_file(tmp_path, model=model_server.load("run_restart_pipe", CUT_OFF, {"text": "Done."}))
    async with (
        asking(model_server, tmp_path) as process,
        on_pipes("run", agent, "Hi", address=process.address) as command,
    ):
        assert await model_server.wait_for("run_restart_pipe", lambda asked: len(asked) == 1)
        await process.kill()
        await command.sees(LOST)
        await process.start()
        seen = await command.ends()

    _, *notes, last = seen.splitlines()
    assert last == "Done."
    assert notes == [f"baton: {LOST}", f"baton: {BACK}"]
