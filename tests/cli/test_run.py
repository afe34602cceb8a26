"""`baton run`: one turn, as a person sees it and as a script reads it, and with which code it ends."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict
from tests.cli.commands import NOBODY, House
from tests.cli.run_files import agent_file, function_file
from tests.cli.terminals import into_closed_pipe, on_pipes
from tests.support.model_server import model_server
from tests.support.scripted_model import calls, fail, say

from baton.v1 import agent_pb2, event_pb2, runner_pb2
from baton_server.core.errors import Reason

__all__ = ["model_server"]

WEATHER = ("get_weather", '{"city": "Kyoto"}')


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """The file of an agent without functions."""
    return agent_file(tmp_path)


def response_of(line: str) -> runner_pb2.RunResponse:
    """Read a line of JSON as what the contract says that it is."""
    return ParseDict(json.loads(line), runner_pb2.RunResponse())


# -- what a pipe gets ----------------------------------------------------------------------------


async def test_a_pipe_gets_the_final_output_alone(tmp_path: Path) -> None:
    """Calls, session and progress are no results."""
    agent, functions = agent_file(tmp_path, "get_weather"), function_file(tmp_path)
    async with House.opened(tmp_path, calls(WEATHER), say("It ", "rains.\n\x1b[1m")) as house:
        ran = await house.baton("run", agent, "Weather?", "--host", functions)

    assert ran.out == "It rains.\n\x1b[1m\n"
    assert "baton: session sess_" in ran.err and "asked for Kyoto" in ran.err


async def test_a_large_output_comes_whole(tmp_path: Path, agent: str) -> None:
    """It does not fit into the answer's message, and is read besides."""
    text = "é" * 200_000
    async with House.opened(tmp_path, say(text)) as house:
        ran = await house.baton("run", agent, "Go on.")

    assert ran.out == text + "\n"


async def test_json_is_the_answer_of_the_contract(tmp_path: Path) -> None:
    """One line, nothing shortened."""
    long = json.dumps({"text": "x" * 5_000})
    agent, functions = agent_file(tmp_path), function_file(tmp_path)
    async with House.opened(tmp_path, calls(("sleep_not", long), WEATHER), say("No.")) as house:
        agent = agent_file(tmp_path, "sleep_not", "get_weather")
        ran = await house.baton("run", agent, "Go.", "--host", functions, "--json", code=5)

    (line,) = ran.lines
    response = response_of(line)
    assert response.turn.status == event_pb2.TURN_STATUS_WAITING
    assert response.required_actions[0].arguments_json == long


async def test_events_come_before_the_answer_a_line_each(tmp_path: Path) -> None:
    """Each as a part of the stream, in order; what a function prints is not between them."""
    agent, functions = agent_file(tmp_path, "get_weather"), function_file(tmp_path)
    async with House.opened(tmp_path, calls(WEATHER), say("It rains.")) as house:
        ran = await house.baton("run", agent, "Weather?", "--host", functions, "--json", "--events")

    *lines, last = ran.lines
    events = [ParseDict(json.loads(line), event_pb2.StreamPart()).event for line in lines]
    sequences = [event.sequence for event in events]
    assert sequences == sorted(set(sequences))
    assert events[1].HasField("turn_created") and events[-1].HasField("turn_completed")
    assert response_of(last).turn.output == "It rains."


async def test_nobody_reads_on(tmp_path: Path, agent: str) -> None:
    """`| head -1` is no reason for a traceback."""
    async with House.opened(tmp_path, say("Hello")) as house:
        errors = await into_closed_pipe("run", agent, "Hi", "--json", "--events", address=house.server.address)

    assert "Traceback" not in errors and "Exception" not in errors


# -- who answers, and where ----------------------------------------------------------------------


async def test_a_kept_agent_is_named_by_its_name_or_its_id(tmp_path: Path) -> None:
    """The turn runs with the newest revision."""
    async with House.opened(tmp_path, say("1"), say("2")) as house:
        kept = await house.client.create_agent(agent_pb2.Agent(name="Guide", instructions="Be brief."))

        assert (await house.baton("run", "Guide", "Hi")).out == "1\n"
        assert (await house.baton("run", kept.agent_id, "Hi")).out == "2\n"

    assert [request.instructions for request in house.model.requests] == ["Be brief.", "Be brief."]


