"""How each kind of printed command is tried. What matches nothing here is a command that nobody tries."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.docs.containers import command_inside, docker_names_what_is_there
from tests.docs.keeping import backup_can_be_started_from, store_is_rewritten
from tests.docs.markdown import ROOT
from tests.docs.programs import BIN, DEADLINE_S, run, started, terminated
from typer.main import get_command

import baton
from baton_server.cli.app import app

Try = Callable[[list[str], Path], Awaitable[None]]


async def make_target_exists(words: list[str], _folder: Path) -> None:
    """Find the target, documented, in the Makefile; running it is the business of CI, or of another test here."""
    target = words[1]
    documented = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert target in documented, f"the Makefile has no target {target!r}"
    for word in words[2:]:
        name = word.partition("=")[0]
        assert f"$({name}" in (ROOT / "Makefile").read_text(), f"the Makefile reads no {name}"


async def module_knows_its_options(words: list[str], folder: Path) -> None:
    """Find every printed option in the module's help, that of its subcommand."""
    module, rest = words[2], words[3:]
    subcommand = [word for word in rest[:1] if module == "bench" and not word.startswith("-")]
    arguments = [sys.executable, "-m", module, *subcommand, "--help"]
    code, output, errors = await run(*arguments, folder=folder, PYTHONPATH=str(ROOT), COLUMNS="200", NO_COLOR="1")
    assert code == 0, errors
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", output), f"{' '.join(arguments)} says nothing of {option}"


async def server_starts_and_stops(words: list[str], folder: Path) -> None:
    """Start it as printed, but on a free port and in a folder of the test; SIGTERM ends it in good order."""
    given = [re.sub(r"^(127\.0\.0\.1):\d+$", r"\1:0", word) for word in words[2:]]
    async with started(str(BIN / "baton"), "serve", *given, folder=folder, BATON_ADDRESS="127.0.0.1:0") as server:
        assert server.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            line = (await server.stdout.readline()).decode()
        assert line.startswith("baton: listening on 127.0.0.1:"), line
        assert await terminated(server) == (0, "")
    assert (folder / "baton.db").exists()


async def demo_says_ok(_words: list[str], folder: Path) -> None:
    """Run it for real, as `make demo` does."""
    assert "\ndemo: $(READY) ##" in (ROOT / "Makefile").read_text()
    code, output, errors = await run(str(BIN / "baton"), "demo", "--plain", folder=folder)
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == "demo: ok"


async def helps(words: list[str], folder: Path) -> None:
    """Run the command; it explains itself."""
    code, output, errors = await run(str(BIN / "baton"), *words[1:], folder=folder)
    assert (code, errors) == (0, "")
    assert "Usage" in output


async def script_may_be_run(words: list[str], _folder: Path) -> None:
    """Find the script; CI itself is what runs it."""
    assert os.access(ROOT / words[0], os.X_OK), f"{words[0]} is no program"


async def environment_can_be_entered(_words: list[str], _folder: Path) -> None:
    """Find what the shell reads; the walk enters it in its own way."""
    assert (BIN / "activate").exists()


async def command_knows_its_options(words: list[str], _folder: Path) -> None:
    """Find the command, and every printed option, in the command line's own tables."""
    command: Any = get_command(app)
    rest = words[1:]
    while rest and (found := getattr(command, "commands", {}).get(rest[0])) is not None:
        command, rest = found, rest[1:]
    assert command.name != app.info.name, f"there is no command {' '.join(words)!r}"
    options = {name for parameter in command.params for name in parameter.opts}
    for option in (word.partition("=")[0] for word in rest if word.startswith("-") and word != "-"):
        assert option in options, f"{' '.join(words)!r}: the command has no option {option}"


async def container_can_run_it(words: list[str], folder: Path) -> None:
    """Find the container, and try here what is to be run in it."""
    await try_command(shlex.join(command_inside(words)), folder)


async def image_is_made_so_too(words: list[str], _folder: Path) -> None:
    """Find the same words in the Dockerfile, whose steps are run; or what is installed, in the repository."""
    asked = " ".join(words[words.index("install") + 1 :])
    dockerfile = re.sub(r"\\\s+", "", (ROOT / "Dockerfile").read_text())
    assert f" install {asked} " in dockerfile or (asked, (ROOT / "pyproject.toml").exists()) == ("--no-deps .", True)


async def environment_is_what_is_installed_into(words: list[str], _folder: Path) -> None:
    """Find the folder in the Dockerfile, where it is made as well."""
    assert f" {words[3]} " in (ROOT / "Dockerfile").read_text()


def means_something(expression: str) -> bool:
    """Evaluate an expression with the names of the package. Raises what it raises."""
    return eval(expression, {name: getattr(baton, name) for name in baton.__all__}) is not None


KNOWN: list[tuple[str, Try]] = [
    (r"make demo", demo_says_ok),
    (r"make [a-z-]+( [A-Z]+=.*)?", make_target_exists),
    (r"(\.venv/bin/)?baton serve --help", helps),
    (r"(\.venv/bin/)?baton serve( .*)?", server_starts_and_stops),
    (
        r"(\.venv/bin/)?python -m (bench|tests\.conformance|tests\.faults|tests\.modelserver)( .*)?",
        module_knows_its_options,
    ),
    (r"baton [a-z]+( .*)?", command_knows_its_options),
    (r"\. \.venv/bin/activate", environment_can_be_entered),
    (r"\.ci/run", script_may_be_run),
    (r"docker (compose )?exec .*", container_can_run_it),
    (r"docker .*", docker_names_what_is_there),
    (r"python3? -c .*import sqlite3; .*\.backup\(.*", backup_can_be_started_from),
    (r"python3? -c .*import sqlite3; .*VACUUM.*", store_is_rewritten),
    (r"python3 -m venv /opt/[a-z]+", environment_is_what_is_installed_into),
    (r"/opt/baton/bin/python -m pip install .*", image_is_made_so_too),
]
"""Pattern of the whole command, and what tries it. The first that matches."""


def how_to_try(command: str) -> Try | None:
    """Find what tries a command; None: nothing does."""
    return next((known for pattern, known in KNOWN if re.fullmatch(pattern, command)), None)


async def try_command(command: str, folder: Path) -> None:
    """Try a command. Raises AssertionError where it is not as printed, or where nobody knows how."""
    known = how_to_try(command)
    assert known is not None, f"no test knows how to try {command!r}: add it to KNOWN, or take it out of the text"
    await known(shlex.split(command), folder)
