"""How each kind of printed command is tried. What matches nothing here is a command that nobody tries."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.docs.programs import BIN, DEADLINE_S, run, started, terminated

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


KNOWN: list[tuple[str, Try]] = [
    (r"make demo", demo_says_ok),
    (r"make [a-z-]+( [A-Z]+=.*)?", make_target_exists),
    (r"(\.venv/bin/)?baton serve --help", helps),
    (r"(\.venv/bin/)?baton serve( .*)?", server_starts_and_stops),
    (r"(\.venv/bin/)?python -m (bench|tests\.conformance|tests\.modelserver)( .*)?", module_knows_its_options),
    (r"\.ci/run", script_may_be_run),
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
