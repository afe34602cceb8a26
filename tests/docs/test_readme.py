"""What the documents print can be done: every command, every sample."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.known import how_to_try, try_command
from tests.docs.markdown import ROOT, Block, blocks, commands, expressions
from tests.docs.programs import BIN, DEADLINE_S, run, started, terminated
from tests.support.server import server

import baton
from baton import Agent, Client, RemoteFunction, close_connections
from baton.v1 import session_pb2

DOCUMENTS = [name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md") if (ROOT / name).exists()]
"""Those that print something to be done."""

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]
COMMANDS = {printed.command: printed.place for document in DOCUMENTS for printed in commands(document)}
EXPRESSIONS = [printed for document in DOCUMENTS for printed in expressions(document)]

LANGUAGES = {"python", "sh", ""}
"""Of blocks: run here, tried here, and pictures."""

WEATHER = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command)
async def test_printed_command_does_what_it_says(command: str, tmp_path: Path) -> None:
    """It is run, or what it names is found; one that nobody knows how to try fails."""
    await try_command(command, tmp_path)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_every_block_is_of_a_kind_that_is_tried(block: Block) -> None:
    """A block of another language would stand there untried."""
    assert block.language in LANGUAGES, f"{block.place}: no test knows what to do with {block.language!r}"


@pytest.mark.slow
@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
async def test_printed_program_runs(block: Block, tmp_path: Path) -> None:
    """As a file of its own, against a server with the built-in model: to its end, or until a worker has worked."""
    program = tmp_path / "printed.py"
    program.write_text(block.text)
    async with server(tmp_path) as at:
        if "Worker(" in block.text:
            await _serves(program, at.address)
        else:
            await _answers(program, at.address)


@pytest.mark.parametrize("printed", EXPRESSIONS, ids=lambda printed: printed.place)
def test_printed_expression_means_something(printed: Any) -> None:
    """A call in running text is one that the package takes."""
    assert eval(printed.command, {name: getattr(baton, name) for name in baton.__all__}) is not None


@pytest.mark.slow
async def test_bench_explains_itself(tmp_path: Path) -> None:
    """What `make bench` runs is there, with the subcommand that it names."""
    recipe = (ROOT / "Makefile").read_text().partition("\nbench:")[2].splitlines()[1]
    arguments = recipe.split()[1:]

    for asked in (["-m", "bench"], arguments):
        code, output, errors = await run(sys.executable, *asked, "--help", folder=ROOT)
        assert (code, errors) == (0, "")
        assert "Usage" in output


def test_ci_runs_nothing_but_make() -> None:
    """CONTRIBUTING.md says so, and so every step of CI can be done by hand."""
    lines = (ROOT / ".ci" / "run").read_text().splitlines()

    steps = [line for line in lines if line.startswith("run ")]
    assert steps
    assert all(line.startswith("run make ") for line in steps)


def test_a_command_that_nobody_tries_is_seen() -> None:
    """The table takes no command for another that looks like it."""
    assert how_to_try("baton migrate") is None
    assert how_to_try("make") is None
    assert how_to_try(".venv/bin/python -m somewhere") is None


@pytest.mark.parametrize("command", ["make nothing", "make test SOME=1"])
async def test_a_target_that_is_not_there_is_seen(command: str, tmp_path: Path) -> None:
    """Neither an unknown target passes, nor a variable that the Makefile does not read."""
    with pytest.raises(AssertionError, match="the Makefile"):
        await try_command(command, tmp_path)


async def _answers(program: Path, address: str) -> None:
    code, output, errors = await run(str(BIN / "python"), str(program), folder=program.parent, BATON_ADDRESS=address)
    assert (code, errors) == (0, "")
    assert "18 °C and light rain in Kyoto" in output


async def _serves(program: Path, address: str) -> None:
    """Let a turn wait for the worker's function, and end the worker when the turn has its result."""
    agent: Agent[None] = Agent(
        name="Assistant", tools=[RemoteFunction("get_weather", params_json_schema=json.loads(WEATHER))]
    )
    client = Client(address)
    try:
        session = await client.create_session(agent=agent)
        await client.submit(session.session_id, "What is the weather in Kyoto?")
        async with started(str(BIN / "python"), str(program), folder=program.parent, BATON_ADDRESS=address) as worker:
            async with asyncio.timeout(DEADLINE_S):
                given = await _result_of_the_call(client, session.session_id)
            assert given == "18 °C and light rain in Kyoto"
            assert await terminated(worker) == (0, "")
    finally:
        await close_connections()


async def _result_of_the_call(client: Client, session_id: str) -> str:
    """Watch until the session's turn has ended; return what the function gave."""
    given = ""
    async for part in client.watch(session_id, follow_until=session_pb2.FOLLOW_FOREVER):
        event = part.event
        if event.item_added.item.HasField("function_call_output"):
            given = event.item_added.item.function_call_output.output[0].text
        if event.HasField("turn_completed"):
            return given
        assert not event.HasField("turn_failed"), event
    raise AssertionError(f"the stream of session {session_id} ended before its turn")
