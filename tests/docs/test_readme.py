"""What the documents print can be done: every command, every sample."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.documents import DOCUMENTS
from tests.docs.known import how_to_try, means_something, try_command
from tests.docs.markdown import ROOT, Block, blocks, commands, expressions
from tests.docs.programs import BIN, run
from tests.support.server import server

BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
PROGRAMS = [block for block in BLOCKS if block.language == "python"]
COMMANDS = {printed.command: printed.place for document in DOCUMENTS for printed in commands(document)}
EXPRESSIONS = [printed for document in DOCUMENTS for printed in expressions(document)]

LANGUAGES = {"python", "sh", "ini", ""}
"""Of blocks: run here, tried here, units of systemd (test_operating.py), and pictures."""


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
    """As a file of its own, against a server with the built-in model, to its end."""
    program = tmp_path / "printed.py"
    program.write_text(block.text)
    async with server(tmp_path) as at:
        code, output, errors = await run(str(BIN / "python"), str(program), folder=tmp_path, BATON_ADDRESS=at.address)
    assert (code, errors) == (0, "")
    assert "18 °C and light rain in Kyoto" in output


@pytest.mark.parametrize("printed", EXPRESSIONS, ids=lambda printed: printed.place)
def test_printed_expression_means_something(printed: Any) -> None:
    """A call in running text is one that the package takes."""
    assert means_something(printed.command)


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
    assert how_to_try("baton") is None
    assert how_to_try("make") is None
    assert how_to_try(".venv/bin/python -m somewhere") is None


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make nothing", "the Makefile has no target"),
        ("make test SOME=1", "the Makefile reads no SOME"),
        ("baton migrate", "there is no command"),
        ("baton version --loud", "the command has no option --loud"),
    ],
)
async def test_a_command_that_is_not_there_is_seen(command: str, problem: str, tmp_path: Path) -> None:
    """Neither an unknown target or command passes, nor a variable or an option that nobody reads."""
    with pytest.raises(AssertionError, match=problem):
        await try_command(command, tmp_path)