async def test_a_session_of_a_new_key_remembers_agent_and_history(tmp_path: Path, agent: str) -> None:
    """The next run in it needs no agent."""
    async with House.opened(tmp_path, say("One."), say("Two."), say("Three.")) as house:
        first = await house.baton("run", agent, "Say one.", "--session", "trip")
        second = await house.baton("run", "Say two.", "--session", "trip")
        session = await house.client.get_session(key="trip")
        third = await house.baton("run", "Say three.", "--session", session.session_id)

    assert (first.out, second.out, third.out) == ("One.\n", "Two.\n", "Three.\n")
    assert f"session trip {session.session_id};" in second.err
    said = [item["content"] for item in house.model.input_of(2) if item["role"] == "user"]
    assert said == ["Say one.", "Say two.", "Say three."]


async def test_functions_of_this_process_are_called_though_the_agent_does_not_name_them(tmp_path: Path) -> None:
    """So are those that it names without saying what they take; a kept agent gets them for this run alone."""
    functions = function_file(tmp_path)
    named = tmp_path / "named.yaml"
    named.write_text("name: Guide\ntools: [{function: {name: get_weather}}]\n")
    async with House.opened(tmp_path, *[calls(WEATHER), say("It rains.")] * 3) as house:
        kept = await house.client.create_agent(agent_pb2.Agent(name="Kept"))

        for word in (agent_file(tmp_path), str(named), "Kept"):
            ran = await house.baton("run", word, "Weather?", "--host", f"{functions}:get_weather")
            assert ran.out == "It rains.\n"

        assert not (await house.client.get_agent(kept.agent_id)).agent.tools

    outputs = [item["output"] for item in house.model.input_of(-1) if item.get("type") == "function_call_output"]
    assert outputs == ["18 °C in Kyoto"]


async def test_input_model_and_limit_are_taken(tmp_path: Path, agent: str) -> None:
    """Standard input is the input; the model replaces the agent's; the limit ends the turn."""
    agent = agent_file(tmp_path, "f", model="mine")
    functions = function_file(tmp_path)
    async with House.opened(tmp_path, say("Hi."), calls(WEATHER)) as house:
        await house.baton("run", agent, "-", "--model", "other", given="Two\nlines\n")
        limited = await house.baton("run", agent, "Go.", "--max-turns", "1", "--host", functions, code=1)

    assert house.model.input_of(0)[-1]["content"] == "Two\nlines"
    assert [request.model for request in house.model.requests] == ["other", "mine"]
    assert "the turn failed: MAX_TURNS_EXCEEDED: " in limited.err


# -- ends ----------------------------------------------------------------------------------------


async def test_a_turn_that_fails_is_told_with_its_reason(tmp_path: Path, agent: str) -> None:
    """Exit code 1, and nothing that looks like a result."""
    async with House.opened(tmp_path, fail(Reason.MODEL_RATE_LIMITED, "Hel")) as house:
        ran = await house.baton("run", agent, "Hi", code=1)

    assert ran.out == ""
    assert ran.err.splitlines()[-1] == "baton: the turn failed: MODEL_RATE_LIMITED: as the script says"


@pytest.mark.slow
async def test_a_turn_that_waits_says_for_what_and_how_it_goes_on(tmp_path: Path) -> None:
    """Exit code 5; the command that is printed answers the call as it stands there."""
    agent = agent_file(tmp_path, "get_weather")
    async with House.opened(tmp_path, calls(WEATHER), say("It rains.")) as house:
        ran = await house.baton("run", agent, "Weather?", "--session", "trip", code=5)
        (answer,) = [line for line in ran.err.splitlines() if "baton answer" in line]
        await house.baton(*shlex.split(answer.partition("baton ")[2].replace("TEXT", "rain")))
        session = await house.client.get_session(key="trip")
        await house.until(session.session_id, "turn_completed")

    assert ran.out == ""
    assert 'get_weather({"city": "Kyoto"})' in ran.err
    assert "UNSERVED: no worker serves it" in ran.err
    assert "baton worker" in ran.err


