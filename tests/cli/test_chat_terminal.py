"""`baton chat` at a terminal: a conversation with a person who types."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.commands import House
from tests.cli.run_files import agent_file, function_file
from tests.cli.terminals import on_terminal
from tests.support.scripted_model import Gate, calls, fail, say
from tests.support.server import ServerProcess

from baton.v1 import event_pb2, runner_pb2
from baton_server.cli.talk.connection_notes import BACK, LOST
from baton_server.core.errors import Reason

ASK = ("get_weather", '{"city": "Kyoto"}')

CTRL_C, CTRL_D, UP, BACKSPACE = "\x03", "\x04", "\x1b[A", "\x7f"


@pytest.mark.slow
async def test_a_conversation_at_a_terminal(tmp_path: Path) -> None:
    """Answers come as they are written; lines are edited and remembered; Ctrl-D ends with 0."""
    gate = Gate()
    async with (
        House.opened(tmp_path, say("It ", gate, "rains."), say("Again."), fail(Reason.MODEL_TIMEOUT)) as house,
        on_terminal("chat", "--session", "trip", address=house.server.address) as command,
    ):
        await command.sees("begins, with Assistant; /help", "> ")
        command.types(f"Weather{BACKSPACE}{BACKSPACE}er?\r")
        await command.sees("It ")
        gate.open()
        await command.sees("It rains.\r\n> ")
        command.types(f"{UP}\r")
        await command.sees("Again.\r\n> ")
        command.types("Once more\r")
        await command.sees("the turn failed: MODEL_TIMEOUT: as the script says\r\n> ")
        command.types(CTRL_D)
        seen = await command.ends()

    assert "to go on:     baton chat --session trip" in seen
    texts = [item["content"] for item in house.model.input_of(1) if item["role"] == "user"]
    assert texts == ["Weather?", "Weather?"]


@pytest.mark.slow
async def test_what_is_typed_while_a_turn_runs_is_the_next_line(tmp_path: Path) -> None:
    """It stays out of the answer; so does Ctrl-D, which ends the conversation after it."""
    gate = Gate()
    async with (
        House.opened(tmp_path, say("It ", gate, "rains."), say("Hello.")) as house,
        on_terminal("chat", address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Weather?\r")
        await command.sees("It ")
        command.types(f"Hi\r{CTRL_D}")
        gate.open()
        seen = await command.ends()

    assert "It rains.\r\n> \r> Hi\r\nHello.\r\n> " in seen


@pytest.mark.slow
async def test_what_is_pasted_is_one_message(tmp_path: Path) -> None:
    """However many lines it has; it is sent by Enter."""
    async with (
        House.opened(tmp_path, say("I see.")) as house,
        on_terminal("chat", address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("\x1b[200~one\ntwo\x1b[201~")
        await command.sees("two")
        command.types("\r")
        await command.sees("I see.\r\n> ")
        command.types(CTRL_D)
        await command.ends()

    assert house.model.input_of(0)[-1]["content"] == "one\ntwo"


@pytest.mark.slow
async def test_ctrl_c_cancels_the_turn_and_comes_back_to_the_prompt(tmp_path: Path) -> None:
    """At the prompt it does nothing but say so; typed text is dropped."""
    gate = Gate()
    async with (
        House.opened(tmp_path, say("It ", gate, "rains."), say("Hello.")) as house,
        on_terminal("chat", "--session", "trip", address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Weather?\r")
        await command.sees("It ")
        command.types(CTRL_C)
        await command.sees("cancelling the turn", "the turn was cancelled\r\n> ")
        command.types("half a line")
        await command.sees("half a line")
        await command.presses(CTRL_C, "nothing runs that could be cancelled; Ctrl-D or /quit ends\r\n> ")
        command.types("Hi\r")
        await command.sees("Hello.\r\n> ")
        command.types("/quit\r")
        await command.ends()
        session = await house.client.get_session(key="trip")
        turns = [turn.status async for turn in house.client.list_turns(session.session_id)]

    assert turns == [event_pb2.TURN_STATUS_COMPLETED, event_pb2.TURN_STATUS_CANCELLED]
    assert house.model.input_of(1)[-1]["content"] == "Hi"


@pytest.mark.slow
async def test_a_second_ctrl_c_does_not_wait_for_the_cancel(tmp_path: Path) -> None:
    """A function that does not stop holds up the turn for its grace, but not the person."""
    functions = function_file(tmp_path)
    async with (
        House.opened(tmp_path, calls(("sleep", "{}"))) as house,
        on_terminal("chat", "--host", functions, address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Sleep.\r")
        await command.sees("waiting for sleep")
        command.types(CTRL_C)
        await command.sees("cancelling the turn")
        command.types(CTRL_C)
        await command.sees("left without waiting for the cancel\r\n> ")
        command.types("/session\r")
        screen = await command.sees("to go on:")
        assert screen.count("→ sleep(") == 1  # what was shown is not shown again
        command.process.kill()


@pytest.mark.slow
async def test_a_call_is_answered_at_the_prompt(tmp_path: Path) -> None:
    """Ctrl-C there ends the turn that waits."""
    agent = agent_file(tmp_path, "get_weather", "get_time")
    time = calls(("get_time", "{}"))
    async with (
        House.opened(tmp_path, calls(ASK), say("Rain."), time, say("Hello.")) as house,
        on_terminal("chat", agent, address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Weather?\r")
        await command.sees("waits, since nobody serves it", "get_weather = ")
        command.types("rain\r")
        await command.sees("← get_weather: answered by hand: rain", "Rain.\r\n> ")
        command.types("And the time?\r")
        await command.sees("get_time = ")
        command.types(CTRL_C)
        await command.sees("the turn was cancelled\r\n> ")
        command.types("Hi\r")
        await command.sees("Hello.\r\n> ")
        command.types(CTRL_D)
        await command.ends()


@pytest.mark.slow
async def test_what_happens_elsewhere_is_shown_while_nothing_is_typed(tmp_path: Path) -> None:
    """Somebody else answers the call that is asked for: the prompt goes, and the turn is shown to its end.

    Then somebody else speaks in the session.
    """
    agent = agent_file(tmp_path, "get_weather")
    async with (
        House.opened(tmp_path, calls(ASK), say("Rain."), say("Hello.")) as house,
        on_terminal("chat", agent, "--session", "trip", address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Weather?\r")
        await command.sees("get_weather = ")
        await house.baton("answer", "trip", "get_weather", "--output", "sun")
        await command.sees("← get_weather: answered by hand: sun", "Rain.\r\n> ")
        session = await house.client.get_session(key="trip")
        await house.client.submit(session.session_id, "Hi there")
        await command.sees("> Hi there\x1b[0m\r\n", "Hello.\r\n> ")
        command.types(CTRL_D)
        await command.ends()


@pytest.mark.slow
async def test_hosted_functions_are_served_while_the_prompt_waits(tmp_path: Path) -> None:
    """The server would hang up on a worker whose heartbeats stop; a turn that another program starts finds it."""
    functions, agent = function_file(tmp_path), agent_file(tmp_path, "get_weather")
    async with (
        House.opened(tmp_path, calls(ASK), say("18 degrees."), heartbeat_s=0.05, registration_grace_s=0.1) as house,
        on_terminal("chat", agent, "--session", "trip", "--host", functions, address=house.server.address) as command,
    ):
        await command.sees("> ")
        session = await house.client.get_session(key="trip")
        request = runner_pb2.RunRequest(session_id=session.session_id, text="Weather?")
        request.run_config.scopes.append(f"baton-cli-{session.session_id}")
        response = await house.client.run(request)
        await command.sees("← get_weather: 18 °C in Kyoto", "18 degrees.\r\n> ")
        command.types(CTRL_D)
        await command.ends()

    assert response.turn.output == "18 degrees."


@pytest.mark.slow
async def test_a_resumed_session_shows_its_last_items(tmp_path: Path) -> None:
    """Old messages can be called up with the arrow keys; what is shown drives no terminal."""
    functions, agent = function_file(tmp_path), agent_file(tmp_path)
    async with House.opened(tmp_path, calls(ASK), say("It \x1b[2Jrains."), say("Still.")) as house:
        await house.baton("chat", agent, "--session", "trip", "--host", functions, given="Weather?\n")
        async with on_terminal("chat", "--session", "trip", address=house.server.address) as command:
            seen = await command.sees("goes on, with Guide", "> Weather?", "← get_weather: 18 °C", "It \\x1b[2Jrains.")
            assert "\x1b[2J" not in seen
            command.types(f"{UP}\r")
            await command.sees("Still.\r\n> ")
            command.types(CTRL_D)
            await command.ends()

    assert house.model.input_of(2)[-1]["content"] == "Weather?"


@pytest.mark.slow
async def test_a_turn_that_runs_is_shown_when_its_session_is_resumed(tmp_path: Path) -> None:
    """With the text so far; then the prompt comes."""
    gate = Gate()
    async with House.opened(tmp_path, say("It ", gate, "rains.")) as house:
        session = await house.session(key="trip")
        await house.client.submit(session.session_id, "Weather?")
        await gate.reached()
        async with on_terminal("chat", "--session", "trip", address=house.server.address) as command:
            await command.sees("It ")
            gate.open()
            await command.sees("It rains.\r\n> ")
            command.types(CTRL_D)
            await command.ends()


@pytest.mark.slow
async def test_a_conversation_outlives_the_server(tmp_path: Path) -> None:
    """Lost while nobody types, it is told with the next line, and the answer comes when the server is back."""
    async with (
        ServerProcess(tmp_path / "baton.db") as process,
        on_terminal("chat", "--session", "trip", address=process.address) as command,
    ):
        await command.sees("> ")
        command.types("Hello\r")
        await command.sees("You said “Hello”", "real model.\r\n> ")
        await process.kill()
        command.types("Are you there\r")
        await command.sees(LOST)
        await process.start()
        await command.sees(BACK, "You said “Are you there”")
        command.types(CTRL_D)
        await command.ends()


@pytest.mark.slow
async def test_the_end_of_the_session_is_the_end(tmp_path: Path) -> None:
    """Somebody deletes it while the prompt waits: exit code 4."""
    async with (
        House.opened(tmp_path, say("Hello.")) as house,
        on_terminal("chat", "--session", "trip", address=house.server.address) as command,
    ):
        await command.sees("> ")
        command.types("Hi\r")
        await command.sees("Hello.\r\n> ")
        await house.baton("sessions", "delete", "trip", "--yes")
        seen = await command.ends(4)

    assert "baton: There is no session" in seen


@pytest.mark.slow
async def test_sigterm_ends_in_good_order(tmp_path: Path) -> None:
    """At the prompt and in a turn, which goes on without the conversation."""
    gate = Gate()
    async with House.opened(tmp_path, say("Hel", gate, "lo.")) as house:
        async with on_terminal("chat", "--session", "trip", address=house.server.address) as command:
            await command.sees("> ")
            command.types("Hi\r")
            await command.sees("Hel")
            command.process.terminate()
            await command.ends(143)
        async with on_terminal("chat", address=house.server.address) as command:
            await command.sees("> ")
            command.process.terminate()
            await command.ends(143)
        gate.open()
        await house.until((await house.client.get_session(key="trip")).session_id, "turn_completed")
