"""`baton chat`: a conversation line by line, from a pipe."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from tests.cli.commands import House, Ran
from tests.cli.run_files import agent_file, function_file
from tests.cli.terminals import on_terminal
from tests.support.scripted_model import Gate, calls, fail, say

from baton.v1 import event_pb2
from baton_server.cli.talk.interrupts import Waking
from baton_server.cli.talk.prompt import Prompt
from baton_server.core.errors import Reason

ASK = ("get_weather", '{"city": "Kyoto"}')

CTRL_C, CTRL_D, UP, BACKSPACE = "\x03", "\x04", "\x1b[A", "\x7f"


async def talked(house: House, *lines: str, options: tuple[str, ...] = (), code: int = 0) -> Ran:
    """Have a conversation whose lines come from a pipe."""
    return await house.baton("chat", *options, given="".join(f"{line}\n" for line in lines), code=code)


# -- from a pipe ---------------------------------------------------------------------------------


async def test_each_line_is_a_message_and_each_answer_a_result(tmp_path: Path) -> None:
    """The model sees the conversation so far; who answers is a plain assistant."""
    async with House.opened(tmp_path, say("One."), say("Two.")) as house:
        ran = await talked(house, "Say one.", "", "Say two.")

    assert ran.out == "One.\nTwo.\n"
    assert ran.err.startswith("baton: session sess_") and "begins, with Assistant" in ran.err
    assert house.model.requests[0].instructions is None
    texts = [item["content"] for item in house.model.input_of(1) if item["role"] == "user"]
    assert texts == ["Say one.", "Say two."]


async def test_a_session_is_resumed_with_its_own_agent(tmp_path: Path) -> None:
    """By its key, which made it, and by its id; a file wins over the session's agent for this conversation."""
    agent = agent_file(tmp_path)
    async with House.opened(tmp_path, *map(say, "1234")) as house:
        await talked(house, "a", options=(agent, "--session", "trip"))
        session = await house.client.get_session(key="trip")
        second = await talked(house, "b", options=("--session", "trip"))
        await talked(house, "c", options=("--session", session.session_id, "--model", "other"))
        other = tmp_path / "other.yaml"
        other.write_text("name: Other\n")
        await talked(house, "d", options=(str(other), "--session", "trip"))
        turns = [turn.agent async for turn in house.client.list_turns(session.session_id)]

    assert f"session trip {session.session_id} goes on, with Guide" in second.err
    assert turns == ["Other", "Guide", "Guide", "Guide"]
    assert house.model.requests[2].model == "other"
    assert [item["content"] for item in house.model.input_of(3) if item["role"] == "user"] == ["a", "b", "c", "d"]


async def test_nothing_said_leaves_no_session(tmp_path: Path) -> None:
    """Who looks in and goes leaves nothing behind; a session that was there stays."""
    async with House.opened(tmp_path) as house:
        kept = await house.session()
        await talked(house)
        await talked(house, "/quit", "never said", options=("--session", "new"))
        await talked(house, "/help", options=("--session", kept.session_id))

        assert [session.session_id async for session in house.client.list_sessions()] == [kept.session_id]


async def test_lines_with_a_slash_are_commands(tmp_path: Path) -> None:
    """They are not said; with two slashes they are."""
    async with House.opened(tmp_path, say("Yes.")) as house:
        ran = await talked(house, "/help", "/session", "/answer", "/nope x", "//etc/hosts", "/quit")

    assert ran.out == "Yes.\n"
    assert house.model.input_of(0)[-1]["content"] == "/etc/hosts"
    for told in ("/quit", "to go on:     baton chat --session sess_", "nothing waits", "/nope is no command"):
        assert told in ran.err


async def test_the_exit_code_is_that_of_the_last_turn(tmp_path: Path) -> None:
    """A failed turn is told, and the conversation goes on."""
    failing = fail(Reason.MODEL_RATE_LIMITED)
    async with House.opened(tmp_path, failing, say("Hi."), say("Hi."), failing) as house:
        mended = await talked(house, "a", "b")
        failed = await talked(house, "c", "d", code=1)

    assert "the turn failed: MODEL_RATE_LIMITED: as the script says" in mended.err
    assert mended.out == failed.out == "Hi.\n"


@pytest.mark.slow
async def test_a_call_that_nobody_serves_is_answered_by_the_next_line(tmp_path: Path) -> None:
    """With a result, or with words about the failure; what is no answer is asked for again."""
    agent = agent_file(tmp_path, "get_weather")
    async with House.opened(tmp_path, calls(ASK, ASK), say("Both."), calls(ASK), say("None.")) as house:
        ran = await talked(
            house, "Weather?", "", "/nope", "rain", "/error", "/error no idea", "And now?", "sun", options=(agent,)
        )

    assert ran.out == "Both.\nNone.\n"
    assert 'get_weather({"city": "Kyoto"}) waits, since nobody serves it' in ran.err
    assert "/nope is no command here" in ran.err and "say what went wrong" in ran.err
    outputs = [item["output"] for item in house.model.input_of(3) if item.get("type") == "function_call_output"]
    assert outputs == ["rain", "no idea", "sun"]