@pytest.mark.slow
async def test_who_is_queued_behind_a_turn_that_waits_learns_what_for(tmp_path: Path, agent: str) -> None:
    """Else the command would stand there, and nobody knew why."""
    async with House.opened(tmp_path, calls(("ask_boss", "{}")), say("Asked."), say("Hi.")) as house:
        waiting = await house.waiting("ask_boss")
        async with on_pipes("run", "Hi", "--session", waiting.session_id, address=house.server.address) as command:
            await command.sees("another turn of the session comes first", "ask_boss({})", waiting.call)
            await house.baton("answer", waiting.session_id, "ask_boss", "--output", "yes")
            assert (await command.ends()).endswith("Hi.\n")


async def test_what_cannot_be_tried_is_refused_with_two(tmp_path: Path, agent: str) -> None:
    """No server is needed to find out."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("nom: Guide\n")
    cases: list[tuple[list[str], str]] = [
        ([str(wrong), "Hi"], "nom"),
        ([str(tmp_path / "none.yaml"), "Hi"], "none.yaml"),
        (["agent.py", "Hi"], "agent.py is a Python program; run it by python agent.py"),
        ([agent], f"INPUT is missing; write baton run {agent} INPUT"),
        ([], "INPUT is missing"),
        ([agent, "  "], "INPUT is empty"),
        ([agent, "-"], "INPUT is empty"),
        ([agent, "Hi", "--events"], "--events needs --json"),
        ([agent, "Hi", "--host", "no_such_module_here"], "no_such_module_here"),
        ([agent, "Hi", "--max-turns", "0"], "--max-turns"),
    ]
    for arguments, told in cases:
        async with House.opened(tmp_path) as house:
            ran = await house.baton("run", *arguments, code=2)
        assert told in ran.err, arguments


async def test_input_that_is_no_text_is_refused(tmp_path: Path, agent: str) -> None:
    """A picture is no message."""
    async with House.opened(tmp_path) as house:
        ran = await house.baton("run", agent, "-", given=b"\x89PNG\xff", code=2)

    assert "standard input is no UTF-8 text" in ran.err


async def test_what_is_not_there_is_told_with_four(tmp_path: Path, agent: str) -> None:
    """An agent, a session by its id; a session of a new key without an agent is wrong usage."""
    async with House.opened(tmp_path) as house:
        nobody = await house.baton("run", "Nobody", "Hi", code=4)
        gone = await house.baton("run", agent, "Hi", "--session", "sess_gone", code=4)
        unnamed = await house.baton("run", "Hi", "--session", "new", code=2)

    assert nobody.err.startswith("baton: there is no file Nobody, and no kept agent has the id or the name 'Nobody'")
    assert "'sess_gone'" in gone.err
    assert "'new' is new; say which agent" in unnamed.err


async def test_a_refused_agent_is_told_field_by_field(tmp_path: Path) -> None:
    """The server knows more than the file's reader."""
    path = tmp_path / "agent.yaml"
    path.write_text("name: ''\ntools: [{function: {name: 'no spaces'}}]\n")
    async with House.opened(tmp_path) as house:
        ran = await house.baton("run", str(path), "Hi", code=1)

    assert "agent.name" in ran.err and "agent.tools" in ran.err


@pytest.mark.slow
async def test_no_server_is_told_within_seconds(tmp_path: Path, agent: str) -> None:
    """Also where functions would be hosted first, and by the conversation."""
    functions = function_file(tmp_path)

    async def told(*arguments: str) -> str:
        async with on_pipes(*arguments, address=NOBODY) as command:
            return await command.ends(3)

    for errors in await asyncio.gather(
        told("run", agent, "Hi"),
        told("run", agent, "Hi", "--host", functions),
        told("run", "Guide", "Hi", "--session", "trip"),
        told("chat", "--host", functions),
    ):
        assert errors.startswith("baton: no Baton server at 127.0.0.1:1 ")
        assert len(errors.splitlines()) == 1
