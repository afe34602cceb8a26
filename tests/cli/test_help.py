"""`--help` of every command, whoever made it: it explains itself, and is no wider than a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from tests.cli.commands import baton
from typer.core import TyperGroup

from baton_server.cli.app import app

COLUMNS = 80


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Walk all commands and groups from one on."""
    yield path, command
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, *path, name)


ALL = list(commands(typer.main.get_command(app)))


def names(path: tuple[str, ...]) -> str:
    """Call a test by its command."""
    return " ".join(("baton", *path))


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=names)
async def test_help_reads_well_on_eighty_columns(path: tuple[str, ...]) -> None:
    """It exits with 0, says how the command is used, and no line is wider than a terminal."""
    ran = await baton(*path, "--help", TERMINAL_WIDTH=str(COLUMNS))

    assert f"Usage: {names(path)} " in ran.out
    assert max(len(line) for line in ran.lines) <= COLUMNS


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=names)
async def test_the_short_flag_says_the_same(path: tuple[str, ...]) -> None:
    """-h is --help."""
    assert (await baton(*path, "-h")).out == (await baton(*path, "--help")).out


@pytest.mark.parametrize(("path", "command"), ALL, ids=[names(path) for path, _ in ALL])
def test_everything_that_can_be_given_is_explained(path: tuple[str, ...], command: Any) -> None:
    """Commands, arguments and options have a help text each, which begins as a sentence does."""
    assert command.help, names(path)
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        assert text, f"{names(path)}: {parameter.opts} has no help"
        assert text[0] == text[0].upper(), f"{names(path)}: {parameter.opts}: {text!r}"


async def test_a_flag_prints_the_version_too() -> None:
    """Whichever of the two is tried first."""
    assert (await baton("--version")).out == (await baton("version")).out != ""


def test_all_commands_are_walked() -> None:
    """Those of groups too."""
    found = {names(path) for path, _ in ALL}

    assert {"baton", "baton serve", "baton sessions", "baton sessions tail", "baton agents apply"} <= found