@pytest.mark.slow
async def test_what_is_left_open_is_told_at_the_end(tmp_path: Path) -> None:
    """Exit code 5, and the command that answers; a message meanwhile joins the turn."""
    agent = agent_file(tmp_path, "get_weather")
    async with House.opened(tmp_path, calls(ASK), say("Rain, quickly.")) as house:
        ran = await talked(house, "Weather?", "/skip", "Be quick.", options=(agent, "--session", "trip"), code=5)
        answered = await talked(house, "rain", options=("--session", "trip"))

    assert "it reaches the model with the answers" in ran.err
    assert "baton answer sess_" in ran.err
    assert answered.out == "Rain, quickly.\n"
    assert house.model.input_of(1)[-1]["content"] == "Be quick."


@pytest.mark.slow
async def test_the_turn_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    """Then the next line is a message again."""
    agent = agent_file(tmp_path, "get_weather")
    async with House.opened(tmp_path, calls(ASK), say("Hello.")) as house:
        ran = await talked(house, "Weather?", "/cancel", "Hi", options=(agent,))

    assert ran.out == "Hello.\n"
    assert "the turn was cancelled" in ran.err


async def test_hosted_functions_serve_every_turn(tmp_path: Path) -> None:
    """Also those of a plain assistant, which names none."""
    functions = function_file(tmp_path)
    async with House.opened(tmp_path, calls(ASK), say("One."), calls(ASK), say("Two.")) as house:
        ran = await talked(house, "a", "b", options=("--host", functions))

    assert ran.out.splitlines()[-1] == "Two."
    outputs = [item["output"] for item in house.model.input_of(3) if item.get("type") == "function_call_output"]
    assert outputs == ["18 °C in Kyoto"] * 2


@pytest.mark.slow
async def test_what_an_earlier_chat_left_open_is_served_by_the_next(tmp_path: Path) -> None:
    """The functions of a chat are looked up by its session, not by its process."""
    functions, agent = function_file(tmp_path), agent_file(tmp_path)
    async with House.opened(tmp_path, calls(("sleep", "{}")), say("Awake."), registration_grace_s=0.2) as house:
        arguments = ["chat", agent, "--session", "trip", "--host", functions]
        async with on_terminal(*arguments, address=house.server.address) as command:
            await command.sees("> ")
            command.types("Sleep.\r")
            await command.sees("waiting for sleep")
            command.process.kill()
        quick = tmp_path / "quick_functions.py"
        quick.write_text("def sleep() -> str:\n    return 'slept'\n")
        ran = await talked(house, options=("--session", "trip", "--host", f"{quick}:sleep"))

    assert ran.lines[-1] == "Awake."


async def test_the_end_of_the_session_is_the_end(tmp_path: Path) -> None:
    """Somebody deleted it: exit code 4."""
    async with House.opened(tmp_path) as house:
        await talked(house, "Hi", options=("--session", "sess_gone"), code=4)


async def test_lines_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A picture is no conversation."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("chat", given=b"\x89PNG\xff\n", code=2)

    assert "standard input is no UTF-8 text" in ran.err


@pytest.mark.slow
async def test_ctrl_c_ends_a_conversation_from_a_pipe(tmp_path: Path) -> None:
    """Nobody is there for another line: the turn is cancelled, and the exit code is 130."""
    gate = Gate()
    lines = tmp_path / "lines"
    lines.write_text("One\nTwo\n")
    async with House.opened(tmp_path, say("Hel", gate, "lo")) as house:
        command = f"exec {sys.executable} -m baton_server chat --session trip < {lines}"
        process = await asyncio.create_subprocess_shell(
            command, env={**os.environ, "BATON_ADDRESS": house.server.address}, stderr=asyncio.subprocess.PIPE
        )
        await gate.reached()
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        session = await house.client.get_session(key="trip")
        turns = [turn.status async for turn in house.client.list_turns(session.session_id)]

    assert process.returncode == 130
    assert b"cancelling the turn" in errors
    assert turns == [event_pb2.TURN_STATUS_CANCELLED]


# -- the prompt ----------------------------------------------------------------------------------


def test_a_prompt_without_a_terminal_reads_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last line without its end counts; then comes the end."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo"))
    waking = Waking()
    prompt = Prompt(waking, live=False)

    assert [prompt.ask("> "), prompt.ask("> ")] == ["one", "two"]
    with pytest.raises(EOFError):
        prompt.ask("> ")
    waking.close()


def test_a_wake_ends_one_waiting_now_or_later() -> None:
    """Also one from another thread before it began; what can be read comes first."""
    waking = Waking()
    thread = threading.Thread(target=waking.wake)
    thread.start()
    thread.join()
    assert waking.wait() is False
    assert waking.forget() is False

    reads, writes = os.pipe()
    waking.wake()
    os.write(writes, b"x")
    assert waking.wait(reads) is True
    assert waking.forget() is True

    for end in (reads, writes):
        os.close(end)
    waking.close()
