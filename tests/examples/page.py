"""A page of commands, done in its order in some terminals, and compared with what it shows.

The words behind a block's language are those of `tests/docs/walk.py`; here terminals keep their state, so that a
variable of one block is there in the next.

    ```sh                   run in the first terminal; each command must end, with 0 or as `# exits with 67` says
    ```sh terminal=2        one command, which stays running in that terminal
    ```sh in=checkout       not run: it installs what the Makefile installs, at the same version, and lets it be found
    ```text                 what the commands of the block before it printed
    ```text terminal=2      what that terminal prints next
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.docs.markdown import ROOT, Block, blocks, commands_in_text, odd_blocks, read
from tests.docs.walk import PRINTED_ADDRESS, PageWrong, commands_of, pattern_of
from tests.examples.shells import Shell, Silent
from tests.examples.tools import BUF, GRPCURL

FIRST = "1"
"""The terminal of blocks that name none."""

OPTIONS = {"sh": {"terminal", "in"}, "text": {"terminal"}}

MAKEFILE = (ROOT / "Makefile").read_text()

INSTALLS = {
    r"make (?P<target>[a-z]+)": "\n{target}: ",
    r"go install (?P<what>\S+)@v(?P<version>\S+)": "go install {what}@v$(GRPCURL_VERSION)\n",
    r"npm install --global (?P<what>\S+)@(?P<version>\S+)": " {what}@$(BUF_VERSION)\n",
}
"""What is printed to install a tool, and what then stands in the Makefile, whose `…_VERSION` is the version."""

FOLDERS = {str(folder.relative_to(ROOT)) for folder in (GRPCURL.path.parent, BUF.path.parent, ROOT / ".venv" / "bin")}
"""Where the checkout's own programs are."""


def check(document: str) -> None:
    """Raise AssertionError for what a walk would pass over."""
    page = blocks(document)
    assert odd_blocks(document) == []
    assert "<pre" not in read(document)
    for before, block in zip([None, *page], page, strict=False):
        _check_block(block, before)
    done = [text for block in page if block.language == "sh" for text in _texts(block)]
    for printed in commands_in_text(document):
        known = any(f"{text} ".startswith(f"{printed.command} ") for text in done)
        assert known, f"{printed.place}: {printed.command!r} is run in no block"


class Page:
    """One reader of one page. `address`: where his server is to be, in place of the printed one."""

    def __init__(self, document: str, address: str) -> None:
        self._document, self._address = document, address
        self._shells: dict[str, Shell] = {}
        self._printed = ""

    async def walk(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Do all of it. Raises PageWrong at the first thing that is not as the page says."""
        check(self._document)
        try:
            for block in blocks(self._document):
                await self._do(block, folder, environment)
        finally:
            for shell in self._shells.values():
                await shell.close()

    async def _do(self, block: Block, folder: Path, environment: Mapping[str, str]) -> None:
        name = block.options.get("terminal", FIRST)
        if "in" in block.options:
            return
        if name not in self._shells:
            self._shells[name] = Shell()
            await self._shells[name].start(folder, environment)
        shell = self._shells[name]
        try:
            if block.language == "sh":
                await self._run(block, shell, stays=name != FIRST)
            elif name == FIRST:
                self._compare(block)
            else:
                await shell.shows(pattern_of(block.text, self._address))
        except Silent as silent:
            raise PageWrong(block, str(silent)) from None

    def _compare(self, block: Block) -> None:
        if pattern_of(block.text, self._address).fullmatch(self._printed):
            return
        lines = block.text.splitlines(keepends=True)
        fits = [n for n in range(len(lines)) if pattern_of("".join(lines[:n]), self._address).match(self._printed)]
        wrong = lines[fits[-1]] if fits[-1] < len(lines) else "…"
        problem = f"the page shows\n{block.text}\nand what was printed is\n{self._printed}"
        raise PageWrong(block, f"{problem}\nwhere nothing is found for the line\n{wrong}")

    async def _run(self, block: Block, shell: Shell, *, stays: bool) -> None:
        self._printed = ""
        for command in commands_of(block):
            if shell.running:
                await self._end(block, shell, 0)
            shell.begin(command.text.replace(PRINTED_ADDRESS, self._address))
            if not stays:
                self._printed += await self._end(block, shell, command.code)

    async def _end(self, block: Block, shell: Shell, code: int) -> str:
        command = shell.running
        printed, exited = await shell.ended()
        if exited != code:
            raise PageWrong(block, f"{command!r} exited with {exited}, not {code}; it printed\n{printed}")
        return printed


def _texts(block: Block) -> Iterator[str]:
    for command in commands_of(block):
        yield from re.split(r" \| | && ", command.text)


def _check_block(block: Block, before: Block | None) -> None:
    known = OPTIONS.get(block.language)
    if known is None or not set(block.options) <= known:
        words = " ".join([block.language or "a picture", *block.options])
        raise PageWrong(block, f"nothing knows how to do {words!r}")
    if block.language == "text":
        shows_nothing = before is None or before.language != "sh" or before.options
        if "terminal" not in block.options and shows_nothing:
            raise PageWrong(block, "no commands stand before what it shows")
        return
    commands = commands_of(block)
    if not commands or ("terminal" in block.options and len(commands) != 1):
        raise PageWrong(block, f"{len(commands)} commands where there must be one")
    if "in" in block.options:
        for command in commands:
            _check_install(block, command.text)


def _check_install(block: Block, command: str) -> None:
    if found := re.fullmatch(r'export PATH="(.+):\$PATH"', command):
        for folder in found[1].split(":"):
            if folder.removeprefix("$PWD/") not in FOLDERS:
                raise PageWrong(block, f"{folder} is no folder of the checkout's programs")
        return
    for pattern, needed in INSTALLS.items():
        if found := re.fullmatch(pattern, command):
            given = found.groupdict()
            recipe = needed.format(**given)
            version = re.search(r"\$\((\w+)\)", recipe)
            if recipe not in MAKEFILE:
                raise PageWrong(block, f"the Makefile has no {recipe.strip()!r}")
            if version and f"\n{version[1]} := {given['version']}\n" not in MAKEFILE:
                raise PageWrong(block, f"the Makefile's {version[1]} is not {given['version']}")
            return
    raise PageWrong(block, f"{command!r} installs nothing that is known")
